//! What one thread runs with, and when a person is asked.

use std::path::PathBuf;
use std::sync::Arc;

use openoxide_sandbox::SandboxMode;

use crate::ThreadId;

/// Whose a thread is; none where it belongs to nobody in particular.
pub(crate) type Owner = Option<Arc<str>>;

/// What one thread runs with.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadConfig {
    /// The directory the thread works in; absolute once the thread has started.
    pub cwd: PathBuf,
    /// Model name as the provider knows it.
    pub model: String,
    /// What commands may touch.
    pub sandbox: SandboxMode,
    /// When a person is asked.
    pub approval_policy: ApprovalPolicy,
    /// Takes the place of the built-in base instructions.
    pub base_instructions: Option<String>,
    /// Standing instructions of the caller, sent ahead of the first prompt.
    pub developer_instructions: Option<String>,
    /// In place of [`crate::Config::compact_prompt`].
    pub compact_prompt: Option<String>,
    /// How much the model reasons; none leaves it to the provider's configuration.
    pub reasoning_effort: Option<String>,
    /// What is told of its reasoning; none leaves it to the provider's configuration.
    pub reasoning_summary: Option<String>,
    /// A query thread: tools that only read, and commands only where they can be held to that.
    pub read_only_tools: bool,
    /// The thread that a query asks about, and whose requests its own continue: it is offered that thread's tools, and a call that is
    /// beyond it is refused when it is to run.
    pub question_on: Option<ThreadId>,
    /// In place of [`crate::Config::tool_output_token_limit`].
    pub tool_output_token_limit: Option<usize>,
    /// In place of [`crate::Config::project_doc_max_bytes`].
    pub project_doc_max_bytes: Option<usize>,
    /// At most [`crate::Limits::max_turn_tokens`].
    pub max_turn_tokens: Option<u64>,
    /// At most [`crate::Limits::max_turn_seconds`].
    pub max_turn_seconds: Option<u64>,
    /// At most [`crate::Limits::max_steps`].
    pub max_steps: Option<u32>,
    /// Whose thread it is, where the server has more than one user; it is kept and told, and those who serve threads
    /// decide by it.
    pub owner: Option<Arc<str>>,
}

impl ThreadConfig {
    /// One with nothing set beside these.
    pub fn new(cwd: PathBuf, model: String, sandbox: SandboxMode, approval_policy: ApprovalPolicy) -> Self {
        Self {
            cwd,
            model,
            sandbox,
            approval_policy,
            base_instructions: None,
            developer_instructions: None,
            compact_prompt: None,
            reasoning_effort: None,
            reasoning_summary: None,
            read_only_tools: false,
            question_on: None,
            tool_output_token_limit: None,
            project_doc_max_bytes: None,
            max_turn_tokens: None,
            max_turn_seconds: None,
            max_steps: None,
            owner: None,
        }
    }

    pub(crate) fn reasoning(&self) -> openoxide_llm::ReasoningChoice<'_> {
        openoxide_llm::ReasoningChoice {
            effort: self.reasoning_effort.as_deref(),
            summary: self.reasoning_summary.as_deref(),
        }
    }
}

/// When a person is asked before something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalPolicy {
    /// Before every patch, and every command that is not known to only read.
    Untrusted,
    /// When the model asks for more than the sandbox allows.
    OnRequest,
    /// When the sandbox has stopped a command.
    OnFailure,
    /// Never.
    Never,
}

impl ApprovalPolicy {
    /// All, the strictest first. The length is that of the enum as long as `Never` is its last.
    pub const ALL: [Self; Self::Never as usize + 1] = [Self::Untrusted, Self::OnRequest, Self::OnFailure, Self::Never];

    /// The word used in configuration and arguments.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::OnRequest => "on-request",
            Self::OnFailure => "on-failure",
            Self::Never => "never",
        }
    }
}
