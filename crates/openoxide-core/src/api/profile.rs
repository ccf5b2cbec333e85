//! Settings of the operator's that callers choose by a name.

use openoxide_sandbox::SandboxMode;

use crate::{ApprovalPolicy, CoreError, ThreadConfig};

/// What a profile sets of a thread; none leaves a setting at its default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    /// Model name as the provider knows it.
    pub model: Option<String>,
    /// What commands may touch, before the ceiling.
    pub sandbox: Option<SandboxMode>,
    /// When a person is asked, before the ceiling.
    pub approval_policy: Option<ApprovalPolicy>,
    /// As [`ThreadConfig::compact_prompt`].
    pub compact_prompt: Option<String>,
    /// As [`ThreadConfig::reasoning_effort`].
    pub reasoning_effort: Option<String>,
    /// As [`ThreadConfig::reasoning_summary`].
    pub reasoning_summary: Option<String>,
    /// As [`ThreadConfig::tool_output_token_limit`].
    pub tool_output_token_limit: Option<usize>,
    /// As [`ThreadConfig::project_doc_max_bytes`].
    pub project_doc_max_bytes: Option<usize>,
    /// As [`ThreadConfig::max_turn_tokens`].
    pub max_turn_tokens: Option<u64>,
    /// As [`ThreadConfig::max_turn_seconds`].
    pub max_turn_seconds: Option<u64>,
    /// As [`ThreadConfig::max_steps`].
    pub max_steps: Option<u32>,
}

impl Profile {
    /// Laid over the defaults of a thread.
    pub(crate) fn over(&self, defaults: ThreadConfig) -> ThreadConfig {
        ThreadConfig {
            model: self.model.clone().unwrap_or(defaults.model),
            sandbox: self.sandbox.unwrap_or(defaults.sandbox),
            approval_policy: self.approval_policy.unwrap_or(defaults.approval_policy),
            compact_prompt: self.compact_prompt.clone().or(defaults.compact_prompt),
            reasoning_effort: self.reasoning_effort.clone().or(defaults.reasoning_effort),
            reasoning_summary: self.reasoning_summary.clone().or(defaults.reasoning_summary),
            tool_output_token_limit: self.tool_output_token_limit.or(defaults.tool_output_token_limit),
            project_doc_max_bytes: self.project_doc_max_bytes.or(defaults.project_doc_max_bytes),
            max_turn_tokens: self.max_turn_tokens.or(defaults.max_turn_tokens),
            max_turn_seconds: self.max_turn_seconds.or(defaults.max_turn_seconds),
            max_steps: self.max_steps.or(defaults.max_steps),
            ..defaults
        }
    }
}

/// The profiles of a configuration, by name; why one cannot be chosen by a call, where it cannot.
pub type Profiles = std::collections::BTreeMap<String, Result<Profile, String>>;

/// The profile of this name.
pub(crate) fn named<'a>(profiles: &'a Profiles, name: &str) -> Result<&'a Profile, CoreError> {
    let refused = |reason: String| CoreError::ProfileUnusable { name: name.to_owned(), reason };
    match profiles.get(name) {
        Some(Ok(profile)) => Ok(profile),
        Some(Err(reason)) => Err(refused(reason.clone())),
        None if profiles.is_empty() => Err(refused("the operator has configured none".to_owned())),
        None => {
            let known: Vec<&str> = profiles.keys().map(String::as_str).collect();
            Err(refused(format!("there is none of this name; known: {}", known.join(", "))))
        }
    }
}
