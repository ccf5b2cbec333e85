//! What a thread runs with, in the words of the wire, and what callers ask of it.

use openoxide_core::{ApprovalPolicy, Config, SandboxMode, ThreadConfig, WorkspaceWrite, quote_path};
use openoxide_rpc::RpcError;
use serde_json::Value;

use crate::types::params::Settings;
use crate::types::thread::SandboxPolicy;

/// Names of permission profiles, each a sandbox mode.
pub(crate) const PROFILES: [(&str, SandboxMode); 3] = [
    (":read-only", SandboxMode::ReadOnly),
    (":workspace", SandboxMode::WorkspaceWrite),
    (":danger-full-access", SandboxMode::DangerFullAccess),
];

/// Keys of `config` that are read; the others are told.
const CONFIG_KEYS: [&str; 4] = ["model", "model_reasoning_effort", "model_reasoning_summary", "compact_prompt"];

fn invalid(message: impl std::fmt::Display) -> RpcError {
    RpcError::invalid_request(format!("Invalid request: {message}"))
}

fn mode_of(word: &str) -> Result<SandboxMode, RpcError> {
    match word {
        "read-only" | "readOnly" => Ok(SandboxMode::ReadOnly),
        "workspace-write" | "workspaceWrite" => Ok(SandboxMode::WorkspaceWrite),
        "danger-full-access" | "dangerFullAccess" => Ok(SandboxMode::DangerFullAccess),
        other => Err(invalid(format!(
            "the sandbox {other:?} is not supported by OpenOxide; allowed: read-only, workspace-write, danger-full-access"
        ))),
    }
}

fn policy_of(value: &Value) -> Result<ApprovalPolicy, RpcError> {
    let known = value.as_str().and_then(|word| ApprovalPolicy::ALL.into_iter().find(|policy| policy.as_str() == word));
    known.ok_or_else(|| {
        invalid(format!(
            "approvalPolicy {value} is not supported by OpenOxide; allowed: untrusted, on-request, on-failure, never"
        ))
    })
}

/// The word of a policy. The wire of today has none for `on-failure`, which asks when the sandbox has stopped a command.
pub(crate) fn policy_word(policy: ApprovalPolicy) -> &'static str {
    match policy {
        ApprovalPolicy::Untrusted => "untrusted",
        ApprovalPolicy::OnRequest | ApprovalPolicy::OnFailure => "on-request",
        ApprovalPolicy::Never => "never",
    }
}

/// What commands of a thread may touch.
pub(crate) fn sandbox_policy(mode: SandboxMode, write: &WorkspaceWrite) -> SandboxPolicy {
    match mode {
        SandboxMode::DangerFullAccess => SandboxPolicy::DangerFullAccess,
        SandboxMode::ReadOnly => SandboxPolicy::ReadOnly { network_access: false },
        SandboxMode::WorkspaceWrite => SandboxPolicy::WorkspaceWrite {
            writable_roots: write.writable_roots.iter().map(|root| quote_path(root)).collect(),
            network_access: write.network_access,
            exclude_tmpdir_env_var: write.exclude_tmpdir_env_var,
            exclude_slash_tmp: write.exclude_slash_tmp,
        },
    }
}

/// What a caller asks of a thread, in core's words.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    cwd: Option<String>,
    model: Option<String>,
    sandbox: Option<SandboxMode>,
    approval_policy: Option<ApprovalPolicy>,
    base_instructions: Option<String>,
    developer_instructions: Option<String>,
    compact_prompt: Option<String>,
    effort: Option<String>,
    summary: Option<String>,
    /// What was asked and is not done, in sentences.
    pub(crate) ignored: Vec<String>,
}

/// Reads what is asked. What would be less safe or do something else than it says is refused by name.
///
/// # Errors
/// -32600 with the field and what is allowed.
pub(crate) fn asked(settings: Settings, config: &Config) -> Result<Asked, RpcError> {
    let mut asked = Asked {
        cwd: settings.cwd,
        model: settings.model,
        base_instructions: settings.base_instructions,
        developer_instructions: settings.developer_instructions,
        effort: settings.effort,
        summary: settings.summary,
        ..Asked::default()
    };
    if let Some(word) = &settings.sandbox {
        asked.sandbox = Some(mode_of(word)?);
    }
    if let Some(policy) = &settings.sandbox_policy {
        let mode = mode_of(&policy.kind)?;
        let write = &config.workspace_write;
        let wants_network = matches!(&policy.network_access, Some(Value::Bool(true)));
        if mode != SandboxMode::DangerFullAccess
            && wants_network
            && !(mode == SandboxMode::WorkspaceWrite && write.network_access)
        {
            return Err(invalid("sandboxPolicy.networkAccess true is for the operator to allow; leave it out"));
        }
        let roots = policy.writable_roots.iter().flatten();
        if let Some(root) =
            roots.into_iter().find(|root| !write.writable_roots.iter().any(|own| quote_path(own) == **root))
        {
            return Err(invalid(format!(
                "sandboxPolicy.writableRoots has {root:?}, and what may be written beside a thread's directory is for the \
                 operator to say; leave it out"
            )));
        }
        asked.sandbox = Some(mode);
    }
    if let Some(name) = &settings.permissions {
        let found = PROFILES.iter().find(|(known, _)| known == name);
        let allowed = || PROFILES.map(|(name, _)| name).join(", ");
        let (_, mode) =
            found.ok_or_else(|| invalid(format!("there is no permission profile {name:?}; allowed: {}", allowed())))?;
        asked.sandbox = Some(*mode);
    }
    if let Some(policy) = settings.approval_policy.as_ref().filter(|policy| !policy.is_null()) {
        asked.approval_policy = Some(policy_of(policy)?);
    }
    if settings.output_schema.is_some_and(|schema| !schema.is_null()) {
        return Err(invalid("outputSchema is not supported by OpenOxide; leave it out"));
    }
    if settings.dynamic_tools.is_some_and(|tools| !tools.is_empty()) {
        return Err(invalid("dynamicTools is not supported by OpenOxide; leave it out"));
    }
    let own = config.provider.id();
    if let Some(provider) = settings.model_provider.filter(|provider| provider != own) {
        return Err(invalid(format!("modelProvider is {provider:?}; this server uses {own:?}, leave it out")));
    }
    if let Some(reviewer) = settings.approvals_reviewer.filter(|reviewer| reviewer != "user") {
        asked
            .ignored
            .push(format!("approvalsReviewer is {reviewer:?}, and there is none: whoever is connected is asked"));
    }
    for (key, value) in settings.config.unwrap_or_default() {
        let text = value.as_str().map(str::to_owned);
        match key.as_str() {
            "model" if asked.model.is_none() => asked.model = text,
            "model_reasoning_effort" if asked.effort.is_none() => asked.effort = text,
            "model_reasoning_summary" if asked.summary.is_none() => asked.summary = text,
            "compact_prompt" => asked.compact_prompt = text,
            key if CONFIG_KEYS.contains(&key) => {}
            other => asked.ignored.push(format!("the key {other:?} of config is not read from a client")),
        }
    }
    Ok(asked)
}

impl Asked {
    /// Whether it names a directory by an absolute path.
    pub(crate) fn names_directory(&self) -> bool {
        self.cwd.as_ref().is_some_and(|cwd| cwd.starts_with('/'))
    }

    /// Laid over the defaults of a new thread.
    pub(crate) fn over(self, defaults: ThreadConfig) -> ThreadConfig {
        ThreadConfig {
            cwd: self.cwd.map_or(defaults.cwd, Into::into),
            model: self.model.unwrap_or(defaults.model),
            sandbox: self.sandbox.unwrap_or(defaults.sandbox),
            approval_policy: self.approval_policy.unwrap_or(defaults.approval_policy),
            base_instructions: self.base_instructions.or(defaults.base_instructions),
            developer_instructions: self.developer_instructions.or(defaults.developer_instructions),
            compact_prompt: self.compact_prompt.or(defaults.compact_prompt),
            reasoning_effort: self.effort.or(defaults.reasoning_effort),
            reasoning_summary: self.summary.or(defaults.reasoning_summary),
            ..defaults
        }
    }

    /// Holds it against a thread that is there: what it runs with does not change. What matters to safety or to what is
    /// done is refused, the rest is added to what is not done.
    ///
    /// # Errors
    /// -32600 with the field and what the thread has.
    pub(crate) fn check(&mut self, thread: &ThreadConfig) -> Result<(), RpcError> {
        let refuse = |field: &str, asked: &str, has: &str| {
            Err(invalid(format!(
                "{field} is {asked:?}, and the thread runs with {has:?}, which does not change; leave it out, or start a \
                 new thread"
            )))
        };
        if let Some(cwd) = &self.cwd
            && thread.cwd.join(cwd) != thread.cwd
            && std::path::Path::new(cwd).canonicalize().ok().as_deref() != Some(&thread.cwd)
        {
            return refuse("cwd", cwd, &quote_path(&thread.cwd));
        }
        if let Some(model) = self.model.as_ref().filter(|model| **model != thread.model) {
            return refuse("model", model, &thread.model);
        }
        if let Some(mode) = self.sandbox.filter(|mode| *mode != thread.sandbox) {
            return refuse("the sandbox", mode.as_str(), thread.sandbox.as_str());
        }
        // Both have the same word on the wire, so that a client which repeats what it was told is not refused.
        let same = |policy: ApprovalPolicy| policy_word(policy) == policy_word(thread.approval_policy);
        if let Some(policy) = self.approval_policy.filter(|policy| !same(*policy)) {
            return refuse("approvalPolicy", policy.as_str(), thread.approval_policy.as_str());
        }
        let differs = |asked: &Option<String>, has: &Option<String>| asked.is_some() && asked != has;
        for (field, asked, has) in [
            ("effort", &self.effort, &thread.reasoning_effort),
            ("summary", &self.summary, &thread.reasoning_summary),
            ("baseInstructions", &self.base_instructions, &thread.base_instructions),
            ("developerInstructions", &self.developer_instructions, &thread.developer_instructions),
        ] {
            if differs(asked, has) {
                self.ignored.push(format!("{field} does not change on a thread that is there"));
            }
        }
        Ok(())
    }
}
