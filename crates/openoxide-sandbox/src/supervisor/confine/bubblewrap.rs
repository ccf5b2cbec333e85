//! The namespaces made by `/usr/bin/bwrap`, for systems that let that program make them and no other. It builds the view by
//! path; what follows inside (`init.rs`) is the same as in namespaces of our own.
//!
//! ```text
//! supervisor ── fork, exec ──> bwrap ── its namespaces ──> this program again, process 1 ── fork ──> command
//! ```

use std::ffi::{CString, OsStr, OsString};
use std::io::{PipeReader, PipeWriter, Read, Seek};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, MemfdFlags, fstat};
use rustix::io::{Errno, FdFlags};
use rustix::process::{Pid, Signal, WaitOptions};

use super::super::failure::{self, Failure, errno_of};
use super::super::{Control, child, exit};
use super::placeholders::Placeholders;
use super::syscalls::{Filters, Reach};
use super::{Started, init, protected};
use crate::link::{Request, Step};
use crate::{Confinement, HELPER_ARG, INSIDE_ARG};

/// Where it is, and nowhere else: a program of that name in `PATH` may be anybody's.
const BWRAP: &str = "/usr/bin/bwrap";

/// Parts of `/proc` that speak for the whole machine, which it leaves writable.
const MACHINE: [&str; 5] = ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"];

/// The most that is read of its complaints.
const MAX_COMPLAINT: u64 = 400;

/// Starts the command inside; returns once it runs its program.
pub(super) fn start(request: &Request, null: BorrowedFd<'_>, control: &Control) -> Result<Started, Failure> {
    let metadata =
        std::fs::metadata(BWRAP).map_err(|error| Failure::unavailable(format!("finding {BWRAP}"), errno_of(&error)))?;
    if metadata.uid() != 0 || !metadata.is_file() {
        return Err(Failure::unavailable(format!("trusting {BWRAP}, which is not root's"), Errno::PERM));
    }
    let placeholders = Placeholders::make(&request.confinement)?;
    match start_with(request, null, control) {
        Ok(pid) => Ok(Started { pid, is_command: false, placeholders: Some(placeholders) }),
        Err(failure) => {
            placeholders.remove();
            Err(failure)
        }
    }
}

fn start_with(request: &Request, null: BorrowedFd<'_>, control: &Control) -> Result<Pid, Failure> {
    let prepare = |error: std::io::Error| Failure::new(Step::Prepare, errno_of(&error));
    let handed = rustix::fs::memfd_create(c"request", MemfdFlags::CLOEXEC).map_err(|errno| prepare(errno.into()))?;
    let mut handed = std::fs::File::from(handed);
    request.write(&mut handed).and_then(|()| handed.rewind()).map_err(prepare)?;
    let (mut failed, report) = failure::channel()?;
    let (complaints, complain) = std::io::pipe().map_err(prepare)?;
    let errors = rustix::stdio::stderr().try_clone_to_owned().map_err(prepare)?;
    let inherited = [report.as_raw_fd(), control.socket.as_raw_fd(), handed.as_raw_fd(), errors.as_raw_fd()];
    let words = words(request, &inherited)?;
    let argv: Vec<_> = words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect();
    // SAFETY: this process has one thread, so the copy may do whatever this one may.
    #[allow(unsafe_code)]
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        become_bwrap(&argv, &inherited, null, complain.as_raw_fd(), request.stdin);
        exit(127)
    }
    drop((report, complain));
    let pid = Pid::from_raw(forked.max(0))
        .ok_or_else(|| Failure::new(Step::Fork, errno_of(&std::io::Error::last_os_error())))?;
    let failure = match failure::hear_reached(&mut failed) {
        Some(None) => return Ok(pid),
        Some(Some(failure)) => failure,
        None => Failure::unavailable(format!("running {BWRAP}{}", complaint(complaints)), Errno::PERM),
    };
    let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
    Err(failure)
}

/// In the copy: becomes bwrap, or returns.
fn become_bwrap(
    argv: &[*const libc::c_char],
    inherited: &[RawFd],
    null: BorrowedFd<'_>,
    complain: RawFd,
    has_stdin: bool,
) {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    if !has_stdin && rustix::stdio::dup2_stdin(null).is_err() {
        return;
    }
    for fd in inherited.iter().copied().chain(has_stdin.then_some(super::super::INPUT)) {
        // SAFETY: the descriptors are open in this copy.
        #[allow(unsafe_code)]
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        if rustix::io::fcntl_setfd(fd, FdFlags::empty()).is_err() {
            return;
        }
    }
    let environment = [std::ptr::null::<libc::c_char>()];
    // SAFETY: `argv` ends with null, its strings with NUL, and both outlive the call; the descriptor is open.
    #[allow(unsafe_code)]
    unsafe {
        libc::dup2(complain, 2);
        libc::execve(argv[0], argv.as_ptr(), environment.as_ptr());
    }
}

/// What it wrote instead of starting anything.
fn complaint(from: PipeReader) -> String {
    let mut text = String::new();
    let _ = from.take(MAX_COMPLAINT).read_to_string(&mut text);
    match text.trim() {
        "" => String::new(),
        text => format!(" ({text})"),
    }
}

/// Its arguments: the view, and this program as what runs in it.
fn words(request: &Request, inherited: &[RawFd]) -> Result<Vec<CString>, Failure> {
    let confinement = &request.confinement;
    let mut words: Vec<OsString> = [
        BWRAP,
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--die-with-parent",
        "--as-pid-1",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    ]
    .map(OsString::from)
    .into();
    if !confinement.network {
        words.push("--unshare-net".into());
    }
    for path in MACHINE.map(Path::new).into_iter().filter(|path| path.exists()) {
        bind(&mut words, "--ro-bind", path, path);
    }
    for root in &confinement.writable {
        bind(&mut words, "--bind", &root.path, &root.path);
    }
    for root in &confinement.writable {
        protected::visit(root, confinement, &mut |place, path| {
            let kind = fstat(place).map_err(super::view::at("protecting", path))?.st_mode;
            if FileType::from_raw_mode(kind).is_symlink() {
                let what = format!("protecting {}, a link, by means of bubblewrap", path.display());
                return Err(Failure::confine(what, Errno::NOTSUP));
            }
            bind(&mut words, "--ro-bind", path, path);
            Ok(())
        })?;
    }
    hide(&mut words, confinement);
    let program =
        std::env::current_exe().map_err(|error| Failure::unavailable("finding this program", errno_of(&error)))?;
    words.extend(["--".into(), program.into_os_string(), HELPER_ARG.into(), INSIDE_ARG.into()]);
    words.extend(inherited.iter().map(|fd| OsString::from(fd.to_string())));
    let whole: Result<_, _> = words.into_iter().map(|word| CString::new(word.into_vec())).collect();
    whole.map_err(|_| Failure::new(Step::Prepare, Errno::INVAL))
}

fn bind(words: &mut Vec<OsString>, how: &str, from: &Path, to: &Path) {
    words.extend([OsStr::new(how), from.as_os_str(), to.as_os_str()].map(OsStr::to_owned));
}

fn hide(words: &mut Vec<OsString>, confinement: &Confinement) {
    let is_inner = |path: &PathBuf| confinement.hidden.iter().any(|outer| path != outer && path.starts_with(outer));
    for path in confinement.hidden.iter().filter(|path| !is_inner(path)) {
        if path.is_dir() {
            let words_for = ["--perms", "0000", "--tmpfs"].map(OsString::from);
            words.extend(words_for.into_iter().chain([path.clone().into_os_string(), "--remount-ro".into()]));
            words.push(path.clone().into_os_string());
        } else {
            bind(words, "--ro-bind", Path::new("/dev/null"), path);
        }
    }
}

/// Runs as process 1 of bwrap's namespaces. The arguments are the descriptors of the report, the control socket, the
/// request and the command's stderr.
pub(in crate::supervisor) fn run_inside(args: &[OsString]) -> ! {
    let owned = |word: &OsString| {
        let fd: RawFd = std::str::from_utf8(word.as_bytes()).ok()?.parse().ok().filter(|fd| *fd > 2)?;
        // SAFETY: the supervisor names descriptors that it has left open for this process alone, each once.
        #[allow(unsafe_code)]
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // Nothing of it reaches the command.
        rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC).ok()?;
        Some(fd)
    };
    let fds: Option<Vec<OwnedFd>> = args.iter().map(owned).collect();
    let Some(Ok([report, control, request, errors])) = fds.map(<[OwnedFd; 4]>::try_from) else { exit(125) };
    let mut report = PipeWriter::from(report);
    let mut control = Control { socket: UnixStream::from(control), is_open: true };
    match prepare_inside(request, &errors, &control, &mut report) {
        Ok(command) => {
            drop((report, errors));
            init::watch(command, &mut control)
        }
        Err(failure) => {
            failure::tell(&mut report, &failure);
            exit(127)
        }
    }
}

fn prepare_inside(
    request: OwnedFd,
    errors: &OwnedFd,
    control: &Control,
    report: &mut PipeWriter,
) -> Result<Pid, Failure> {
    failure::tell_reached(report);
    let plain = |errno| Failure::new(Step::Prepare, errno);
    rustix::stdio::dup2_stderr(errors).map_err(plain)?;
    let request = Request::read(std::fs::File::from(request)).ok_or_else(|| plain(Errno::INVAL))?;
    child::settle_input(&request, std::os::fd::AsFd::as_fd(&control.socket));
    super::super::signals::prepare().map_err(plain)?;
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    let null = rustix::fs::open(c"/dev/null", flags, rustix::fs::Mode::empty()).map_err(plain)?;
    let program = child::Program::new(&request, &[]);
    let filters = Filters::compile(request.confinement.network, Reach::Namespaces)?;
    init::start(&request, &program, &filters, std::os::fd::AsFd::as_fd(&null), report)
}
