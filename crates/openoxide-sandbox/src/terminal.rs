//! Makes what a command writes to: a pipe, or a terminal of its own. Who reads it is `pump.rs`.

use std::io;
use std::os::fd::OwnedFd;

use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

/// The size of a terminal that nobody looks at.
const SIZE: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };

/// Our end, which does not block, and the command's.
pub(crate) struct Ends {
    pub(crate) ours: OwnedFd,
    pub(crate) theirs: OwnedFd,
}

/// A pipe; ours is the end to read.
pub(crate) fn pipe() -> io::Result<Ends> {
    let (reader, writer) = io::pipe()?;
    let ours = OwnedFd::from(reader);
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok(Ends { ours, theirs: writer.into() })
}

/// A terminal; ours is the end a person would sit at.
pub(crate) fn terminal() -> io::Result<Ends> {
    // Neither end may become the server's own terminal.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | close_on_exec();
    let ours = rustix::pty::openpt(flags)?;
    rustix::pty::grantpt(&ours)?;
    rustix::pty::unlockpt(&ours)?;
    let theirs = peer(&ours, flags)?;
    rustix::termios::tcsetwinsize(&ours, SIZE)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok(Ends { ours, theirs })
}

#[cfg(target_os = "linux")]
fn close_on_exec() -> OpenptFlags {
    OpenptFlags::CLOEXEC
}

/// The other end by descriptor: no path is looked up, which another mount of devpts could answer wrongly.
#[cfg(target_os = "linux")]
fn peer(ours: &OwnedFd, flags: OpenptFlags) -> io::Result<OwnedFd> {
    Ok(rustix::pty::ioctl_tiocgptpeer(ours, flags)?)
}

#[cfg(not(target_os = "linux"))]
fn close_on_exec() -> OpenptFlags {
    OpenptFlags::empty()
}

#[cfg(not(target_os = "linux"))]
fn peer(ours: &OwnedFd, _: OpenptFlags) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    rustix::io::fcntl_setfd(ours, rustix::io::FdFlags::CLOEXEC)?;
    let name = rustix::pty::ptsname(ours, Vec::new())?;
    Ok(rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?)
}
