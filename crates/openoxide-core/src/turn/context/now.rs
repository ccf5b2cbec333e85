//! What changes while a thread lasts: the date, and where its repository stands. It is told in a message of its own, ahead of a prompt, and
//! again when it has changed since it was told last; what was told before stays as it is.

use std::path::Path;
use std::sync::Arc;

use openoxide_llm::HistoryItem;
use time::OffsetDateTime;

use crate::tools::files::{FileView, Links, repository};

/// How a message begins that tells only this.
pub(crate) const UPDATE_BEGIN: &str = "<environment_update>\n";

/// Longest file of git's that is read: a branch's name in each.
const MAX_HEAD: u64 = 4096;

/// The lines of this moment. Blocks on the disk.
pub(super) fn lines(view: &FileView) -> String {
    // The date of the calendar that needs no place on earth; the clock is left out, since it would be another at each turn.
    let date = OffsetDateTime::now_utc().date();
    let git = git(view).map_or_else(|| "git: no repository".to_owned(), |state| format!("git: {state}"));
    format!("date: {date} (UTC)\n{git}\n")
}

/// A message with these lines, unless they are what was told last.
pub(super) fn update(history: &[Arc<HistoryItem>], lines: &str) -> Option<HistoryItem> {
    let told = history.iter().rev().find_map(|item| match &**item {
        HistoryItem::Note { text } if text.starts_with("<environment_") => Some(text.as_str()),
        _ => None,
    });
    let is_told = told.is_some_and(|told| lines.lines().all(|line| told.lines().any(|said| said == line)));
    let text = format!("{UPDATE_BEGIN}{lines}</environment_update>");
    (!is_told).then_some(HistoryItem::Note { text })
}

/// The branch, or the commit where there is none.
fn git(view: &FileView) -> Option<String> {
    let way = repository::path_to_workspace(view).ok()?;
    let root = way.first()?;
    let head = match view.file_beneath(root, Path::new(".git/HEAD"), Links::Beneath) {
        Ok(file) => file.read_start(MAX_HEAD).ok()?,
        // A worktree's is elsewhere, where a thread may not look.
        Err(_) if view.file_beneath(root, Path::new(".git"), Links::Refused).is_ok() => {
            return Some("a worktree".into());
        }
        Err(_) => return None,
    };
    let head = String::from_utf8(head).ok()?;
    let head: String = head.trim().chars().filter(|c| !c.is_control()).collect();
    Some(match head.strip_prefix("ref: refs/heads/") {
        Some(branch) => format!("branch {branch}"),
        None => format!("commit {}, no branch", head.chars().take(12).collect::<String>()),
    })
}

#[cfg(test)]
mod tests {
    use openoxide_sandbox::Workspace;

    use super::*;

    #[test]
    fn what_was_told_is_told_again_only_when_it_has_changed() {
        let dir = tempfile::tempdir().unwrap();
        let view = || FileView::new(Arc::new(Workspace::resolve(dir.path()).unwrap()), Vec::new());
        assert!(lines(&view()).ends_with("git: no repository\n"));
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        std::fs::write(dir.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let first = lines(&view());
        assert!(first.starts_with("date: 20") && first.ends_with(" (UTC)\ngit: branch main\n"), "{first}");
        let beginning =
            HistoryItem::Note { text: format!("<environment_context>\ncwd: /w\n{first}</environment_context>") };
        let mut history = vec![Arc::new(beginning)];
        assert_eq!(update(&history, &first), None);
        std::fs::write(dir.path().join(".git/HEAD"), "0123456789abcdef\n").unwrap();
        let second = lines(&view());
        let told = update(&history, &second).unwrap();
        assert!(
            matches!(&told, HistoryItem::Note { text } if text.contains("git: commit 0123456789ab, no branch")),
            "{told:?}"
        );
        history.push(Arc::new(told));
        assert_eq!(update(&history, &second), None);
        assert!(update(&history, &first).is_some(), "back again");
    }
}
