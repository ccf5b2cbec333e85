//! Looking at a whole directory, before commands run and after: the side that reads the disk. What is told is bounded: a
//! directory with too many files, or too long names, is not looked at, and of larger files only that they changed is told.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use rustix::fs::Stat;

use super::files::walk::{Choice, Found, Walk};
use super::files::{FileView, repository};
use super::output::StopFlag;
use super::reads::wire::{Input, List, Wire, wire_fields};
use super::reads::{ReadKind, ReadWork};

/// The most files of a directory that is looked at.
pub(super) const MAX_FILES: usize = 5_000;

/// The most entries of any kind, for trees that are mostly directories.
const MAX_ENTRIES: usize = 20_000;

/// The largest file whose content is kept, and the most of all contents.
const MAX_FILE: u64 = 256 << 10;
const MAX_TOTAL: u64 = 8 << 20;

/// The most bytes of all names.
const MAX_NAMES: usize = 4 << 20;

/// Bytes of one file as it travels, beside its name and its content.
const PER_FILE: usize = 128;

/// What tells that a file is another, or was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
    mode: u32,
}
wire_fields!(Stamp { device, inode, size, modified, changed, mode });

/// A file as it was. Its path is relative to the workspace, in plain names.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) path: PathBuf,
    stamp: Stamp,
    /// None where it is no text, or too much.
    pub(super) text: Option<String>,
    pub(super) mode: u32,
    /// Version control ignores it: only that it was removed is told.
    is_ignored: bool,
}
wire_fields!(Seen { path, stamp, text, mode, is_ignored });

/// What a second look has to know of a file.
#[derive(Debug)]
pub(super) struct Known {
    path: PathBuf,
    stamp: Stamp,
    has_text: bool,
    is_ignored: bool,
}
wire_fields!(Known { path, stamp, has_text, is_ignored });

impl Known {
    /// Of a file that was seen.
    pub(super) fn of(seen: &Seen) -> Self {
        let (path, stamp, is_ignored) = (seen.path.clone(), seen.stamp, seen.is_ignored);
        Self { path, stamp, has_text: seen.text.is_some(), is_ignored }
    }
}

/// Looks at the workspace before commands run.
pub(super) struct Look {}

impl Wire for Look {
    fn put(&self, _: &mut Vec<u8>) {}

    fn take(_: &mut Input<'_>) -> Option<Self> {
        Some(Self {})
    }
}

/// Looks at it again.
pub(super) struct LookAgain {
    /// The files that were there.
    pub(super) known: List<Known, MAX_FILES>,
}
wire_fields!(LookAgain { known });

/// A file that may be different.
#[derive(Debug)]
pub(super) struct Different {
    pub(super) path: PathBuf,
    /// Which of the known files it is; none where it is new.
    pub(super) known: Option<u32>,
    /// What it holds now; none where that is no text, too much, or not comparable.
    pub(super) text: Option<String>,
}
wire_fields!(Different { path, known, text });

/// What is different.
#[derive(Debug)]
pub(super) struct Differences {
    pub(super) different: List<Different, MAX_FILES>,
    /// Which of the known files are gone.
    pub(super) gone: List<u32, MAX_FILES>,
    /// Where bare repositories were made.
    pub(super) repositories: List<PathBuf, MAX_FILES>,
}
wire_fields!(Differences { different, gone, repositories });

impl ReadWork for Look {
    /// None where the directory is too large.
    type Found = Option<List<Seen, MAX_FILES>>;

    const KIND: ReadKind = ReadKind::Look;

    fn read(&self, view: &FileView, stop: &StopFlag) -> Result<Self::Found, String> {
        let mut files = Vec::new();
        let mut room = Room::new();
        let looked = walk(view, stop, |path, found, stat| {
            room.name(&path)?;
            let is_ignored = found.is_ignored();
            let text = if is_ignored { None } else { room.text(view, &found, &stat) };
            files.push(Seen { path, stamp: stamp(&stat), text, mode: mode(&stat), is_ignored });
            Some(())
        });
        Ok(looked.map(|()| List(files)))
    }

    fn max_answer(&self) -> usize {
        max_told()
    }

    fn accepts(&self, found: &Self::Found) -> bool {
        let is_plain = |seen: &Seen| is_file_path(&seen.path) && seen.mode <= 0o7777;
        found.iter().all(|files| files.0.iter().all(is_plain))
    }
}

impl ReadWork for LookAgain {
    /// None where the directory has become too large.
    type Found = Option<Differences>;

    const KIND: ReadKind = ReadKind::LookAgain;

    fn read(&self, view: &FileView, stop: &StopFlag) -> Result<Self::Found, String> {
        let mut room = Room::new();
        let (mut different, mut repositories) = (Vec::new(), Vec::new());
        let numbered = (0_u32..).zip(&self.known.0);
        let mut left: HashMap<&Path, (u32, &Known)> =
            numbered.map(|(at, known)| (known.path.as_path(), (at, known))).collect();
        let looked = walk(view, stop, |path, found, stat| {
            let before = left.remove(path.as_path());
            if before.is_none() && found.bare_repository().is_some() {
                let repository = path.parent().unwrap_or(Path::new("")).to_owned();
                room.name(&repository)?;
                repositories.push(repository);
            }
            let text = match before {
                _ if found.is_ignored() => return Some(()),
                Some((_, known)) if known.is_ignored || known.stamp == stamp(&stat) => return Some(()),
                Some((_, known)) if !known.has_text => None,
                Some(_) | None => room.text(view, &found, &stat),
            };
            room.name(&path)?;
            different.push(Different { path, known: before.map(|(at, _)| at), text });
            Some(())
        });
        let Some((root, ())) = view.open_workspace().ok().zip(looked) else { return Ok(None) };
        let is_gone = |path: &Path| {
            let directory = path.parent().map(|parent| view.directory_beneath(&root, parent));
            let name = path.file_name().unwrap_or(OsStr::new("."));
            !matches!(directory.and_then(Result::ok).map(|directory| directory.stat(name)), Some(Ok(Some(_))))
        };
        let gone = left.into_iter().filter(|(path, _)| is_gone(path)).map(|(_, (at, _))| at).collect();
        let (different, repositories) = (List(different), List(repositories));
        Ok(Some(Differences { different, gone: List(gone), repositories }))
    }

    fn max_answer(&self) -> usize {
        max_told()
    }

    fn accepts(&self, found: &Self::Found) -> bool {
        let Some(found) = found else { return true };
        let is_known = |at: u32| usize::try_from(at).is_ok_and(|at| at < self.known.0.len());
        let is_same = |file: &Different| match file.known {
            Some(at) => {
                usize::try_from(at).is_ok_and(|at| self.known.0.get(at).is_some_and(|known| known.path == file.path))
            }
            None => is_file_path(&file.path),
        };
        found.different.0.iter().all(is_same)
            && found.gone.0.iter().all(|at| is_known(*at))
            && found.repositories.0.iter().all(|path| is_plain(path))
    }
}

/// The most bytes of what a look tells.
fn max_told() -> usize {
    MAX_NAMES + usize::try_from(MAX_TOTAL).unwrap_or(usize::MAX) + MAX_FILES * 2 * PER_FILE
}

/// Whether a path is relative and made of names alone, none of them the repository's own, which is never looked at.
fn is_plain(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(name) if !name.eq_ignore_ascii_case(".git")))
}

/// The same for a file, which has a name.
fn is_file_path(path: &Path) -> bool {
    is_plain(path) && path.file_name().is_some()
}

/// What may still be told.
struct Room {
    text: u64,
    names: usize,
}

impl Room {
    fn new() -> Self {
        Self { text: MAX_TOTAL, names: MAX_NAMES }
    }

    /// Takes room for a name; none where there is not enough.
    fn name(&mut self, path: &Path) -> Option<()> {
        self.names = self.names.checked_sub(path.as_os_str().len())?;
        Some(())
    }

    /// What a file holds, where it is text and there is room.
    fn text(&mut self, view: &FileView, found: &Found, stat: &Stat) -> Option<String> {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if size > MAX_FILE || size > self.text {
            return None;
        }
        let bytes = found.open(view).ok()?.read_whole(MAX_FILE.min(self.text)).ok().flatten()?;
        let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))?;
        self.text = self.text.saturating_sub(text.len() as u64);
        Some(text)
    }
}

/// Goes through the files that version control would not ignore; none where there is too much.
fn walk(view: &FileView, stop: &StopFlag, mut act: impl FnMut(PathBuf, Found, Stat) -> Option<()>) -> Option<()> {
    let above = repository::path_to_workspace(view).ok()?;
    let choice = Choice { skips_git: true, gives_ignored: true, ..Choice::default() };
    let root = view.open_workspace().ok()?;
    let root_path = root.path().to_owned();
    let mut walk = Walk::new(view, root, &above, choice);
    let mut count = 0;
    while let Some(found) = walk.next() {
        if walk.seen() > MAX_ENTRIES || count == MAX_FILES || stop.is_raised() {
            return None;
        }
        count += 1;
        if let Some(stat) = found.stat() {
            let path = found.path().strip_prefix(&root_path).ok()?.to_owned();
            act(path, found, stat)?;
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
    Stamp {
        device: stat.st_dev as u64,
        inode: stat.st_ino as u64,
        size: stat.st_size as i64,
        modified: (stat.st_mtime as i64, stat.st_mtime_nsec as u64),
        changed: (stat.st_ctime as i64, stat.st_ctime_nsec as u64),
        mode: stat.st_mode as u32,
    }
}

/// The permissions of a file.
#[allow(clippy::unnecessary_cast, clippy::cast_lossless, reason = "the type differs between systems")]
fn mode(stat: &Stat) -> u32 {
    stat.st_mode as u32 & 0o7777
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp() -> Stamp {
        Stamp { device: 1, inode: 2, size: 3, modified: (4, 5), changed: (6, 7), mode: 8 }
    }

    fn seen(path: &str) -> Seen {
        Seen { path: path.into(), stamp: stamp(), text: Some("text".into()), mode: 0o644, is_ignored: false }
    }

    /// What a directory never holds as it is looked at.
    const ODD: [&str; 7] = ["", "/etc/passwd", "../x", "a/../../x", ".git/config", "a/.GIT/hooks/x", "."];

    #[test]
    fn files_in_odd_places_were_never_looked_at() {
        let told = |seen| Some(List(vec![self::seen("a"), seen]));
        assert!(Look {}.accepts(&told(seen("deep/b.c"))) && Look {}.accepts(&None));
        for path in ODD {
            assert!(!Look {}.accepts(&told(seen(path))), "{path:?}");
        }
        assert!(!Look {}.accepts(&told(Seen { mode: 0o10_644, ..seen("b") })));
    }

    #[test]
    fn differences_are_of_files_that_were_asked_for_or_are_in_plain_places() {
        let again = LookAgain { known: List(vec![Known::of(&seen("a")), Known::of(&seen("b"))]) };
        let different = |path: &str, known| Different { path: path.into(), known, text: None };
        let told = |different: Vec<Different>, gone: Vec<u32>, repositories: &[&str]| {
            let repositories = List(repositories.iter().map(PathBuf::from).collect());
            again.accepts(&Some(Differences { different: List(different), gone: List(gone), repositories }))
        };
        assert!(told(vec![different("a", Some(0)), different("new", None)], vec![1], &["", "bare"]));
        assert!(!told(vec![different("b", Some(0))], vec![], &[]), "another file under the number of one");
        assert!(!told(vec![different("a", Some(2))], vec![], &[]));
        assert!(!told(vec![], vec![2], &[]));
        for path in ODD {
            assert!(!told(vec![different(path, None)], vec![], &[]), "{path:?}");
        }
        assert!(!told(vec![], vec![], &["../bare"]) && !told(vec![], vec![], &["/bare"]));
    }
}
