//! The path a patch writes -> the place in the tree it means, and the file that stands there.
//!
//! Every component is looked at without following links; what a link leads to is judged before it is followed. Whether a
//! place may be written is the caller's policy; whether it can be patched at all (a regular text file of bounded size,
//! inside the root if the path says so) is decided here.
//!
//! The walk is by name, to follow links and to explain. What is read or written afterwards is reached through `place`,
//! which follows none, so a directory that someone swaps for a link meanwhile makes the patch fail and leads nowhere.

use std::{
    fs::File,
    io::{self, Read},
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::{Component, Path, PathBuf},
};

use openoxide_display::quote_path;
use rustix::fs::{FileType, Stat};

use crate::{
    MAX_FILE_BYTES, PatchError,
    place::{self, Anchor, Making, Place, Walk},
};

const USE_COMMAND: &str = "patches only change text files; use a command if this must be changed";
const TOO_LARGE: &str = "use a command for files of this size";

/// A directory that is held open, and where it lies: absolute, without links.
#[derive(Debug)]
pub struct Base {
    /// The directory.
    pub directory: OwnedFd,
    /// Its path.
    pub path: PathBuf,
}

/// The tree a patch applies to.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    /// As the caller gave it.
    root: PathBuf,
    /// The same without links.
    real: PathBuf,
    /// The root, open for as long as the patch lives.
    anchor: Anchor,
}

/// Where a path of the patch leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Relative to the root when beneath it, else absolute; links on the way are resolved.
    pub(crate) shown: PathBuf,
    /// The same as an absolute path, beneath the root as the caller spelled it.
    pub(crate) absolute: PathBuf,
    /// The same without any link: what is opened.
    pub(crate) real: PathBuf,
    /// Whether it lies outside the root.
    pub(crate) outside: bool,
}

/// A file as it was read.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) text: String,
    /// Permissions.
    pub(crate) mode: u32,
    /// Device and inode.
    pub(crate) id: (u64, u64),
}

impl Tree {
    pub(crate) fn new(root: &Path, base: Option<Base>, walk: Walk) -> Result<Self, PatchError> {
        let fail = |message: String| Err(PatchError::Root { root: root.into(), message });
        if !root.is_absolute() {
            return fail("it is not an absolute path".into());
        }
        let real = match root.canonicalize() {
            Ok(real) if real.is_dir() => real,
            Ok(_) => return fail("it is not a directory".into()),
            Err(error) => return fail(error.to_string()),
        };
        let base = base.filter(|base| real.starts_with(&base.path));
        let above = match base {
            Some(Base { directory, path }) => Ok(Anchor::held(directory, path, walk)),
            None => Anchor::open(Path::new("/"), walk),
        };
        match above.and_then(|above| above.below(&real)) {
            Ok(anchor) => Ok(Self { root: root.into(), real, anchor }),
            Err(error) => fail(error.to_string()),
        }
    }

    /// The place of a target; none where a directory on the way does not exist.
    pub(crate) fn place(&self, target: &Target) -> Result<Option<Place>, PatchError> {
        let place = self.anchor_of(target).and_then(|anchor| anchor.place(&target.real));
        place.map_err(|error| unreachable(target, &error))
    }

    /// The place of a target, with the directories above it, which are made where they are missing.
    pub(crate) fn make_place(&self, target: &Target, making: &mut dyn Making) -> io::Result<Place> {
        self.anchor_of(target)?.make_place(&target.real, making)
    }

    fn anchor_of(&self, target: &Target) -> io::Result<Anchor> {
        if target.outside { Anchor::open(Path::new("/"), self.anchor.walk()) } else { Ok(self.anchor.clone()) }
    }

    /// What stands at the target, not following a link; `None` when nothing does.
    pub(crate) fn occupant(&self, target: &Target) -> Result<Option<Stat>, PatchError> {
        let Some(place) = self.place(target)? else { return Ok(None) };
        place.stat().map_err(|error| unreachable(target, &error))
    }

    /// Reads the text file at the target, refusing everything that is none and everything that may not be changed.
    pub(crate) fn read(&self, target: &Target, verb: &'static str) -> Result<Snapshot, PatchError> {
        let fail = |message: &str, source: Option<io::Error>| PatchError::Read {
            verb,
            path: target.shown.clone(),
            message: message.into(),
            source,
        };
        let found = match self.place(target)? {
            Some(place) => place.stat().map_err(|error| unreachable(target, &error))?.map(|stat| (place, stat)),
            None => None,
        };
        let Some((place, stat)) = found else {
            let missing = io::Error::from(io::ErrorKind::NotFound);
            return Err(fail("no such file; check the path, or create it with `*** Add File:`", Some(missing)));
        };
        check_regular(target, &place, &stat)?;
        check_writable(target, &place, &stat)?;
        let file = place.open().map_err(|error| fail(&error.to_string(), Some(error)))?;
        let stat = rustix::fs::fstat(&file).map_err(|errno| fail(&errno.to_string(), Some(errno.into())))?;
        check_regular(target, &place, &stat)?;
        let text = read_text(&file, &stat, target, &fail)?;
        Ok(Snapshot { text, mode: stat.st_mode & 0o7777, id: place::id(&stat) })
    }

    /// Finds the place a path means. `line` is where the patch names it.
    pub(crate) fn resolve(&self, path: &Path, line: usize) -> Result<Target, PatchError> {
        let text = path.as_os_str().as_bytes();
        let bad = |message: &str| PatchError::InvalidPath { path: path.into(), line, message: message.into() };
        if text.contains(&0) {
            return Err(bad("it holds a NUL byte"));
        }
        let beneath = match (path.strip_prefix(&self.root), path.strip_prefix(&self.real)) {
            (Ok(rest), _) | (_, Ok(rest)) => Some(rest),
            _ if path.is_absolute() => None,
            _ => Some(path),
        };
        let parts: Vec<Component<'_>> = beneath
            .unwrap_or(path)
            .components()
            .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
            .collect();
        let Some((Component::Normal(name), parents)) = parts.split_last() else {
            return Err(bad("it names a directory; name a file"));
        };
        if text.ends_with(b"/") || text.ends_with(b"/.") {
            return Err(bad("it names a directory; name a file"));
        }
        let base = if beneath.is_some() { &self.real } else { Path::new("/") };
        let found = self.walk(base, parents, beneath.is_some(), path)?.join(name);
        Ok(match found.strip_prefix(&self.real) {
            Ok(rest) => {
                let (shown, absolute) = (rest.to_path_buf(), self.root.join(rest));
                Target { shown, absolute, real: found, outside: false }
            }
            Err(_) => Target { shown: found.clone(), absolute: found.clone(), real: found, outside: true },
        })
    }

    /// Follows directories from `base`. With `confined`, a link that leaves the root is refused, until `..` has left it in
    /// so many words: then the place is outside, and judged as such. Directories that do not exist yet are taken as named.
    fn walk(
        &self,
        base: &Path,
        parts: &[Component<'_>],
        mut confined: bool,
        path: &Path,
    ) -> Result<PathBuf, PatchError> {
        let refuse = |message: String| Err(PatchError::Refused { path: path.into(), message });
        let mut dir = base.to_path_buf();
        for (index, part) in parts.iter().enumerate() {
            if *part == Component::ParentDir {
                // What was followed so far is without links, so its parent is the path without its last name.
                dir.pop();
                confined &= dir.starts_with(&self.real);
                continue;
            }
            let next = dir.join(part);
            let kind = match next.symlink_metadata() {
                Ok(metadata) => metadata.file_type(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if parts[index..].contains(&Component::ParentDir) {
                        return refuse(format!(
                            "`{}` does not exist, so `..` after it leads nowhere",
                            quote_path(&next)
                        ));
                    }
                    dir.extend(&parts[index..]);
                    return Ok(dir);
                }
                Err(error) => return refuse(format!("cannot look at `{}`: {error}", quote_path(&next))),
            };
            if kind.is_symlink() {
                let to = points_to(&next);
                match next.canonicalize() {
                    Err(_) => {
                        return refuse(format!(
                            "`{}` is a symbolic link to `{to}`, which does not exist",
                            quote_path(&next)
                        ));
                    }
                    Ok(real) if confined && !real.starts_with(&self.real) => {
                        return refuse(format!(
                            "`{}` is a symbolic link that leads out of the workspace, to `{to}`",
                            quote_path(&next)
                        ));
                    }
                    Ok(real) if !real.is_dir() => return refuse(format!("`{}` is not a directory", quote_path(&next))),
                    Ok(real) => dir = real,
                }
            } else if kind.is_dir() {
                dir = next;
            } else {
                return refuse(format!("`{}` is not a directory", quote_path(&next)));
            }
        }
        Ok(dir)
    }
}

fn points_to(link: &Path) -> String {
    link.read_link().map_or_else(|_| "?".into(), |to| quote_path(&to))
}

fn unreachable(target: &Target, error: &io::Error) -> PatchError {
    PatchError::Refused { path: target.shown.clone(), message: format!("cannot look at it: {error}") }
}

/// Refuses links, directories, devices, pipes and sockets.
pub(crate) fn check_regular(target: &Target, place: &Place, stat: &Stat) -> Result<(), PatchError> {
    let message = match place::kind(stat) {
        FileType::RegularFile => return Ok(()),
        FileType::Symlink => {
            format!("it is a symbolic link to `{}`; patch the file it points to", place.points_to())
        }
        FileType::Directory => "it is a directory; name a file".to_owned(),
        _ => format!("it is not a regular file; {USE_COMMAND}"),
    };
    Err(PatchError::Refused { path: target.shown.clone(), message })
}

/// Refuses a file that could not be written in place. Renaming over it would work, and would pass over what its owner said.
fn check_writable(target: &Target, place: &Place, stat: &Stat) -> Result<(), PatchError> {
    let mode = stat.st_mode & 0o7777;
    let message = if mode & 0o222 == 0 {
        format!("it is read-only (mode {mode:04o}); make it writable first if it is meant to change")
    } else if let Err(error) = place.check_writable() {
        format!("it may not be written (mode {mode:04o}): {error}")
    } else {
        return Ok(());
    };
    Err(PatchError::Refused { path: target.shown.clone(), message })
}

fn read_text(
    file: &File,
    stat: &Stat,
    target: &Target,
    fail: &dyn Fn(&str, Option<io::Error>) -> PatchError,
) -> Result<String, PatchError> {
    let mut bytes = Vec::new();
    let mut size = u64::try_from(stat.st_size).unwrap_or(0);
    if size <= MAX_FILE_BYTES {
        // One byte over the limit is enough to see that the file grew past it.
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| fail(&error.to_string(), Some(error)))?;
        size = bytes.len() as u64;
    }
    check_size(&target.shown, size)?;
    if bytes.contains(&0) {
        return Err(fail(&format!("it is a binary file (it holds a NUL byte); {USE_COMMAND}"), None));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        fail(&format!("it is not UTF-8 text (first bad byte at offset {at}); {USE_COMMAND}"), None)
    })
}

/// Refuses a content that exceeds the limit for one file.
pub(crate) fn check_size(shown: &Path, size: u64) -> Result<(), PatchError> {
    if size <= MAX_FILE_BYTES {
        return Ok(());
    }
    Err(PatchError::TooLarge { path: shown.into(), size, limit: MAX_FILE_BYTES, hint: TOO_LARGE })
}
