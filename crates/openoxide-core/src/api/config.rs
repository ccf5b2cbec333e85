//! What core is told when it starts ([`Config`]) and what one thread runs with ([`ThreadConfig`]). Nothing here reads
//! the environment or a file: the command line fills these in.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use openoxide_llm::Provider;
use openoxide_sandbox::{Launcher, LoginPath, SandboxMode, WorkspaceWrite};

use crate::{ApprovalPolicy, Ceiling, CommandRule, CoreError, Profiles, ThreadConfig};

/// What the process was started with.
#[derive(Clone)]
pub struct Config {
    /// Where rollouts are kept (`<home>/sessions`); `None` keeps everything in memory and writes nothing.
    pub home: Option<PathBuf>,
    /// Default directory of threads, absolute; relative directories of threads are resolved against it.
    pub cwd: PathBuf,
    /// Default model name.
    pub model: String,
    /// Who answers.
    pub provider: Arc<dyn Provider>,
    /// Starts commands.
    pub launcher: Launcher,
    /// The sandbox mode of threads whose caller asks for none, before the ceiling.
    pub default_sandbox: SandboxMode,
    /// The approval policy of threads whose caller asks for none, before the ceiling.
    pub default_approval_policy: ApprovalPolicy,
    /// The most that callers may ask for.
    pub ceiling: Ceiling,
    /// What is to be done with certain commands, whatever the policy says.
    pub rules: Arc<[CommandRule]>,
    /// What `workspace-write` allows beside a thread's directory.
    pub workspace_write: WorkspaceWrite,
    /// The whole environment of commands, already filtered.
    pub child_env: BTreeMap<OsString, OsString>,
    /// Takes the place of `PATH` in it, once it is known.
    pub login_path: Option<Arc<LoginPath>>,
    /// What callers may choose by name in place of the defaults.
    pub profiles: Arc<Profiles>,
    /// Text of the user's own standing instructions, for every thread.
    pub user_instructions: Option<String>,
    /// The most bytes of project documents (`AGENTS.md`) given to the model, over all files.
    pub project_doc_max_bytes: usize,
    /// The most tokens of one tool's output given to the model, at 4 bytes each.
    pub tool_output_token_limit: usize,
    /// The length of a thread, in tokens, from which on it is summed up; by default nine tenths of what the model can
    /// read. 0 is never.
    pub auto_compact_token_limit: Option<u64>,
    /// What a summary is asked for with, in place of the built-in words.
    pub compact_prompt: Option<String>,
    /// How long a question waits for its decision before it counts as denied.
    pub approval_timeout: Duration,
    /// An answer that comes before this time is over is the host's own and no person's; zero takes every answer for a
    /// person's.
    pub person_takes: Duration,
    /// Bounds.
    pub limits: Limits,
}

impl Config {
    /// A configuration with every default; nothing is written to disk.
    pub fn new(cwd: PathBuf, model: String, provider: Arc<dyn Provider>, launcher: Launcher) -> Self {
        Self {
            home: None,
            cwd,
            model,
            provider,
            launcher,
            default_sandbox: SandboxMode::WorkspaceWrite,
            default_approval_policy: ApprovalPolicy::OnRequest,
            ceiling: Ceiling::default(),
            rules: Arc::default(),
            workspace_write: WorkspaceWrite::default(),
            child_env: BTreeMap::new(),
            login_path: None,
            profiles: Arc::default(),
            user_instructions: None,
            project_doc_max_bytes: 32 * 1024,
            tool_output_token_limit: 10_000,
            auto_compact_token_limit: None,
            compact_prompt: None,
            approval_timeout: Duration::from_secs(600),
            person_takes: Duration::ZERO,
            limits: Limits::default(),
        }
    }

    /// The default configuration of a thread, within the ceiling.
    pub fn thread_defaults(&self) -> ThreadConfig {
        let sandbox = self.ceiling.lowered_sandbox(self.default_sandbox);
        let approval_policy = self.ceiling.lowered_policy(self.default_approval_policy);
        ThreadConfig::new(self.cwd.clone(), self.model.clone(), sandbox, approval_policy)
    }

    /// The same with a profile laid over it, within the ceiling too.
    ///
    /// # Errors
    /// There is no such profile, or it holds for a whole server.
    pub fn thread_defaults_with(&self, profile: Option<&str>) -> Result<ThreadConfig, CoreError> {
        let defaults = self.thread_defaults();
        let Some(name) = profile else { return Ok(defaults) };
        let chosen = super::profile::named(&self.profiles, name)?.over(defaults);
        Ok(ThreadConfig {
            sandbox: self.ceiling.lowered_sandbox(chosen.sandbox),
            approval_policy: self.ceiling.lowered_policy(chosen.approval_policy),
            ..chosen
        })
    }
}

/// How much of a limit one party may hold where there are several, in percent.
pub const DEFAULT_SHARE_PERCENT: u8 = 25;

/// Bounds on what threads may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Threads in memory.
    pub max_threads: usize,
    /// Bytes of the histories of all threads in memory; threads that are idle leave memory for it.
    pub max_history_bytes: usize,
    /// Turns that may run at once, over all threads.
    pub max_open_turns: usize,
    /// Bytes of the prompts of all turns that wait or run, steering text included.
    pub max_open_prompt_bytes: usize,
    /// Owners of threads that share the limits on threads, histories, turns, prompts and reads; 1 has all of them.
    pub owners: usize,
    /// How much of these limits one owner may hold where there are several, in percent.
    pub share_percent: u8,
    /// How long a turn goes on that nobody follows; none for as long as it takes.
    pub abandoned_turn: Option<Duration>,
    /// How long a thread stays in memory that nobody uses; none for ever. What is not kept on disk is lost with it.
    pub idle_thread: Option<Duration>,
    /// How long a thread stays on disk that nobody uses; none for ever.
    pub history_max_age: Option<Duration>,
    /// Bytes of all rollouts together. Beyond it the oldest threads of the owner with the most bytes are deleted.
    pub history_max_bytes: Option<u64>,
    /// Bytes of the rollouts of one owner. Beyond it that owner's oldest threads are deleted, and where that does not do,
    /// its next turn is refused.
    pub history_max_bytes_per_principal: Option<u64>,
    /// Bytes of a rollout that are read to load its thread.
    pub max_load_bytes: u64,
    /// Bytes of diffs of ended turns that are kept in memory, over all threads. What is on disk is not kept in memory.
    pub max_diff_bytes: usize,
    /// Bytes of pictures, in base64, that a thread's history holds. Beyond it the oldest give way to text, down to half.
    pub max_picture_bytes: usize,
    /// Prompts waiting on one thread behind its running turn; steering text counts too.
    pub max_queued_turns: usize,
    /// Bytes of one prompt.
    pub max_prompt_bytes: usize,
    /// Bytes of all prompts waiting on one thread.
    pub max_queued_bytes: usize,
    /// Model requests of one turn.
    pub max_steps: u32,
    /// Tokens that one turn reads and writes, over all its requests.
    pub max_turn_tokens: Option<u64>,
    /// Seconds that one turn may take, questions included.
    pub max_turn_seconds: Option<u64>,
    /// Bytes of deltas that the readers of a thread's events may leave unread; beyond it the oldest are dropped.
    pub event_queue_bytes: usize,
    /// Bytes of events that a thread keeps while a turn runs, for those who attach again from a cursor. An idle thread
    /// keeps none.
    pub event_log_bytes: usize,
    /// Commands that one thread keeps running in the background.
    pub max_background_commands: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_threads: 4096,
            max_history_bytes: 1 << 30,
            max_open_turns: 1024,
            max_open_prompt_bytes: 512 << 20,
            owners: 1,
            share_percent: DEFAULT_SHARE_PERCENT,
            abandoned_turn: Some(Duration::from_secs(24 * 3600)),
            idle_thread: Some(Duration::from_secs(30 * 60)),
            history_max_age: None,
            history_max_bytes: None,
            history_max_bytes_per_principal: None,
            max_load_bytes: 256 << 20,
            max_diff_bytes: 64 << 20,
            max_picture_bytes: 32 << 20,
            max_queued_turns: 64,
            max_prompt_bytes: 8 << 20,
            max_queued_bytes: 32 << 20,
            max_steps: 500,
            max_turn_tokens: None,
            max_turn_seconds: None,
            event_queue_bytes: 1 << 20,
            event_log_bytes: 256 << 10,
            max_background_commands: 16,
        }
    }
}
