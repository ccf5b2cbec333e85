//! What a directory held before a turn's first command that may write, so that what commands changed can be told.
//!
//! Looked at are files that version control would not ignore, outside of `.git`; the content of text files is kept for as
//! long as the turn lasts. All of it is bounded: a directory with more files than that is not looked at, and of larger files
//! only that they changed is told.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;

/// The most files of a directory that is looked at.
const MAX_FILES: usize = 5_000;

/// The most entries of any kind, for trees that are mostly directories.
const MAX_ENTRIES: usize = 20_000;

/// The largest file whose content is kept, and the most of all contents.
const MAX_FILE: u64 = 256 << 10;
const MAX_TOTAL: u64 = 8 << 20;

/// A directory at one moment.
#[derive(Debug, Default)]
pub(crate) struct Before {
    /// As changes are told.
    shown: PathBuf,
    /// The same without links.
    root: PathBuf,
    hidden: Vec<PathBuf>,
    files: HashMap<PathBuf, Seen>,
}

#[derive(Debug)]
struct Seen {
    stamp: Stamp,
    /// None where it is no text, or too much.
    text: Option<String>,
}

/// What tells that a file is another, or was written.
type Stamp = (u64, u64, u64, i64, i64, i64, i64);

/// A file that is not as it was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) path: PathBuf,
    pub(crate) content: Content,
}

/// What is known of a changed file's content.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Before and after; none where there was, or is, no file.
    Known(Option<String>, Option<String>),
    /// Nothing.
    Opaque,
}

impl Before {
    /// Looks at a directory; `hidden` is without links. None where it is too large. Blocks on the disk.
    pub(crate) fn look(shown: &Path, hidden: Vec<PathBuf>) -> Option<Self> {
        let root = shown.canonicalize().ok()?;
        let mut before = Self { shown: shown.to_owned(), root, hidden, files: HashMap::new() };
        let mut room = MAX_TOTAL;
        for (path, metadata) in before.walk()? {
            let text = read_text(&path, &metadata, &mut room);
            before.files.insert(path, Seen { stamp: stamp(&metadata), text });
        }
        Some(before)
    }

    /// What is different now, in the order of paths. None where the directory has become too large. Blocks on the disk.
    pub(crate) fn changes(mut self) -> Option<Vec<Changed>> {
        let mut room = MAX_TOTAL;
        let mut changes = Vec::new();
        for (path, metadata) in self.walk()? {
            let content = match self.files.remove(&path) {
                Some(seen) if seen.stamp == stamp(&metadata) => continue,
                Some(Seen { text: Some(old), .. }) => match read_text(&path, &metadata, &mut room) {
                    Some(new) if new == old => continue,
                    Some(new) => Content::Known(Some(old), Some(new)),
                    None => Content::Opaque,
                },
                Some(Seen { text: None, .. }) => Content::Opaque,
                None => match read_text(&path, &metadata, &mut room) {
                    Some(new) => Content::Known(None, Some(new)),
                    None => Content::Opaque,
                },
            };
            changes.push(Changed { path, content });
        }
        let gone = std::mem::take(&mut self.files)
            .into_iter()
            .filter(|(path, _)| path.symlink_metadata().is_err())
            .map(|(path, seen)| {
                let content = seen.text.map_or(Content::Opaque, |old| Content::Known(Some(old), None));
                Changed { path, content }
            });
        changes.extend(gone);
        for change in &mut changes {
            if let Ok(rest) = change.path.strip_prefix(&self.root) {
                change.path = self.shown.join(rest);
            }
        }
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        Some(changes)
    }

    fn walk(&self) -> Option<Vec<(PathBuf, Metadata)>> {
        let hidden = self.hidden.clone();
        let walk = WalkBuilder::new(&self.root)
            .hidden(false)
            .require_git(false)
            .parents(true)
            .filter_entry(move |entry| entry.file_name() != ".git" && !hidden.iter().any(|path| path == entry.path()))
            .build();
        let mut found = Vec::new();
        for (count, entry) in walk.flatten().enumerate() {
            if count == MAX_ENTRIES {
                return None;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            if !metadata.is_file() {
                continue;
            }
            if found.len() == MAX_FILES {
                return None;
            }
            found.push((entry.into_path(), metadata));
        }
        Some(found)
    }
}

fn stamp(metadata: &Metadata) -> Stamp {
    let time = (metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec());
    (metadata.dev(), metadata.ino(), metadata.len(), time.0, time.1, time.2, time.3)
}

fn read_text(path: &Path, metadata: &Metadata, room: &mut u64) -> Option<String> {
    let size = metadata.len();
    if size > MAX_FILE || size > *room {
        return None;
    }
    let text = String::from_utf8(fs::read(path).ok()?).ok().filter(|text| !text.contains('\0'))?;
    *room = room.saturating_sub(text.len() as u64);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(old: Option<&str>, new: Option<&str>) -> Content {
        Content::Known(old.map(str::to_owned), new.map(str::to_owned))
    }

    #[test]
    fn what_was_written_made_and_removed_is_told_and_what_is_ignored_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let write = |name: &str, text: &[u8]| {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), text).unwrap();
        };
        write(".gitignore", b"target\n");
        for name in ["same", "touched", "changed", "removed", "secret/key", "target/x", ".git/config", ".dot"] {
            write(name, b"old\n");
        }
        write("binary", b"\0\x01");
        let before = Before::look(&root, vec![root.join("secret")]).unwrap();
        for name in ["touched", "secret/key"] {
            write(name, b"old\n");
        }
        for name in ["changed", "deep/made", "target/x", ".git/config", ".dot"] {
            write(name, b"new\n");
        }
        write("binary", b"\0\x02");
        fs::remove_file(root.join("removed")).unwrap();
        let changes = before.changes().unwrap();
        let shown: Vec<_> = changes
            .iter()
            .map(|change| (change.path.strip_prefix(&root).unwrap().to_str().unwrap(), &change.content))
            .collect();
        assert_eq!(
            shown,
            [
                (".dot", &known(Some("old\n"), Some("new\n"))),
                ("binary", &Content::Opaque),
                ("changed", &known(Some("old\n"), Some("new\n"))),
                ("deep/made", &known(None, Some("new\n"))),
                ("removed", &known(Some("old\n"), None)),
            ]
        );
    }

    #[test]
    fn a_directory_that_is_too_large_is_not_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..=MAX_FILES {
            fs::write(dir.path().join(number.to_string()), "").unwrap();
        }
        assert!(Before::look(dir.path(), Vec::new()).is_none());
    }
}
