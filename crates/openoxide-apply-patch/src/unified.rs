//! Operations that are written as unified diffs, as git and `diff -u` make them, inside a patch or instead of one.
//!
//! A name pair says which file; ranges are passed over, since models get their numbers wrong.

use std::path::{Path, PathBuf};

use crate::{
    PatchError,
    parse::Parser,
    patch::{FileOp, LineTag},
};

/// What the header of a file's diff says.
#[derive(Default)]
struct Names {
    old: Option<PathBuf>,
    new: Option<PathBuf>,
    is_rename: bool,
    is_new: bool,
    is_gone: bool,
}

impl Parser<'_> {
    /// Whether a diff of a file begins at the next line.
    pub(crate) fn at_unified(&self) -> bool {
        let line = self.peek().unwrap_or_default();
        line.starts_with("diff --git ") || self.at_name_pair()
    }

    /// Whether the next two lines are `--- a/x` and `+++ b/x`.
    pub(crate) fn at_name_pair(&self) -> bool {
        let is = |line: Option<&str>, mark: &str| line.is_some_and(|line| line.starts_with(mark));
        is(self.peek(), "--- ") && is(self.peek_at(1), "+++ ")
    }

    /// Passes over the header of a diff that repeats what an operation's own header said.
    pub(crate) fn skip_unified_header(&mut self) {
        let start = self.next;
        let passes = ["diff --git ", "index ", "new file mode ", "old mode ", "new mode "];
        while self.peek().is_some_and(|line| passes.iter().any(|mark| line.starts_with(mark))) {
            self.next += 1;
        }
        let pair = self.at_name_pair() && self.peek_at(2).is_none_or(|line| self.is_locator(line));
        if pair {
            self.next += 2;
        } else if self.peek().is_none_or(|line| !self.is_locator(line)) {
            self.next = start;
        }
    }

    /// One file's diff.
    pub(crate) fn unified(&mut self) -> Result<FileOp, PatchError> {
        let line = self.number();
        let names = self.names()?;
        let (Some(old), Some(new)) = (names.old, names.new) else {
            return Self::bad(line, "the diff names no file; it needs the lines `--- a/PATH` and `+++ b/PATH`");
        };
        let is_null = |path: &PathBuf| path == Path::new("/dev/null");
        if is_null(&new) || names.is_gone {
            while self.peek().is_some_and(|line| self.is_locator(line) || line.starts_with(['-', '\\'])) {
                self.next += 1;
            }
            return Ok(FileOp::Delete { line, path: old });
        }
        let (old, new) = stripped(old, new);
        let chunks = self.chunks()?;
        if is_null(&old) || names.is_new {
            let lines = || chunks.iter().flat_map(|chunk| &chunk.lines);
            if lines().any(|line| line.tag != LineTag::Add && !line.text.is_empty()) {
                return Self::bad(line, "the diff of a new file may have `+` lines only");
            }
            let texts: Vec<&str> = lines().filter(|line| line.tag == LineTag::Add).map(|line| &*line.text).collect();
            let mut content = texts.join("\n");
            let ended = chunks.iter().all(|chunk| chunk.final_newline != Some(false));
            if !texts.is_empty() && ended {
                content.push('\n');
            }
            return Ok(FileOp::Add { line, path: new, content, mode: None, replaces: true });
        }
        if old != new && !names.is_rename {
            let (old, new) = (old.display(), new.display());
            return Self::bad(
                line,
                format!("the diff names two files, `{old}` and `{new}`; name one, or say `rename from`"),
            );
        }
        if chunks.is_empty() && old == new {
            return Self::bad(line, format!("the diff of `{}` has no changes", old.display()));
        }
        let move_to = (old != new).then_some(new);
        Ok(FileOp::Update { line, path: old, move_to, chunks })
    }

    fn names(&mut self) -> Result<Names, PatchError> {
        let mut names = Names::default();
        if let Some(both) = self.peek().and_then(|line| line.strip_prefix("diff --git ")) {
            // Names with spaces are only told apart by the lines after this one.
            if let Some((old, new)) = both.trim().split_once(' ').filter(|(_, new)| !new.contains(' ')) {
                (names.old, names.new) = (Some(path(old)), Some(path(new)));
            }
            self.next += 1;
        }
        while let Some(line) = self.peek() {
            if let Some(old) = line.strip_prefix("--- ").filter(|_| self.at_name_pair()) {
                let new = self.peek_at(1).and_then(|line| line.strip_prefix("+++ ")).unwrap_or_default();
                (names.old, names.new) = (Some(path(old)), Some(path(new)));
                self.next += 2;
                break;
            }
            if let Some(from) = line.strip_prefix("rename from ") {
                (names.old, names.is_rename) = (Some(path(from)), true);
            } else if let Some(to) = line.strip_prefix("rename to ") {
                (names.new, names.is_rename) = (Some(path(to)), true);
            } else if line.starts_with("new file mode") {
                names.is_new = true;
            } else if line.starts_with("deleted file mode") {
                names.is_gone = true;
            } else if line.starts_with("Binary files ") || line.starts_with("GIT binary patch") {
                return Self::bad(self.number(), "patches only change text files; use a command for a binary file");
            } else if !["index ", "old mode", "new mode", "similarity index", "dissimilarity index"]
                .iter()
                .any(|mark| line.starts_with(mark))
            {
                break;
            }
            self.next += 1;
        }
        Ok(names)
    }
}

/// A name of a header: without the time after a tab, unquoted.
fn path(text: &str) -> PathBuf {
    let text = text.split('\t').next().unwrap_or_default().trim();
    openoxide_display::unquote_path(text)
}

/// The names without the prefixes that tell the two sides apart.
fn stripped(old: PathBuf, new: PathBuf) -> (PathBuf, PathBuf) {
    let null = Path::new("/dev/null");
    let without =
        |path: &Path, marks: &[&str]| marks.iter().find_map(|mark| path.strip_prefix(mark).ok().map(Path::to_path_buf));
    let (left, right) = (without(&old, &["a", "i", "c", "o"]), without(&new, &["b", "w", "i"]));
    match (left, right) {
        (Some(left), Some(right)) => (left, right),
        (None, Some(right)) if old == null => (old, right),
        _ => (old, new),
    }
}
