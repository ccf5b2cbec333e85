//! Questions as Codex put them.

use std::path::Path;

use openoxide_core::{ApprovalAction, ApprovalRequest, quote_path};
use openoxide_mcp_protocol::RequestId;
use serde_json::{Value, json};

use super::changes::{changes_of, parsed, typing};

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
        ApprovalAction::Input { command_id, cwd, text, .. } => {
            let argv = typing(*command_id, text);
            let shown = openoxide_core::visible(std::slice::from_ref(text));
            params["message"] = json!(format!("Allow Codex to type {shown} into command {command_id}?"));
            params["codex_elicitation"] = json!("exec-approval");
            params["codex_command"] = json!(argv);
            params["codex_cwd"] = json!(quote_path(cwd));
            params["codex_parsed_cmd"] = parsed(&argv);
        }
        // Codex had no form for what the agent asks; ours is plain MCP.
        ApprovalAction::UserInput { .. } => return None,
    }
    Some(params)
}

fn id_text(id: &RequestId) -> String {
    match id {
        RequestId::Number(number) => number.to_string(),
        RequestId::String(text) => text.to_string(),
    }
}
