//! What a summary must not lose and the thread knows better than its model: the plan, the commands that run in the background, and the
//! files that were changed. It goes into the message that carries the summary, and from there into that of the next one.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use openoxide_display::quote_path;
use openoxide_llm::HistoryItem;

/// How the lists begin and end in the message.
const PLAN: [&str; 2] = ["<plan>\n", "</plan>"];
const CHANGED: [&str; 2] = ["<changed_files>\n", "</changed_files>"];

/// The most changed files that are named, the latest.
const MAX_FILES: usize = 200;

/// The lists, as text behind a summary.
pub(super) fn told(history: &[Arc<HistoryItem>], commands: &[String], changed: &[PathBuf]) -> String {
    let mut text = String::new();
    if let Some(plan) = plan(history) {
        let _ = write!(text, "\n\nThe plan as it stands:\n{}{plan}{}", PLAN[0], PLAN[1]);
    }
    if !commands.is_empty() {
        let _ = write!(text, "\n\nCommands that still run in the background:\n{}", commands.join("\n"));
    }
    let files = changed_files(history, changed);
    if !files.is_empty() {
        let _ = write!(text, "\n\nFiles that were changed so far:\n{}{}\n{}", CHANGED[0], files.join("\n"), CHANGED[1]);
    }
    text
}

/// What a note has between two marks.
fn between<'a>(item: &'a HistoryItem, [begin, end]: [&str; 2]) -> Option<&'a str> {
    let HistoryItem::Note { text } = item else { return None };
    let from = text.find(begin)? + begin.len();
    let length = text[from..].find(end)?;
    Some(&text[from..from + length])
}

/// The latest plan, one step a line.
fn plan(history: &[Arc<HistoryItem>]) -> Option<String> {
    history.iter().rev().find_map(|item| match &**item {
        HistoryItem::FunctionCall { name, arguments, .. } if name == "update_plan" => {
            let arguments: serde_json::Value = serde_json::from_str(arguments).ok()?;
            let steps = arguments["plan"].as_array()?.iter().map(|step| {
                let word = |name: &str| step[name].as_str().unwrap_or_default().replace('\n', " ");
                format!("- [{}] {}\n", word("status"), word("step"))
            });
            Some(steps.collect())
        }
        item => between(item, PLAN).map(str::to_owned),
    })
}

/// The files that an earlier summary names, and these.
fn changed_files(history: &[Arc<HistoryItem>], changed: &[PathBuf]) -> Vec<String> {
    let before = history.iter().rev().find_map(|item| between(item, CHANGED)).unwrap_or_default();
    let mut files: Vec<String> = before.lines().map(str::to_owned).collect();
    for file in changed {
        let name = quote_path(Path::new(file));
        files.retain(|known| *known != name);
        files.push(name);
    }
    files.drain(..files.len().saturating_sub(MAX_FILES));
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_go_from_one_summary_to_the_next() {
        let plan = r#"{"plan":[{"step":"look","status":"completed"},{"step":"mend","status":"in_progress"}]}"#;
        let call = HistoryItem::FunctionCall {
            call_id: "c".into(),
            name: "update_plan".into(),
            arguments: plan.into(),
            carried: None,
        };
        let first = told(&[Arc::new(call)], &["1: sleep 9".into()], &["a.rs".into(), "b.rs".into()]);
        assert!(
            first.contains("- [completed] look\n- [in_progress] mend\n") && first.contains("1: sleep 9"),
            "{first}"
        );
        let note = Arc::new(HistoryItem::Note {
            text: format!("<compacted_conversation>\n{first}\n</compacted_conversation>"),
        });
        let second = told(&[note], &[], &["a.rs".into(), "c.rs".into()]);
        assert!(second.contains("[in_progress] mend") && !second.contains("sleep"), "{second}");
        assert!(second.contains("<changed_files>\nb.rs\na.rs\nc.rs\n</changed_files>"), "{second}");
        assert_eq!(told(&[], &[], &[]), "");
    }
}
