//! Core's events as the `codex/event` messages of Codex.

use std::collections::HashMap;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use openoxide_core::{
    ApprovalAction, ApprovalRequest, Event, FileChange, ItemStatus, PlanStep, Thread, TurnItem, TurnItemKind,
    TurnResult, TurnStatus, Usage, quote_path,
};
use serde_json::{Value, json};

use super::changes::{changes_of, parsed, typing};
use crate::clock::unix_ms;

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
            TurnItemKind::Message { .. } | TurnItemKind::Tool { .. } => Vec::new(),
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
        ItemStatus::InProgress | ItemStatus::Failed => "failed",
    }
}

fn asked(request: &ApprovalRequest, cwd: &Path) -> Vec<Value> {
    let mut message = json!({
        "call_id": request.call_id, "turn_id": request.turn_id, "started_at_ms": unix_ms(),
    });
    match &request.action {
        ApprovalAction::Command { argv, cwd } => exec_request(&mut message, argv, cwd, request),
        ApprovalAction::Input { command_id, cwd, text, .. } => {
            exec_request(&mut message, &typing(*command_id, text), cwd, request);
        }
        ApprovalAction::Patch { changes, unified_diff } => {
            message["type"] = json!("apply_patch_approval_request");
            message["changes"] = changes_of(cwd, changes, Some(unified_diff));
        }
        ApprovalAction::UserInput { .. } => return Vec::new(),
    }
    vec![message]
}

fn exec_request(message: &mut Value, argv: &[String], cwd: &Path, request: &ApprovalRequest) {
    message["type"] = json!("exec_approval_request");
    (message["command"], message["cwd"]) = (json!(argv), json!(quote_path(cwd)));
    message["reason"] = json!(request.justification.as_deref().unwrap_or(&request.reason));
    message["available_decisions"] = json!(["approved", "approved_for_session", "denied", "abort"]);
    message["parsed_cmd"] = parsed(argv);
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
