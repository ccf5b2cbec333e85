//! One change of one file: the text before and after, and the hunks between them.

use std::{fs, path::Path};

use similar::{DiffTag, TextDiff};

/// What happens to a line of a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    Keep,
    Remove,
    Add,
}

/// A run of changes with the lines around it.
#[derive(Debug, Clone)]
pub(crate) struct Hunk {
    /// 0-based line of the old file at which it starts.
    pub(crate) start: usize,
    pub(crate) lines: Vec<(Tag, String)>,
}

/// A change.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// Where the file lies in the tree.
    pub(crate) path: String,
    pub(crate) old: String,
    pub(crate) new: String,
}

impl Case {
    /// Its hunks with so many lines of context.
    pub(crate) fn hunks(&self, context: usize) -> Vec<Hunk> {
        let (old, new): (Vec<&str>, Vec<&str>) = (lines(&self.old), lines(&self.new));
        let diff: TextDiff<'_, '_, str> = TextDiff::from_slices(&old, &new);
        let hunk = |ops: Vec<similar::DiffOp>| {
            let start = ops.first().map_or(0, |op| op.old_range().start);
            let mut found = Vec::new();
            for op in ops {
                let tag = if op.tag() == DiffTag::Equal { Tag::Keep } else { Tag::Remove };
                found.extend(old[op.old_range()].iter().map(|line| (tag, (*line).to_owned())));
                if op.tag() != DiffTag::Equal {
                    found.extend(new[op.new_range()].iter().map(|line| (Tag::Add, (*line).to_owned())));
                }
            }
            Hunk { start, lines: found }
        };
        diff.grouped_ops(context).into_iter().map(hunk).collect()
    }
}

pub(crate) fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').map(|line| line.strip_suffix('\n').unwrap_or(line)).collect()
}

/// All cases of a directory: `NAME.old` and `NAME.new`, or `NAME.old` and `NAME.diff` with exact line numbers.
pub(crate) fn load(directory: &Path) -> Vec<Case> {
    let mut found = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            found.extend(load(&path));
        } else if path.extension().is_some_and(|end| end == "old") {
            let old = fs::read_to_string(&path).unwrap();
            let new = match fs::read_to_string(path.with_extension("new")) {
                Ok(new) => new,
                Err(_) => patched(&old, &fs::read_to_string(path.with_extension("diff")).unwrap()),
            };
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            found.push(Case { path: format!("src/part/{name}"), name, old, new });
        }
    }
    found
}

/// Applies a diff whose numbers are right.
fn patched(old: &str, diff: &str) -> String {
    let olds: Vec<&str> = old.split_inclusive('\n').collect();
    let (mut out, mut next) = (String::new(), 0);
    for line in diff.split_inclusive('\n') {
        if let Some(range) = line.strip_prefix("@@ -") {
            let start: usize = range.split([',', ' ']).next().unwrap().parse().unwrap();
            let none = range.split(' ').next().unwrap().ends_with(",0");
            let at = if none { start } else { start - 1 };
            out.extend(olds[next..at].iter().copied());
            next = at;
        } else if let Some(text) = line.strip_prefix('+') {
            out.push_str(text);
        } else if line.starts_with([' ', '-']) {
            assert_eq!(&line[1..], olds[next], "the diff fits its file");
            out.push_str(if line.starts_with(' ') { olds[next] } else { "" });
            next += 1;
        }
    }
    out.extend(olds[next..].iter().copied());
    out
}
