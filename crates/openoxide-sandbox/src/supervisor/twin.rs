//! Two supervisors for a command that nothing confines, each of which ends the tree when the other dies. The one below
//! starts the command and does what a supervisor does; the one above waits for it.
//!
//! In a confined command the kernel ends the tree with its namespace, or the tree cannot signal its supervisor. Full access
//! has neither, and gets no namespace either: in one of a user's own, set-uid programs have no effect. Being a subreaper as
//! well, the one above inherits whatever the one below has lost by being killed, in whichever session.
//!
//! Where both are killed in the same instant, what they leave is ended by the server, which sees their socket close, or by the
//! next start where the server is killed as well (`ledger.rs`). The server continues the one above where the command
//! has stopped it, when the command is to end.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, getppid, kill_process};

use super::descendants::Sweeper;
use super::listed::Listed;
use super::{Control, INPUT, LONGEST_KILL_ROUND, become_subreaper, child, exit, signals};
use crate::SandboxMode;
use crate::link::{Record, Request};

/// The one above, as the one below knows it.
pub(super) struct Twin {
    above: Option<Pid>,
}

impl Twin {
    /// For a supervisor that is alone.
    pub(super) fn none() -> Self {
        Self { above: None }
    }

    /// Splits this process in two where the request wants full access; returns in the one below. The process has one
    /// thread and no child.
    pub(super) fn split(
        request: &Request,
        listed: &Listed<'_>,
        null: BorrowedFd<'_>,
        control: &mut Control,
    ) -> Result<Self, Errno> {
        if request.confinement.mode != SandboxMode::DangerFullAccess {
            return Ok(Self::none());
        }
        let above = getpid();
        // SAFETY: this process has one thread, so the copy may do whatever this one may.
        #[allow(unsafe_code)]
        let forked = unsafe { libc::fork() };
        if forked < 0 {
            return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::AGAIN));
        }
        if let Some(below) = Pid::from_raw(forked) {
            guard(below, request, listed, null, control)
        }
        become_subreaper()?;
        // Its death ends the wait in `signals`, as that of a child does.
        rustix::process::set_parent_process_death_signal(Some(Signal::CHILD))?;
        Ok(Self { above: Some(above) })
    }

    /// Whether the one above has died.
    pub(super) fn is_alone(&self) -> bool {
        self.above.is_some_and(|above| getppid() != Some(above))
    }

    /// Nothing is left of the command. The one above has to notice, also where the command has stopped it.
    pub(super) fn release(&self) {
        if let Some(above) = self.above.filter(|above| getppid() == Some(*above)) {
            let _ = kill_process(above, Signal::CONT);
        }
    }
}

/// The one above: continues the one below where somebody stops it, and ends what it leaves.
fn guard(below: Pid, request: &Request, listed: &Listed<'_>, null: BorrowedFd<'_>, control: &mut Control) -> ! {
    // Only the command's processes hold its output and its input open.
    let _ = child::detach(null);
    listed.add_supervisor();
    if request.stdin {
        // SAFETY: the descriptor is the command's input, which nothing in this copy uses.
        #[allow(unsafe_code)]
        unsafe {
            libc::close(INPUT);
        }
    }
    loop {
        match rustix::process::waitpid(Some(below), WaitOptions::UNTRACED) {
            Ok(Some((_, status))) if status.stopped() => {
                let _ = kill_process(below, Signal::CONT);
            }
            Ok(Some((_, status))) if status.exit_status() == Some(0) => exit(0),
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => break,
        }
    }
    let mut sweeper = Sweeper::new(below, request.tty);
    let mut pause = Duration::from_millis(1);
    while !is_childless() {
        listed.kill();
        sweeper.kill();
        signals::wait(None, Some(pause));
        pause = (pause * 2).min(LONGEST_KILL_ROUND);
    }
    listed.close();
    control.tell(Record::Gone);
    exit(0)
}

/// Takes the exits of all children that have one; true where no child is left.
fn is_childless() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}
