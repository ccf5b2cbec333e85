//! From fork to exec: what a command is given, and what it is not. All that needs memory is made before the fork.

use std::ffi::{CStr, CString, OsStr, c_char};
use std::io::PipeWriter;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::Pid;

use super::failure::{self, Failure, errno_of};
use super::listed::Listed;
use super::{INPUT, exit, signals};
use crate::SandboxMode;
use crate::link::{Request, Step};
use crate::workspace::open_without_links;

/// Where programs are looked for when the command's environment does not say.
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// Starts the command and returns once it runs its program, or says why it does not. `confine` is called in the process
/// that becomes the command, after the last step that needs the supervisor's rights. That process is added to the ledger. `wrapper` is a program, with its
/// arguments, that runs the command; empty where the command runs itself.
pub(super) fn start(
    request: &Request,
    listed: &Listed<'_>,
    wrapper: &[CString],
    null: BorrowedFd<'_>,
    confine: &dyn Fn() -> Result<(), Failure>,
) -> Result<Pid, Failure> {
    let program = Program::new(request, wrapper);
    let (mut failed, mut report) = failure::channel()?;
    // While files can still be reached.
    let confine = || {
        listed.add_command();
        confine()
    };
    let pid = fork_by(&|| listed.fork(), request, &program, null, &confine, &mut report)?;
    drop(report);
    // While the program is loaded.
    listed.add_supervisor();
    match failure::hear(&mut failed) {
        // Nothing was told: the program runs, or was killed on the way, which its exit will tell.
        None => Ok(pid),
        Some(failure) => {
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
            Err(failure)
        }
    }
}

/// Makes the process that becomes the command. What goes wrong in it is told through the pipe.
pub(super) fn fork(
    request: &Request,
    program: &Program<'_>,
    null: BorrowedFd<'_>,
    confine: &dyn Fn() -> Result<(), Failure>,
    report: &mut PipeWriter,
) -> Result<Pid, Failure> {
    // SAFETY: this process has one thread, so the copy may do whatever this one may.
    #[allow(unsafe_code)]
    fork_by(&|| unsafe { libc::fork().into() }, request, program, null, confine, report)
}

fn fork_by(
    fork: &dyn Fn() -> libc::c_long,
    request: &Request,
    program: &Program<'_>,
    null: BorrowedFd<'_>,
    confine: &dyn Fn() -> Result<(), Failure>,
    report: &mut PipeWriter,
) -> Result<Pid, Failure> {
    let supervisor = rustix::process::getpid();
    let forked = fork();
    if forked == 0 {
        let failure = become_command(request, program, null, confine, supervisor);
        failure::tell(report, &failure);
        exit(127)
    }
    let pid = i32::try_from(forked).ok().and_then(|pid| Pid::from_raw(pid.max(0)));
    pid.ok_or_else(|| Failure::new(Step::Fork, errno_of(&std::io::Error::last_os_error())))
}

/// In the copy: becomes the command, or returns why not.
fn become_command(
    request: &Request,
    program: &Program<'_>,
    null: BorrowedFd<'_>,
    confine: &dyn Fn() -> Result<(), Failure>,
    supervisor: Pid,
) -> Failure {
    if let Err(errno) = die_with(supervisor).and_then(|()| rustix::process::setsid().map(drop)) {
        return Failure::new(Step::Session, errno);
    }
    let stdin = match (request.tty, request.stdin) {
        (true, _) => take_terminal(),
        (false, true) => rustix::stdio::dup2_stdin(input()),
        (false, false) => rustix::stdio::dup2_stdin(null),
    };
    if let Err(errno) = stdin {
        return Failure::new(Step::Terminal, errno);
    }
    if let Err(errno) = enter(request) {
        return Failure::new(Step::Directory, errno);
    }
    if let Err(failure) = confine() {
        return failure;
    }
    if request.probe {
        exit(0)
    }
    signals::reset();
    Failure::new(Step::Exec, program.exec())
}

/// Goes to the command's directory. Where nothing confines the command, no link leads there: what somebody was shown and
/// has approved may have been exchanged since.
fn enter(request: &Request) -> Result<(), Errno> {
    if request.confinement.mode != SandboxMode::DangerFullAccess {
        return rustix::process::chdir(request.cwd());
    }
    let directory = open_without_links(Path::new(OsStr::from_bytes(request.cwd().to_bytes())))?;
    rustix::process::fchdir(directory)
}

/// Keeps the descriptor of the command's input where there is one, and closes it where none was asked for.
pub(super) fn settle_input(request: &Request, control: BorrowedFd<'_>) {
    if request.stdin {
        let _ = rustix::io::fcntl_setfd(input(), rustix::io::FdFlags::CLOEXEC);
    } else if control.as_raw_fd() != INPUT {
        // SAFETY: the descriptor came from whoever started this process; nothing here uses it.
        #[allow(unsafe_code)]
        unsafe {
            libc::close(INPUT);
        }
    }
}

/// The descriptor that the launcher left open for the command's input.
fn input() -> BorrowedFd<'static> {
    // SAFETY: it is asked for only where the request says that it is there, and closed by nothing in this process.
    #[allow(unsafe_code)]
    unsafe {
        BorrowedFd::borrow_raw(INPUT)
    }
}

/// Lets go of the standard descriptors, which are the command's.
pub(super) fn detach(null: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::stdio::dup2_stdin(null)?;
    rustix::stdio::dup2_stdout(null)?;
    rustix::stdio::dup2_stderr(null)
}

/// Has the kernel kill this process with the supervisor. What it starts is not covered by that; the supervisor's own
/// death is the one case in which the launcher has to clean up.
#[cfg(target_os = "linux")]
fn die_with(supervisor: Pid) -> Result<(), Errno> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // It may have died before.
    if rustix::process::getppid() == Some(supervisor) { Ok(()) } else { Err(Errno::SRCH) }
}

#[cfg(not(target_os = "linux"))]
fn die_with(_: Pid) -> Result<(), Errno> {
    Ok(())
}

/// Makes the terminal on stdout the session's own, and stdin and stderr with it.
fn take_terminal() -> Result<(), Errno> {
    let terminal = rustix::stdio::stdout();
    rustix::process::ioctl_tiocsctty(terminal)?;
    rustix::stdio::dup2_stdin(terminal)?;
    rustix::stdio::dup2_stderr(terminal)
}

/// A program with its arguments, ready for exec.
pub(super) struct Program<'a> {
    /// The paths to try in order.
    paths: Vec<CString>,
    argv: Vec<*const c_char>,
    env: Vec<*const c_char>,
    /// What the pointers point into.
    _strings: (&'a Request, &'a [CString]),
}

impl<'a> Program<'a> {
    pub(super) fn new(request: &'a Request, wrapper: &'a [CString]) -> Self {
        let pointers = |strings: &mut dyn Iterator<Item = &'a CStr>| {
            strings.map(CStr::as_ptr).chain(std::iter::once(std::ptr::null())).collect()
        };
        let mut argv = wrapper.iter().map(CString::as_c_str).chain(request.argv()).peekable();
        let name = argv.peek().copied().unwrap_or_default().to_bytes();
        let path = request.env().find_map(|entry| entry.to_bytes().strip_prefix(b"PATH="));
        Self {
            paths: candidates(name, path.unwrap_or(DEFAULT_PATH)),
            argv: pointers(&mut argv),
            env: pointers(&mut request.env()),
            _strings: (request, wrapper),
        }
    }

    /// Tries each path; returns only where none can be run.
    fn exec(&self) -> Errno {
        let mut failure = Errno::NOENT;
        for path in &self.paths {
            // SAFETY: `path` ends with NUL; both vectors end with null and point at strings that end with NUL and
            // live as long as the request and the wrapper, which outlive `self`.
            #[allow(unsafe_code)]
            unsafe {
                libc::execve(path.as_ptr(), self.argv.as_ptr(), self.env.as_ptr());
            }
            let error = std::io::Error::last_os_error();
            match Errno::from_io_error(&error).unwrap_or(Errno::IO) {
                Errno::NOENT | Errno::NOTDIR => {}
                // Another directory may have one that may be run; else this is what has to be said.
                Errno::ACCESS => failure = Errno::ACCESS,
                other => return other,
            }
        }
        failure
    }
}

/// The paths that a name may stand for: itself where it has a slash, else one for each directory to search.
fn candidates(name: &[u8], path: &[u8]) -> Vec<CString> {
    let joined = |directory: &[u8]| {
        let separator: &[u8] = if directory.is_empty() { b"./" } else { b"/" };
        CString::new([directory, separator, name].concat()).ok()
    };
    match name.contains(&b'/') {
        true => CString::new(name).into_iter().collect(),
        false => path.split(|byte| *byte == b':').filter_map(joined).collect(),
    }
}

/// Closes every descriptor from this one on. Whatever the server had open without the mark that closes it at
/// exec ends here.
pub(super) fn close_others(first: i32) {
    if close_range(first) {
        return;
    }
    // Kernels before 5.9, and other systems: those that are listed.
    let Ok(entries) = std::fs::read_dir("/dev/fd") else { return };
    let open: Vec<i32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok())).collect();
    for fd in open.into_iter().filter(|fd| *fd >= first) {
        // SAFETY: nothing in this process uses one of them yet; the listing's own is closed by now, for which this
        // answers EBADF.
        #[allow(unsafe_code)]
        unsafe {
            libc::close(fd);
        }
    }
}

#[cfg(target_os = "linux")]
fn close_range(first: i32) -> bool {
    // SAFETY: nothing in this process uses one of these descriptors yet.
    #[allow(unsafe_code)]
    unsafe {
        libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) == 0
    }
}

#[cfg(not(target_os = "linux"))]
fn close_range(_: i32) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_for_in_each_directory() {
        assert_eq!(candidates(b"ls", b"/a:/b/c::d"), [c"/a/ls", c"/b/c/ls", c"./ls", c"d/ls"].map(CStr::to_owned));
        assert_eq!(candidates(b"./ls", b"/a"), [c"./ls".to_owned()]);
    }
}
