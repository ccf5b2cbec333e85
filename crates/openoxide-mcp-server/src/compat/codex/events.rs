//! Core's events as the `codex/event` messages of Codex.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use openoxide_core::{
    ApprovalAction, ApprovalRequest, Event, FileChange, ItemStatus, PlanStep, Thread, TurnId, TurnItem, TurnItemKind,
    TurnResult, TurnStatus, Usage, quote_path,
};
use serde_json::{Value, json};

use super::changes::{changes_of, summary, typing};
use super::parsed::parsed;
use super::session;
use crate::clock::unix_ms;
use crate::convert::data;

/// Makes `codex/event` messages of core's events.
#[derive(Default)]
pub(crate) struct Events {
    /// The calls of commands by their items, for their output.
    commands: HashMap<u64, String>,
    reasoning: Option<u64>,
    /// The calls whose patches have begun: with the question about them, where there is one.
    patches: HashSet<String>,
    usage: Usage,
    /// What the thread's earlier turns have used.
    before: Usage,
    /// What was told of tokens last: Codex told it when the tools that the response called were through.
    held: Option<Value>,
    began: Option<Instant>,
    first_token_ms: Option<u128>,
}

impl Events {
    /// What is said of a session that begins.
    pub(crate) fn configured(thread: &Thread, ignored: &[String]) -> Vec<Value> {
        session::configured(thread, ignored)
    }

    /// The messages of one event, in order.
    pub(crate) fn of(&mut self, event: &Event, thread: &Thread) -> Vec<Value> {
        let mut messages: Vec<Value> = self.due(event).into_iter().collect();
        messages.extend(self.told(event, thread));
        messages
    }

    /// The tokens of a response, once the event shows that its tools are through.
    fn due(&mut self, event: &Event) -> Option<Value> {
        let is_of_tools = match event {
            Event::ItemStarted { item, .. } | Event::ItemCompleted { item, .. } => {
                !matches!(item.kind, TurnItemKind::Message { .. } | TurnItemKind::Reasoning { .. })
            }
            Event::ItemDelta { item_id, .. } => self.commands.contains_key(item_id),
            Event::ApprovalRequested { .. } | Event::ApprovalSettled { .. } | Event::Plan { .. } => true,
            Event::TurnStarted { .. } | Event::Usage { .. } | Event::Warning { .. } | Event::TurnEnded { .. } => false,
        };
        if is_of_tools { None } else { self.held.take() }
    }

    fn told(&mut self, event: &Event, thread: &Thread) -> Vec<Value> {
        let (thread_id, turn_id) = (thread.id(), event.turn_id());
        let cwd = thread.config().cwd.as_path();
        let one = |message: Value| vec![message];
        match event {
            Event::TurnStarted { .. } => {
                self.began = Some(Instant::now());
                self.before = usage_before(thread, turn_id);
                one(json!({
                    "type": "task_started", "turn_id": turn_id.to_string(), "started_at": unix_ms() / 1000,
                    "model_context_window": window(thread), "collaboration_mode_kind": "default",
                }))
            }
            Event::ItemStarted { item, .. } => self.started(item, cwd, turn_id.to_string()),
            Event::ItemDelta { item_id, delta, .. } => {
                let item = item_id.to_string();
                if !self.commands.contains_key(item_id) {
                    self.first_token_ms = self.first_token_ms.or(self.began.map(|began| began.elapsed().as_millis()));
                }
                one(match self.commands.get(item_id) {
                    Some(call_id) => json!({
                        "type": "exec_command_output_delta", "call_id": call_id, "stream": "stdout",
                        "chunk": BASE64_STANDARD.encode(delta),
                    }),
                    None if self.reasoning == Some(*item_id) => json!({
                        "type": "reasoning_content_delta", "thread_id": thread_id.to_string(), "turn_id": turn_id.to_string(),
                        "item_id": item, "delta": delta, "summary_index": 0,
                    }),
                    None => json!({
                        "type": "agent_message_content_delta", "thread_id": thread_id.to_string(), "turn_id": turn_id.to_string(),
                        "item_id": item, "delta": delta,
                    }),
                })
            }
            Event::ItemCompleted { item, .. } => self.completed(item, cwd, turn_id.to_string()),
            Event::ApprovalRequested { request, .. } => {
                let mut messages = Vec::new();
                if let ApprovalAction::Patch { changes, .. } = &request.action {
                    messages.extend(self.patch_begins(&request.call_id, cwd, changes, &turn_id.to_string(), false));
                }
                messages.extend(asked(request, cwd));
                messages
            }
            Event::Usage { usage, .. } => {
                let last = minus(usage, &self.usage);
                self.usage = *usage;
                let mut total = self.before;
                total += *usage;
                let info = json!({
                    "total_token_usage": tokens(&total), "last_token_usage": tokens(&last),
                    "model_context_window": window(thread),
                });
                self.held = Some(json!({ "type": "token_count", "info": info, "rate_limits": null }));
                Vec::new()
            }
            Event::Plan { steps, .. } => one(plan(steps)),
            Event::Warning { message, .. } => one(json!({ "type": "warning", "message": message })),
            Event::TurnEnded { result, .. } => ended(result, self.first_token_ms),
            _ => Vec::new(),
        }
    }

    /// That a patch begins, which is told once.
    fn patch_begins(
        &mut self,
        call_id: &str,
        dir: &Path,
        changes: &[FileChange],
        turn_id: &str,
        auto_approved: bool,
    ) -> Option<Value> {
        self.patches.insert(call_id.to_owned()).then(|| {
            json!({
                "type": "patch_apply_begin", "call_id": call_id, "turn_id": turn_id, "auto_approved": auto_approved,
                "changes": changes_of(dir, changes),
            })
        })
    }

    fn started(&mut self, item: &TurnItem, dir: &Path, turn_id: String) -> Vec<Value> {
        match &item.kind {
            TurnItemKind::Command { call_id, argv, cwd, .. } => {
                self.commands.insert(item.id, call_id.clone());
                vec![json!({
                    "type": "exec_command_begin", "call_id": call_id, "process_id": item.id.to_string(), "turn_id": turn_id,
                    "started_at_ms": unix_ms(), "command": argv, "cwd": file_url(cwd), "parsed_cmd": parsed(argv),
                    "source": SOURCE,
                })]
            }
            TurnItemKind::Patch { call_id, changes, .. } => {
                self.patch_begins(call_id, dir, changes, &turn_id, true).into_iter().collect()
            }
            TurnItemKind::Reasoning { .. } => {
                self.reasoning = Some(item.id);
                Vec::new()
            }
            TurnItemKind::Message { .. } | TurnItemKind::Tool { .. } => Vec::new(),
        }
    }

    fn completed(&mut self, item: &TurnItem, dir: &Path, turn_id: String) -> Vec<Value> {
        match &item.kind {
            TurnItemKind::Message { text } => {
                vec![json!({ "type": "agent_message", "message": text, "phase": null, "memory_citation": null })]
            }
            TurnItemKind::Reasoning { text } => vec![json!({ "type": "agent_reasoning", "text": text })],
            // A command that was not begun has no end either.
            TurnItemKind::Command { status: ItemStatus::Declined, .. } => Vec::new(),
            TurnItemKind::Command { call_id, argv, cwd, exit_code, output, duration_ms, status } => {
                self.commands.remove(&item.id);
                vec![json!({
                    "type": "exec_command_end", "call_id": call_id, "process_id": item.id.to_string(), "turn_id": turn_id,
                    "completed_at_ms": unix_ms(), "command": argv, "cwd": file_url(cwd), "parsed_cmd": parsed(argv),
                    "source": SOURCE, "stdout": output, "stderr": "", "aggregated_output": output, "exit_code": exit_code.unwrap_or(-1),
                    "duration": { "secs": duration_ms / 1000, "nanos": duration_ms % 1000 * 1_000_000 },
                    "formatted_output": output, "status": word(*status),
                })]
            }
            TurnItemKind::Patch { call_id, changes, status } if self.patches.contains(call_id) => {
                let is_done = *status == ItemStatus::Completed;
                let stdout = if is_done { summary(changes) } else { String::new() };
                vec![json!({
                    "type": "patch_apply_end", "call_id": call_id, "turn_id": turn_id, "stdout": stdout, "stderr": "",
                    "success": is_done, "changes": changes_of(dir, changes), "status": word(*status),
                })]
            }
            _ => Vec::new(),
        }
    }
}

fn word(status: ItemStatus) -> &'static str {
    match status {
        ItemStatus::Completed => "completed",
        ItemStatus::Declined => "declined",
        ItemStatus::InProgress | ItemStatus::Failed => "failed",
    }
}

fn asked(request: &ApprovalRequest, cwd: &Path) -> Vec<Value> {
    let mut message = json!({
        "call_id": request.call_id, "turn_id": request.turn_id.to_string(), "started_at_ms": unix_ms(),
    });
    match &request.action {
        ApprovalAction::Command { argv, cwd } => exec_request(&mut message, argv, cwd, request),
        ApprovalAction::Input { command_id, cwd, text, .. } => {
            exec_request(&mut message, &typing(*command_id, text), cwd, request);
        }
        ApprovalAction::Patch { changes, .. } => {
            message["type"] = json!("apply_patch_approval_request");
            message["changes"] = changes_of(cwd, changes);
        }
        ApprovalAction::UserInput { .. } => return Vec::new(),
    }
    vec![message]
}

fn exec_request(message: &mut Value, argv: &[String], cwd: &Path, request: &ApprovalRequest) {
    message["type"] = json!("exec_approval_request");
    (message["kind"], message["environmentId"]) = (json!("command"), json!("local"));
    (message["command"], message["cwd"]) = (json!(argv), json!(quote_path(cwd)));
    message["reason"] = json!(request.justification.as_deref().unwrap_or(&request.reason));
    message["proposed_execpolicy_amendment"] = json!(argv);
    message["available_decisions"] = json!([
        "approved", "approved_for_session",
        { "approved_execpolicy_amendment": { "proposed_execpolicy_amendment": argv } }, "denied", "abort",
    ]);
    message["parsed_cmd"] = parsed(argv);
}

/// What Codex called the tool that runs commands.
const SOURCE: &str = "unified_exec_startup";

/// The part of a model's window that Codex counted on.
fn window(thread: &Thread) -> u64 {
    thread.context_window() / 100 * 95
}

/// A path as a `file` URL.
fn file_url(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let mut url = "file://".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => url.push(char::from(*byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(url, "%{byte:02X}")),
        }
    }
    url
}

/// What the turns of a thread have used before one that may have ended already.
fn usage_before(thread: &Thread, turn: TurnId) -> Usage {
    // In this order: a turn that ends in between is not counted yet.
    let ended = thread.usage();
    thread.kept_result(turn).map_or(ended, |result| minus(&result.thread_usage, &result.usage))
}

fn minus(all: &Usage, part: &Usage) -> Usage {
    Usage {
        input_tokens: all.input_tokens.saturating_sub(part.input_tokens),
        cached_input_tokens: all.cached_input_tokens.saturating_sub(part.cached_input_tokens),
        output_tokens: all.output_tokens.saturating_sub(part.output_tokens),
        reasoning_output_tokens: all.reasoning_output_tokens.saturating_sub(part.reasoning_output_tokens),
    }
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
    json!({ "type": "plan_update", "explanation": null, "plan": data::plan(steps) })
}

fn ended(result: &TurnResult, first_token_ms: Option<u128>) -> Vec<Value> {
    let completed_at = unix_ms() / 1000;
    let times = json!({
        "turn_id": result.turn_id.to_string(), "started_at": completed_at - (result.duration_ms / 1000).min(completed_at),
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
            messages.push(with(json!({
                "type": "task_complete", "last_agent_message": result.content, "time_to_first_token_ms": first_token_ms,
            })));
        }
        TurnStatus::Interrupted => messages.push(with(json!({ "type": "turn_aborted", "reason": "interrupted" }))),
        _ => {
            let error = json!({ "message": result.content, "codex_error_info": "other" });
            messages.push(json!({ "type": "error", "message": result.content, "codex_error_info": "other" }));
            messages.push(with(json!({ "type": "task_complete", "last_agent_message": null, "error": error })));
        }
    }
    messages
}
