//! Whose a rollout is, and what its turns run with.

use std::path::PathBuf;

use openoxide_sandbox::SandboxMode;
use serde::{Deserialize, Serialize};

use super::record::{Optional, Path, Text};
use crate::store::record::{Overrides, SessionMeta, TurnContext};
use crate::{ApprovalPolicy, ThreadId, TurnId};

/// The format of what names none.
pub(super) fn first_format() -> u32 {
    1
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SessionMeta")]
pub(super) struct MetaJson {
    #[serde(with = "Text")]
    id: ThreadId,
    #[serde(with = "Path")]
    cwd: PathBuf,
    version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base_instructions: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    developer_instructions: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compact_prompt: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reasoning_summary: Option<String>,
    #[serde(default)]
    read_only_tools: bool,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Optional::<Text>")]
    forked_from: Option<ThreadId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(default = "first_format")]
    format: u32,
    #[serde(default, with = "OverridesJson")]
    overrides: Overrides,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Overrides")]
struct OverridesJson {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_output_token_limit: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project_doc_max_bytes: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_turn_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_turn_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_steps: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "TurnContext")]
pub(super) struct ContextJson {
    #[serde(with = "Text")]
    turn_id: TurnId,
    #[serde(with = "Path")]
    cwd: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directory: Option<String>,
    model: String,
    #[serde(with = "SandboxJson")]
    sandbox: SandboxMode,
    #[serde(with = "PolicyJson")]
    approval_policy: ApprovalPolicy,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SandboxMode", rename_all = "kebab-case")]
enum SandboxJson {
    ReadOnly,
    WorkspaceWrite,
    DangerFullAccess,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ApprovalPolicy", rename_all = "kebab-case")]
enum PolicyJson {
    Untrusted,
    OnRequest,
    OnFailure,
    Never,
}
