//! A patch as a question shows it: what it does in one line, and its diff below.

use std::fmt::Write as _;

use openoxide_core::{FileChange, FileChangeKind, quote_path};

use super::data::ChangeData;

/// The longest line of a file that is told beside its name, in characters.
const LINE: usize = 80;

/// Files that the first line names.
const NAMED: usize = 8;

/// What changes, on one line, and what stands below it: each diff without its head, with a line for the file where there are
/// several. `cut` are the same changes with their diffs as far as they are shown.
pub(super) fn shown(changes: &[FileChange], cut: &[ChangeData<'_>]) -> (String, String) {
    let (added, removed) = changes.iter().map(counts).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    let mut below = String::new();
    for (change, cut) in changes.iter().zip(cut) {
        if changes.len() > 1 {
            // Writing to a string cannot fail.
            let _ = writeln!(below, "{} {}", verb(change).to_lowercase(), place(change));
        }
        below.push_str(&openoxide_core::visible_lines(hunks(&cut.diff)));
        if !below.is_empty() && !below.ends_with('\n') {
            below.push('\n');
        }
    }
    let fact = match changes {
        [one] => {
            format!("{} {} (+{added} -{removed}){}", verb(one).replace("Update", "Change"), place(one), lines_of(one))
        }
        many => {
            let mut places: Vec<String> = many.iter().take(NAMED).map(place).collect();
            if many.len() > NAMED {
                places.push(format!("and {} more", many.len() - NAMED));
            }
            format!("Change {} files (+{added} -{removed}): {}", many.len(), places.join(", "))
        }
    };
    (fact, below)
}

fn verb(change: &FileChange) -> &'static str {
    match change.kind {
        FileChangeKind::Add => "Add",
        FileChangeKind::Update => "Update",
        FileChangeKind::Delete => "Delete",
    }
}

/// The file, and where it moves to.
fn place(change: &FileChange) -> String {
    let path = openoxide_core::visible(&[quote_path(&change.path)]);
    match &change.move_to {
        Some(to) => format!("{path} -> {}", openoxide_core::visible(&[quote_path(to)])),
        None => path,
    }
}

/// A diff from its first hunk on, or from what says that it was cut before.
fn hunks(diff: &str) -> &str {
    let mut at = 0;
    for line in diff.split_inclusive('\n') {
        if line.starts_with("@@ ") || line.starts_with("[cut: ") {
            break;
        }
        at += line.len();
    }
    &diff[at..]
}

/// Lines added and removed.
fn counts(change: &FileChange) -> (usize, usize) {
    let lines = hunks(&change.diff);
    let begins = |mark| lines.lines().filter(|line| line.starts_with(mark)).count();
    (begins('+'), begins('-'))
}

/// The line that goes and the line that comes, where there is at most one of each and both are short.
fn lines_of(change: &FileChange) -> String {
    let diff = hunks(&change.diff);
    let mut told = Vec::new();
    for mark in ['-', '+'] {
        let mut lines = diff.lines().filter_map(|line| line.strip_prefix(mark));
        let (line, another) = (lines.next(), lines.next());
        match line.map(str::trim) {
            None | Some("") if another.is_none() => {}
            // A mark in it could pass for the end of it.
            Some(line) if another.is_none() && !line.contains('`') && line.chars().count() <= LINE => {
                told.push(format!("`{mark} {}`", openoxide_core::visible_text(line)));
            }
            _ => return String::new(),
        }
    }
    match told.is_empty() {
        true => String::new(),
        false => format!(": {}", told.join(" / ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(kind: FileChangeKind, move_to: Option<&str>, diff: &str) -> String {
        let move_to = move_to.map(Into::into);
        let change = [FileChange { path: "a.py".into(), kind, move_to, diff: diff.into() }];
        shown(&change, &super::super::output::with_cut_diffs(&change, 1_000)).0
    }

    #[test]
    fn one_line_says_what_becomes_of_a_file() {
        use FileChangeKind::{Add, Delete, Update};
        assert_eq!(fact(Add, None, "--- /dev/null\n+++ b/a.py\n@@ -0,0 +1,2 @@\n+a\n+b\n"), "Add a.py (+2 -0)");
        assert_eq!(
            fact(Delete, None, "--- a/a.py\n+++ /dev/null\n@@ -1 +0,0 @@\n--- x\n"),
            "Delete a.py (+0 -1): `- -- x`"
        );
        assert_eq!(fact(Update, Some("b.py"), "rename from a.py\nrename to b.py\n"), "Change a.py -> b.py (+0 -0)");
        assert_eq!(fact(Update, None, "@@ -1 +1 @@\n-`a` / `+ b`\n+c\n"), "Change a.py (+1 -1)");
        assert_eq!(fact(Update, None, "@@ -1 +1 @@\n-a\u{202e}\n+c\n"), "Change a.py (+1 -1): `- $'a\\u202e'` / `+ c`");
    }

    #[test]
    fn many_files_are_counted_and_each_has_its_part() {
        let change = |at: usize| FileChange {
            path: format!("{at}.py").into(),
            kind: FileChangeKind::Update,
            move_to: None,
            diff: "--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n".into(),
        };
        let changes: Vec<FileChange> = (0..10).map(change).collect();
        let (fact, below) = shown(&changes, &super::super::output::with_cut_diffs(&changes, 1_000));
        assert!(
            fact.starts_with("Change 10 files (+10 -10): 0.py, ") && fact.ends_with(", 7.py, and 2 more"),
            "{fact}"
        );
        assert!(below.starts_with("update 0.py\n@@ -1 +1 @@\n-a\n+b\nupdate 1.py\n"), "{below}");
    }
}
