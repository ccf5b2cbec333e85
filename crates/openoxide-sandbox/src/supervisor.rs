//! The supervisor: one small process for each command, this program re-executed. It reads one request from its stdin,
//! starts the command below itself, tells how it ended, and ends whatever is left when it is told to or when the
//! server is gone. It has one thread, no runtime and no configuration; policy is decided before it.
//!
//! Being a child subreaper it inherits every process of the tree that loses its parent, whatever session or group that
//! process has moved to. So "no child is left" is the kernel's own word for "nothing is left". In full access there are two
//! of them (`twin`), because a command there can kill its supervisor, and an entry in the ledger (`listed`), because it can kill both.

mod child;
mod confine;
mod descendants;
mod failure;
mod listed;
mod signals;
#[cfg(target_os = "linux")]
mod twin;

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, WaitOptions};

#[cfg(target_os = "linux")]
use crate::Confinement;
#[cfg(target_os = "linux")]
use crate::link::read_places;
use crate::link::{INTERRUPT, Record, Request, Step, TERMINATE, details};
use confine::Started;
pub(crate) use confine::landlock_version;
use descendants::Sweeper;
pub(crate) use descendants::kill_session;
use failure::Failure;
use listed::Listed;
#[cfg(target_os = "linux")]
use twin::Twin;

/// Elsewhere a supervisor is alone, and is no subreaper.
#[cfg(not(target_os = "linux"))]
struct Twin;

#[cfg(not(target_os = "linux"))]
impl Twin {
    fn is_alone(&self) -> bool {
        false
    }

    fn release(&self) {}
}

/// From SIGTERM to SIGKILL.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often processes that appear after SIGTERM are looked for.
const TERM_ROUND: Duration = Duration::from_millis(20);

/// The longest pause between two rounds of SIGKILL.
const LONGEST_KILL_ROUND: Duration = Duration::from_millis(50);

/// The descriptor that may hold the command's input. The launcher puts it there, and nothing else.
const INPUT: i32 = 3;

/// The exit code of a supervisor that was given no request.
const NO_REQUEST: i32 = 125;

/// Runs the stage that bubblewrap starts inside its namespaces, with the numbers of its descriptors.
pub(crate) fn run_inside(args: &[std::ffi::OsString]) -> ! {
    #[cfg(target_os = "linux")]
    confine::run_inside(args);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = args;
        exit(NO_REQUEST)
    }
}

/// Runs the supervisor. Its stdin is the socket to the launcher, its stdout and stderr are the command's output.
pub(crate) fn run() -> ! {
    match supervise() {
        Ok(()) => exit(0),
        Err(NoRequest) => {
            // A person who tries the hidden name by hand is told what it is; nobody else reads this.
            let _ = writeln!(std::io::stderr(), "sandbox-exec is started by the server itself, not by hand");
            exit(NO_REQUEST)
        }
    }
}

/// Runs the keeper of one thread. Its stdin is the socket to the server; `reader` is what it can run in place of a program.
#[cfg(target_os = "linux")]
pub(crate) fn run_keeper(reader: Option<crate::Reader>) -> ! {
    let Ok(mut control) = take_control(INPUT) else { exit(NO_REQUEST) };
    let begun = prepare().and_then(|null| child::detach(null.as_fd()).map(|()| null));
    let failure = match begun {
        Ok(null) => confine::keep(control, null, reader),
        Err(errno) => {
            control.tell_failure(&Failure::new(Step::Prepare, errno));
            exit(1)
        }
    };
    exit(i32::from(failure.is_err()))
}

struct NoRequest;

/// Takes the socket to the launcher, and closes every descriptor from this one on.
fn take_control(first_to_close: i32) -> Result<Control, NoRequest> {
    let is_socket = rustix::fs::fstat(rustix::stdio::stdin())
        .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_socket());
    if !is_socket {
        return Err(NoRequest);
    }
    child::close_others(first_to_close);
    // The duplicate is closed at exec, which the standard descriptor is not. It is a low one, now that all are closed.
    let control = rustix::stdio::stdin().try_clone_to_owned().map_err(|_| NoRequest)?;
    Ok(Control::of(control))
}

fn supervise() -> Result<(), NoRequest> {
    let mut control = take_control(INPUT + 1)?;
    match prepare() {
        Ok(null) => {
            let request = Request::read(&mut control.socket).ok_or(NoRequest)?;
            let listed = Listed::begin(&request);
            if let Err(failure) = run_to_its_end(&request, &listed, &null, &mut control) {
                listed.close();
                control.tell_failure(&failure);
            }
        }
        Err(errno) => control.tell_failure(&Failure::new(Step::Prepare, errno)),
    }
    Ok(())
}

/// Starts the command and returns when nothing of it is left, or because it does not run.
fn run_to_its_end(
    request: &Request,
    listed: &Listed<'_>,
    null: &OwnedFd,
    control: &mut Control,
) -> Result<(), Failure> {
    #[cfg(target_os = "linux")]
    let twin = Twin::split(request, listed, null.as_fd(), control);
    #[cfg(not(target_os = "linux"))]
    let twin = Ok(Twin);
    let twin = twin.map_err(|errno| Failure::new(Step::Prepare, errno))?;
    let Command { started, tty } = start(request, listed, null, control)?;
    control.tell(Record::Started { pid: started.pid.as_raw_nonzero().get().cast_unsigned() });
    watch(&started, tty, control, &twin, listed);
    #[cfg(target_os = "linux")]
    if let Some(placeholders) = started.placeholders {
        placeholders.remove();
    }
    listed.close();
    control.tell(Record::Gone);
    twin.release();
    Ok(())
}

/// Makes this process independent of whoever started it, and the last parent of whatever it starts. Gives `/dev/null`.
fn prepare() -> Result<OwnedFd, Errno> {
    // It fails only for the leader of a group, which nothing started by the launcher is.
    let _ = rustix::process::setsid();
    become_subreaper()?;
    // A dump of a command's memory would land wherever the system puts those, secrets included.
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    signals::prepare()?;
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    rustix::fs::open(c"/dev/null", flags, rustix::fs::Mode::empty())
}

#[cfg(target_os = "linux")]
fn become_subreaper() -> Result<(), Errno> {
    // Any process id sets the attribute; the kernel only looks whether there is one.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
}

#[cfg(not(target_os = "linux"))]
fn become_subreaper() -> Result<(), Errno> {
    // Elsewhere the process group is all that holds a tree together.
    Ok(())
}

/// A command that runs.
struct Command {
    started: Started,
    tty: bool,
}

/// Starts the command and lets go of everything that is its own.
fn start(request: &Request, listed: &Listed<'_>, null: &OwnedFd, control: &mut Control) -> Result<Command, Failure> {
    child::settle_input(request, control.socket.as_fd());
    let started = confine::start(request, listed, null.as_fd(), control)?;
    // Only the command's processes may hold its output open: its end is how readers know that they have all.
    child::detach(null.as_fd()).map_err(|errno| Failure::new(Step::Prepare, errno))?;
    Ok(Command { started, tty: request.tty })
}

/// The socket to the launcher.
struct Control {
    socket: UnixStream,
    is_open: bool,
}

/// What the launcher asks of a supervisor.
enum Order {
    /// To end the tree.
    End,
    /// To send SIGINT to the command's group.
    Interrupt,
}

impl Control {
    fn of(socket: OwnedFd) -> Self {
        Self { socket: UnixStream::from(socket), is_open: true }
    }

    /// Tells the launcher, if there still is one.
    fn tell(&mut self, record: Record) {
        let _ = self.socket.write_all(&record.encode());
    }

    /// Tells why the command does not run.
    fn tell_failure(&mut self, failure: &Failure) {
        details(&failure.detail).for_each(|record| self.tell(record));
        self.tell(Record::Failed { step: failure.step, errno: failure.errno.raw_os_error() });
    }

    /// Waits for what the launcher has found beneath the writable directories, which follows the request.
    #[cfg(target_os = "linux")]
    fn hear_places(&mut self, confinement: &Confinement) -> Result<Vec<PathBuf>, Failure> {
        if confinement.writable.is_empty() {
            return Ok(Vec::new());
        }
        let gone = || Failure::confine("hearing what is protected", Errno::CONNRESET);
        read_places(&mut self.socket).ok_or_else(gone)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.is_open.then(|| self.socket.as_fd())
    }

    /// Reads what made the socket readable.
    fn order(&mut self) -> Option<Order> {
        let mut byte = [0];
        match self.socket.read(&mut byte) {
            Ok(1) if byte == [TERMINATE] => Some(Order::End),
            Ok(1) if byte == [INTERRUPT] => Some(Order::Interrupt),
            Ok(1) => None,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => None,
            Ok(_) | Err(_) => {
                self.is_open = false;
                Some(Order::End)
            }
        }
    }
}

/// How the tree is being ended.
enum Ending {
    /// It is not.
    No,
    /// SIGTERM was sent; SIGKILL follows then.
    Asked { kill_at: Instant },
    /// SIGKILL is sent until nothing is left.
    Killing { pause: Duration },
}

/// Returns when nothing is left below this process.
fn watch(started: &Started, tty: bool, control: &mut Control, twin: &Twin, listed: &Listed<'_>) {
    let mut ending = Ending::No;
    let mut sweeper = Sweeper::new(started.pid, tty);
    loop {
        if reap(started, control) && !sweeper.is_left() {
            return;
        }
        // Whoever killed the one above may be about to kill this one. Where it died before its death was told, this look is
        // the only one; later ones end the wait below.
        if twin.is_alone() && !matches!(ending, Ending::Killing { .. }) {
            ending = Ending::Killing { pause: Duration::from_millis(1) };
        }
        let now = Instant::now();
        if matches!(ending, Ending::Asked { kill_at } if now >= kill_at) {
            ending = Ending::Killing { pause: Duration::from_millis(1) };
        }
        let pause = match &mut ending {
            Ending::No => sweeper.round_without_reports(),
            Ending::Asked { kill_at } => {
                sweeper.ask();
                Some(TERM_ROUND.min(kill_at.saturating_duration_since(now)))
            }
            Ending::Killing { pause } => {
                listed.kill();
                sweeper.kill();
                let now = *pause;
                *pause = (now * 2).min(LONGEST_KILL_ROUND);
                Some(now)
            }
        };
        // A child that died since it was reaped above has a pending SIGCHLD, which ends the wait at once.
        let is_readable = signals::wait(control.fd(), pause);
        match is_readable.then(|| control.order()).flatten() {
            Some(Order::End) if matches!(ending, Ending::No) => {
                ending = Ending::Asked { kill_at: Instant::now() + PATIENCE };
            }
            Some(Order::Interrupt) if started.is_command => {
                let _ = rustix::process::kill_process_group(started.pid, rustix::process::Signal::INT);
            }
            // The command's process is in another namespace, of which only what is below it here is known.
            Some(Order::Interrupt) => sweeper.interrupt(),
            Some(Order::End) | None => {}
        }
    }
}

/// Takes the exits of all children that have one and tells the command's; true where no child is left.
fn reap(started: &Started, control: &mut Control) -> bool {
    let mut exit = None;
    let is_childless = loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == started.pid && started.is_command => exit = Some(status),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => break false,
            Err(_) => break true,
        }
    };
    if let Some(record) = exit.and_then(|status| Record::of_exit(status, is_childless && started.is_tidied)) {
        control.tell(record);
    }
    is_childless
}

/// Ends this process at once: nothing here has to be unwound, and the copy after fork must not do it twice.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: `_exit` has no preconditions.
    #[allow(unsafe_code)]
    unsafe {
        libc::_exit(code)
    }
}
