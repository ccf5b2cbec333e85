//! Covers what git and agents take orders from, wherever it stands beneath a writable root: as a directory, as a file that
//! points to one, as a link, and in repositories further down.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use super::super::failure::{Failure, errno_of};
use super::mounts;
use super::view::at;
use crate::Confinement;
use crate::policy::{PROTECTED_NAMES, WritableRoot, is_protected_name, pointed_to};

/// How far below a workspace repositories are looked for, and how many entries are looked at in all.
const DEPTH: usize = 3;
const ENTRIES: usize = 5000;

/// Directories that are large and hold no repository of the user's.
const SKIPPED: [&str; 2] = ["node_modules", "target"];

/// What is done with a place that is protected. The path says where it is for people and for programs that know paths
/// only; the descriptor is the place.
pub(super) type Act<'a> = &'a mut dyn FnMut(BorrowedFd<'_>, &Path) -> Result<(), Failure>;

/// Covers all that is protected beneath a root with itself, read-only.
pub(super) fn cover(root: &WritableRoot, confinement: &Confinement) -> Result<(), Failure> {
    // A link that is covered by itself still leads on, and can be neither renamed nor removed.
    visit(root, confinement, &mut |place, path| mounts::seal(place).map_err(at("protecting", path)))
}

/// Does something with each protected place beneath a root, and with what such a place points to.
pub(super) fn visit(root: &WritableRoot, confinement: &Confinement, act: Act<'_>) -> Result<(), Failure> {
    let directory = rustix::fs::open(&root.path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(at("looking into", &root.path))?;
    let mut walk = Walk { confinement, act, entries: ENTRIES };
    if root.is_workspace {
        for name in PROTECTED_NAMES {
            // The supervisor has seen to it that each is there, so that none can be made.
            walk.handle_entry(directory.as_fd(), &root.path, OsStr::new(name))?;
        }
        return walk.descend(directory, root.path.clone());
    }
    for name in PROTECTED_NAMES {
        match walk.handle_entry(directory.as_fd(), &root.path, OsStr::new(name)) {
            Err(failure) if failure.errno == Errno::NOENT => {}
            other => other?,
        }
    }
    Ok(())
}

struct Walk<'a> {
    confinement: &'a Confinement,
    act: Act<'a>,
    /// How many more are looked at.
    entries: usize,
}

impl Walk<'_> {
    /// Looks into a directory and those below it, nearer ones first, so that the bound cuts off the farthest.
    fn descend(&mut self, directory: OwnedFd, path: PathBuf) -> Result<(), Failure> {
        let mut level = vec![(directory, path)];
        for depth in 0..=DEPTH {
            let mut next = Vec::new();
            for (directory, path) in level {
                let names = match self.directories(directory.as_fd()) {
                    Ok(names) => names,
                    Err(errno) => return Err(at("looking into", &path)(errno)),
                };
                for name in names {
                    let name = OsStr::from_bytes(name.to_bytes());
                    let known = PROTECTED_NAMES.iter().find(|known| name.eq_ignore_ascii_case(known));
                    match known {
                        // Done before the walk.
                        Some(known) if depth == 0 && name == *known => {}
                        Some(_) => match self.handle_entry(directory.as_fd(), &path, name) {
                            // Somebody else took it away.
                            Err(failure) if failure.errno == Errno::NOENT => {}
                            other => other?,
                        },
                        None if depth < DEPTH && !SKIPPED.iter().any(|skipped| name == *skipped) => {
                            let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                            // What the user cannot enter, neither can the command.
                            if let Ok(inner) = openat(&directory, name, flags, Mode::empty()) {
                                next.push((inner, path.join(name)));
                            }
                        }
                        None => {}
                    }
                }
            }
            level = next;
        }
        Ok(())
    }

    /// The entries that are directories or protected.
    fn directories(&mut self, directory: BorrowedFd<'_>) -> Result<Vec<std::ffi::CString>, Errno> {
        let mut names = Vec::new();
        for entry in Dir::read_from(directory)? {
            if self.entries == 0 {
                break;
            }
            self.entries -= 1;
            let entry = entry?;
            let name = entry.file_name();
            let is_wanted = match entry.file_type() {
                FileType::Directory | FileType::Unknown => name != c"." && name != c"..",
                _ => is_protected(name),
            };
            if is_wanted {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Acts on one protected entry, and on what it points to.
    fn handle_entry(&mut self, directory: BorrowedFd<'_>, parent: &Path, name: &OsStr) -> Result<(), Failure> {
        let path = parent.join(name);
        let failed = at("protecting", &path);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = openat(directory, name, flags, Mode::empty()).map_err(&failed)?;
        let kind = FileType::from_raw_mode(fstat(&place).map_err(&failed)?.st_mode);
        (self.act)(place.as_fd(), &path)?;
        match kind {
            FileType::Symlink => {
                let target = path.canonicalize().map_err(|error| {
                    let what =
                        format!("protecting {}, a link that leads nowhere; remove it or mend it", path.display());
                    Failure::confine(what, errno_of(&error))
                })?;
                self.handle_target(&target)
            }
            FileType::RegularFile => pointed_to(&path).into_iter().try_for_each(|target| self.handle_target(&target)),
            _ => Ok(()),
        }
    }

    /// Acts on what a link or pointer leads to, where it could be written.
    fn handle_target(&mut self, target: &Path) -> Result<(), Failure> {
        if !self.confinement.writable.iter().any(|root| target.starts_with(&root.path)) {
            return Ok(());
        }
        let place = mounts::place(target).map_err(at("protecting", target))?;
        (self.act)(place.as_fd(), target)
    }
}

fn is_protected(name: &CStr) -> bool {
    is_protected_name(OsStr::from_bytes(name.to_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_protected_in_any_case() {
        assert!(is_protected(c".GIT") && is_protected(c".agents"));
        assert!(!is_protected(c".github") && !is_protected(c"git"));
    }
}
