//! Commands and changes of files as Codex told them.

use std::path::Path;

use openoxide_core::{FileChange, FileChangeKind, quote_path};
use serde_json::{Map, Value, json};

/// A command by its words; what it does is not told.
pub(super) fn parsed(argv: &[String]) -> Value {
    json!([{ "type": "unknown", "cmd": openoxide_core::visible(argv) }])
}

/// What is typed into a command, as the words of a command: Codex had no other form for it.
pub(super) fn typing(command_id: u64, text: &str) -> [String; 3] {
    ["write_stdin".to_owned(), command_id.to_string(), text.to_owned()]
}

/// Changes by absolute path; with the diff of all of them each has its own part.
pub(super) fn changes_of(cwd: &Path, changes: &[FileChange], diff: Option<&str>) -> Value {
    let parts = diff.map(parts_of).unwrap_or_default();
    let part = |at: usize| parts.get(at).map_or("", String::as_str);
    let entry = |(at, change): (usize, &FileChange)| {
        let what = match change.kind {
            FileChangeKind::Add => {
                let added =
                    part(at).lines().filter(|line| !line.starts_with("+++")).filter_map(|line| line.strip_prefix('+'));
                json!({ "type": "add", "content": added.map(|line| format!("{line}\n")).collect::<String>() })
            }
            FileChangeKind::Update => {
                let move_path = change.move_to.as_ref().map(|to| quote_path(&cwd.join(to)));
                json!({ "type": "update", "unified_diff": part(at), "move_path": move_path })
            }
            FileChangeKind::Delete => json!({ "type": "delete" }),
        };
        (quote_path(&cwd.join(&change.path)), what)
    };
    Value::Object(changes.iter().enumerate().map(entry).collect::<Map<_, _>>())
}

/// The parts of a unified diff, one for each file.
fn parts_of(diff: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut lines = diff.lines().peekable();
    while let Some(line) = lines.next() {
        // What stands between two files belongs to neither.
        if line.starts_with("diff --git ") {
            while lines.peek().is_some_and(|next| !next.starts_with("--- ") && !next.starts_with("diff --git ")) {
                lines.next();
            }
            continue;
        }
        let begins = line.starts_with("--- ") && lines.peek().is_some_and(|next| next.starts_with("+++ "));
        if begins {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_changed_file_has_its_part_of_the_diff() {
        let diff = "diff --git a/a.txt b/a.txt\nnew file mode 100644\n--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1,2 @@\n+one\n+--- two\ndiff --git a/b.txt b/b.txt\n--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-x\n+y\n";
        let change = |path: &str, kind| FileChange { path: path.into(), kind, move_to: None, diff: "".into() };
        let changes = [change("a.txt", FileChangeKind::Add), change("b.txt", FileChangeKind::Update)];
        let all = changes_of(Path::new("/w"), &changes, Some(diff));
        assert_eq!(all["/w/a.txt"], json!({ "type": "add", "content": "one\n--- two\n" }));
        assert!(all["/w/b.txt"]["unified_diff"].as_str().unwrap().ends_with("-x\n+y\n"));
    }
}
