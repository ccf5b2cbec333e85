//! The namespaces made by `/usr/bin/bwrap`, for systems that let that program make them and no other. It builds the view by
//! path; what follows inside (`init.rs`) is the same as in namespaces of our own.
//!
//! ```text
//! supervisor ── fork, exec ──> bwrap ── its namespaces ──> this program again, process 1 ── fork ──> command
//! ```

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Seek, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::MemfdFlags;
use rustix::io::{Errno, FdFlags};
use rustix::process::{Pid, Signal, WaitOptions};

use super::super::failure::{self, Failure, errno_of};
use super::super::{Control, child, exit};
use super::layout::Layout;
use super::placeholders::{Kind, Placeholders};
use super::plan::{Act, Mount};
use super::syscalls::{Filters, Reach};
use super::{Started, init, landlock, layout, roots};
use crate::link::{Request, Step};
use crate::{Confinement, HELPER_ARG, INSIDE_ARG};

/// Where it is, and nowhere else: a program of that name in `PATH` may be anybody's.
const BWRAP: &str = "/usr/bin/bwrap";

/// Parts of `/proc` that speak for the whole machine, which it leaves writable.
const MACHINE: [&str; 5] = ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"];

/// The most words of a view: bubblewrap takes 9,000 with those of its command line, and most mounts have three.
const MAX_WORDS: usize = 8_900;

/// How often it is started at most.
const MAX_ATTEMPTS: usize = 5;
/// The most that is read of its complaints.
const MAX_COMPLAINT: u64 = 400;

/// Starts the command inside; returns once it runs its program.
pub(super) fn start(request: &Request, null: BorrowedFd<'_>, control: &mut Control) -> Result<Started, Failure> {
    let metadata =
        std::fs::metadata(BWRAP).map_err(|error| Failure::unavailable(format!("finding {BWRAP}"), errno_of(&error)))?;
    if metadata.uid() != 0 || !metadata.is_file() {
        return Err(Failure::unavailable(format!("trusting {BWRAP}, which is not root's"), Errno::PERM));
    }
    // Looked at before anything is made in one of them.
    let roots = roots::open(&request.confinement)?;
    layout::prepare(&request.confinement, &roots)?;
    let placeholders = Placeholders::make(request, &roots, Kind::Directory)?;
    drop(roots);
    let found = control.hear_places(&request.confinement);
    let started = found.and_then(|found| start_anew(request, found, placeholders.relied_on(), null, control));
    match started {
        Ok(pid) => Ok(Started { pid, is_command: false, is_tidied: false, placeholders: Some(placeholders) }),
        Err(failure) => {
            placeholders.remove();
            Err(failure)
        }
    }
}

/// Starts it, and again where bwrap gave up: commands of other threads have placeholders in directories that both may
/// write, and bwrap fails where one goes between its looks.
fn start_anew(
    request: &Request,
    mut found: Vec<PathBuf>,
    relied_on: &[PathBuf],
    null: BorrowedFd<'_>,
    control: &Control,
) -> Result<Pid, Failure> {
    let mut attempts = 1..=MAX_ATTEMPTS;
    loop {
        let layout = Layout::of(&request.confinement, found.iter().chain(relied_on));
        let started = start_with(request, &layout, relied_on, null, control);
        let gave_up = started.as_ref().is_err_and(|failure| failure.step == Step::Unavailable);
        if !gave_up || found.is_empty() || attempts.next() == Some(MAX_ATTEMPTS) {
            return started;
        }
        found.retain(|place| place.symlink_metadata().is_ok());
    }
}

fn start_with(
    request: &Request,
    layout: &Layout,
    relied_on: &[PathBuf],
    null: BorrowedFd<'_>,
    control: &Control,
) -> Result<Pid, Failure> {
    let prepare = |error: std::io::Error| Failure::new(Step::Prepare, errno_of(&error));
    let handed = written(|to| request.write(to)).map_err(prepare)?;
    // In a file, because there may be more of them than a program can be given.
    let view = view_words(&request.confinement, layout, relied_on);
    check_length(view.len(), layout.protected_places())?;
    let view = written(|to| view.iter().try_for_each(|word| to.write_all(&[word.as_bytes(), &[0]].concat())));
    let view = view.map_err(prepare)?;
    let (mut failed, report) = failure::channel()?;
    let (complaints, complain) = std::io::pipe().map_err(prepare)?;
    let errors = rustix::stdio::stderr().try_clone_to_owned().map_err(prepare)?;
    let inherited = [report.as_raw_fd(), control.socket.as_raw_fd(), handed.as_raw_fd(), errors.as_raw_fd()];
    let words = words(view.as_raw_fd(), &inherited)?;
    let argv: Vec<_> = words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect();
    // SAFETY: this process has one thread, so the copy may do whatever this one may.
    #[allow(unsafe_code)]
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        let inherited: Vec<RawFd> = inherited.into_iter().chain([view.as_raw_fd()]).collect();
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

/// Refuses a view that it cannot make: a part of it would leave places open without a word.
fn check_length(words: usize, places: usize) -> Result<(), Failure> {
    if words <= MAX_WORDS {
        return Ok(());
    }
    let what = format!(
        "protecting {places} places, most of them nested repositories, by means of bubblewrap, which takes {MAX_WORDS} words \
         for it and needs {words}; work in a directory with fewer, or let this program make namespaces (`openoxide doctor` says \
         what refuses them)"
    );
    Err(Failure::confine(what, Errno::TOOBIG))
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

/// A file in memory, written and ready to be read.
fn written(write: impl FnOnce(&mut File) -> std::io::Result<()>) -> std::io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create(c"words", MemfdFlags::CLOEXEC)?);
    write(&mut file)?;
    file.rewind()?;
    Ok(file)
}

/// Its arguments: where the words of the view are, and this program as what runs in it.
fn words(view: RawFd, inherited: &[RawFd]) -> Result<Vec<CString>, Failure> {
    let program =
        std::env::current_exe().map_err(|error| Failure::unavailable("finding this program", errno_of(&error)))?;
    let mut words: Vec<OsString> = vec![BWRAP.into(), "--args".into(), view.to_string().into(), "--".into()];
    words.extend([program.into_os_string(), HELPER_ARG.into(), INSIDE_ARG.into()]);
    words.extend(inherited.iter().map(|fd| OsString::from(fd.to_string())));
    let whole: Result<_, _> = words.into_iter().map(|word| CString::new(word.into_vec())).collect();
    whole.map_err(|_| Failure::new(Step::Prepare, Errno::INVAL))
}

/// The view in its words, in the order in which it makes the mounts.
fn view_words(confinement: &Confinement, layout: &Layout, relied_on: &[PathBuf]) -> Vec<OsString> {
    let relied_on: Vec<PathBuf> = relied_on.iter().map(|path| layout.seen(path)).collect();
    let mut words: Vec<OsString> = [
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
    for Mount { path, act } in layout.steps() {
        let host = layout.on_host(&path);
        match act {
            Act::Attach(number) => bind(&mut words, "--bind", &confinement.writable[number].path, &path),
            // It follows links: where one leads has a step of its own.
            Act::Pin | Act::Seal | Act::Hide if host.is_symlink() => {}
            // One that has gone in the meantime is nothing to cover, unless it was put there to be covered.
            Act::Pin => bind(&mut words, "--bind-try", &host, &path),
            Act::Seal if relied_on.contains(&path) => bind(&mut words, "--ro-bind", &host, &path),
            Act::Seal => bind(&mut words, "--ro-bind-try", &host, &path),
            Act::Hide => hide(&mut words, host.is_dir(), &path),
        }
    }
    words
}

fn bind(words: &mut Vec<OsString>, how: &str, from: &Path, to: &Path) {
    words.extend([OsStr::new(how), from.as_os_str(), to.as_os_str()].map(OsStr::to_owned));
}

fn hide(words: &mut Vec<OsString>, is_directory: bool, path: &Path) {
    if is_directory {
        let words_for = ["--perms", "0000", "--tmpfs"].map(OsString::from);
        words.extend(words_for.into_iter().chain([path.into(), "--remount-ro".into(), path.into()]));
    } else {
        bind(words, "--ro-bind", Path::new("/dev/null"), path);
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
    let roots = check_view(&request.confinement)?;
    let program = child::Program::new(&request, &[]);
    let filters = Filters::compile(request.confinement.network, Reach::Namespaces)?;
    let restrict = || landlock::restrict(&request.confinement, &roots, landlock::Need::WhatThereIs);
    init::start(&request, restrict, &program, &filters, std::os::fd::AsFd::as_fd(&null), report)
}

/// Looks at the view from within: bubblewrap was given paths, and what they led to may not be what was meant. Gives the
/// writable roots.
fn check_view(confinement: &Confinement) -> Result<Vec<OwnedFd>, Failure> {
    let layout = Layout::of(confinement, []);
    let roots = layout.open_seen(confinement)?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| Failure::confine("reading /proc/self/mountinfo", errno_of(&error)))?;
    for (point, options) in mounts.lines().filter_map(mount_of) {
        let is_open = !options.split(',').any(|option| option == "ro");
        let own = ["/dev", "/proc"].iter().any(|own| Path::new(&point).starts_with(own));
        if is_open && !own && !layout.may_be_open(Path::new(&point)) {
            let what = format!("giving the right to write: {} can be written", Path::new(&point).display());
            return Err(Failure::confine(what, Errno::STALE));
        }
    }
    Ok(roots)
}

/// The place and the options of a mount, from a line of `/proc/self/mountinfo` (proc(5)).
fn mount_of(line: &str) -> Option<(OsString, &str)> {
    let mut fields = line.split(' ').skip(4);
    Some((unescaped(fields.next()?), fields.next()?))
}

/// A path as the kernel writes it: space, tab, newline and backslash in three octal digits.
fn unescaped(text: &str) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let digits = others.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &others[3..];
            }
            _ => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_that_does_not_fit_is_refused_and_never_made_in_part() {
        assert!(check_length(MAX_WORDS, 1_400).is_ok());
        let refused = check_length(MAX_WORDS + 1, 1_500).unwrap_err();
        assert_eq!(refused.errno, Errno::TOOBIG);
        assert!(refused.detail.contains("1500 places") && refused.detail.contains("fewer"), "{}", refused.detail);
    }

    #[test]
    fn mounts_are_read_as_the_kernel_writes_them() {
        let line = r"36 35 98:0 /mnt1 /a\040b\134c ro,noatime master:1 - ext3 /dev/root rw,errors=continue";
        assert_eq!(mount_of(line), Some((r"/a b\c".into(), "ro,noatime")));
        assert_eq!(mount_of("36 35"), None);
    }
}
