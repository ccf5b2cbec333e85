//! Starts a command within its confinement. Which means is used was decided by the launcher; here it works or fails with
//! the reason, and nothing is tried in its place.
//!
//! ```text
//! supervisor (outside) ── clone into new namespaces ──> init (process 1 inside, confined) ── fork ──> command
//! ```
//!
//! The supervisor stays outside so that it can take away its placeholders. The init carries the same confinement as the
//! command; its death, or the supervisor's, is the death of everything inside.

#[cfg(target_os = "linux")]
mod bubblewrap;
#[cfg(target_os = "linux")]
mod handover;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod layout;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod placeholders;
#[cfg(target_os = "linux")]
mod plan;
#[cfg(target_os = "linux")]
mod privileges;
#[cfg(target_os = "linux")]
mod refusals;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod roots;
#[cfg(any(target_os = "macos", test))]
mod seatbelt;
#[cfg(target_os = "linux")]
mod sweep;
#[cfg(target_os = "linux")]
mod syscalls;
#[cfg(target_os = "linux")]
mod view;

use std::os::fd::BorrowedFd;

use rustix::process::Pid;

use super::failure::Failure;
use super::listed::Listed;
use super::{Control, child};
use crate::SandboxMode;
use crate::link::Request;

#[cfg(target_os = "linux")]
pub(super) use bubblewrap::run_inside;
#[cfg(target_os = "linux")]
pub(super) use keeper::keep;
#[cfg(target_os = "linux")]
pub(super) use placeholders::Placeholders;

/// A command that was started, and what has to be undone when it is gone.
pub(super) struct Started {
    pub(super) pid: Pid,
    /// Whether `pid` is the command's own process, whose exit is its exit. An init tells the command's exit itself.
    pub(super) is_command: bool,
    /// Whether somebody else takes away what was put into the workspace for it, so that the exit of a command of which nothing is
    /// left is told as the last of it.
    pub(super) is_tidied: bool,
    #[cfg(target_os = "linux")]
    pub(super) placeholders: Option<Placeholders>,
}

impl Started {
    fn plain(pid: Pid) -> Self {
        Self {
            pid,
            is_command: true,
            is_tidied: false,
            #[cfg(target_os = "linux")]
            placeholders: None,
        }
    }
}

/// Starts the command that was asked for.
pub(super) fn start(
    request: &Request,
    listed: &Listed<'_>,
    null: BorrowedFd<'_>,
    control: &mut Control,
) -> Result<Started, Failure> {
    if request.confinement.mode == SandboxMode::DangerFullAccess {
        // Nothing is given up: what the user may do, the command may do, `sudo` included.
        return child::start(request, listed, &[], null, &|| Ok(())).map(Started::plain);
    }
    confined(request, listed, null, control)
}

#[cfg(target_os = "linux")]
fn confined(
    request: &Request,
    listed: &Listed<'_>,
    null: BorrowedFd<'_>,
    control: &mut Control,
) -> Result<Started, Failure> {
    use crate::backend::Backend;
    use rustix::io::Errno;
    let mode = request.confinement.mode;
    if !request.backend.can_hold(mode) {
        let what = format!("{} alone cannot hold `{}`", request.backend.as_str(), mode.as_str());
        return Err(Failure::unavailable(what, Errno::NOTSUP));
    }
    // A copy of a process that hides cannot write its own maps; one that confines nothing has no need to.
    crate::own_process::become_dumpable();
    match request.backend {
        Backend::Namespaces => namespaces::start(request, null, control),
        Backend::Bubblewrap => bubblewrap::start(request, null, control),
        Backend::Landlock => {
            let filters = syscalls::Filters::compile(request.confinement.network, syscalls::Reach::Host)?;
            // The one that the launcher has made, and no other.
            let terminal = request.tty.then(rustix::stdio::stdout);
            let confine = || {
                privileges::give_up(syscalls::Reach::Host)?;
                landlock::restrict(&request.confinement, &[], landlock::Need::All { terminal })?;
                filters.install()
            };
            child::start(request, listed, &[], null, &confine).map(Started::plain)
        }
        Backend::Seatbelt => Err(Failure::unavailable("it is a part of macOS".to_owned(), Errno::NOTSUP)),
    }
}

#[cfg(target_os = "macos")]
fn confined(request: &Request, listed: &Listed<'_>, null: BorrowedFd<'_>, _: &mut Control) -> Result<Started, Failure> {
    use rustix::io::Errno;
    if request.confinement.private_tmp.is_some() {
        return Err(Failure::unavailable("giving the thread a /tmp of its own".to_owned(), Errno::NOTSUP));
    }
    // A profile knows paths only; they are looked at as late as can be.
    roots::open(&request.confinement)?;
    let profile = seatbelt::profile(&request.confinement);
    let Some(wrapper) = profile.as_ref().and_then(seatbelt::wrapper) else {
        return Err(Failure::unavailable("writing the profile".to_owned(), Errno::INVAL));
    };
    if !std::path::Path::new(seatbelt::PROGRAM).exists() {
        return Err(Failure::unavailable(format!("finding {}", seatbelt::PROGRAM), Errno::NOENT));
    }
    child::start(request, listed, &wrapper, null, &|| Ok(())).map(Started::plain)
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn confined(request: &Request, _: &Listed<'_>, _: BorrowedFd<'_>, _: &mut Control) -> Result<Started, Failure> {
    let what = format!("no means to hold `{}` is built in for this system", request.confinement.mode.as_str());
    Err(Failure::unavailable(what, rustix::io::Errno::NOTSUP))
}

/// The version of Landlock that the kernel has; 0 where there is none.
pub(crate) fn landlock_version() -> i64 {
    #[cfg(target_os = "linux")]
    return landlock::version();
    #[cfg(not(target_os = "linux"))]
    0
}
