//! The rules of the Landlock security module: read everywhere, write where the mode allows it, no signals and no abstract
//! sockets to the outside. In namespaces they are the second wall behind the mounts; without namespaces the first.

use ::landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope,
};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use super::super::failure::Failure;
use crate::Confinement;

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
    match rules(confinement, roots, need) {
        Ok(RulesetStatus::NotEnforced) => Err(Failure::unavailable("Landlock enforced nothing", Errno::NOSYS)),
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::confine(format!("setting Landlock rules ({error})"), Errno::INVAL)),
    }
}

fn rules(
    confinement: &Confinement,
    roots: &[OwnedFd],
    need: Need<'_>,
) -> Result<RulesetStatus, Box<dyn std::error::Error>> {
    let all = AccessFs::from_all(NEWEST);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    let (read, of_file) = (AccessFs::from_read(NEWEST), AccessFs::from_file(NEWEST));
    // Every directory may be listed; files are read only beside what is hidden, so that one that takes a hidden place while
    // the command runs is not.
    ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new("/")?, AccessFs::ReadDir))?;
    let mut known = Known::default();
    confinement.hidden.iter().for_each(|path| known.add(path));
    // It has rules of its own below, as the roots have.
    known.add(Path::new("/dev"));
    confinement.writable.iter().for_each(|root| known.add(&root.path));
    for Readable { place, is_directory } in readable(&known)? {
        ruleset = ruleset.add_rule(PathBeneath::new(place, if is_directory { read } else { read & of_file }))?;
    }
    match need {
        // All of it is ours and harmless.
        Need::WhatThereIs => ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new("/dev")?, all))?,
        Need::All { terminal } => {
            for device in DEVICES {
                if let Ok(fd) = PathFd::new(device) {
                    ruleset = ruleset.add_rule(PathBeneath::new(fd, of_file))?;
                }
            }
            if let Some(terminal) = terminal {
                ruleset = ruleset.add_rule(PathBeneath::new(terminal, of_file))?;
                // The same terminal by its other name: the session is new, and no other can become its own.
                ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new("/dev/tty")?, of_file))?;
            }
        }
    }
    for root in roots {
        ruleset = ruleset.add_rule(PathBeneath::new(root.as_fd(), all))?;
    }
    Ok(ruleset.restrict_self()?.ruleset)
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

/// The largest parts of the tree that hold none of the known places. A rule covers everything beneath its place and none
/// takes anything back, so that what stands beside the way to a known place is named instead. No link is followed: what a
/// link leads to has a name of its own.
fn readable(known: &Known) -> Result<Vec<Readable>, Errno> {
    const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
    let mut parts = Vec::new();
    let open = |at: BorrowedFd<'_>, name: &OsStr, flags| openat(at, name, flags, Mode::empty());
    let mut waiting = vec![(open(CWD, OsStr::new("/"), DIRECTORY | OFlags::PATH)?, known)];
    while let Some((directory, known)) = waiting.pop() {
        for (name, inner) in known.inner.iter().filter(|(_, inner)| !inner.is_end) {
            if let Ok(opened) = open(directory.as_fd(), name, DIRECTORY | OFlags::PATH) {
                waiting.push((opened, inner));
            }
        }
        // What cannot be listed cannot be named. The ways through it are followed all the same.
        let listed = open(directory.as_fd(), OsStr::new("."), DIRECTORY | OFlags::RDONLY).and_then(Dir::new);
        for entry in listed.into_iter().flatten().flatten() {
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
    Ok(parts)
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
