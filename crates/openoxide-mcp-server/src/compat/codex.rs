//! How a call of `codex` or `codex-reply` is spoken to: results, events and questions in the shapes of Codex 0.153.4.
//!
//! Only calls of those tools get them, so that no other client meets a method that is none of MCP's.

use std::collections::HashMap;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use openoxide_core::{
    ApprovalAction, ApprovalRequest, CoreError, Event, FileChange, FileChangeKind, ItemStatus, PlanStep, Thread,
    TurnItem, TurnItemKind, TurnResult, TurnStatus, Usage, quote_path,
};
use openoxide_mcp_protocol::RequestId;
use serde_json::{Map, Value, json};

use crate::clock::unix_ms;

/// A result of ours as Codex gave it: the text is the content alone, and the structure holds two fields.
pub(crate) fn result(mut answer: Value, asked: Option<&str>) -> Value {
    // A question or a task is the protocol's own.
    if !answer["content"].is_array() {
        return answer;
    }
    let mut structured = answer["structuredContent"].take();
    if structured.is_null()
        && let Some(thread) = asked
    {
        let text = answer["content"][0]["text"].as_str().unwrap_or_default();
        let unknown = thread.parse().ok().map(|id| CoreError::ThreadNotFound { id }.to_string());
        let said = match unknown {
            Some(unknown) if text.starts_with(&unknown) => format!("Session not found for thread_id: {thread}"),
            Some(_) => text.to_owned(),
            None => format!("Failed to parse thread_id: {text}"),
        };
        structured = json!({ "threadId": thread, "content": said });
    }
    let fields = answer.as_object_mut().expect("a result is an object");
    fields.remove("structuredContent");
    if fields.get("isError") == Some(&Value::Bool(false)) {
        fields.remove("isError");
    }
    if structured.is_object() {
        answer["content"] = json!([{ "type": "text", "text": structured["content"] }]);
        answer["structuredContent"] = json!({ "threadId": structured["threadId"], "content": structured["content"] });
    }
    answer
}

/// The parameters of `elicitation/create` as Codex put them. Its clients answer with a `decision` beside `action`.
pub(crate) fn question(request: &ApprovalRequest, cwd: &Path, call: &RequestId) -> Option<Value> {
    let mut params = json!({
        "requestedSchema": { "type": "object", "properties": {} },
        "threadId": request.thread_id,
        "codex_mcp_tool_call_id": id_text(call),
        "codex_event_id": request.turn_id,
        "codex_call_id": request.call_id,
    });
    match &request.action {
        ApprovalAction::Command { argv, cwd } => {
            params["message"] =
                json!(format!("Allow Codex to run `{}` in `{}`?", openoxide_core::visible(argv), quote_path(cwd)));
            params["codex_elicitation"] = json!("exec-approval");
            params["codex_command"] = json!(argv);
            params["codex_cwd"] = json!(quote_path(cwd));
            params["codex_parsed_cmd"] = parsed(argv);
        }
        ApprovalAction::Patch { changes, unified_diff } => {
            params["message"] = json!("Allow Codex to apply proposed code changes?");
            params["codex_elicitation"] = json!("patch-approval");
            params["codex_changes"] = changes_of(cwd, changes, Some(unified_diff));
            if let Some(why) = &request.justification {
                params["codex_reason"] = json!(why);
            }
        }
        // Codex had no form for what the agent asks; ours is plain MCP.
        _ => return None,
    }
    Some(params)
}

fn id_text(id: &RequestId) -> String {
    match id {
        RequestId::Number(number) => number.to_string(),
        RequestId::String(text) => text.to_string(),
    }
}

fn parsed(argv: &[String]) -> Value {
    json!([{ "type": "unknown", "cmd": openoxide_core::visible(argv) }])
}

/// Changes by absolute path; with the diff of all of them each has its own part.
fn changes_of(cwd: &Path, changes: &[FileChange], diff: Option<&str>) -> Value {
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

/// Makes `codex/event` messages of core's events.
#[derive(Default)]
pub(crate) struct Events {
    /// The calls of commands by their items, for their output.
    commands: HashMap<u64, String>,
    reasoning: Option<u64>,
    /// The changes that were asked about, by their calls.
    asked: HashMap<String, Value>,
    usage: Usage,
}

impl Events {
    /// What is said of a session that begins.
    pub(crate) fn configured(thread: &Thread) -> Vec<Value> {
        let config = thread.config();
        vec![
            json!({
                "type": "session_configured",
                "session_id": thread.id(),
                "thread_id": thread.id(),
                "model": config.model,
                "model_provider_id": thread.provider_id(),
                "approval_policy": config.approval_policy.as_str(),
                "approvals_reviewer": "user",
                "sandbox_mode": config.sandbox.as_str(),
                "cwd": quote_path(&config.cwd),
            }),
            json!({ "type": "mcp_startup_complete", "ready": [], "failed": [], "cancelled": [] }),
        ]
    }

    /// The messages of one event, in order.
    pub(crate) fn of(&mut self, event: &Event, thread: &Thread) -> Vec<Value> {
        let (thread_id, turn_id) = (thread.id(), event.turn_id());
        let cwd = thread.config().cwd.as_path();
        let one = |message: Value| vec![message];
        match event {
            Event::TurnStarted { .. } => one(json!({
                "type": "task_started", "turn_id": turn_id, "started_at": unix_ms() / 1000,
                "model_context_window": null, "collaboration_mode_kind": "default",
            })),
            Event::ItemStarted { item, .. } => self.started(item, cwd, turn_id.to_string()),
            Event::ItemDelta { item_id, delta, .. } => {
                let item = item_id.to_string();
                one(match self.commands.get(item_id) {
                    Some(call_id) => json!({
                        "type": "exec_command_output_delta", "call_id": call_id, "stream": "stdout",
                        "chunk": BASE64_STANDARD.encode(delta),
                    }),
                    None if self.reasoning == Some(*item_id) => json!({
                        "type": "reasoning_content_delta", "thread_id": thread_id, "turn_id": turn_id,
                        "item_id": item, "delta": delta, "summary_index": 0,
                    }),
                    None => json!({
                        "type": "agent_message_content_delta", "thread_id": thread_id, "turn_id": turn_id,
                        "item_id": item, "delta": delta,
                    }),
                })
            }
            Event::ItemCompleted { item, .. } => self.completed(item, cwd, turn_id.to_string()),
            Event::ApprovalRequested { request, .. } => {
                let messages = asked(request, cwd);
                if let Some(changes) = messages.first().and_then(|message| message.get("changes")) {
                    self.asked.insert(request.call_id.clone(), changes.clone());
                }
                messages
            }
            Event::Usage { usage, .. } => {
                let last = Usage {
                    input_tokens: usage.input_tokens.saturating_sub(self.usage.input_tokens),
                    cached_input_tokens: usage.cached_input_tokens.saturating_sub(self.usage.cached_input_tokens),
                    output_tokens: usage.output_tokens.saturating_sub(self.usage.output_tokens),
                    reasoning_output_tokens: usage
                        .reasoning_output_tokens
                        .saturating_sub(self.usage.reasoning_output_tokens),
                };
                self.usage = *usage;
                let info = json!({
                    "total_token_usage": tokens(usage), "last_token_usage": tokens(&last), "model_context_window": null,
                });
                one(json!({ "type": "token_count", "info": info, "rate_limits": null }))
            }
            Event::Plan { steps, .. } => one(plan(steps)),
            Event::Warning { message, .. } => one(json!({ "type": "warning", "message": message })),
            Event::TurnEnded { result, .. } => ended(result),
            _ => Vec::new(),
        }
    }

    /// A patch's changes: those that were asked about have their text.
    fn changes(&self, call_id: &str, dir: &Path, changes: &[FileChange]) -> Value {
        self.asked.get(call_id).cloned().unwrap_or_else(|| changes_of(dir, changes, None))
    }

    fn started(&mut self, item: &TurnItem, dir: &Path, turn_id: String) -> Vec<Value> {
        match &item.kind {
            TurnItemKind::Command { call_id, argv, cwd, .. } => {
                self.commands.insert(item.id, call_id.clone());
                vec![json!({
                    "type": "exec_command_begin", "call_id": call_id, "process_id": item.id.to_string(), "turn_id": turn_id,
                    "started_at_ms": unix_ms(), "command": argv, "cwd": quote_path(cwd), "parsed_cmd": parsed(argv), "source": "agent",
                })]
            }
            TurnItemKind::Patch { call_id, changes, .. } => vec![json!({
                "type": "patch_apply_begin", "call_id": call_id, "turn_id": turn_id, "auto_approved": !self.asked.contains_key(call_id),
                "changes": self.changes(call_id, dir, changes),
            })],
            TurnItemKind::Reasoning { .. } => {
                self.reasoning = Some(item.id);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn completed(&mut self, item: &TurnItem, dir: &Path, turn_id: String) -> Vec<Value> {
        match &item.kind {
            TurnItemKind::Message { text } => {
                vec![json!({ "type": "agent_message", "message": text, "phase": null, "memory_citation": null })]
            }
            TurnItemKind::Reasoning { text } => vec![json!({ "type": "agent_reasoning", "text": text })],
            TurnItemKind::Command { call_id, argv, cwd, exit_code, output, duration_ms, status } => {
                self.commands.remove(&item.id);
                vec![json!({
                    "type": "exec_command_end", "call_id": call_id, "process_id": item.id.to_string(), "turn_id": turn_id,
                    "completed_at_ms": unix_ms(), "command": argv, "cwd": quote_path(cwd), "parsed_cmd": parsed(argv), "source": "agent",
                    "stdout": output, "stderr": "", "aggregated_output": output, "exit_code": exit_code.unwrap_or(-1),
                    "duration": { "secs": duration_ms / 1000, "nanos": duration_ms % 1000 * 1_000_000 },
                    "formatted_output": output, "status": word(*status),
                })]
            }
            TurnItemKind::Patch { call_id, changes, status } => vec![json!({
                "type": "patch_apply_end", "call_id": call_id, "turn_id": turn_id, "stdout": "", "stderr": "",
                "success": *status == ItemStatus::Completed, "changes": self.changes(call_id, dir, changes), "status": word(*status),
            })],
            _ => Vec::new(),
        }
    }
}

fn word(status: ItemStatus) -> &'static str {
    match status {
        ItemStatus::Completed => "completed",
        ItemStatus::Declined => "declined",
        _ => "failed",
    }
}

fn asked(request: &ApprovalRequest, cwd: &Path) -> Vec<Value> {
    let mut message = json!({
        "call_id": request.call_id, "turn_id": request.turn_id, "started_at_ms": unix_ms(),
    });
    match &request.action {
        ApprovalAction::Command { argv, cwd } => {
            message["type"] = json!("exec_approval_request");
            (message["command"], message["cwd"]) = (json!(argv), json!(quote_path(cwd)));
            message["reason"] = json!(request.justification.as_deref().unwrap_or(&request.reason));
            message["available_decisions"] = json!(["approved", "approved_for_session", "denied", "abort"]);
            message["parsed_cmd"] = parsed(argv);
        }
        ApprovalAction::Patch { changes, unified_diff } => {
            message["type"] = json!("apply_patch_approval_request");
            message["changes"] = changes_of(cwd, changes, Some(unified_diff));
        }
        _ => return Vec::new(),
    }
    vec![message]
}

fn tokens(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens, "cached_input_tokens": usage.cached_input_tokens,
        "cache_write_input_tokens": 0, "output_tokens": usage.output_tokens,
        "reasoning_output_tokens": usage.reasoning_output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    })
}

fn plan(steps: &[PlanStep]) -> Value {
    json!({ "type": "plan_update", "explanation": null, "plan": steps })
}

fn ended(result: &TurnResult) -> Vec<Value> {
    let completed_at = unix_ms() / 1000;
    let times = json!({
        "turn_id": result.turn_id, "started_at": completed_at - (result.duration_ms / 1000).min(completed_at),
        "completed_at": completed_at, "duration_ms": result.duration_ms,
    });
    let with = |fields: Value| {
        let mut message = times.clone();
        if let (Some(message), Value::Object(fields)) = (message.as_object_mut(), fields) {
            message.extend(fields);
        }
        message
    };
    let mut messages = Vec::new();
    if let Some(diff) = &result.diff {
        messages.push(json!({ "type": "turn_diff", "unified_diff": diff }));
    }
    match result.status {
        TurnStatus::Completed => {
            messages.push(with(json!({ "type": "task_complete", "last_agent_message": result.content })));
        }
        TurnStatus::Interrupted => messages.push(with(json!({ "type": "turn_aborted", "reason": "interrupted" }))),
        _ => {
            messages.push(json!({ "type": "error", "message": result.content, "codex_error_info": "other" }));
            messages.push(with(json!({ "type": "task_complete", "last_agent_message": null })));
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_has_the_two_fields_and_an_error_says_so() {
        let structured = json!({ "threadId": "t", "content": "done", "status": "completed", "usage": {} });
        let ours = json!({ "content": [{ "type": "text", "text": "done\n\nthread_id: t" }], "structuredContent": structured, "isError": false });
        let theirs = json!({ "content": [{ "type": "text", "text": "done" }], "structuredContent": { "threadId": "t", "content": "done" } });
        assert_eq!(result(ours, None), theirs);
        let refused = json!({ "content": [{ "type": "text", "text": "no" }], "isError": true });
        assert_eq!(result(refused.clone(), None), refused);
        let id = "01a1fc7a-8d1f-75f7-89b7-18c906dd0c5b";
        let text = format!("{}; start again", CoreError::ThreadNotFound { id: id.parse().unwrap() });
        let unknown = json!({ "content": [{ "type": "text", "text": text }], "isError": true });
        let told = result(unknown, Some(id));
        assert_eq!(told["structuredContent"]["content"], format!("Session not found for thread_id: {id}"));
        assert_eq!(told["isError"], true);
    }

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
