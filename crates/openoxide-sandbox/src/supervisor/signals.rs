//! The supervisor's signals: deaf to all that is meant for others, woken by the death of a child. The command gets
//! them as they are by default, whatever this process or the server did to its own.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::io::Errno;

/// Sent by terminals and by those who look for the server; none is meant for a supervisor, which ends with its tree.
const IGNORED: [libc::c_int; 11] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// One more than the last signal that a program can set.
const SIGNALS_END: libc::c_int = 65;

/// Blocks SIGCHLD, so that it is only delivered within [`wait`], and ignores the rest.
pub(super) fn prepare() -> Result<(), Errno> {
    for signal in IGNORED {
        set(signal, libc::SIG_IGN);
    }
    extern "C" fn wake(_: libc::c_int) {}
    set(libc::SIGCHLD, wake as *const () as libc::sighandler_t);
    let mut blocked = empty();
    // SAFETY: the set is initialised; no old set is asked for.
    #[allow(unsafe_code)]
    let failed = unsafe {
        libc::sigaddset(&raw mut blocked, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const blocked, std::ptr::null_mut()) != 0
    };
    if failed { Err(last_error()) } else { Ok(()) }
}

/// Gives a command its signals, all of them in their default state and none blocked.
pub(super) fn reset() {
    for signal in 1..SIGNALS_END {
        // It is refused for those that cannot be set, which are in their default state.
        set(signal, libc::SIG_DFL);
    }
    let none = empty();
    // SAFETY: the set is initialised; no old set is asked for.
    #[allow(unsafe_code)]
    unsafe {
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Waits until the descriptor is readable (true), or a child has died or the time is over (false).
///
/// A SIGCHLD that came before ends the wait at once: the mask is changed and the wait begun in one step.
pub(super) fn wait(readable: Option<BorrowedFd<'_>>, limit: Option<Duration>) -> bool {
    let mask = empty();
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the sets are initialised, the descriptor is open and far below the size of a set (a supervisor has
    // fewer than ten, and a keeper waits for those that it has opened first), and all pointers are valid or null where null is
    // allowed.
    #[allow(unsafe_code)]
    unsafe {
        let mut set: libc::fd_set = std::mem::zeroed();
        libc::FD_ZERO(&raw mut set);
        if let Some(fd) = readable {
            libc::FD_SET(fd.as_raw_fd(), &raw mut set);
        }
        let end = readable.map_or(0, |fd| fd.as_raw_fd() + 1);
        let none = std::ptr::null_mut();
        libc::pselect(end, &raw mut set, none, none, limit, &raw const mask) > 0
    }
}

fn set(signal: libc::c_int, handler: libc::sighandler_t) {
    // SAFETY: a zeroed action is a valid one without flags; its handler is a constant of the system or a function
    // that does nothing, so it is safe in any state.
    #[allow(unsafe_code)]
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}

fn empty() -> libc::sigset_t {
    // SAFETY: `sigemptyset` initialises the set whatever was in it, and zeros are a valid one before.
    #[allow(unsafe_code)]
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        set
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
