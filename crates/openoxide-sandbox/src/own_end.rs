//! The signals that ask this program to end, as bytes on a pipe, and the end itself, which waits for nothing. A thread that
//! reads the pipe needs no runtime: it is told by the kernel, whatever the other threads hang at.

use std::io::{self, PipeReader};
use std::os::fd::IntoRawFd as _;
use std::sync::atomic::{AtomicI32, Ordering};

/// The end of the pipe that the handler writes to; it is never closed.
static TOLD: AtomicI32 = AtomicI32::new(-1);

/// From now on SIGTERM, SIGINT and SIGHUP do not end this process; the number of each that comes can be read here as one byte.
///
/// A SIGHUP that is ignored stays so: that is how `nohup` keeps a program. The pipe is this process's alone, and closed when
/// another program is executed; the handlers are the system's own again there. A second call takes over from the first.
///
/// # Errors
/// No pipe can be had, or the system refuses a handler.
pub fn ending_signals() -> io::Result<PipeReader> {
    let (reader, writer) = io::pipe()?;
    // A handler must not wait. One byte is enough to be told; more are lost once nobody reads them.
    rustix::io::ioctl_fionbio(&writer, true)?;
    TOLD.store(writer.into_raw_fd(), Ordering::Release);
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        handle(signal)?;
    }
    Ok(reader)
}

/// Ends this process at once: no destructor, no exit handler and no lock is waited for. What it started ends with it, since
/// the lifelines close.
pub fn end_now(code: i32) -> ! {
    crate::supervisor::exit(code)
}

fn handle(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: zeroed actions are valid ones; `tell` is safe in a handler; all pointers are valid for the calls.
    #[allow(unsafe_code)]
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &raw mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        if signal == libc::SIGHUP && before.sa_sigaction == libc::SIG_IGN {
            return Ok(());
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = tell as *const () as libc::sighandler_t;
        // A system call that was interrupted goes on by itself.
        action.sa_flags = libc::SA_RESTART;
        match libc::sigaction(signal, &raw const action, std::ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The handler.
extern "C" fn tell(signal: libc::c_int) {
    let number = u8::try_from(signal).unwrap_or_default();
    // SAFETY: `write` is allowed in a handler and reads one byte that is there. The interrupted thread finds its error number
    // as it was.
    #[allow(unsafe_code)]
    unsafe {
        let errno = errno();
        let saved = *errno;
        libc::write(TOLD.load(Ordering::Acquire), (&raw const number).cast(), 1);
        *errno = saved;
    }
}

/// Where the C library keeps this thread's error number.
#[allow(unsafe_code)]
unsafe fn errno() -> *mut libc::c_int {
    // SAFETY: neither has preconditions.
    #[cfg(target_os = "linux")]
    return unsafe { libc::__errno_location() };
    #[cfg(not(target_os = "linux"))]
    return unsafe { libc::__error() };
}
