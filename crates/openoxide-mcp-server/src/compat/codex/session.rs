//! What Codex told of a session that begins: `session_configured` and what follows it.

use openoxide_core::{SandboxMode, Thread, quote_path};
use serde_json::{Value, json};

/// The messages, in order. `ignored` are keys of `config` that are not read.
pub(super) fn configured(thread: &Thread, ignored: &[String]) -> Vec<Value> {
    let config = thread.config();
    let cwd = quote_path(&config.cwd);
    let mut configured = json!({
        "type": "session_configured",
        "session_id": thread.id().to_string(),
        "thread_id": thread.id().to_string(),
        "model": config.model,
        "model_provider_id": thread.provider_id(),
        "approval_policy": config.approval_policy.as_str(),
        "approvals_reviewer": "user",
        "permission_profile": permissions(config.sandbox, &cwd),
        "sandbox_mode": config.sandbox.as_str(),
        "cwd": cwd,
    });
    if let Some(effort) = &config.reasoning_effort {
        configured["reasoning_effort"] = json!(effort);
    }
    let started = json!({ "type": "mcp_startup_complete", "ready": [], "failed": [], "cancelled": [] });
    let mut messages = vec![configured, started];
    if !ignored.is_empty() {
        let keys: Vec<String> = ignored.iter().map(|key| openoxide_core::visible_text(key)).collect();
        let message = format!(
            "config: these keys are not read here and have no effect: {}; the operator's configuration has what goes beyond a call",
            keys.join(", ")
        );
        messages.push(json!({ "type": "warning", "message": message }));
    }
    messages
}

/// What commands may touch, in Codex's words.
fn permissions(sandbox: SandboxMode, cwd: &str) -> Value {
    let special = |kind: &str, access: &str| json!({ "path": { "type": "special", "value": { "kind": kind } }, "access": access });
    let mut entries = vec![special("root", "read")];
    match sandbox {
        SandboxMode::DangerFullAccess => return json!({ "type": "disabled" }),
        SandboxMode::ReadOnly => {}
        SandboxMode::WorkspaceWrite => {
            entries.push(json!({ "path": { "type": "path", "path": cwd }, "access": "write" }));
        }
    }
    json!({
        "type": "managed",
        "file_system": { "type": "restricted", "entries": entries },
        "network": "restricted",
    })
}
