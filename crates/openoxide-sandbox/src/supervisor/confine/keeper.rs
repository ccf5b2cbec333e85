//! The keeper of one thread: process 1 of the namespaces that all commands of the thread share. The server asks it for commands
//! over one socket, its lifeline; each command has a socket of its own beside it.
//!
//! ```text
//! server ── starts ──> waiter (host) ── clone ──> keeper (process 1) ── fork ──> forker (scopes of the thread)
//!    └── socket: START, KILL ──────────────────────> │ <── clone with the keeper as parent ── subreaper ── fork ──> command
//!    └── one socket for each command ────────────────┴─────────────────────────────────────────> │
//! ```
//!
//! - The keeper sees the host's files, makes and removes placeholders, builds the view of each command (`views.rs`), and decides
//!   nothing. No command reaches it: it is outside of their Landlock domain, its memory is closed, and process 1 gets no signal
//!   from inside that it does not wait for.
//! - The forker (`forker.rs`) enters the domain that keeps signals within the thread, and copies itself for each command. Commands
//!   can end it; then the keeper ends everything and itself, and the next command gets a new keeper.
//! - The copy (`command.rs`) enters the command's view, gives up what the command must not have, starts it, and is its subreaper.
//!   What loses that one as well becomes the keeper's child and is killed.

mod command;
mod forker;
mod known_rules;
mod views;

use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions, WaitStatus, kill_process};

use super::super::failure::{self, Failure, errno_of};
use super::super::{Control, PATIENCE, exit, signals};
use super::placeholders::{Kind, Placeholders};
use super::view::Protected;
use super::{layout, mounts, namespaces, roots};
use crate::link::{self, Record, Request, Step, details, read_places};
use crate::{Reader, passing};
use forker::{Forker, Job};
use known_rules::KnownRules;
use views::Views;

/// How long a request may take to arrive whole, once its first word has.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// How often is looked again while something is to go.
const ROUND: Duration = Duration::from_millis(2);

/// How much longer than they give their commands the subreapers may take when the server is gone.
const LEEWAY: Duration = Duration::from_millis(500);

/// How long what was killed is waited for before the kernel is left to it.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Where processes list their children, for process 1.
const OWN_CHILDREN: &str = "1/task/1/children";

const ENDED: &str = "[everything that this thread had running was ended: a command ended the process that starts the thread's \
                     commands; the next command starts anew]\n";

const LOST: &str = "[this was ended: a command of the thread ended the process that looks after it]\n";

/// Makes the namespaces and the keeper in them; returns in the process outside, when the keeper has ended.
pub(in crate::supervisor) fn keep(mut control: Control, null: OwnedFd, reader: Option<Reader>) -> Result<(), Failure> {
    // A process that hides cannot write its own maps.
    crate::own_process::become_dumpable();
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let (alive, report) = failure::channel()?;
    // Its network is the host's, which some commands are given.
    let cloned = namespaces::clone(libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS);
    if cloned == 0 {
        drop(alive);
        let begun = namespaces::enter(uid.as_raw(), gid.as_raw(), &report, true).and_then(|()| {
            drop(report);
            rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
                .map_err(|errno| Failure::confine("hiding the keeper", errno))?;
            let forker = Forker::start(&control, &null, reader)?;
            // Copies of the host's, in which placeholders are made, and what the host mounts later is seen.
            copy_mounts()?;
            mounts::make_slave().map_err(|errno| Failure::unavailable("making the mounts the host's", errno))?;
            Ok(forker)
        });
        match begun {
            Ok(forker) => Keeper::new(control, forker).run(),
            Err(failure) => {
                control.tell_failure(&failure);
                exit(1)
            }
        }
    }
    let Some(pid) = Pid::from_raw(i32::try_from(cloned).unwrap_or_default().max(0)) else {
        let failure = Failure::unavailable("making namespaces", errno_of(&std::io::Error::last_os_error()));
        control.tell_failure(&failure);
        return Err(failure);
    };
    // The keeper's alone from here on; where it ends, however it does, the server sees that.
    drop((control, report));
    loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return Ok(()),
        }
    }
}

/// See the module.
struct Keeper {
    server: Control,
    forker: Forker,
    running: Vec<Running>,
    rules: KnownRules,
    views: Views,
    /// The processes of this namespace, where they can be looked at.
    processes: Option<OwnedFd>,
    /// The thread's own network, made for the first command that is not given the host's.
    network: Option<OwnedFd>,
    /// Whether processes may be here that belong to nobody.
    has_orphans: bool,
    /// When nothing is waited for any longer, once the server is gone.
    end_by: Option<Instant>,
}

/// A command.
struct Running {
    id: u64,
    /// Its subreaper.
    pid: Pid,
    control: Control,
    placeholders: Placeholders,
    /// The mounts that it sees. Kept until its end is told: taking them apart takes time, which nobody is to wait for.
    view: OwnedFd,
    /// Whether the subreaper has ended, and what it left is being killed.
    is_dead: bool,
    /// Whether the server wants it ended.
    is_unwanted: bool,
}

impl Keeper {
    fn new(server: Control, forker: Forker) -> Self {
        Self {
            server,
            forker,
            running: Vec::new(),
            rules: KnownRules::default(),
            views: Views::default(),
            processes: own_processes().ok(),
            network: None,
            has_orphans: false,
            end_by: None,
        }
    }

    fn run(mut self) -> ! {
        loop {
            self.take_exits();
            if self.has_orphans {
                self.kill_orphans();
            }
            if self.end_by.is_some() && self.running.is_empty() {
                exit(0)
            }
            if self.end_by.is_some_and(|end_by| Instant::now() >= end_by) {
                self.end_everything("")
            }
            let pause = if self.has_orphans { Some(ROUND) } else { self.end_by.map(|_| LEEWAY) };
            if signals::wait(self.server.fd(), pause) {
                self.hear();
            }
        }
    }

    /// Takes one message of the server.
    fn hear(&mut self) {
        let mut message = [0; link::KEEPER_MESSAGE];
        let received = passing::receive(self.server.socket.as_fd(), &mut message);
        let Ok((link::KEEPER_MESSAGE, descriptors)) = received else {
            self.server.is_open = false;
            self.end_by = Some(Instant::now() + PATIENCE + LEEWAY);
            return;
        };
        let [what, id @ ..] = message;
        let id = u64::from_ne_bytes(id);
        match (what, <[OwnedFd; 2]>::try_from(descriptors)) {
            (link::START, Ok([control, output])) => self.start(id, Control::of(control), output),
            (link::KILL, _) => {
                for running in self.running.iter_mut().filter(|running| running.id == id && !running.is_dead) {
                    running.is_unwanted = true;
                    let _ = kill_process(running.pid, Signal::KILL);
                }
            }
            _ => {}
        }
    }

    /// Starts a command, or tells it why not.
    fn start(&mut self, id: u64, mut control: Control, output: OwnedFd) {
        control.tell(Record::Taken);
        match self.try_start(&mut control, &output) {
            Ok((pid, placeholders, view)) => {
                let (is_dead, is_unwanted) = (false, false);
                self.running.push(Running { id, pid, control, placeholders, view, is_dead, is_unwanted });
            }
            Err(failure) => {
                control.tell_failure(&failure);
                control.tell(Record::Gone);
            }
        }
    }

    fn try_start(&mut self, control: &mut Control, output: &OwnedFd) -> Result<(Pid, Placeholders, OwnedFd), Failure> {
        let gone = || Failure::new(Step::Prepare, Errno::CONNRESET);
        let prepare = |error: std::io::Error| Failure::new(Step::Prepare, errno_of(&error));
        control.socket.set_read_timeout(Some(REQUEST_LIMIT)).map_err(prepare)?;
        let request = Request::read(&mut control.socket).ok_or_else(gone)?;
        let confinement = &request.confinement;
        let found = match confinement.writable.is_empty() {
            true => Vec::new(),
            false => read_places(&mut control.socket).ok_or_else(gone)?,
        };
        control.socket.set_read_timeout(None).map_err(prepare)?;
        if !confinement.network && self.network.is_none() {
            self.network = Some(own_network()?);
        }
        // Looked at before anything is made in one of them.
        let roots = roots::open(confinement)?;
        layout::prepare(confinement, &roots)?;
        let placeholders = Placeholders::make(&request, &roots, Kind::Link)?;
        let protected = Protected { found, relied_on: placeholders.relied_on().to_vec() };
        let started = self.views.build(&request, &roots, &protected).and_then(|view| {
            let network = self.network.as_ref().filter(|_| !confinement.network);
            let rules = self.rules.of(confinement, &roots)?;
            let job = Job { request: &request, view: &view, control, output, network, rules };
            self.forker.start_command(&job).map(|pid| (pid, view))
        });
        match started {
            Ok((pid, view)) => Ok((pid, placeholders, view)),
            Err(failure) => {
                placeholders.remove();
                Err(failure)
            }
        }
    }

    /// Takes the exits that are there, and continues what somebody has stopped of the thread's own processes.
    fn take_exits(&mut self) {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((pid, status))) => self.take_exit(pid, status),
                Err(Errno::INTR) => {}
                // The forker is always there.
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn take_exit(&mut self, pid: Pid, status: WaitStatus) {
        let is_forker = pid == self.forker.pid;
        let position = self.running.iter().position(|running| running.pid == pid && !running.is_dead);
        if status.stopped() {
            if is_forker || position.is_some() {
                let _ = kill_process(pid, Signal::CONT);
            }
            return;
        }
        if is_forker {
            self.end_everything(ENDED)
        }
        let Some(position) = position else { return };
        if status.exit_status().is_some() {
            self.running.swap_remove(position).finish();
        } else {
            // Somebody has killed it. What it looked after is nobody's now.
            self.running[position].is_dead = true;
            self.has_orphans = true;
        }
    }

    /// Kills the children that nobody has started; when there are none, what lost its subreaper is gone.
    fn kill_orphans(&mut self) {
        let Some(children) = self.children() else { self.end_everything(ENDED) };
        let is_ours = |pid: &Pid| {
            *pid == self.forker.pid || self.running.iter().any(|running| running.pid == *pid && !running.is_dead)
        };
        let orphans: Vec<Pid> = children.into_iter().filter(|pid| !is_ours(pid)).collect();
        for orphan in &orphans {
            let _ = kill_process(*orphan, Signal::KILL);
        }
        if orphans.is_empty() {
            self.has_orphans = false;
            let (dead, alive): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.running).into_iter().partition(|running| running.is_dead);
            self.running = alive;
            for mut lost in dead {
                let why = if lost.is_unwanted { "" } else { LOST };
                details(why).for_each(|record| lost.control.tell(record));
                lost.finish();
            }
        }
    }

    /// The children of this process; none where they cannot be listed.
    fn children(&self) -> Option<Vec<Pid>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let listed = rustix::fs::openat(self.processes.as_ref()?, OWN_CHILDREN, flags, Mode::empty());
        let mut list = String::new();
        std::fs::File::from(listed.ok()?).read_to_string(&mut list).ok()?;
        Some(list.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect())
    }

    /// Kills everything here, and ends.
    fn end_everything(&mut self, why: &str) -> ! {
        let end_by = Instant::now() + KILL_LIMIT;
        loop {
            // SAFETY: the call takes no memory; of this namespace, it leaves out process 1.
            #[allow(unsafe_code)]
            unsafe {
                libc::kill(-1, libc::SIGKILL);
            }
            let left = loop {
                match rustix::process::wait(WaitOptions::NOHANG) {
                    Ok(Some(_)) | Err(Errno::INTR) => {}
                    Ok(None) => break true,
                    Err(_) => break false,
                }
            };
            if !left || Instant::now() >= end_by {
                break;
            }
            signals::wait(None, Some(ROUND));
        }
        for mut running in std::mem::take(&mut self.running) {
            details(why).for_each(|record| running.control.tell(record));
            running.finish();
        }
        exit(0)
    }
}

impl Running {
    /// Nothing of it is left.
    fn finish(mut self) {
        self.placeholders.remove();
        self.control.tell(Record::Gone);
        drop(self.control);
        drop(self.view);
    }
}

/// The processes of this namespace, mounted nowhere.
fn own_processes() -> Result<OwnedFd, Errno> {
    let context = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// Makes a network of this process's own, with loopback alone, in which commands can find each other.
fn own_network() -> Result<OwnedFd, Failure> {
    // SAFETY: the call takes no memory; this process has one thread.
    #[allow(unsafe_code)]
    let failed = unsafe { libc::unshare(libc::CLONE_NEWNET) != 0 };
    if failed {
        return Err(Failure::unavailable("making a network namespace", errno_of(&std::io::Error::last_os_error())));
    }
    namespaces::raise_loopback()?;
    open_namespace("/proc/self/ns/net")
}

/// A namespace of this process, as a descriptor.
fn open_namespace(path: &str) -> Result<OwnedFd, Failure> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| Failure::unavailable(format!("opening {path}"), errno))
}

/// Moves this process, which has one thread, into a namespace.
fn enter_namespace(namespace: &OwnedFd, kind: libc::c_int, what: &'static str) -> Result<(), Failure> {
    // SAFETY: the descriptor is open for the call, which takes no memory.
    #[allow(unsafe_code)]
    let failed = unsafe { libc::setns(namespace.as_raw_fd(), kind) != 0 };
    match failed {
        true => Err(Failure::unavailable(what, errno_of(&std::io::Error::last_os_error()))),
        false => Ok(()),
    }
}

/// Gives this process a copy of its mounts.
fn copy_mounts() -> Result<(), Failure> {
    // SAFETY: the call takes no memory; this process has one thread.
    #[allow(unsafe_code)]
    let failed = unsafe { libc::unshare(libc::CLONE_NEWNS) != 0 };
    match failed {
        true => Err(Failure::unavailable("making a mount namespace", errno_of(&std::io::Error::last_os_error()))),
        false => Ok(()),
    }
}

/// Two ends of a socket between processes here.
fn socket_pair() -> Result<(UnixStream, UnixStream), Failure> {
    UnixStream::pair().map_err(|error| Failure::new(Step::Prepare, errno_of(&error)))
}
