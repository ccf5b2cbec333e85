//! The supervisor's copy in namespaces of its own: user, mount, process, IPC, host name and, unless the policy allows the
//! network, network. What it does there is `view.rs` and `init.rs`.

use std::io::PipeWriter;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

use super::super::failure::{self, Failure, errno_of};
use super::super::{Control, child, exit};
use super::landlock::{Rules, Scopes};
use super::placeholders::{Kind, Placeholders};
use super::syscalls::{Filters, Reach};
use super::{Started, handover, init, layout, roots, view};
use crate::link::{Request, Step};

/// Starts the command inside; returns once it runs its program.
///
/// The two processes work at the same time: while the one inside builds the view, the one outside makes what has to be there
/// when places are covered, and the rules that are the same inside and outside.
pub(super) fn start(request: &Request, null: BorrowedFd<'_>, control: &mut Control) -> Result<Started, Failure> {
    let confinement = &request.confinement;
    let program = child::Program::new(request, &[]);
    // Looked at before anything is made in one of them.
    let roots = roots::open(confinement)?;
    layout::prepare(&request.confinement, &roots)?;
    let (mut failed, mut report) = failure::channel()?;
    let (outside, mut inside) = handover::pair()?;
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let mut flags =
        libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    if !confinement.network {
        flags |= libc::CLONE_NEWNET;
    }
    let cloned = clone(flags);
    if cloned == 0 {
        // These lead around the view, and the end of the other one would not be told while its end is open here.
        drop((roots, outside, failed));
        let mut run = || {
            enter(uid.as_raw(), gid.as_raw(), &report, confinement.network)?;
            view::build(confinement, || {
                let found = control.hear_places(confinement)?;
                Ok(view::Protected { found, relied_on: inside.take_relied_on()? })
            })?;
            let filters = Filters::compile(confinement.network, Reach::Namespaces)?;
            let restrict = || inside.take_rules()?.map_or(Ok(()), Rules::enforce_inside);
            init::start(request, restrict, &program, &filters, null, &mut report)
        };
        match run() {
            Ok(command) => {
                // From here on the command alone holds the pipe by which its exec is told.
                drop((report, inside));
                init::watch(command, control)
            }
            Err(failure) => {
                failure::tell(&mut report, &failure);
                exit(127)
            }
        }
    }
    drop((report, inside));
    let Some(pid) = Pid::from_raw(i32::try_from(cloned).unwrap_or_default().max(0)) else {
        let errno = errno_of(&std::io::Error::last_os_error());
        return Err(Failure::unavailable("making namespaces", errno));
    };
    let give_up = |failure| {
        // It may be waiting for the launcher.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
        let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
        failure
    };
    let placeholders = Placeholders::make(request, &roots, Kind::Link).map_err(give_up)?;
    outside.give_relied_on(placeholders.relied_on());
    match Rules::for_namespaces(confinement, &roots, Scopes::Here) {
        Ok(rules) => outside.give_rules(rules),
        Err(failure) => {
            let failure = give_up(failure);
            placeholders.remove();
            return Err(failure);
        }
    }
    drop((roots, outside));
    match failure::hear(&mut failed) {
        None => Ok(Started { pid, is_command: false, is_tidied: false, placeholders: Some(placeholders) }),
        Some(failure) => {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
            placeholders.remove();
            Err(failure)
        }
    }
}

/// A fork into new namespaces.
pub(super) fn clone(flags: libc::c_int) -> libc::c_long {
    // SAFETY: without a stack of its own and without shared memory this is a fork, and this process has one thread, so
    // the copy may do whatever this one may. The last three arguments are not looked at without their flags.
    #[allow(unsafe_code)]
    unsafe {
        libc::syscall(libc::SYS_clone, libc::c_long::from(flags | libc::SIGCHLD), 0, 0, 0, 0)
    }
}

/// Becomes a member of the namespaces: the same user and group, dying with the supervisor, with loopback up.
pub(super) fn enter(uid: u32, gid: u32, report: &PipeWriter, network: bool) -> Result<(), Failure> {
    let maps = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{uid} {uid} 1")),
        ("/proc/self/gid_map", format!("{gid} {gid} 1")),
    ];
    for (path, text) in maps {
        std::fs::write(path, text)
            .map_err(|error| Failure::unavailable(format!("writing {path}"), errno_of(&error)))?;
    }
    // While `/proc` can be written: when memory runs out, a command goes before the server and the user's own programs.
    let _ = std::fs::write("/proc/self/oom_score_adj", super::privileges::FIRST_TO_GO);
    // Only now: entering the namespace changed what this process may do, which takes the order back.
    let die = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    die.map_err(|errno| Failure::new(Step::Session, errno))?;
    // The supervisor may have died before. The pipe to it has then no reader; its process id says nothing in here.
    let mut watched = [PollFd::new(report, PollFlags::empty())];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut watched, Some(&now)) {
        Ok(0) => {}
        Ok(_) => return Err(Failure::new(Step::Session, Errno::SRCH)),
        Err(errno) => return Err(Failure::new(Step::Session, errno)),
    }
    if network { Ok(()) } else { raise_loopback() }
}

/// Brings loopback up, so that a server and its client within one command can talk.
pub(super) fn raise_loopback() -> Result<(), Failure> {
    // SAFETY: a zeroed request is a valid one; the name is far shorter than its field; the socket is open for the call and
    // closed after it, and nothing else has it.
    #[allow(unsafe_code)]
    let done = unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l'.cast_signed() as libc::c_char;
        request.ifr_name[1] = b'o'.cast_signed() as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let done = libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request);
        libc::close(socket);
        done
    };
    match done {
        0 => Ok(()),
        _ => Err(Failure::unavailable("raising loopback", errno_of(&std::io::Error::last_os_error()))),
    }
}
