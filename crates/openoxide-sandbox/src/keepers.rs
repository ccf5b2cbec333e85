//! The server's side of the keepers: one process tree for each thread that runs commands (`supervisor/confine/keeper.rs`), started by
//! the thread's first command and ended when nothing of the thread has run for a while.
//!
//! A keeper is for one thread under one policy. Under another policy the thread gets another keeper, and the old one ends with
//! its last command. The socket of a keeper is its lifeline: closed by [`Keeper::end`], or by the end of this process in any way.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use crate::SandboxPolicy;
use crate::launcher::{Reaper, watched};
use crate::link::{self, Records};
use crate::passing;

/// How long a keeper stays that has no command.
pub(crate) const IDLE: Duration = Duration::from_secs(30);

/// The most keepers; beyond it the one goes that has had no command for longest.
const MOST: usize = 64;

/// The thread and policy that a keeper is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) thread: String,
    /// Without what widens it for single commands.
    pub(crate) policy: SandboxPolicy,
}

/// All keepers of one launcher. The lock is held for a look at the list.
#[derive(Debug)]
pub(crate) struct Keepers {
    live: Mutex<Vec<Arc<Keeper>>>,
    idle: Duration,
}

impl Keepers {
    /// None yet. Each ends after so long without a command.
    pub(crate) fn new(idle: Duration) -> Self {
        Self { live: Mutex::default(), idle }
    }

    /// A use of the keeper for a key; `start` starts one where there is none. It has to be called within a tokio runtime.
    pub(crate) fn take<E>(
        self: &Arc<Self>,
        key: &Key,
        start: impl FnOnce() -> Result<(UnixStream, Reaper), E>,
    ) -> Result<Use, E> {
        let mut live = self.lock();
        if let Some(used) = live.iter().find(|keeper| keeper.key == *key).and_then(Keeper::take) {
            return Ok(used);
        }
        let (socket, process) = start()?;
        for keeper in live.iter().filter(|keeper| keeper.key.thread == key.thread) {
            keeper.retire();
        }
        if live.len() >= MOST {
            let idle = live.iter().filter_map(|keeper| Some((keeper.idle_since()?, keeper)));
            if let Some((_, oldest)) = idle.min_by_key(|(since, _)| *since) {
                oldest.retire();
            }
        }
        let keeper = Keeper::new(key.clone(), socket, process);
        live.push(Arc::clone(&keeper));
        drop(live);
        tokio::spawn(attend(Arc::clone(&keeper), Arc::downgrade(self), self.idle));
        Ok(Use { keeper, id: 1 })
    }

    /// Ends the keepers of a thread, each when it has no command.
    pub(crate) fn release(&self, thread: &str) {
        for keeper in self.lock().iter().filter(|keeper| keeper.key.thread == thread) {
            keeper.retire();
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    fn forget(&self, gone: &Arc<Keeper>) {
        self.lock().retain(|keeper| !Arc::ptr_eq(keeper, gone));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Keeper>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One keeper.
#[derive(Debug)]
pub(crate) struct Keeper {
    key: Key,
    socket: UnixStream,
    process: Mutex<Reaper>,
    state: Mutex<State>,
    /// Wakes whoever attends it when its state has changed.
    changed: Notify,
    /// Whether its process has closed the socket.
    gone: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    /// Commands that are being started or of which something is left.
    uses: usize,
    next: u64,
    idle_since: Instant,
    /// Whether it ends as soon as it has no command.
    is_retired: bool,
    /// Whether it takes no command any more.
    is_over: bool,
    /// What it said at its end.
    last_words: Records,
}

/// A command's hold on its keeper; kept for as long as anything of the command is left.
#[derive(Debug)]
pub(crate) struct Use {
    pub(crate) keeper: Arc<Keeper>,
    /// The command's number.
    pub(crate) id: u64,
}

impl Keeper {
    /// One that has its first use.
    fn new(key: Key, socket: UnixStream, process: Reaper) -> Arc<Self> {
        let state = State {
            uses: 1,
            next: 1,
            idle_since: Instant::now(),
            is_retired: false,
            is_over: false,
            last_words: Records::default(),
        };
        let (process, state) = (Mutex::new(process), Mutex::new(state));
        Arc::new(Self { key, socket, process, state, changed: Notify::new(), gone: watch::Sender::new(false) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(self: &Arc<Self>) -> Option<Use> {
        let mut state = self.lock();
        if state.is_over {
            return None;
        }
        state.is_retired = false;
        state.uses += 1;
        state.next += 1;
        Some(Use { keeper: Arc::clone(self), id: state.next })
    }

    fn retire(&self) {
        self.lock().is_retired = true;
        self.changed.notify_one();
    }

    fn idle_since(&self) -> Option<Instant> {
        let state = self.lock();
        (state.uses == 0 && !state.is_over).then_some(state.idle_since)
    }

    /// Sends a message to it.
    fn send(&self, what: u8, id: u64, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        Ok(passing::send(self.socket.as_fd(), &link::keeper_message(what, id), descriptors, false)?)
    }

    /// Kills the subreaper of a command, which ends the command.
    pub(crate) fn kill(&self, id: u64) {
        // Where it cannot be sent there is nobody to do it, and nothing to do it to.
        let _ = self.send(link::KILL, id, &[]);
    }

    /// Closes the socket, which ends it.
    fn end(&self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }

    /// Waits until its process is gone, and gives what it said.
    pub(crate) async fn last_words(&self) -> Records {
        let mut gone = self.gone.subscribe();
        // A closed channel means that nobody attends it any more.
        let _ = gone.wait_for(|gone| *gone).await;
        std::mem::take(&mut self.lock().last_words)
    }
}

impl Use {
    /// Hands a command to the keeper: its socket, on which the request follows, and its output.
    pub(crate) fn start(&self, socket: &UnixStream, output: &OwnedFd) -> io::Result<()> {
        self.keeper.send(link::START, self.id, &[socket.as_fd(), output.as_fd()])
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut state = self.keeper.lock();
        state.uses = state.uses.saturating_sub(1);
        state.idle_since = Instant::now();
        drop(state);
        self.keeper.changed.notify_one();
    }
}

/// Ends a keeper when its time has come, and takes its exit whenever that is.
async fn attend(keeper: Arc<Keeper>, all: Weak<Keepers>, idle: Duration) {
    let opened = keeper.socket.try_clone().and_then(|socket| {
        socket.set_nonblocking(true)?;
        watched(socket.into())
    });
    let Ok(socket) = opened else {
        end_now(&keeper);
        all.upgrade().inspect(|all| all.forget(&keeper));
        return;
    };
    loop {
        let deadline = {
            let mut state = keeper.lock();
            let end_at = if state.is_retired { state.idle_since } else { state.idle_since + idle };
            if state.uses == 0 && !state.is_over && Instant::now() >= end_at {
                // From here on nobody takes it, so that no command is lost.
                state.is_over = true;
                keeper.end();
            }
            (state.uses == 0 && !state.is_over).then_some(end_at)
        };
        // Each branch only waits; what has come stays where it is when another one is taken.
        tokio::select! {
            () = keeper.changed.notified() => {}
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {}
            ready = socket.readable() => {
                let mut bytes = [0; 256];
                let Ok(mut ready) = ready else { break };
                match ready.try_io(|socket| Ok(rustix::io::read(socket.get_ref(), &mut bytes)?)) {
                    Ok(Ok(0) | Err(_)) => break,
                    Ok(Ok(read)) => keeper.lock().last_words.push(&bytes[..read]),
                    Err(_would_block) => {}
                }
            }
        }
    }
    drop(socket);
    end_now(&keeper);
    all.upgrade().inspect(|all| all.forget(&keeper));
    // The process outside ends with the one inside, which has ended.
    let reaped = Arc::clone(&keeper);
    let reap = move || reaped.process.lock().unwrap_or_else(PoisonError::into_inner).reap();
    let _ = tokio::task::spawn_blocking(reap).await;
    keeper.gone.send_replace(true);
}

fn end_now(keeper: &Keeper) {
    keeper.lock().is_over = true;
    keeper.end();
}
