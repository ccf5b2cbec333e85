//! Changes of files as Codex told them.

use std::path::{Path, PathBuf};

use openoxide_core::{FileChange, FileChangeKind, quote_path};
use serde_json::{Map, Value, json};

/// What is typed into a command, as the words of a command: Codex had no other form for it.
pub(super) fn typing(command_id: u64, text: &str) -> [String; 3] {
    ["write_stdin".to_owned(), command_id.to_string(), text.to_owned()]
}

/// Changes by absolute path: the content of what is added or deleted, and the hunks of what is updated.
pub(super) fn changes_of(cwd: &Path, changes: &[FileChange]) -> Value {
    let entry = |change: &FileChange| {
        let what = match change.kind {
            FileChangeKind::Add => json!({ "type": "add", "content": content(&change.diff, '+') }),
            FileChangeKind::Update => {
                let move_path = change.move_to.as_ref().map(|to| quote_path(&cwd.join(to)));
                json!({ "type": "update", "unified_diff": hunks(&change.diff), "move_path": move_path })
            }
            FileChangeKind::Delete => json!({ "type": "delete", "content": content(&change.diff, '-') }),
        };
        (quote_path(&cwd.join(&change.path)), what)
    };
    Value::Object(changes.iter().map(entry).collect::<Map<_, _>>())
}

/// What a patch that was applied says of itself.
pub(super) fn summary(changes: &[FileChange]) -> String {
    let line = |letter: char, path: &PathBuf| format!("{letter} {}\n", quote_path(path));
    let of = |letter: char| match letter {
        'A' => FileChangeKind::Add,
        'M' => FileChangeKind::Update,
        _ => FileChangeKind::Delete,
    };
    let lines = ['A', 'M', 'D'].into_iter().flat_map(|letter| {
        let those = changes.iter().filter(move |change| change.kind == of(letter));
        those.map(move |change| line(letter, change.move_to.as_ref().unwrap_or(&change.path)))
    });
    format!("Success. Updated the following files:\n{}", lines.collect::<String>())
}

/// A file's diff without the lines that name it.
fn hunks(diff: &str) -> &str {
    match diff.starts_with("@@") {
        true => diff,
        false => diff.find("\n@@").map_or("", |at| &diff[at + 1..]),
    }
}

/// One side of a diff that has only that side.
fn content(diff: &str, side: char) -> String {
    let mut content = String::new();
    for line in hunks(diff).lines() {
        if let Some(text) = line.strip_prefix(side) {
            content.push_str(text);
            content.push('\n');
        } else if line.starts_with('\\') {
            // `\ No newline at end of file`
            content.truncate(content.trim_end_matches('\n').len());
        }
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_changed_file_has_what_it_was_or_becomes() {
        let change =
            |path: &str, kind, diff: &str| FileChange { path: path.into(), kind, move_to: None, diff: diff.into() };
        let changes = [
            change("a.txt", FileChangeKind::Add, "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1,2 @@\n+one\n+--- two\n"),
            change("b.txt", FileChangeKind::Update, "--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-x\n+y\n"),
            change(
                "c.txt",
                FileChangeKind::Delete,
                "--- a/c.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\n-y\n\\ No newline at end of file\n",
            ),
            change("empty.txt", FileChangeKind::Add, "diff --git a/empty.txt b/empty.txt\nnew file mode 100644\n"),
        ];
        let all = changes_of(Path::new("/w"), &changes);
        assert_eq!(all["/w/a.txt"], json!({ "type": "add", "content": "one\n--- two\n" }));
        let update = json!({ "type": "update", "unified_diff": "@@ -1 +1 @@\n-x\n+y\n", "move_path": null });
        assert_eq!(all["/w/b.txt"], update);
        assert_eq!(all["/w/c.txt"], json!({ "type": "delete", "content": "x\ny" }));
        assert_eq!(all["/w/empty.txt"], json!({ "type": "add", "content": "" }));
        let told = "Success. Updated the following files:\nA a.txt\nA empty.txt\nM b.txt\nD c.txt\n";
        assert_eq!(summary(&changes), told);
    }
}
