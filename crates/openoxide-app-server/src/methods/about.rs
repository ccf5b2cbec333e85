//! What clients ask when they start: models, who is logged in, how the server is configured. Answers that are empty are true:
//! there is no account here, no skills and no MCP servers.

use std::collections::BTreeSet;
use std::sync::Arc;

use openoxide_core::{Ceiling, Reasoning, quote_path};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Answer;
use crate::connection::Connection;
use crate::convert::settings::{PROFILES, policy_word, sandbox_policy};
use crate::types::params::{self, SkillsListParams};
use crate::types::thread::SandboxPolicy;

/// How much a model may reason, where it takes a level.
const EFFORTS: [(&str, &str); 3] =
    [("low", "answers sooner"), ("medium", "a balance of both"), ("high", "thinks longer")];

pub(super) fn models(connection: &Arc<Connection>, _params: Option<&RawValue>) -> Answer {
    let config = connection.server.manager().config();
    let of_profiles = config.profiles.values().filter_map(|profile| profile.as_ref().ok()?.model.clone());
    let others: BTreeSet<String> = of_profiles.filter(|model| *model != config.model).collect();
    let names = std::iter::once(config.model.clone()).chain(others);
    let models = names.map(|name| {
        let facts = config.provider.facts(&name);
        let option = |(effort, description)| json!({ "reasoningEffort": effort, "description": description });
        let (efforts, default) = match facts.reasoning {
            Reasoning::Effort => (EFFORTS.map(option).to_vec(), "medium"),
            Reasoning::None | Reasoning::Unknown | Reasoning::Budget => {
                (vec![option(("none", "nothing is asked for"))], "none")
            }
        };
        let modalities = if facts.images { json!(["text", "image"]) } else { json!(["text"]) };
        json!({
            "id": name, "model": name, "displayName": name,
            "description": format!("{} of the provider {}", name, config.provider.id()),
            "hidden": false, "isDefault": name == config.model, "supportedReasoningEfforts": efforts,
            "defaultReasoningEffort": default, "inputModalities": modalities, "supportsPersonality": false,
        })
    });
    Ok(json!({ "data": models.collect::<Vec<_>>(), "nextCursor": null }))
}

pub(super) fn account(_connection: &Arc<Connection>, _params: Option<&RawValue>) -> Answer {
    Ok(json!({ "account": null, "requiresOpenaiAuth": false, "userId": null, "workspaceRouting": null }))
}

pub(super) fn auth_status(_connection: &Arc<Connection>, _params: Option<&RawValue>) -> Answer {
    Ok(json!({ "authMethod": null, "authToken": null, "requiresOpenaiAuth": false }))
}

/// What a client may read of the configuration, which does not depend on a directory.
pub(super) fn config(connection: &Arc<Connection>, _params: Option<&RawValue>) -> Answer {
    let config = connection.server.manager().config();
    let defaults = config.thread_defaults();
    let write = match sandbox_policy(defaults.sandbox, &config.workspace_write) {
        SandboxPolicy::WorkspaceWrite { writable_roots, network_access, exclude_tmpdir_env_var, exclude_slash_tmp } => {
            json!({
                "writable_roots": writable_roots, "network_access": network_access,
                "exclude_tmpdir_env_var": exclude_tmpdir_env_var, "exclude_slash_tmp": exclude_slash_tmp,
            })
        }
        SandboxPolicy::DangerFullAccess | SandboxPolicy::ReadOnly { .. } => Value::Null,
    };
    let config = json!({
        "model": defaults.model, "model_provider": config.provider.id(), "sandbox_mode": defaults.sandbox.as_str(),
        "sandbox_workspace_write": write, "approval_policy": policy_word(defaults.approval_policy),
        "model_reasoning_effort": defaults.reasoning_effort, "model_reasoning_summary": null,
        "model_context_window": config.provider.facts(&defaults.model).context_window,
    });
    Ok(json!({ "config": config, "layers": [], "origins": {} }))
}

/// What the operator has left of modes and policies.
pub(super) fn requirements(connection: &Arc<Connection>, _params: Option<&RawValue>) -> Answer {
    let ceiling = &connection.server.manager().config().ceiling;
    let everything = Ceiling::default();
    if ceiling.sandboxes() == everything.sandboxes() && ceiling.policies() == everything.policies() {
        return Ok(json!({ "requirements": null }));
    }
    let sandboxes: Vec<_> = ceiling.sandboxes().iter().map(|mode| mode.as_str()).collect();
    let mut policies: Vec<_> = ceiling.policies().iter().map(|policy| policy_word(*policy)).collect();
    policies.dedup();
    Ok(json!({ "requirements": { "allowedSandboxModes": sandboxes, "allowedApprovalPolicies": policies } }))
}

pub(super) fn permission_profiles(connection: &Arc<Connection>, _params: Option<&RawValue>) -> Answer {
    let ceiling = &connection.server.manager().config().ceiling;
    let profiles = PROFILES.map(
        |(id, mode)| json!({ "id": id, "description": mode.as_str(), "allowed": ceiling.sandboxes().contains(&mode) }),
    );
    Ok(json!({ "data": profiles, "nextCursor": null }))
}

pub(super) fn skills(connection: &Arc<Connection>, params: Option<&RawValue>) -> Answer {
    let SkillsListParams { cwds } = params::read(params)?;
    let own = || vec![quote_path(&connection.server.manager().config().cwd)];
    let cwds = cwds.filter(|cwds| !cwds.is_empty()).unwrap_or_else(own);
    let data: Vec<_> = cwds.iter().map(|cwd| json!({ "cwd": cwd, "skills": [], "errors": [] })).collect();
    Ok(json!({ "data": data }))
}

pub(super) fn mcp_servers(_connection: &Arc<Connection>, _params: Option<&RawValue>) -> Answer {
    Ok(json!({ "data": [], "nextCursor": null }))
}
