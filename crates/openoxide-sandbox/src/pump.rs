//! One task for each command: reads its output whether or not anybody wants it, hears what the supervisor tells, and
//! reaps the supervisor. Holders of the command (`running.rs`) see what it makes of that through [`Shared`].

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::capture::Capture;
use crate::hold::Hold;
#[cfg(target_os = "linux")]
use crate::keepers;
use crate::link::{Record, Records};
use crate::running::TERMINATE_LIMIT;
use crate::{ExitStatus, supervisor};

/// How long after the exit output is still waited for where something left behind keeps the pipe open.
const GRACE: Duration = Duration::from_millis(50);

/// Bytes read at once; the stack holds them, so that a waiting command holds no buffer.
const READ: usize = 32 << 10;

/// Reads in a row before other tasks get their turn. Together more than a pipe holds.
const READS: usize = 8;

/// How far a command has come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// Grows with each change, output included.
    pub(crate) version: u64,
    /// How it exited, once its output up to then is in the capture.
    pub(crate) exit: Option<ExitStatus>,
    /// Whether nothing of it is left, the supervisor included.
    pub(crate) is_gone: bool,
    /// Whether the output has ended.
    pub(crate) is_output_closed: bool,
}

/// What the task and the holders share. The lock is held to copy bytes, never across an await.
#[derive(Debug)]
pub(crate) struct Shared {
    capture: Mutex<Capture>,
}

impl Shared {
    /// The capture. A panic while it was held leaves bytes, which are as good as before.
    pub(crate) fn capture(&self) -> MutexGuard<'_, Capture> {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task's state.
pub(crate) struct Pump {
    hold: Hold,
    control: OwnedReadHalf,
    records: Records,
    output: Arc<AsyncFd<OwnedFd>>,
    pid: u32,
    shared: Arc<Shared>,
    progress: watch::Sender<Progress>,
    /// How the command exited, before its output is complete.
    exit: Option<ExitStatus>,
    said_gone: bool,
    /// Whether the command was the last of its tree and the supervisor takes away what it had put into the workspace.
    is_tidying: bool,
    /// What is said of the command's end, beside how it exited.
    words: Vec<u8>,
    /// Its hold on its keeper, where it has one.
    #[cfg(target_os = "linux")]
    used: Option<keepers::Use>,
}

impl Pump {
    pub(crate) fn new(
        hold: Hold,
        control: OwnedReadHalf,
        records: Records,
        output: Arc<AsyncFd<OwnedFd>>,
        pid: u32,
        output_limit: usize,
    ) -> Self {
        let shared = Arc::new(Shared { capture: Mutex::new(Capture::new(output_limit)) });
        let progress = watch::Sender::new(Progress::default());
        let (exit, said_gone, is_tidying) = (None, false, false);
        Self {
            hold,
            control,
            records,
            output,
            pid,
            shared,
            progress,
            exit,
            said_gone,
            is_tidying,
            words: Vec::new(),
            #[cfg(target_os = "linux")]
            used: None,
        }
    }

    /// Holds the command's keeper until nothing is left of the command.
    #[cfg(target_os = "linux")]
    pub(crate) fn using(self, used: keepers::Use) -> Self {
        Self { used: Some(used), ..self }
    }

    /// What holders look at.
    pub(crate) fn views(&self) -> (Arc<Shared>, watch::Receiver<Progress>) {
        (Arc::clone(&self.shared), self.progress.subscribe())
    }

    /// Runs until nothing of the command is left. It ends soon after the last holder is gone, because that closes the
    /// lifeline.
    pub(crate) async fn run(mut self) {
        let (mut is_output_open, mut is_control_open) = (true, true);
        // Set at the exit and again when the supervisor ends; passed, nothing more is waited for.
        let mut deadline: Option<Instant> = None;
        // Set when the last holder is gone; passed, the supervisors are kept from their work, stopped perhaps.
        let (mut is_held, mut end_by) = (true, None);
        self.handle_records(&mut deadline);
        while is_control_open || is_output_open {
            // Each branch only waits for readiness or time; what is ready stays ready when another branch is taken.
            tokio::select! {
                biased;
                ready = self.output.readable(), if is_output_open => match ready {
                    Ok(mut guard) => match drain(guard.get_inner(), &self.shared) {
                        Drained::Some => self.tell(|_| ()),
                        Drained::Empty { read } => {
                            guard.clear_ready();
                            if read {
                                self.tell(|_| ());
                            }
                        }
                        Drained::End => is_output_open = false,
                    },
                    Err(_) => is_output_open = false,
                },
                heard = self.control.readable(), if is_control_open => {
                    is_control_open = heard.is_ok() && self.hear();
                    self.handle_records(&mut deadline);
                    if !is_control_open {
                        self.handle_end(&mut deadline).await;
                    }
                }
                () = self.progress.closed(), if is_held => {
                    is_held = false;
                    end_by = Some(Instant::now() + TERMINATE_LIMIT);
                }
                () = sleep_until(end_by.unwrap_or_else(Instant::now)), if end_by.is_some() && is_control_open => {
                    end_by = None;
                    self.hold.end().await;
                }
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    deadline = None;
                    // What was written before the exit is in the pipe; the rounds above may not have come to it.
                    is_output_open &= !matches!(drain(self.output.get_ref(), &self.shared), Drained::End);
                    self.settle();
                    // Who still holds the output now is not of the tree.
                    is_output_open &= is_control_open;
                }
            }
            if !is_output_open {
                self.progress.send_if_modified(|progress| !std::mem::replace(&mut progress.is_output_closed, true));
                self.settle();
            }
        }
        // Where the output was not waited for any longer, its last character is as whole as it will be.
        self.tell(|progress| progress.is_output_closed = true);
    }

    /// Reads what the supervisor says; false at the end.
    fn hear(&mut self) -> bool {
        let mut bytes = [0; 64];
        loop {
            match self.control.try_read(&mut bytes) {
                Ok(0) => return false,
                Ok(read) => self.records.push(&bytes[..read]),
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    fn handle_records(&mut self, deadline: &mut Option<Instant>) {
        while let Some(record) = self.records.next() {
            let exit = match record {
                Record::Exited { code, is_last } => (ExitStatus { code: Some(code), signal: None }, is_last),
                Record::Signaled { signal, is_last } => (ExitStatus { code: None, signal: Some(signal) }, is_last),
                Record::Gone => {
                    self.said_gone = true;
                    self.is_tidying = false;
                    continue;
                }
                Record::Detail { text } => {
                    self.words.extend(text.into_iter().filter(|byte| *byte != 0));
                    continue;
                }
                Record::Taken | Record::Started { .. } | Record::Failed { .. } => continue,
            };
            // The first counts: a command exits once.
            let (exit, is_last) = exit;
            if self.exit.is_none() {
                self.exit = Some(exit);
                self.is_tidying = is_last;
            }
            *deadline = Some(Instant::now() + GRACE);
        }
    }

    /// The supervisor has ended.
    async fn handle_end(&mut self, deadline: &mut Option<Instant>) {
        self.hold.reap();
        if !self.said_gone && matches!(self.hold, Hold::Supervisor { .. }) {
            // Somebody killed it. The command died with it; what else is left must not outlive it.
            supervisor::kill_session(self.pid);
            self.hold.end().await;
        }
        if !self.words.is_empty() {
            self.shared.capture().push(&std::mem::take(&mut self.words));
        }
        #[cfg(target_os = "linux")]
        drop(self.used.take());
        self.is_tidying = false;
        let killed = ExitStatus { code: None, signal: Some(libc::SIGKILL) };
        self.exit.get_or_insert(killed);
        self.tell(|progress| progress.is_gone = true);
        *deadline = Some(Instant::now() + GRACE);
    }

    /// Makes the exit known, which says that the output is complete and the workspace as the command left it.
    fn settle(&mut self) {
        if let Some(exit) = self.exit
            && !self.is_tidying
            && self.progress.borrow().exit.is_none()
        {
            self.tell(|progress| progress.exit = Some(exit));
        }
    }

    fn tell(&self, change: impl FnOnce(&mut Progress)) {
        self.progress.send_modify(|progress| {
            progress.version += 1;
            change(progress);
        });
    }
}

enum Drained {
    /// There may be more.
    Some,
    /// There is nothing now.
    Empty {
        /// Whether there was something.
        read: bool,
    },
    /// There will be nothing.
    End,
}

/// Moves what is there into the capture, up to a bound.
fn drain(output: &OwnedFd, shared: &Shared) -> Drained {
    let mut bytes = [0; READ];
    for round in 0..READS {
        match rustix::io::read(output, &mut bytes[..]) {
            Ok(0) => return Drained::End,
            Ok(read) => shared.capture().push(&bytes[..read]),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return Drained::Empty { read: round > 0 },
            // A terminal answers EIO when its last user is gone.
            Err(_) => return Drained::End,
        }
    }
    Drained::Some
}
