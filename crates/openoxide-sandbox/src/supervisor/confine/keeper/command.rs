//! The subreaper of one command: enters the command's view, gives up what the command must not have, starts it, and ends what
//! it leaves behind. It carries the command's own confinement.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, setrlimit};

use super::super::super::failure::{self, Failure, errno_of};
use super::super::super::listed::Listed;
use super::super::super::twin::Twin;
use super::super::super::{Control, become_subreaper, child, exit, signals, watch};
use super::super::landlock::Rules;
use super::super::syscalls::{Filters, Reach};
use super::super::{Started, privileges};
use super::enter_namespace;
use crate::Reader;
use crate::link::{Record, Request, Step};

/// Where a reader finds its socket.
const SOCKET: i32 = 3;

/// What it needs.
pub(super) struct Ready<'a> {
    pub(super) request: Request,
    pub(super) output: OwnedFd,
    pub(super) view: OwnedFd,
    pub(super) rules: Option<Rules>,
    pub(super) network: Option<OwnedFd>,
    pub(super) filters: &'a Filters,
    pub(super) null: &'a OwnedFd,
    pub(super) reader: Option<Reader>,
}

/// Runs until nothing is left of the command.
pub(super) fn run(ready: Ready<'_>, control: OwnedFd) -> ! {
    let mut control = Control::of(control);
    let tty = ready.request.tty;
    match start(ready) {
        Ok(pid) => {
            control.tell(Record::Started { pid: pid.as_raw_nonzero().get().cast_unsigned() });
            let started = Started { pid, is_command: true, is_tidied: true, placeholders: None };
            watch(&started, tty, &mut control, &Twin::none(), &Listed::none());
            exit(0)
        }
        Err(failure) => {
            control.tell_failure(&failure);
            exit(1)
        }
    }
}

/// Starts the command; returns once it runs its program.
fn start(ready: Ready<'_>) -> Result<Pid, Failure> {
    let Ready { request, output, view, rules, network, filters, null, reader } = ready;
    let session = |errno| Failure::new(Step::Session, errno);
    rustix::process::setsid().map_err(session)?;
    become_subreaper().map_err(session)?;
    if let Some(network) = &network {
        enter_namespace(network, libc::CLONE_NEWNET, "entering the thread's network")?;
    }
    enter_namespace(&view, libc::CLONE_NEWNS, "entering the command's mounts")?;
    privileges::give_up_after(Reach::Namespaces, true)?;
    rules.map_or(Ok(()), Rules::enforce_inside)?;
    filters.install()?;
    // What the command does to the memory of other processes, it does not do to this one's.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|errno| Failure::confine("hiding the subreaper", errno))?;
    if request.reader {
        return start_reader(&request, reader, output, null);
    }
    let prepare = |errno| Failure::new(Step::Prepare, errno);
    rustix::stdio::dup2_stdout(&output).and_then(|()| rustix::stdio::dup2_stderr(&output)).map_err(prepare)?;
    drop(output);
    let program = child::Program::new(&request, &[]);
    let (mut failed, mut report) = failure::channel()?;
    let command = child::fork(&request, &program, null.as_fd(), &|| Ok(()), &mut report)?;
    drop(report);
    // Only the command's processes may hold its output open: its end is how readers know that they have all.
    child::detach(null.as_fd()).map_err(prepare)?;
    match failure::hear(&mut failed) {
        // Nothing was told: the program runs, or was killed on the way, which its exit will tell.
        None => Ok(command),
        Some(failure) => {
            let _ = rustix::process::waitpid(Some(command), rustix::process::WaitOptions::empty());
            Err(failure)
        }
    }
}

/// Starts the function that this program has for reading, in a process of its own with nothing open but its socket.
fn start_reader(request: &Request, reader: Option<Reader>, socket: OwnedFd, null: &OwnedFd) -> Result<Pid, Failure> {
    let reader = reader.ok_or_else(|| Failure::new(Step::Exec, Errno::NOSYS))?;
    let memory = request.argv().nth(1).and_then(|word| word.to_str().ok()?.parse::<u64>().ok());
    // SAFETY: this process has one thread, so the copy may do whatever this one may.
    #[allow(unsafe_code)]
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        let limit = |most| Rlimit { current: Some(most), maximum: Some(most) };
        let begun = child::detach(null.as_fd())
            .and_then(|()| rustix::process::setsid().map(drop))
            .and_then(|()| memory.map_or(Ok(()), |most| setrlimit(Resource::As, limit(most))));
        if begun.is_err() || !put(&socket) {
            exit(1)
        }
        child::close_others(SOCKET + 1);
        signals::reset();
        let done = std::panic::catch_unwind(|| reader(at_socket()));
        exit(i32::from(done.is_err()))
    }
    let failed = || Failure::new(Step::Fork, errno_of(&std::io::Error::last_os_error()));
    Pid::from_raw(forked.max(0)).ok_or_else(failed)
}

/// Puts the socket where nothing is closed.
fn put(socket: &OwnedFd) -> bool {
    // SAFETY: both are plain numbers; nothing in this copy uses what may be at that place but the socket.
    #[allow(unsafe_code)]
    unsafe {
        libc::dup2(socket.as_raw_fd(), SOCKET) == SOCKET
    }
}

fn at_socket() -> OwnedFd {
    // SAFETY: it was put there, and everything that could own it was forgotten with this process's past.
    #[allow(unsafe_code)]
    unsafe {
        std::os::fd::FromRawFd::from_raw_fd(SOCKET)
    }
}
