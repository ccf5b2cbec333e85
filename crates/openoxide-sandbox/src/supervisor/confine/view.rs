//! What the command sees of the file system: everything, read-only, and then the exceptions.
//!
//! The order matters. Copies of what stays writable are taken before everything is made read-only, and attached after, in
//! the order of `plan.rs`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::super::failure::{Failure, errno_of};
use super::layout::Layout;
use super::plan::{Act, Mount};
use super::{mounts, privileges, roots};
use crate::Confinement;

/// Devices that are harmless.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Links that programs expect in `/dev`.
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Parts of `/proc` that tell what memory holds.
const MEMORY: [&str; 4] = ["/proc/kcore", "/proc/keys", "/proc/kmsg", "/proc/timer_list"];

/// Linux since when the number of processes is limited for each process namespace. Before, the file is the machine's.
const OWN_PID_MAX: (u32, u32) = (6, 14);

/// What covers credentials: within the `/dev` of the view, where they are read-only and without rights.
const EMPTY_DIRECTORY: &str = "/dev/.hidden-directory";
const EMPTY_FILE: &str = "/dev/.hidden-file";

/// Protected places, which others look for or make meanwhile.
pub(super) struct Protected {
    /// What was found.
    pub(super) found: Vec<PathBuf>,
    /// What must be there to be covered, because another could be made in its stead.
    pub(super) relied_on: Vec<PathBuf>,
}

/// Builds the view in this process's mount namespace. What is protected is waited for when the rest stands.
pub(super) fn build(
    confinement: &Confinement,
    protected: impl FnOnce() -> Result<Protected, Failure>,
) -> Result<(), Failure> {
    mounts::make_private().map_err(unavailable("making the mounts private"))?;
    let copies = copy_roots(confinement, &roots::open(confinement)?)?;
    close()?;
    let protected = protected()?;
    open(confinement, &copies, &protected)?;
    close_dev()
}

/// Builds, in this process's mount namespace, what the views of one thread's commands begin with: nothing can be written, and
/// what is hidden from them is covered. Each command's own view is a copy, completed by [`complete`].
pub(super) fn build_base(hidden: &[PathBuf]) -> Result<(), Failure> {
    mounts::make_private().map_err(unavailable("making the mounts private"))?;
    close()?;
    let empty = Empty::open()?;
    hidden.iter().try_for_each(|path| empty.cover(path))?;
    close_dev()
}

/// Completes a copy of such a beginning. The copies of the roots come from where they can be written.
pub(super) fn complete(confinement: &Confinement, copies: &[OwnedFd], protected: &Protected) -> Result<(), Failure> {
    open(confinement, copies, protected)
}

/// Copies, attached nowhere, of the directories that may be written, which are opened where they can be.
pub(super) fn copy_roots(confinement: &Confinement, roots: &[OwnedFd]) -> Result<Vec<OwnedFd>, Failure> {
    let copies = confinement.writable.iter().zip(roots);
    copies.map(|(root, directory)| mounts::copy(directory.as_fd()).map_err(at("keeping", &root.path))).collect()
}

/// Makes everything that is mounted here unwritable, once more.
pub(super) fn close_all() -> Result<(), Failure> {
    mounts::restrict_all(mounts::SEALED).map_err(unavailable("making the mounts read-only"))
}

/// Makes everything unwritable, and makes `/dev` and `/proc` those of this namespace.
fn close() -> Result<(), Failure> {
    let devices = copy_devices();
    close_all()?;
    build_dev(&devices)?;
    build_proc()
}

/// Attaches what may be written and covers what lies in it and may not be, or not be seen.
fn open(confinement: &Confinement, copies: &[OwnedFd], protected: &Protected) -> Result<(), Failure> {
    let Protected { found, relied_on } = protected;
    let layout = Layout::of(confinement, found.iter().chain(relied_on));
    let relied_on: Vec<PathBuf> = relied_on.iter().map(|path| layout.seen(path)).collect();
    let empty = Empty::open()?;
    for Mount { path, act } in layout.steps() {
        match act {
            Act::Attach(number) => {
                let place = layout.place_of(&confinement.writable[number], &path)?;
                let attached = mounts::restrict(&copies[number], mounts::OPEN)
                    .and_then(|()| mounts::attach(&copies[number], place.as_fd()));
                attached.map_err(at("attaching", &path))?;
            }
            Act::Pin => if_there(&path, false, mounts::pin)?,
            // A link that is covered by itself still leads on, and can be neither renamed nor removed.
            Act::Seal => if_there(&path, relied_on.contains(&path), mounts::seal)?,
            Act::Hide => empty.cover(&path)?,
        }
    }
    Ok(())
}

fn close_dev() -> Result<(), Failure> {
    mounts::close("/dev", MountFlags::NOEXEC).map_err(|errno| Failure::confine("closing /dev", errno))
}

fn unavailable(what: &'static str) -> impl Fn(Errno) -> Failure {
    move |errno| Failure::unavailable(what, errno)
}

/// Covers a place, unless it has gone since it was found and nothing relies on it.
fn if_there(
    path: &Path,
    is_relied_on: bool,
    cover: impl Fn(BorrowedFd<'_>) -> Result<(), Errno>,
) -> Result<(), Failure> {
    match mounts::place(path).and_then(|place| cover(place.as_fd())) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) if !is_relied_on => Ok(()),
        other => other.map_err(at("protecting", path)),
    }
}

/// Says of a failure what was done to which path.
pub(super) fn at<'a>(verb: &'static str, path: &'a Path) -> impl Fn(Errno) -> Failure + 'a {
    move |errno| Failure::confine(format!("{verb} {}", path.display()), errno)
}

/// The devices that there are: a container may have fewer.
fn copy_devices() -> Vec<(&'static str, OwnedFd)> {
    let copy = |name: &'static str| {
        let place = mounts::place(&Path::new("/dev").join(name)).ok()?;
        mounts::copy(place.as_fd()).ok().map(|copy| (name, copy))
    };
    DEVICES.into_iter().filter_map(copy).collect()
}

fn build_dev(devices: &[(&str, OwnedFd)]) -> Result<(), Failure> {
    let failed = |what: &str| {
        let what = format!("making /dev ({what})");
        move |errno| Failure::unavailable(what, errno)
    };
    let io = |what: &str| {
        let failed = failed(what);
        move |error: std::io::Error| failed(errno_of(&error))
    };
    mounts::new("tmpfs", "/dev", MountFlags::NOEXEC, c"mode=755,size=1m").map_err(failed("tmpfs"))?;
    let dev = Path::new("/dev");
    let create = |path: &Path, mode: u32| {
        std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map(drop)
    };
    for (name, copy) in devices {
        let path = dev.join(name);
        create(&path, 0o600).map_err(io(name))?;
        let attached = mounts::place(&path).and_then(|place| mounts::attach(copy, place.as_fd()));
        attached.map_err(failed(name))?;
    }
    for (name, target) in LINKS {
        std::os::unix::fs::symlink(target, dev.join(name)).map_err(io(name))?;
    }
    for name in ["pts", "shm"] {
        std::fs::create_dir(dev.join(name)).map_err(io(name))?;
    }
    mounts::new("devpts", "/dev/pts", MountFlags::NOEXEC, c"newinstance,ptmxmode=0666,mode=620")
        .map_err(failed("pts"))?;
    mounts::new("tmpfs", "/dev/shm", MountFlags::NODEV, c"mode=1777,size=1g").map_err(failed("shm"))?;
    std::fs::DirBuilder::new().mode(0o000).create(EMPTY_DIRECTORY).map_err(io("hidden"))?;
    create(Path::new(EMPTY_FILE), 0).map_err(io("hidden"))
}

/// The processes of this namespace only. Where the kernel refuses it, because a container has covered parts of its own,
/// the one that is there stays, read-only; Landlock then keeps the command from what belongs to processes outside.
fn build_proc() -> Result<(), Failure> {
    if let Err(errno) = mounts::new("proc", "/proc", MountFlags::NODEV | MountFlags::NOEXEC, c"") {
        return match super::landlock::version() {
            0 => Err(Failure::unavailable("mounting /proc", errno)),
            _ => Ok(()),
        };
    }
    if privileges::kernel_is(OWN_PID_MAX.0, OWN_PID_MAX.1) {
        // Where the kernel was built without it, the limit of the user's processes is left.
        let _ = std::fs::write("/proc/sys/kernel/pid_max", privileges::max_processes().to_string());
    }
    // All of it: parts of it speak for the whole machine and honour the user's own rights, which for root are all.
    mounts::close("/proc", MountFlags::NODEV | MountFlags::NOEXEC)
        .map_err(|errno| Failure::confine("closing /proc", errno))?;
    let empty = Empty::open()?;
    MEMORY.iter().try_for_each(|path| empty.cover(Path::new(path)))
}

/// What covers credentials, opened.
struct Empty {
    directory: Cover,
    file: Cover,
}

struct Cover {
    place: OwnedFd,
    device: u64,
    inode: u64,
}

impl Empty {
    fn open() -> Result<Self, Failure> {
        let open = |path| {
            let place = mounts::place(Path::new(path))?;
            let stat = fstat(&place)?;
            Ok(Cover { place, device: stat.st_dev, inode: stat.st_ino })
        };
        let both = || Ok(Self { directory: open(EMPTY_DIRECTORY)?, file: open(EMPTY_FILE)? });
        both().map_err(at("hiding by", Path::new(EMPTY_FILE)))
    }

    /// Covers a file or directory, if it is there and not covered yet, with an empty one that nobody may open.
    fn cover(&self, path: &Path) -> Result<(), Failure> {
        self.try_cover(path).map_err(at("hiding", path))
    }

    fn try_cover(&self, path: &Path) -> Result<(), Errno> {
        let place = match mounts::place(path) {
            Ok(place) => place,
            // What cannot be reached by us cannot be reached by the command.
            Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) => return Ok(()),
            // A link has come on the way to it. Where that leads is as secret.
            Err(Errno::LOOP) => match path.canonicalize() {
                Ok(real) => mounts::place(&real)?,
                Err(_) => return Ok(()),
            },
            Err(errno) => return Err(errno),
        };
        let stat = fstat(&place)?;
        let is_directory = FileType::from_raw_mode(stat.st_mode).is_dir();
        let cover = if is_directory { &self.directory } else { &self.file };
        if (cover.device, cover.inode) == (stat.st_dev, stat.st_ino) {
            return Ok(());
        }
        let copy = mounts::copy(cover.place.as_fd())?;
        mounts::restrict(&copy, mounts::SEALED)?;
        mounts::attach(&copy, place.as_fd())
    }
}
