//! Threads, turns and items as clients see them.

use serde::Serialize;
use serde_json::Value;

/// A conversation.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Thread {
    pub(crate) id: String,
    pub(crate) session_id: String,
    pub(crate) forked_from_id: Option<String>,
    pub(crate) parent_thread_id: Option<String>,
    pub(crate) project_id: Option<String>,
    pub(crate) preview: String,
    pub(crate) ephemeral: bool,
    pub(crate) model_provider: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// Seconds of the Unix epoch, as the next.
    pub(crate) created_at: u64,
    pub(crate) updated_at: u64,
    pub(crate) status: ThreadStatus,
    pub(crate) path: Option<String>,
    pub(crate) cwd: String,
    pub(crate) cli_version: &'static str,
    pub(crate) source: &'static str,
    pub(crate) git_info: Value,
    pub(crate) name: Option<String>,
    pub(crate) turns: Vec<Turn>,
}

/// What a thread is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum ThreadStatus {
    /// Nothing.
    Idle,
    /// A turn runs.
    Active {
        /// What it waits for.
        active_flags: Vec<ActiveFlag>,
    },
    /// It is on disk alone.
    NotLoaded,
}

/// What a turn waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ActiveFlag {
    WaitingOnApproval,
    WaitingOnUserInput,
}

/// From a prompt to its end.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Turn {
    pub(crate) id: String,
    pub(crate) items: Vec<ThreadItem>,
    pub(crate) items_view: ItemsView,
    pub(crate) status: TurnStatus,
    pub(crate) error: Option<TurnError>,
    /// Seconds of the Unix epoch, as the next.
    pub(crate) started_at: Option<u64>,
    pub(crate) completed_at: Option<u64>,
    pub(crate) duration_ms: Option<u64>,
}

/// Which of a turn's items are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ItemsView {
    NotLoaded,
    Summary,
}

/// How a turn stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum TurnStatus {
    InProgress,
    Completed,
    Interrupted,
    Failed,
}

/// Why a turn failed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnError {
    pub(crate) message: String,
    pub(crate) codex_error_info: Value,
    pub(crate) additional_details: Option<String>,
}

/// One item of a turn.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum ThreadItem {
    UserMessage {
        id: String,
        client_id: Option<String>,
        content: Vec<Value>,
    },
    AgentMessage {
        id: String,
        text: String,
    },
    Reasoning {
        id: String,
        summary: Vec<String>,
        content: Vec<String>,
    },
    CommandExecution {
        id: String,
        command: String,
        cwd: String,
        process_id: Option<String>,
        source: &'static str,
        status: ItemStatus,
        command_actions: Vec<Value>,
        aggregated_output: Option<String>,
        exit_code: Option<i32>,
        duration_ms: Option<u64>,
    },
    FileChange {
        id: String,
        changes: Vec<FileUpdateChange>,
        status: ItemStatus,
    },
    /// A tool of the agent's other than commands and patches.
    DynamicToolCall {
        id: String,
        namespace: &'static str,
        tool: String,
        arguments: Value,
        status: ItemStatus,
        content_items: Option<Vec<Value>>,
        success: Option<bool>,
        duration_ms: Option<u64>,
    },
}

/// How an item stands. Tool calls know no `declined`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ItemStatus {
    InProgress,
    Completed,
    Failed,
    Declined,
}

/// One file of a patch.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FileUpdateChange {
    /// Absolute.
    pub(crate) path: String,
    pub(crate) kind: ChangeKind,
    /// The content of what is added or deleted, the hunks of what is updated.
    pub(crate) diff: String,
}

/// What happens to a file.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(crate) enum ChangeKind {
    Add,
    Delete,
    Update { move_path: Option<String> },
}

/// Tokens of a thread.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenUsage {
    pub(crate) total: Tokens,
    /// Of the latest response.
    pub(crate) last: Tokens,
    pub(crate) model_context_window: Option<u64>,
}

/// Tokens by kind.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tokens {
    pub(crate) total_tokens: u64,
    pub(crate) input_tokens: u64,
    pub(crate) cached_input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) reasoning_output_tokens: u64,
}

/// One step of a plan.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PlanStep {
    pub(crate) step: String,
    /// `pending`, `inProgress` or `completed`.
    pub(crate) status: &'static str,
}

/// What a thread runs with: the answer to `thread/start` and `thread/resume`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenedThread {
    pub(crate) thread: Thread,
    pub(crate) model: String,
    pub(crate) model_provider: String,
    pub(crate) service_tier: Option<String>,
    pub(crate) cwd: String,
    pub(crate) runtime_workspace_roots: Vec<String>,
    pub(crate) instruction_sources: Vec<String>,
    pub(crate) approval_policy: &'static str,
    pub(crate) approvals_reviewer: &'static str,
    pub(crate) sandbox: SandboxPolicy,
    pub(crate) reasoning_effort: Option<String>,
}

/// What commands may touch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum SandboxPolicy {
    DangerFullAccess,
    ReadOnly {
        network_access: bool,
    },
    WorkspaceWrite {
        writable_roots: Vec<String>,
        network_access: bool,
        exclude_tmpdir_env_var: bool,
        exclude_slash_tmp: bool,
    },
}
