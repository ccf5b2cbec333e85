//! A command that was started, as its holders see it. Reading and reaping is `pump.rs`'s part; ending the tree is the
//! supervisor's.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use crate::hold::Hold;
use crate::pump::{Progress, Pump, Shared};
use crate::{Output, SandboxError, link};

/// The longest that [`RunningCommand::terminate`] waits: the two seconds the supervisor gives, and a little.
pub(crate) const TERMINATE_LIMIT: Duration = Duration::from_millis(2100);

/// How long the news is waited for that the supervisors are gone, once they were killed.
const LAST_WORD: Duration = Duration::from_secs(1);

/// How long a full terminal buffer is waited for.
const TYPE_LIMIT: Duration = Duration::from_secs(5);

/// What the keys send that interrupt a program and that end its input.
const INTERRUPT_KEY: u8 = 3;
const END_KEY: u8 = 4;

/// How a command ended: one of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitStatus {
    /// What it returned, 0 to 255.
    pub code: Option<i32>,
    /// The number of the signal that ended it.
    pub signal: Option<i32>,
}

/// What came of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitOutcome {
    /// The command has exited and its output up to then can be taken. What it started may still run.
    Exited(ExitStatus),
    /// The time is over.
    StillRunning,
}

/// A command and everything it started. Dropping it ends them all: SIGTERM, and after two seconds SIGKILL.
#[derive(Debug)]
pub struct RunningCommand {
    pid: u32,
    /// Closed by drop, and by the end of this process in any way.
    lifeline: OwnedWriteHalf,
    /// Our end of the terminal, for typing.
    terminal: Option<Arc<AsyncFd<OwnedFd>>>,
    shared: Arc<Shared>,
    progress: watch::Receiver<Progress>,
    /// The version whose output was taken.
    seen: AtomicU64,
    hold: Hold,
}

impl RunningCommand {
    /// Sets the task to work. It holds no part of the lifeline.
    pub(crate) fn new(
        pid: u32,
        lifeline: OwnedWriteHalf,
        terminal: Option<Arc<AsyncFd<OwnedFd>>>,
        pump: Pump,
        hold: Hold,
    ) -> Self {
        let (shared, progress) = pump.views();
        tokio::spawn(pump.run());
        Self { pid, lifeline, terminal, shared, progress, seen: AtomicU64::new(0), hold }
    }

    /// Why the command is not written down where the next start would find it, if the server and all supervisors are
    /// killed; none where it is, or need not be.
    #[must_use]
    pub fn unlisted(&self) -> Option<&str> {
        match &self.hold {
            Hold::Supervisor { unlisted, .. } => unlisted.as_deref(),
            #[cfg(target_os = "linux")]
            Hold::Keeper(..) => None,
        }
    }

    /// The process id of the command, which is also its session and its process group; that of the namespace's first process where
    /// the command has a namespace of its own, and the number within the namespace where a thread's commands share one.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until the command has exited and what it wrote is read, at most this long.
    ///
    /// What it left running does not delay this, except for 50 ms where that keeps the output open. Cancel-safe.
    pub async fn wait(&self, limit: Duration) -> WaitOutcome {
        let mut progress = self.progress.clone();
        // A closed channel means that the runtime of the task is gone, and with it any hope of an exit.
        match timeout(limit, progress.wait_for(|progress| progress.exit.is_some())).await {
            Ok(Ok(progress)) => progress.exit.map_or(WaitOutcome::StillRunning, WaitOutcome::Exited),
            Ok(Err(_)) | Err(_) => WaitOutcome::StillRunning,
        }
    }

    /// Takes the output since the last call; never waits.
    pub fn take_output(&self) -> Output {
        let progress = *self.progress.borrow();
        // Before the taking: what comes in between wakes `changed` once too often rather than never.
        self.seen.fetch_max(progress.version, Ordering::AcqRel);
        self.shared.capture().take(progress.is_output_closed)
    }

    /// Waits for news since the last [`Self::take_output`]: output, the exit, or the end of the whole tree.
    ///
    /// It is ready at once for as long as the news is not taken, and forever pending once there can be none.
    /// Cancel-safe.
    pub async fn changed(&self) {
        let mut progress = self.progress.clone();
        let is_news = |progress: &Progress| progress.version > self.seen.load(Ordering::Acquire);
        if progress.wait_for(is_news).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Types into the terminal. `\u{3}` is what the interrupt key sends.
    ///
    /// Without a terminal, these keys alone are understood: `\u{3}` sends SIGINT to the command's process group, and `\u{4}` closes
    /// its input, which has nothing in it and is closed already.
    ///
    /// # Errors
    /// Where the command has no terminal or has exited, or does not read for five seconds.
    pub async fn write_stdin(&self, bytes: &[u8]) -> Result<(), SandboxError> {
        let Some(terminal) = &self.terminal else {
            if !bytes.iter().all(|key| matches!(*key, INTERRUPT_KEY | END_KEY)) {
                return Err(SandboxError::StdinClosed);
            }
            return if bytes.contains(&INTERRUPT_KEY) { self.interrupt() } else { Ok(()) };
        };
        let deadline = Instant::now() + TYPE_LIMIT;
        let mut progress = self.progress.clone();
        let mut rest = bytes;
        while !rest.is_empty() {
            // Both branches wait for readiness only; a byte is written after the choice.
            let ready = async {
                tokio::select! {
                    biased;
                    _ = progress.wait_for(|progress| progress.exit.is_some() || progress.is_output_closed) => None,
                    ready = terminal.writable() => Some(ready),
                }
            };
            let Ok(ready) = timeout_at(deadline, ready).await else {
                let written = bytes.len() - rest.len();
                return Err(SandboxError::StdinStalled { seconds: TYPE_LIMIT.as_secs(), written });
            };
            let Some(ready) = ready else { return Err(SandboxError::Exited) };
            let failed = |source| SandboxError::Io { what: "typing into the terminal", source };
            let mut guard = ready.map_err(failed)?;
            match guard.try_io(|terminal| Ok(rustix::io::write(terminal.get_ref(), rest)?)) {
                Ok(Ok(written)) => rest = &rest[written..],
                Ok(Err(error)) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(Err(source)) => return Err(failed(source)),
                Err(_would_block) => {}
            }
        }
        Ok(())
    }

    /// Sends SIGINT to the command's process group, as the interrupt key of a terminal does.
    ///
    /// # Errors
    /// Where the command has exited, or nobody hears for it.
    fn interrupt(&self) -> Result<(), SandboxError> {
        if self.exit_status().is_some() {
            return Err(SandboxError::Exited);
        }
        match self.lifeline.try_write(&[link::INTERRUPT]) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(SandboxError::Exited),
            Err(source) => Err(SandboxError::Io { what: "interrupting the command", source }),
        }
    }

    /// How the command exited, once it has and its output up to then can be taken.
    #[must_use]
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.progress.borrow().exit
    }

    /// Whether anything of it is left: the command, what it started, or its supervisor.
    #[must_use]
    pub fn tree_alive(&self) -> bool {
        !self.progress.borrow().is_gone
    }

    /// Ends the whole tree: SIGTERM at the first poll, SIGKILL after two seconds for what is left.
    ///
    /// A supervisor that was stopped is continued. Where all are kept from their work, what is left is looked for among all
    /// processes and killed.
    ///
    /// It returns when nothing is left, after 2.1 s at most, or a little later in that last case. Dropping the future does not
    /// take the order back.
    pub async fn terminate(&self) {
        // One byte always has room. It fails where the supervisor is gone, which is what is asked for.
        let _ = self.lifeline.try_write(&[link::TERMINATE]);
        self.hold.wake();
        let mut progress = self.progress.clone();
        let is_gone = timeout(TERMINATE_LIMIT, progress.wait_for(|progress| progress.is_gone)).await.is_ok();
        if !is_gone && self.hold.can_end() {
            self.hold.end().await;
            // Of the supervisors, too, nothing is left but an exit to take.
            let _ = timeout(LAST_WORD, progress.wait_for(|progress| progress.is_gone)).await;
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        // The lifeline closes now, which only a supervisor notices that is not stopped.
        self.hold.wake();
    }
}
