//! What a directory held before a turn's first command that may write, so that what commands changed can be told.
//!
//! Looked at are files that version control would not ignore, outside of `.git`; the content of text files is kept for as
//! long as the turn lasts. Of ignored files beside them only that they are gone is told, so that nobody takes them for
//! restored. All of it is bounded: a directory with more files than that is not looked at, and of larger files
//! only that they changed is told.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;

use super::files::walk::{Choice, Found, Walk};
use super::files::{FileView, repository};

/// The most files of a directory that is looked at.
const MAX_FILES: usize = 5_000;

/// The most entries of any kind, for trees that are mostly directories.
const MAX_ENTRIES: usize = 20_000;

/// The largest file whose content is kept, and the most of all contents.
const MAX_FILE: u64 = 256 << 10;
const MAX_TOTAL: u64 = 8 << 20;

/// A directory at one moment.
#[derive(Debug)]
pub(crate) struct Before {
    view: FileView,
    files: HashMap<PathBuf, Seen>,
}

#[derive(Debug)]
struct Seen {
    stamp: Stamp,
    /// None where it is no text, or too much.
    text: Option<String>,
    mode: u32,
    /// Version control ignores it: only that it was removed is told.
    is_ignored: bool,
}

/// What tells that a file is another, or was written.
type Stamp = (u64, u64, i64, i64, u64, i64, u64, u32);

/// A file that is not as it was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) path: PathBuf,
    pub(crate) content: Content,
    /// Its permissions before; none where there was no file.
    pub(crate) mode: Option<u32>,
}

/// What is different in a directory.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// In the order of paths.
    pub(crate) files: Vec<Changed>,
    /// Bare repositories that were made: git takes orders from one, hooks and all, wherever it is called below it.
    pub(crate) repositories: Vec<PathBuf>,
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
    /// Looks at the view's workspace. None where it is too large. Blocks on the disk.
    pub(crate) fn look(view: FileView) -> Option<Self> {
        let mut before = Self { view, files: HashMap::new() };
        let mut room = MAX_TOTAL;
        let mut files = HashMap::new();
        walk(&before.view, |found, stat| {
            let is_ignored = found.is_ignored();
            let text = if is_ignored { None } else { read_text(&before.view, &found, &stat, &mut room) };
            files.insert(found.path(), Seen { stamp: stamp(&stat), text, mode: mode(&stat), is_ignored });
        })?;
        before.files = files;
        Some(before)
    }

    /// What is different now. None where the directory has become too large. Blocks on the disk.
    pub(crate) fn changes(self) -> Option<Changes> {
        let Self { view, mut files } = self;
        let mut room = MAX_TOTAL;
        let (mut changes, mut repositories) = (Vec::new(), Vec::new());
        walk(&view, |found, stat| {
            let path = found.path();
            let before = files.remove(&path);
            if before.is_none() {
                repositories.extend(found.bare_repository().map(Path::to_owned));
            }
            if found.is_ignored() || before.as_ref().is_some_and(|before| before.is_ignored) {
                return;
            }
            let was = before.as_ref().map(|seen| seen.mode);
            let content = match before {
                Some(seen) if seen.stamp == stamp(&stat) => return,
                Some(Seen { text: Some(old), .. }) => match read_text(&view, &found, &stat, &mut room) {
                    Some(new) if new == old => return,
                    Some(new) => Content::Known(Some(old), Some(new)),
                    None => Content::Opaque,
                },
                Some(Seen { text: None, .. }) => Content::Opaque,
                None => match read_text(&view, &found, &stat, &mut room) {
                    Some(new) => Content::Known(None, Some(new)),
                    None => Content::Opaque,
                },
            };
            changes.push(Changed { path, content, mode: was });
        })?;
        let root = view.open_workspace().ok()?;
        let is_gone = |path: &PathBuf| {
            let below = path.strip_prefix(root.path()).unwrap_or(path);
            let directory = below.parent().map(|parent| view.directory_beneath(&root, parent));
            let name = below.file_name().unwrap_or(OsStr::new("."));
            !matches!(directory.and_then(Result::ok).map(|directory| directory.stat(name)), Some(Ok(Some(_))))
        };
        let gone = files.into_iter().filter(|(path, _)| is_gone(path)).map(|(path, seen)| {
            let content = seen.text.map_or(Content::Opaque, |old| Content::Known(Some(old), None));
            Changed { path, content, mode: Some(seen.mode) }
        });
        changes.extend(gone);
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        Some(Changes { files: changes, repositories })
    }
}

/// Goes through the files that version control would not ignore; none where there are too many.
fn walk(view: &FileView, mut act: impl FnMut(Found, Stat)) -> Option<()> {
    let above = repository::path_to_workspace(view).ok()?;
    let choice = Choice { skips_git: true, gives_ignored: true, ..Choice::default() };
    let mut walk = Walk::new(view, view.open_workspace().ok()?, &above, choice);
    let mut count = 0;
    while let Some(found) = walk.next() {
        if walk.seen() > MAX_ENTRIES || count == MAX_FILES {
            return None;
        }
        count += 1;
        if let Some(stat) = found.stat() {
            act(found, stat);
        }
    }
    (walk.seen() <= MAX_ENTRIES && walk.left_out().1.is_empty()).then_some(())
}

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_lossless,
    clippy::cast_sign_loss,
    reason = "the types differ between systems"
)]
fn stamp(stat: &Stat) -> Stamp {
    let times = (stat.st_mtime as i64, stat.st_mtime_nsec as u64, stat.st_ctime as i64, stat.st_ctime_nsec as u64);
    let (device, inode, size) = (stat.st_dev as u64, stat.st_ino as u64, stat.st_size as i64);
    (device, inode, size, times.0, times.1, times.2, times.3, stat.st_mode as u32)
}

/// The permissions of a file.
#[allow(clippy::unnecessary_cast, clippy::cast_lossless, reason = "the type differs between systems")]
fn mode(stat: &Stat) -> u32 {
    stat.st_mode as u32 & 0o7777
}

fn read_text(view: &FileView, found: &Found, stat: &Stat, room: &mut u64) -> Option<String> {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if size > MAX_FILE || size > *room {
        return None;
    }
    let bytes = found.open(view).ok()?.read_whole(MAX_FILE).ok().flatten()?;
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))?;
    *room = room.saturating_sub(text.len() as u64);
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use openoxide_sandbox::Workspace;

    use super::*;

    fn look(root: &Path, hidden: Vec<PathBuf>) -> Option<Before> {
        Before::look(FileView::new(Arc::new(Workspace::resolve(root).unwrap()), hidden))
    }

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
        write(".gitignore", b"target\n*.key\n");
        write("a.key", b"old\n");
        write("b.key", b"old\n");
        for name in ["same", "touched", "changed", "removed", "secret/key", "target/x", ".git/config", ".dot"] {
            write(name, b"old\n");
        }
        write("binary", b"\0\x01");
        let before = look(&root, vec![root.join("secret")]).unwrap();
        for name in ["touched", "secret/key"] {
            write(name, b"old\n");
        }
        for name in ["changed", "deep/made", "target/x", ".git/config", ".dot"] {
            write(name, b"new\n");
        }
        write("binary", b"\0\x02");
        fs::remove_file(root.join("removed")).unwrap();
        fs::remove_file(root.join("a.key")).unwrap();
        write("b.key", b"new\n");
        let changes = before.changes().unwrap().files;
        let shown: Vec<_> = changes
            .iter()
            .map(|change| (change.path.strip_prefix(&root).unwrap().to_str().unwrap(), &change.content))
            .collect();
        assert_eq!(
            shown,
            [
                (".dot", &known(Some("old\n"), Some("new\n"))),
                ("a.key", &Content::Opaque),
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
        assert!(look(dir.path(), Vec::new()).is_none());
    }

    #[test]
    fn a_bare_repository_that_was_made_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let bare = |name: &str| {
            fs::create_dir_all(root.join(name).join("objects")).unwrap();
            fs::create_dir_all(root.join(name).join("refs")).unwrap();
            fs::write(root.join(name).join("HEAD"), "ref: refs/heads/main\n").unwrap();
        };
        bare("there-before");
        fs::write(root.join("HEAD"), "no repository").unwrap();
        let before = look(&root, Vec::new()).unwrap();
        bare("deep/made");
        fs::write(root.join("deep/HEAD"), "no repository").unwrap();
        assert_eq!(before.changes().unwrap().repositories, [root.join("deep/made")]);
    }
}
