//! Items of a turn.

use std::path::Path;

use openoxide_core::{
    ApprovalAction, ApprovalRequest, FileChange, FileChangeKind, ItemStatus as CoreStatus, PlanStatus,
    PlanStep as CoreStep, TurnItem, TurnItemKind, Usage, command_line, quote_path,
};
use serde_json::{Value, json};

use crate::types::thread::{ChangeKind, FileUpdateChange, ItemStatus, PlanStep, ThreadItem, Tokens};

/// Who gives the tools that are neither commands nor patches.
const NAMESPACE: &str = "openoxide";

/// The id of an item of core's: the same number that other protocols tell.
pub(crate) fn id_of(id: u64) -> String {
    id.to_string()
}

/// An item of a thread that works in `dir`.
pub(crate) fn item(item: &TurnItem, dir: &Path) -> ThreadItem {
    let id = id_of(item.id);
    match &item.kind {
        TurnItemKind::Message { text } => ThreadItem::AgentMessage { id, text: text.clone() },
        TurnItemKind::Reasoning { text } => {
            let summary = if text.is_empty() { Vec::new() } else { vec![text.clone()] };
            ThreadItem::Reasoning { id, summary, content: Vec::new() }
        }
        TurnItemKind::Command { argv, cwd, exit_code, output, duration_ms, status, .. } => {
            let mut told = command(id, argv, cwd, status_of(*status));
            if *status != CoreStatus::InProgress
                && let ThreadItem::CommandExecution { aggregated_output, exit_code: code, duration_ms: took, .. } =
                    &mut told
            {
                (*aggregated_output, *code, *took) = (Some(output.clone()), *exit_code, Some(*duration_ms));
            }
            told
        }
        TurnItemKind::Patch { changes, status, .. } => {
            ThreadItem::FileChange { id, changes: changes_of(changes, dir), status: status_of(*status) }
        }
        TurnItemKind::Tool { name, summary, status, .. } => tool(id, name, summary, *status),
    }
}

/// The item that a question is about, before it begins.
pub(crate) fn of_question(request: &ApprovalRequest, dir: &Path) -> ThreadItem {
    let id = id_of(request.item_id);
    match &request.action {
        ApprovalAction::Command { argv, cwd } => command(id, argv, cwd, ItemStatus::InProgress),
        ApprovalAction::Patch { changes, .. } => {
            ThreadItem::FileChange { id, changes: changes_of(changes, dir), status: ItemStatus::InProgress }
        }
        ApprovalAction::Input { .. } => tool(id, "write_stdin", "typing into a command", CoreStatus::InProgress),
        ApprovalAction::UserInput { .. } => tool(id, "request_user_input", "asking a question", CoreStatus::InProgress),
    }
}

/// An item whose turn ended under it, with what was told of it so far.
pub(crate) fn cut_off(mut item: ThreadItem, told: String) -> ThreadItem {
    match &mut item {
        ThreadItem::AgentMessage { text, .. } => *text = told,
        ThreadItem::Reasoning { summary, .. } => *summary = vec![told],
        ThreadItem::CommandExecution { status, aggregated_output, exit_code, .. } => {
            (*status, *aggregated_output, *exit_code) = (ItemStatus::Failed, Some(told), Some(-1));
        }
        ThreadItem::FileChange { status, .. } => *status = ItemStatus::Failed,
        ThreadItem::DynamicToolCall { status, success, .. } => (*status, *success) = (ItemStatus::Failed, Some(false)),
        ThreadItem::UserMessage { .. } => {}
    }
    item
}

/// The same, of one that was asked about and never begun.
pub(crate) fn declined(mut item: ThreadItem) -> ThreadItem {
    match &mut item {
        ThreadItem::CommandExecution { status, .. } | ThreadItem::FileChange { status, .. } => {
            *status = ItemStatus::Declined;
        }
        ThreadItem::DynamicToolCall { status, success, .. } => (*status, *success) = (ItemStatus::Failed, Some(false)),
        ThreadItem::AgentMessage { .. } | ThreadItem::Reasoning { .. } | ThreadItem::UserMessage { .. } => {}
    }
    item
}

/// What a person said.
pub(crate) fn user_message(id: String, client_id: Option<String>, text: &str) -> ThreadItem {
    let content = vec![json!({ "type": "text", "text": text, "text_elements": [] })];
    ThreadItem::UserMessage { id, client_id, content }
}

fn command(id: String, argv: &[String], cwd: &Path, status: ItemStatus) -> ThreadItem {
    let command = command_line(argv);
    ThreadItem::CommandExecution {
        id,
        command_actions: vec![unknown_action(&command)],
        command,
        cwd: quote_path(cwd),
        process_id: None,
        source: "agent",
        status,
        aggregated_output: None,
        exit_code: None,
        duration_ms: None,
    }
}

/// A command that is shown as it is: nothing here says what it reads or lists.
pub(crate) fn unknown_action(command: &str) -> Value {
    json!({ "type": "unknown", "command": command })
}

fn tool(id: String, name: &str, summary: &str, status: CoreStatus) -> ThreadItem {
    let success = match status {
        CoreStatus::InProgress => None,
        CoreStatus::Completed => Some(true),
        CoreStatus::Failed | CoreStatus::Declined => Some(false),
    };
    ThreadItem::DynamicToolCall {
        id,
        namespace: NAMESPACE,
        tool: name.to_owned(),
        arguments: json!({ "summary": summary }),
        // The wire knows no tool call that was declined.
        status: if status == CoreStatus::Declined { ItemStatus::Failed } else { status_of(status) },
        content_items: None,
        success,
        duration_ms: None,
    }
}

fn status_of(status: CoreStatus) -> ItemStatus {
    match status {
        CoreStatus::InProgress => ItemStatus::InProgress,
        CoreStatus::Completed => ItemStatus::Completed,
        CoreStatus::Failed => ItemStatus::Failed,
        CoreStatus::Declined => ItemStatus::Declined,
    }
}

fn changes_of(changes: &[FileChange], dir: &Path) -> Vec<FileUpdateChange> {
    let one = |change: &FileChange| {
        let (kind, diff) = match change.kind {
            FileChangeKind::Add => (ChangeKind::Add, content(&change.diff, '+')),
            FileChangeKind::Delete => (ChangeKind::Delete, content(&change.diff, '-')),
            FileChangeKind::Update => {
                let move_path = change.move_to.as_ref().map(|to| quote_path(&dir.join(to)));
                (ChangeKind::Update { move_path }, hunks(&change.diff).to_owned())
            }
        };
        FileUpdateChange { path: quote_path(&dir.join(&change.path)), kind, diff }
    };
    changes.iter().map(one).collect()
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

/// Steps of a plan.
pub(crate) fn plan(steps: &[CoreStep]) -> Vec<PlanStep> {
    let status = |status| match status {
        PlanStatus::Pending => "pending",
        PlanStatus::InProgress => "inProgress",
        PlanStatus::Completed => "completed",
    };
    steps.iter().map(|step| PlanStep { step: step.step.clone(), status: status(step.status) }).collect()
}

/// Tokens by kind.
pub(crate) fn tokens(usage: &Usage) -> Tokens {
    Tokens {
        total_tokens: usage.input_tokens + usage.output_tokens,
        input_tokens: usage.input_tokens,
        cached_input_tokens: usage.cached_input_tokens,
        output_tokens: usage.output_tokens,
        reasoning_output_tokens: usage.reasoning_output_tokens,
    }
}

/// What was spent between two counts.
pub(crate) fn minus(now: &Usage, before: &Usage) -> Usage {
    Usage {
        input_tokens: now.input_tokens.saturating_sub(before.input_tokens),
        cached_input_tokens: now.cached_input_tokens.saturating_sub(before.cached_input_tokens),
        output_tokens: now.output_tokens.saturating_sub(before.output_tokens),
        reasoning_output_tokens: now.reasoning_output_tokens.saturating_sub(before.reasoning_output_tokens),
    }
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
            change("c.txt", FileChangeKind::Delete, "@@ -1 +0,0 @@\n-x\n\\ No newline at end of file\n"),
        ];
        let told = serde_json::to_value(changes_of(&changes, Path::new("/w"))).unwrap();
        let expected = json!([
            { "path": "/w/a.txt", "kind": { "type": "add" }, "diff": "one\n--- two\n" },
            { "path": "/w/b.txt", "kind": { "type": "update", "move_path": null }, "diff": "@@ -1 +1 @@\n-x\n+y\n" },
            { "path": "/w/c.txt", "kind": { "type": "delete" }, "diff": "x" },
        ]);
        assert_eq!(told, expected);
    }
}
