//! The rules of the Landlock security module: read everywhere, write where the mode allows it, no signals and no abstract
//! sockets to the outside. In namespaces they are the second wall behind the mounts; without namespaces the first.

use ::landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

use super::super::failure::{Failure, errno_of};
use crate::Confinement;
use crate::confinement::SLASH_TMP;
use crate::listings::{Remembered, State};

/// The newest version whose rights are asked for; older kernels enforce what they know.
const NEWEST: ABI = ABI::V7;

/// The oldest that stops signals to processes outside, without which it is no boundary by itself.
const ENOUGH: i64 = 6;

/// All that is read or written of `/dev` where it is the host's. Terminals are none of it: through `/dev/pts` a command would
/// read what the user types, and write to the user's screen.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// How much rests on these rules.
#[derive(Debug, Clone, Copy)]
pub(super) enum Need<'a> {
    /// Nothing but them holds the command, which has this terminal.
    All { terminal: Option<BorrowedFd<'a>> },
    /// The mounts hold it; a kernel without Landlock is accepted.
    WhatThereIs,
}

/// The version that the kernel has; 0 where it has none or it is off.
pub(super) fn version() -> i64 {
    const GET_VERSION: libc::c_long = 1;
    // SAFETY: with this flag the call takes no memory and makes nothing.
    #[allow(unsafe_code)]
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0, 0, GET_VERSION) };
    version.max(0)
}

/// Puts this process and all it starts under the rules, for good. `roots` are the directories that may be written.
pub(super) fn restrict(confinement: &Confinement, roots: &[OwnedFd], need: Need<'_>) -> Result<(), Failure> {
    let version = version();
    match need {
        Need::All { .. } if version < ENOUGH => {
            let what = format!("Landlock version {version} ({ENOUGH} is needed)");
            return Err(Failure::unavailable(what, Errno::NOSYS));
        }
        Need::WhatThereIs if version == 0 => return Ok(()),
        Need::All { .. } | Need::WhatThereIs => {}
    }
    let rules = || {
        let rules = Rules::new(Scopes::Here)?;
        // It has rules of its own below.
        rules.allow_reading(confinement, &[Path::new("/dev")])?;
        rules.allow_writing(roots)?;
        match need {
            // All of it is ours and harmless.
            Need::WhatThereIs => rules.allow(place(Path::new("/dev"))?.as_fd(), Right::All)?,
            Need::All { terminal } => {
                for device in DEVICES {
                    if let Ok(device) = place(Path::new(device)) {
                        rules.allow(device.as_fd(), Right::File)?;
                    }
                }
                if let Some(terminal) = terminal {
                    rules.allow(terminal, Right::File)?;
                    // The same terminal by its other name: the session is new, and no other can become its own.
                    rules.allow(place(Path::new("/dev/tty"))?.as_fd(), Right::File)?;
                }
            }
        }
        rules.enforce()
    };
    rules().map_err(failed)
}

fn failed(errno: Errno) -> Failure {
    Failure::confine("setting Landlock rules", errno)
}

/// What a rule allows at and beneath its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    /// To move and link between directories.
    Refer,
    /// To list directories.
    List,
    /// To read, list and execute.
    Read,
    /// To read and execute, of a file.
    ReadFile,
    /// To read, write and control, of a file.
    File,
    All,
}

impl Right {
    /// In the kernel's bits, of those that a version knows.
    fn bits(self, version: ABI) -> u64 {
        let (all, read) = (AccessFs::from_all(version), AccessFs::from_read(version));
        let rights = match self {
            Self::Refer => AccessFs::Refer.into(),
            Self::List => AccessFs::ReadDir.into(),
            Self::Read => read,
            Self::ReadFile => read & AccessFs::from_file(version),
            Self::File => AccessFs::from_file(version),
            Self::All => all,
        };
        (rights & all).bits()
    }
}

/// Where a command is kept from signals and abstract sockets of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scopes {
    /// By its own rules.
    Here,
    /// By those that all commands of its thread are under, which reach each other.
    OfTheThread,
}

/// Puts this process and all it starts where no signal leaves and no abstract socket outside is reached. It keeps no file from
/// them: what is moved between directories is allowed, because without a word every layer of rules refuses it. Does nothing on
/// a kernel that does not know scopes.
pub(super) fn enforce_scopes() -> Result<(), Failure> {
    if version() < ENOUGH {
        return Ok(());
    }
    let made = || {
        let handled = Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(AccessFs::Refer)?;
        handled.scope(Scope::from_all(NEWEST))?.create()
    };
    let descriptor: Option<OwnedFd> = made().ok().and_then(Into::into);
    let rules = descriptor.map(Rules::from).ok_or_else(|| failed(Errno::NOSYS))?;
    let enforced = || {
        rules.allow(place(Path::new("/"))?.as_fd(), Right::Refer)?;
        rules.enforce()
    };
    enforced().map_err(failed)
}

/// Rules that are being made, as a descriptor. They hold inodes and not paths, so that it makes no difference from which mount
/// namespace a place is named.
pub(super) struct Rules {
    descriptor: OwnedFd,
    version: ABI,
}

impl From<OwnedFd> for Rules {
    fn from(descriptor: OwnedFd) -> Self {
        Self { descriptor, version: newest_here() }
    }
}

/// The newest version of those that the kernel has and are asked for here.
fn newest_here() -> ABI {
    ABI::from(i32::try_from(version()).unwrap_or_default()).min(NEWEST)
}

impl Rules {
    /// Rules that allow nothing yet but to list directories.
    fn new(scopes: Scopes) -> Result<Self, Errno> {
        let made = || {
            let handled = Ruleset::default()
                .set_compatibility(CompatLevel::BestEffort)
                .handle_access(AccessFs::from_all(NEWEST))?;
            match scopes {
                Scopes::Here => handled.scope(Scope::from_all(NEWEST))?.create(),
                Scopes::OfTheThread => handled.create(),
            }
        };
        let descriptor: Option<OwnedFd> = made().ok().and_then(Into::into);
        let rules = Self::from(descriptor.ok_or(Errno::NOSYS)?);
        // Every directory may be listed; files are read only beside what is hidden, so that one that takes a hidden place
        // while the command runs is not.
        rules.allow(place(Path::new("/"))?.as_fd(), Right::List)?;
        Ok(rules)
    }

    /// The part that is the same inside and outside of a command's namespaces: all but `/dev` and `/proc`, which are the
    /// command's own. Made outside, while the view is built; none on a kernel without Landlock.
    pub(super) fn for_namespaces(
        confinement: &Confinement,
        roots: &[OwnedFd],
        scopes: Scopes,
    ) -> Result<Option<Self>, Failure> {
        Self::with_listed(confinement, roots, scopes).map(|made| made.map(|(rules, _)| rules))
    }

    /// The same, with the directories that were listed for it.
    pub(super) fn with_listed(
        confinement: &Confinement,
        roots: &[OwnedFd],
        scopes: Scopes,
    ) -> Result<Option<(Self, Listed)>, Failure> {
        if version() == 0 {
            return Ok(None);
        }
        // What lies in the system's `/tmp` is none of the command's where the thread has its own.
        let slash_tmp = confinement.private_tmp.as_ref().map(|_| Path::new(SLASH_TMP));
        let slash_tmp = slash_tmp.map(|path| path.canonicalize().unwrap_or_else(|_| path.into()));
        let own: Vec<&Path> = ["/dev", "/proc"].map(Path::new).into_iter().chain(slash_tmp.as_deref()).collect();
        let rules = || {
            let rules = Self::new(scopes)?;
            let listed = rules.allow_reading(confinement, &own)?;
            rules.allow_writing(roots)?;
            Ok((rules, listed))
        };
        rules().map(Some).map_err(failed)
    }

    /// Adds what is the command's own, and puts this process under the rules.
    pub(super) fn enforce_inside(self) -> Result<(), Failure> {
        let enforced = || {
            // All of it is ours and harmless.
            self.allow(place(Path::new("/dev"))?.as_fd(), Right::All)?;
            self.allow(place(Path::new("/proc"))?.as_fd(), Right::Read)?;
            self.enforce()
        };
        enforced().map_err(failed)
    }

    /// Reading everything but what is hidden, the writable directories and some more places.
    fn allow_reading(&self, confinement: &Confinement, but: &[&Path]) -> Result<Listed, Errno> {
        let mut known = Known::default();
        confinement.hidden.iter().for_each(|path| known.add(path));
        but.iter().for_each(|path| known.add(path));
        confinement.writable.iter().for_each(|root| known.add(&root.path));
        let (parts, listed) = readable(&known)?;
        for Readable { place, is_directory } in parts {
            self.allow(place.as_fd(), if is_directory { Right::Read } else { Right::ReadFile })?;
        }
        Ok(listed)
    }

    fn allow_writing(&self, roots: &[OwnedFd]) -> Result<(), Errno> {
        roots.iter().try_for_each(|root| self.allow(root.as_fd(), Right::All))
    }

    fn allow(&self, place: BorrowedFd<'_>, right: Right) -> Result<(), Errno> {
        /// The form of `landlock_path_beneath_attr`.
        #[repr(C, packed)]
        struct PathBeneath {
            allowed: u64,
            parent: i32,
        }
        const PATH_BENEATH: libc::c_int = 1;
        let rule = PathBeneath { allowed: right.bits(self.version), parent: place.as_raw_fd() };
        // SAFETY: both descriptors are open, and the structure has the kernel's layout and outlives the call.
        #[allow(unsafe_code)]
        let done = unsafe {
            libc::syscall(libc::SYS_landlock_add_rule, self.descriptor.as_raw_fd(), PATH_BENEATH, &raw const rule, 0)
        };
        if done == 0 { Ok(()) } else { Err(last_error()) }
    }

    /// Another descriptor of the same rules.
    pub(super) fn try_clone(&self) -> Result<Self, Errno> {
        let descriptor = self.descriptor.try_clone().map_err(|error| errno_of(&error))?;
        Ok(Self { descriptor, version: self.version })
    }

    /// Puts this process under the rules. It has given up new privileges before.
    fn enforce(&self) -> Result<(), Errno> {
        // SAFETY: the descriptor is open; the call takes no memory.
        #[allow(unsafe_code)]
        let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.descriptor.as_raw_fd(), 0) };
        if done == 0 { Ok(()) } else { Err(last_error()) }
    }
}

impl AsFd for Rules {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// A place to make a rule for.
fn place(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

fn last_error() -> Errno {
    errno_of(&std::io::Error::last_os_error())
}

/// Directories by name, down to the places that get no rule here.
#[derive(Default)]
struct Known {
    /// Whether this is such a place.
    is_end: bool,
    inner: BTreeMap<OsString, Known>,
}

impl Known {
    fn add(&mut self, path: &Path) {
        let mut at = self;
        for name in path.components() {
            if let Component::Normal(name) = name {
                at = at.inner.entry(name.to_owned()).or_default();
            }
        }
        at.is_end = true;
    }
}

/// Something that may be read, with all that is in it.
struct Readable {
    place: OwnedFd,
    is_directory: bool,
}

/// The directories that rules were made from, each as it was: a new name in one of them makes other rules.
#[derive(Debug, Default)]
pub(super) struct Listed {
    directories: Vec<(PathBuf, State)>,
    /// Whether a later change of any of them can be seen in it.
    is_settled: bool,
}

impl Listed {
    /// Whether the same rules would be made now.
    pub(super) fn holds(&self) -> bool {
        let is_same = |(path, state): &(PathBuf, State)| {
            statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| State::of(&stat) == *state)
        };
        self.is_settled && self.directories.iter().all(is_same)
    }
}

/// The largest parts of the tree that hold none of the known places. A rule covers everything beneath its place and none
/// takes anything back, so that what stands beside the way to a known place is named instead. No link is followed: what a
/// link leads to has a name of its own.
fn readable(known: &Known) -> Result<(Vec<Readable>, Listed), Errno> {
    const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
    let mut parts = Vec::new();
    let open = |at: BorrowedFd<'_>, name: &OsStr, flags| openat(at, name, flags, Mode::empty());
    let mut listed = Listed { directories: Vec::new(), is_settled: true };
    let mut waiting = vec![(open(CWD, OsStr::new("/"), DIRECTORY | OFlags::PATH)?, PathBuf::from("/"), known)];
    while let Some((directory, path, known)) = waiting.pop() {
        let state = State::of(&fstat(&directory)?);
        listed.is_settled &= Remembered::of(directory.as_fd()).includes(&state);
        for (name, inner) in known.inner.iter().filter(|(_, inner)| !inner.is_end) {
            if let Ok(opened) = open(directory.as_fd(), name, DIRECTORY | OFlags::PATH) {
                waiting.push((opened, path.join(name), inner));
            }
        }
        listed.directories.push((path, state));
        // What cannot be listed cannot be named. The ways through it are followed all the same.
        let entries = open(directory.as_fd(), OsStr::new("."), DIRECTORY | OFlags::RDONLY).and_then(Dir::new);
        for entry in entries.into_iter().flatten().flatten() {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let kind = entry.file_type();
            if kind.is_symlink() || name == "." || name == ".." || known.inner.contains_key(name) {
                continue;
            }
            let Ok(place) = open(directory.as_fd(), name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC) else {
                continue;
            };
            let kind = if kind == FileType::Unknown { FileType::from_raw_mode(fstat(&place)?.st_mode) } else { kind };
            if !kind.is_symlink() {
                parts.push(Readable { place, is_directory: kind.is_dir() });
            }
        }
    }
    Ok((parts, listed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_beside_something_hidden_is_readable() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        for name in ["a/.ssh", "a/src", "b", "elsewhere"] {
            std::fs::create_dir_all(dir.join(name)).unwrap();
        }
        std::fs::write(dir.join("elsewhere/netrc"), "").unwrap();
        std::os::unix::fs::symlink("../elsewhere/netrc", dir.join("a/.netrc")).unwrap();
        std::os::unix::fs::symlink("elsewhere/netrc", dir.join("link")).unwrap();
        let mut known = Known::default();
        for name in ["a/.ssh", "a/.netrc", "elsewhere/netrc", "a/missing/deep"] {
            known.add(&dir.join(name));
        }
        let parts: Vec<std::path::PathBuf> = readable(&known)
            .unwrap()
            .0
            .iter()
            .map(|part| {
                use std::os::fd::AsRawFd as _;
                std::fs::read_link(format!("/proc/self/fd/{}", part.place.as_raw_fd())).unwrap()
            })
            .collect();
        let is_readable = |name: &str| parts.iter().any(|part| dir.join(name).starts_with(part));
        assert!(is_readable("a/src") && is_readable("b"));
        for name in ["a/.ssh/id", "a/new", "a/.netrc", "elsewhere/netrc", "elsewhere/new", "link"] {
            assert!(!is_readable(name), "{name}");
        }
    }
}
