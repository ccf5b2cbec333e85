//! What every mode that serves needs of arguments, configuration and environment: core's own configuration, and the bounds on
//! what callers may ask for. Who calls and over what is the modes' own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use openoxide_core::{ApprovalPolicy, Ceiling, Config as CoreConfig, SandboxMode};
use openoxide_sandbox::Launcher;
use tokio::runtime::{Builder, Runtime};

use crate::config::ceiling::{self, Limits};
use crate::config::{Config, Fallback, Persistence};
use crate::rules_cmd::parse_policy;
use crate::sandbox_cmd::parse_mode;

/// Milliseconds below which no person answers, where the configuration does not say.
const PERSON_TAKES_MS: u64 = 300;

/// Why commands do not get the network of this machine beside a listener without a token.
const NO_HOST_NETWORK: &str = "the listener has no token, so that a command could call it and leave its sandbox; start the \
                               server with --token-file or --token-env";

/// The runtime of a mode that serves, with room for what it holds open.
///
/// # Errors
/// The system gives no threads for it.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    // Threads, commands and connections hold descriptors, and the usual soft limit is for programs that hold few.
    if let Err(error) = openoxide_sandbox::raise_descriptor_limit() {
        tracing::warn!("the limit on open descriptors was not raised: {error}");
    }
    let workers = std::thread::available_parallelism().map_or(2, usize::from).min(4);
    let runtime = Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    runtime.context("cannot start the async runtime")
}

/// Arguments of every mode that serves.
#[derive(Debug, clap::Args)]
pub(crate) struct CoreArgs {
    /// Keep nothing after exit: threads are not written to disk.
    #[arg(long)]
    ephemeral: bool,
    /// The most that callers may ask for: read-only, workspace-write or danger-full-access.
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    max_sandbox: Option<SandboxMode>,
    /// The policy that asks least and that callers may still ask for: untrusted, on-request, on-failure or never.
    #[arg(long, value_name = "POLICY", value_parser = parse_policy)]
    max_approval: Option<ApprovalPolicy>,
    /// Let threads work below this directory only. Repeatable.
    #[arg(long, value_name = "DIR")]
    allow_root: Vec<PathBuf>,
    /// What becomes of questions where nobody can be asked: auto-within-policy does what stays in the sandbox and denies
    /// the rest, deny denies all. Without it the configuration's mcp_server.approval_fallback holds, else
    /// auto-within-policy.
    #[arg(long, value_name = "HOW")]
    approval_fallback: Option<Fallback>,
}

/// What core has to know of how the server is reached.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// Whether others than the one program that started it may connect.
    pub(crate) is_listening: bool,
    /// Whether whoever reaches a TCP address of it is served.
    pub(crate) is_tokenless: bool,
    /// Callers that are told apart; 0 and 1 are the same.
    pub(crate) callers: usize,
    /// Files that the agent's commands must not see.
    pub(crate) secret_files: Vec<PathBuf>,
    /// A variable that they must not see.
    pub(crate) secret_variable: Option<String>,
}

/// Core's configuration, and what goes with it.
pub(crate) struct Serving {
    pub(crate) core: CoreConfig,
    /// Whether threads are kept.
    pub(crate) is_kept: bool,
}

impl CoreArgs {
    /// What becomes of questions that nobody can be asked.
    pub(crate) fn fallback(&self, config: &Config) -> Fallback {
        self.approval_fallback.or(config.mcp_server.approval_fallback).unwrap_or(Fallback::AutoWithinPolicy)
    }

    /// The most that callers may ask for, from every source.
    fn ceiling(&self, config: &Config, access: &Access, cwd: &Path) -> anyhow::Result<Ceiling> {
        let mut all = Ceiling::default();
        config.mcp_server.limits().apply(&mut all, &ceiling::KEYS, cwd)?;
        // Over a listener nobody gets out of the sandbox unless the operator says so.
        let is_open = access.is_listening && config.mcp_server.limits().max_sandbox.is_none();
        let by_listener = is_open.then_some(SandboxMode::WorkspaceWrite);
        let flags = Limits {
            max_sandbox: self.max_sandbox.or(by_listener),
            max_approval: self.max_approval,
            allow_roots: self.allow_root.clone(),
        };
        flags.apply(&mut all, &ceiling::FLAGS, cwd)?;
        ceiling::apply_requirements(&mut all, Path::new(ceiling::REQUIREMENTS))?;
        if access.is_tokenless {
            all.refuse_host_network(NO_HOST_NETWORK, &config.workspace_write())?;
        }
        all.check_not_empty()?;
        Ok(all)
    }

    /// Core's configuration.
    ///
    /// # Errors
    /// Something of the configuration cannot be used, or nothing is left of what may be asked for.
    pub(crate) fn serving(
        &self,
        config: &Config,
        access: Access,
        home: Option<&Path>,
        exe: PathBuf,
    ) -> anyhow::Result<Serving> {
        let cwd = crate::config::current_directory()?;
        let provider = config.chosen_provider(home)?.provider();
        let mut host_paths = crate::config::places(Some(cwd.clone())).host_paths();
        host_paths.secrets.extend(access.secret_files.iter().cloned());
        let child_env = config.child_env(&host_paths);
        let launcher = Launcher::new(exe, host_paths);
        let ceiling = self.ceiling(config, &access, &cwd)?;
        let mut core = CoreConfig::new(cwd, config.model_name(home)?, provider, launcher);
        core.ceiling = ceiling;
        core.default_sandbox = config.sandbox_mode();
        core.default_approval_policy = config.approval_policy();
        core.workspace_write = config.workspace_write();
        core.profiles = config.profiles().clone().into();
        core.rules = config.rules().into();
        core.child_env = child_env;
        if let Some(variable) = &access.secret_variable {
            core.child_env.remove(OsStr::new(variable));
        }
        core.login_path = config.login_path(&core.child_env).map(Arc::new);
        core.user_instructions = home.and_then(crate::config::user_instructions);
        let is_kept = !self.ephemeral && config.history.persistence == Persistence::SaveAll;
        core.home = home.filter(|_| is_kept).map(Path::to_owned);
        core.project_doc_max_bytes = config.project_doc_max_bytes.unwrap_or(core.project_doc_max_bytes);
        core.tool_output_token_limit = config.tool_output_token_limit.unwrap_or(core.tool_output_token_limit);
        core.auto_compact_token_limit = config.model_auto_compact_token_limit;
        core.compact_prompt = config.compact_prompt.clone();
        core.limits.owners = access.callers.max(1);
        if core.limits.owners > 1 {
            // Callers who do not know each other do not meet in a shared directory, unless the operator wants it.
            core.workspace_write.private_tmp.get_or_insert(true);
        }
        if let Some(seconds) = config.mcp_server.approval_timeout_sec {
            core.approval_timeout = Duration::from_secs(seconds);
        }
        let milliseconds = config.mcp_server.person_takes_ms.unwrap_or(PERSON_TAKES_MS);
        core.person_takes = Duration::from_millis(milliseconds);
        set_limits(&mut core.limits, config);
        Ok(Serving { core, is_kept })
    }
}

fn set_limits(limits: &mut openoxide_core::Limits, config: &Config) {
    let (server, history) = (&config.mcp_server, &config.history);
    limits.max_steps = config.max_steps.unwrap_or(limits.max_steps);
    limits.max_turn_tokens = config.max_turn_tokens;
    limits.max_turn_seconds = config.max_turn_seconds;
    if let Some(seconds) = server.idle_thread_sec {
        limits.idle_thread = (seconds > 0).then(|| Duration::from_secs(seconds));
    }
    if let Some(seconds) = server.abandoned_turn_sec {
        limits.abandoned_turn = (seconds > 0).then(|| Duration::from_secs(seconds));
    }
    limits.history_max_age = history.max_age_days.map(|days| Duration::from_secs(days.saturating_mul(24 * 3600)));
    limits.history_max_bytes = history.max_bytes;
    limits.history_max_bytes_per_principal = history.max_bytes_per_principal;
    limits.max_load_bytes = history.max_load_bytes.unwrap_or(limits.max_load_bytes);
    limits.max_threads = server.max_threads.unwrap_or(limits.max_threads);
    limits.max_history_bytes = server.max_history_bytes.unwrap_or(limits.max_history_bytes);
    limits.max_diff_bytes = server.max_diff_bytes.unwrap_or(limits.max_diff_bytes);
    limits.max_open_turns = server.max_open_turns.unwrap_or(limits.max_open_turns);
    limits.max_open_prompt_bytes = server.max_open_prompt_bytes.unwrap_or(limits.max_open_prompt_bytes);
    limits.share_percent = server.principal_share_percent.unwrap_or(limits.share_percent);
    limits.max_picture_bytes = server.max_picture_bytes.unwrap_or(limits.max_picture_bytes);
    limits.max_queued_turns = server.max_queued_turns.unwrap_or(limits.max_queued_turns);
}
