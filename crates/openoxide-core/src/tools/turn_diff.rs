//! What one turn changed: each file as the turn first saw it against what its last patch or command left.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use openoxide_apply_patch::{Change, unified_diff};
use tokio::sync::OnceCell;

use super::before::{Before, Changed, Content};
use super::obeyed::{Obeyed, Other};
use crate::store::hash;
use crate::{FileRecord, TurnResult};

/// The files that one turn has touched, in the order first touched.
#[derive(Debug, Default)]
pub(crate) struct TurnDiff {
    files: Vec<FileState>,
    /// Filled by the first command that may write, which waits for it.
    pub(crate) looked: Arc<OnceCell<()>>,
    /// The directory before that, and how many files had been touched.
    before: Option<(Before, usize)>,
    /// What others obey, before that.
    obeyed: Option<Obeyed>,
    /// The names that are told first where a path has one of them.
    guarded: Vec<String>,
}

#[derive(Debug)]
struct FileState {
    absolute: PathBuf,
    shown: PathBuf,
    /// `None`: there was no such file.
    first: Option<String>,
    /// `None`: there is no such file any more.
    last: Option<String>,
    /// It changed, and its content is not known.
    is_opaque: bool,
    /// Its permissions as the turn found it; none where there was no file.
    mode: Option<u32>,
}

impl TurnDiff {
    /// Nothing yet. `guarded` are the names of the configuration that others obey.
    pub(crate) fn new(guarded: Vec<String>) -> Self {
        Self { guarded, ..Self::default() }
    }

    /// Notes a change that was made. `root` is the thread's directory: paths beneath it are shown relative to it.
    pub(crate) fn record(&mut self, root: &Path, change: &Change) {
        match &change.move_to_absolute {
            None => self.set(root, &change.absolute, change.old.as_deref(), change.new.as_deref(), change.mode),
            Some(to) => {
                self.set(root, &change.absolute, change.old.as_deref(), None, change.mode);
                self.set(root, to, None, change.new.as_deref(), None);
            }
        }
    }

    fn set(&mut self, root: &Path, absolute: &Path, old: Option<&str>, new: Option<&str>, mode: Option<u32>) {
        if let Some(file) = self.files.iter_mut().find(|file| file.absolute == absolute) {
            file.last = new.map(str::to_owned);
            return;
        }
        self.files.push(FileState {
            absolute: absolute.to_owned(),
            shown: relative(root, absolute),
            first: old.map(str::to_owned),
            last: new.map(str::to_owned),
            is_opaque: false,
            mode,
        });
    }

    /// Notes what the directory holds before commands run.
    pub(crate) fn set_before(&mut self, before: Before) {
        let touched = self.files.len();
        self.before = Some((before, touched));
    }

    /// Notes what stood at the tops of directories before commands run.
    pub(crate) fn set_obeyed(&mut self, obeyed: Obeyed) {
        self.obeyed = Some(obeyed);
    }

    /// Takes it, so that the disk is read without a lock.
    pub(crate) fn take_obeyed(&mut self) -> Option<Obeyed> {
        self.obeyed.take()
    }

    /// Notes what others obey and is not as it was. `is_recorded` says that the record of what commands changed has been added:
    /// then it tells more, but for what version control ignores and what lies elsewhere.
    pub(crate) fn add_obeyed(&mut self, root: &Path, others: Vec<Other>, is_recorded: bool) {
        for Other { path, is_new } in others {
            let is_told = self.files.iter().any(|file| file.absolute.starts_with(&path));
            let is_in_record = is_recorded && path.starts_with(root) && !is_new;
            if !is_told && !is_in_record {
                self.add_changes(root, vec![Changed { path, content: Content::Opaque, mode: None }], 0);
            }
        }
    }

    /// The warning of the files that others obey.
    pub(crate) fn warning(&self) -> Option<String> {
        super::obeyed::warning(&self.files_changed(), &self.guarded)
    }

    /// Takes what [`TurnDiff::add_changes`] needs, so that the disk is read without a lock.
    pub(crate) fn take_before(&mut self) -> Option<(Before, usize)> {
        self.before.take()
    }

    /// Notes what commands have changed. Files that a patch had touched before the directory was looked at keep what the
    /// turn found; `touched` says how many those are.
    pub(crate) fn add_changes(&mut self, root: &Path, changes: Vec<Changed>, touched: usize) {
        for Changed { path, content, mode } in changes {
            let at = self.files.iter().position(|file| file.absolute == path);
            match (content, at) {
                (Content::Known(old, new), Some(at)) => {
                    let file = &mut self.files[at];
                    if at >= touched {
                        (file.first, file.mode) = (old, mode);
                    }
                    file.last = new;
                }
                (Content::Known(first, last), None) => {
                    let shown = relative(root, &path);
                    self.files.push(FileState { absolute: path, shown, first, last, is_opaque: false, mode });
                }
                (Content::Opaque, Some(at)) => self.files[at].is_opaque = true,
                (Content::Unproven, Some(_)) => {}
                (Content::Opaque | Content::Unproven, None) => {
                    let shown = relative(root, &path);
                    self.files.push(FileState {
                        absolute: path,
                        shown,
                        first: None,
                        last: None,
                        is_opaque: true,
                        mode,
                    });
                }
            }
        }
    }

    /// The files that are not as the turn found them, those that others obey first.
    pub(crate) fn files_changed(&self) -> Vec<PathBuf> {
        self.changed().map(|file| file.shown.clone()).collect()
    }

    /// The changes as they are kept for taking them back. What is too much is only named.
    pub(crate) fn records(&self) -> Vec<FileRecord> {
        const MOST: usize = 4 << 20;
        let mut room = MOST;
        let record = |file: &FileState| {
            let size = file.first.as_ref().map_or(0, String::len);
            let is_kept = !file.is_opaque && size <= room;
            if is_kept {
                room -= size;
            }
            FileRecord {
                path: file.absolute.clone(),
                before: file.first.clone().filter(|_| is_kept),
                after: file.last.as_deref().map(hash),
                mode: file.mode,
                is_kept,
            }
        };
        self.changed().map(record).collect()
    }

    /// All changes as one unified diff; `None` when there are none.
    pub(crate) fn unified(&self) -> Option<String> {
        let diff: String = self
            .changed()
            .filter(|file| !file.is_opaque)
            .map(|file| unified_diff(&file.shown, file.first.as_deref(), file.last.as_deref()))
            .collect();
        (!diff.is_empty()).then_some(diff)
    }

    /// Those that others obey come first.
    fn changed(&self) -> impl Iterator<Item = &FileState> {
        let is_obeyed = |file: &&FileState| super::obeyed::why(&file.shown, &self.guarded).is_some();
        let changed = || self.files.iter().filter(|file| file.is_opaque || file.first != file.last);
        changed().filter(is_obeyed).chain(changed().filter(move |file| !is_obeyed(file)))
    }
}

impl TurnResult {
    /// The part of [`TurnResult::diff`] of each file that has one, in the order of [`TurnResult::files_changed`].
    pub fn file_diffs(&self) -> Vec<(&Path, &str)> {
        let parts = sections(self.diff.as_deref().unwrap_or_default());
        let of = |path: &PathBuf| {
            // What every diff of this file begins with.
            let head = unified_diff(path, None, Some(""));
            let head = head.split_inclusive('\n').next()?;
            parts.iter().find(|part| part.starts_with(head)).copied()
        };
        self.files_changed.iter().filter_map(|path| Some((path.as_path(), of(path)?))).collect()
    }

    /// The files of [`TurnResult::files_changed`] that have a diff, in their order; all of them where the diff is lost.
    pub fn shown_files(&self) -> impl Iterator<Item = &Path> {
        let shown = self.shown();
        self.files_changed.iter().map(PathBuf::as_path).filter(move |path| is_in(shown.as_ref(), path))
    }

    /// The others: commands changed them, and they are no text, too large or not to be read.
    pub fn files_without_diff(&self) -> impl Iterator<Item = &Path> {
        let shown = self.shown();
        self.files_changed.iter().map(PathBuf::as_path).filter(move |path| !is_in(shown.as_ref(), path))
    }

    /// The files that have a diff; none where that is not known.
    fn shown(&self) -> Option<HashSet<&Path>> {
        let is_lost = self.diff.is_none() && self.warnings.iter().any(|warning| warning.starts_with(DIFF_LOST));
        (!is_lost).then(|| self.file_diffs().into_iter().map(|(path, _)| path).collect())
    }
}

/// What the warning begins with that says that the diff of a result is not there any more.
pub(crate) const DIFF_LOST: &str = "the diff of this turn, ";

fn is_in(shown: Option<&HashSet<&Path>>, path: &Path) -> bool {
    shown.is_none_or(|shown| shown.contains(path))
}

/// The diffs of a diff of several files. No line of a file begins as their first lines do: it has a mark before it.
fn sections(diff: &str) -> Vec<&str> {
    const HEAD: &str = "diff --git ";
    let mut begins: Vec<usize> = diff.match_indices(&format!("\n{HEAD}")).map(|(at, _)| at + 1).collect();
    if diff.starts_with(HEAD) {
        begins.insert(0, 0);
    }
    let ends = begins.iter().skip(1).copied().chain([diff.len()]);
    begins.iter().zip(ends).map(|(begin, end)| &diff[*begin..end]).collect()
}

/// A path as it is shown: relative to the root where it lies beneath it.
pub(crate) fn relative(root: &Path, absolute: &Path) -> PathBuf {
    absolute.strip_prefix(root).map_or_else(|_| absolute.to_owned(), Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_compared_with_what_the_turn_found() {
        let root = Path::new("/r");
        let mut diff = TurnDiff::default();
        let (a, b, c) = (Path::new("/r/a"), Path::new("/r/b"), Path::new("/elsewhere/c"));
        diff.set(root, a, Some("1\n"), Some("2\n"), None);
        diff.set(root, a, Some("2\n"), Some("3\n"), None);
        diff.set(root, b, None, Some("new\n"), None);
        diff.set(root, b, Some("new\n"), None, None);
        diff.set(root, c, Some("gone\n"), None, None);
        assert_eq!(diff.files_changed(), [PathBuf::from("a"), c.to_owned()]);
        let text = diff.unified().unwrap();
        assert!(text.contains("-1") && text.contains("+3") && !text.contains('2'), "{text}");
    }

    #[test]
    fn files_without_a_diff_are_told_apart_unless_the_diff_is_lost() {
        let (diff, files) = (unified_diff(Path::new("a"), None, Some("x\n")), vec!["a".into(), "b.pyc".into()]);
        let result = |diff: Option<String>, warnings: Vec<String>| TurnResult {
            thread_id: crate::ThreadId::new(),
            turn_id: crate::TurnId::new(),
            status: crate::TurnStatus::Completed,
            content: String::new(),
            files_changed: files.clone(),
            diff,
            usage: openoxide_llm::Usage::default(),
            thread_usage: openoxide_llm::Usage::default(),
            duration_ms: 0,
            denials: Vec::new(),
            warnings,
        };
        let told = |result: &TurnResult| (result.shown_files().count(), result.files_without_diff().count());
        assert_eq!(told(&result(Some(diff), Vec::new())), (1, 1));
        assert_eq!(told(&result(None, Vec::new())), (0, 2));
        assert_eq!(told(&result(None, vec![format!("{DIFF_LOST}7 bytes, is not there any more")])), (2, 0));
    }

    #[test]
    fn a_diff_of_several_files_comes_apart_again_whatever_is_in_them() {
        let root = Path::new("/r");
        let mut diff = TurnDiff::default();
        let odd = "diff --git a/b b/b\n--- a/b\n";
        diff.set(root, Path::new("/r/a"), Some(odd), Some("x"), None);
        diff.set(root, Path::new("/r/b c\u{202e}"), None, Some("diff --git a/a b/a"), None);
        diff.set(root, Path::new("/r/empty"), None, Some(""), None);
        diff.set(root, Path::new("/elsewhere/c"), Some("gone\n"), None, None);
        let whole = diff.unified().unwrap();
        let parts = sections(&whole);
        let expected: Vec<String> =
            diff.changed().map(|file| unified_diff(&file.shown, file.first.as_deref(), file.last.as_deref())).collect();
        assert_eq!(parts, expected);
        assert_eq!(sections(""), [""; 0]);
    }

    #[test]
    fn what_was_undone_is_no_change() {
        let mut diff = TurnDiff::default();
        diff.set(Path::new("/r"), Path::new("/r/a"), Some("1\n"), Some("2\n"), None);
        diff.set(Path::new("/r"), Path::new("/r/a"), Some("2\n"), Some("1\n"), None);
        assert_eq!(diff.unified(), None);
        assert!(diff.files_changed().is_empty());
    }
}
