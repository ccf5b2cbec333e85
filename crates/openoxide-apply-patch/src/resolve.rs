//! The path a patch writes -> the place in the tree it means, and the file that stands there.
//!
//! Every component is looked at without following links; what a link leads to is judged before it is followed. Whether a
//! place may be written is the caller's policy; whether it can be patched at all (a regular text file of bounded size,
//! inside the root if the path says so) is decided here.
//!
//! Known limit: the walk is by name, so a directory that someone swaps for a link between check and write is caught by
//! the second walk before writing, not by the kernel.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Component, Path, PathBuf},
};

use rustix::fs::{Access, OFlags};

use crate::{MAX_FILE_BYTES, PatchError};

const USE_COMMAND: &str = "patches only change text files; use a command if this must be changed";
const TOO_LARGE: &str = "use a command for files of this size";

/// The tree a patch applies to.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    /// As the caller gave it.
    root: PathBuf,
    /// The same without links.
    real: PathBuf,
}

/// Where a path of the patch leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Relative to the root when beneath it, else absolute; links on the way are resolved.
    pub(crate) shown: PathBuf,
    /// The same as an absolute path, beneath the root as the caller spelled it.
    pub(crate) absolute: PathBuf,
    /// Whether it lies outside the root.
    pub(crate) outside: bool,
}

/// A file as it was read.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) text: String,
    /// Device and inode.
    pub(crate) id: (u64, u64),
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Result<Self, PatchError> {
        let fail = |message: String| Err(PatchError::Root { root: root.into(), message });
        if !root.is_absolute() {
            return fail("it is not an absolute path".into());
        }
        match root.canonicalize() {
            Ok(real) if real.is_dir() => Ok(Self { root: root.into(), real }),
            Ok(_) => fail("it is not a directory".into()),
            Err(error) => fail(error.to_string()),
        }
    }

    /// Finds the place a path means. `line` is where the patch names it.
    pub(crate) fn resolve(&self, text: &str, line: usize) -> Result<Target, PatchError> {
        let path = Path::new(text);
        let bad = |message: &str| PatchError::InvalidPath { path: text.into(), line, message: message.into() };
        if text.contains('\0') {
            return Err(bad("it holds a NUL byte"));
        }
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(bad("`..` is not allowed; write the path from the root of the workspace, or an absolute one"));
        }
        let beneath = match (path.strip_prefix(&self.root), path.strip_prefix(&self.real)) {
            (Ok(rest), _) | (_, Ok(rest)) => Some(rest),
            _ if path.is_absolute() => None,
            _ => Some(path),
        };
        let parts: Vec<&std::ffi::OsStr> = beneath
            .unwrap_or(path)
            .components()
            .filter_map(|part| if let Component::Normal(name) = part { Some(name) } else { None })
            .collect();
        let Some((name, parents)) = parts.split_last() else {
            return Err(bad("it names a directory; name a file"));
        };
        if text.ends_with('/') || text.ends_with("/.") {
            return Err(bad("it names a directory; name a file"));
        }
        let base = if beneath.is_some() { &self.real } else { Path::new("/") };
        let found = self.walk(base, parents, beneath.is_some(), path)?.join(name);
        Ok(match found.strip_prefix(&self.real) {
            Ok(rest) => Target { shown: rest.into(), absolute: self.root.join(rest), outside: false },
            Err(_) => Target { shown: found.clone(), absolute: found, outside: true },
        })
    }

    /// Follows directories from `base`. With `confined`, a link that leaves the root is refused. Directories that do not
    /// exist yet are taken as named.
    fn walk(
        &self,
        base: &Path,
        parts: &[&std::ffi::OsStr],
        confined: bool,
        path: &Path,
    ) -> Result<PathBuf, PatchError> {
        let refuse = |message: String| Err(PatchError::Refused { path: path.into(), message });
        let mut dir = base.to_path_buf();
        for (index, part) in parts.iter().enumerate() {
            let next = dir.join(part);
            let kind = match next.symlink_metadata() {
                Ok(metadata) => metadata.file_type(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    dir.extend(&parts[index..]);
                    return Ok(dir);
                }
                Err(error) => return refuse(format!("cannot look at `{}`: {error}", next.display())),
            };
            if kind.is_symlink() {
                let to = points_to(&next);
                match next.canonicalize() {
                    Err(_) => {
                        return refuse(format!(
                            "`{}` is a symbolic link to `{to}`, which does not exist",
                            next.display()
                        ));
                    }
                    Ok(real) if confined && !real.starts_with(&self.real) => {
                        return refuse(format!(
                            "`{}` is a symbolic link that leads out of the workspace, to `{to}`",
                            next.display()
                        ));
                    }
                    Ok(real) if !real.is_dir() => return refuse(format!("`{}` is not a directory", next.display())),
                    Ok(real) => dir = real,
                }
            } else if kind.is_dir() {
                dir = next;
            } else {
                return refuse(format!("`{}` is not a directory", next.display()));
            }
        }
        Ok(dir)
    }
}

fn points_to(link: &Path) -> String {
    link.read_link().map_or_else(|_| "?".into(), |to| to.display().to_string())
}

/// What stands at the target, not following a link; `None` when nothing does.
pub(crate) fn occupant(target: &Target) -> Result<Option<Metadata>, PatchError> {
    match target.absolute.symlink_metadata() {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let message = format!("cannot look at it: {error}");
            Err(PatchError::Refused { path: target.shown.clone(), message })
        }
    }
}

/// Refuses links, directories, devices, pipes and sockets.
pub(crate) fn check_regular(target: &Target, metadata: &Metadata) -> Result<(), PatchError> {
    let kind = metadata.file_type();
    let message = if kind.is_file() {
        return Ok(());
    } else if kind.is_symlink() {
        format!("it is a symbolic link to `{}`; patch the file it points to", points_to(&target.absolute))
    } else if kind.is_dir() {
        "it is a directory; name a file".to_owned()
    } else {
        format!("it is not a regular file; {USE_COMMAND}")
    };
    Err(PatchError::Refused { path: target.shown.clone(), message })
}

/// Reads the text file at the target, refusing everything that is none and everything that may not be changed.
pub(crate) fn read(target: &Target, verb: &'static str) -> Result<Snapshot, PatchError> {
    let fail = |message: &str, source: Option<io::Error>| PatchError::Read {
        verb,
        path: target.shown.clone(),
        message: message.into(),
        source,
    };
    let Some(metadata) = occupant(target)? else {
        let missing = io::Error::from(io::ErrorKind::NotFound);
        return Err(fail("no such file; check the path, or create it with `*** Add File:`", Some(missing)));
    };
    check_regular(target, &metadata)?;
    check_writable(target, &metadata)?;
    // NONBLOCK: should a pipe have taken the file's place meanwhile, opening it must not wait for a writer.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags).expect("open flags fit the C int they come from"))
        .open(&target.absolute)
        .map_err(|error| fail(&error.to_string(), Some(error)))?;
    let metadata = file.metadata().map_err(|error| fail(&error.to_string(), Some(error)))?;
    check_regular(target, &metadata)?;
    let text = read_text(&file, &metadata, target, &fail)?;
    Ok(Snapshot { text, id: (metadata.dev(), metadata.ino()) })
}

/// Refuses a file that could not be written in place. Renaming over it would work, and would pass over what its owner said.
fn check_writable(target: &Target, metadata: &Metadata) -> Result<(), PatchError> {
    let mode = metadata.mode() & 0o7777;
    let message = if mode & 0o222 == 0 {
        format!("it is read-only (mode {mode:04o}); make it writable first if it is meant to change")
    } else if let Err(error) = rustix::fs::access(&target.absolute, Access::WRITE_OK) {
        format!("it may not be written (mode {mode:04o}): {error}")
    } else {
        return Ok(());
    };
    Err(PatchError::Refused { path: target.shown.clone(), message })
}

fn read_text(
    file: &File,
    metadata: &Metadata,
    target: &Target,
    fail: &dyn Fn(&str, Option<io::Error>) -> PatchError,
) -> Result<String, PatchError> {
    let mut bytes = Vec::new();
    let mut size = metadata.len();
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
