//! `openoxide mcp-server`: puts configuration, environment and a transport together and serves: one connection on the standard
//! streams, or any number over HTTP.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use openoxide_core::{ApprovalPolicy, Ceiling, Config as CoreConfig, Interruption, SandboxMode, ThreadManager};
use openoxide_mcp_server::{ApprovalStrategy, HttpConfig, OnEof, Server, ServerConfig, ToolFamilies, serve};
use openoxide_sandbox::Launcher;

mod closed_output;
pub(crate) mod http;

use crate::Global;
use crate::config::ceiling::{self, Limits};
use crate::config::{Config, Fallback, Persistence};
use crate::rules_cmd::parse_policy;
use crate::sandbox_cmd::parse_mode;
use crate::watchdog::{Input, Watchdog};

/// Milliseconds below which no person answers, where the configuration does not say.
const PERSON_TAKES_MS: u64 = 300;

/// Arguments of `openoxide mcp-server`.
#[derive(Debug, clap::Args)]
pub(crate) struct McpServerArgs {
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
    /// Answer a call after this many seconds, with status "running" if its turn goes on; 0 never does. A call's own
    /// wait_seconds goes before. Without it, legacy hosts are answered in time that are known to give up or not known to wait.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    max_wait: Option<Duration>,
    /// What the end of input means: interrupt ends every turn and answers its call so, finish lets open calls and tasks
    /// end first, for scripts that write their calls and close.
    #[arg(long, value_name = "HOW", default_value = "interrupt", conflicts_with = "listen")]
    on_eof: Eof,
    /// Have the tools of another agent's MCP server, in its shapes: codex (`codex`, `codex-reply`, `codex/event`) in place of
    /// our own, codex,native for both.
    #[arg(long, value_name = "AGENT", value_delimiter = ',')]
    compat: Vec<Compat>,
    #[command(flatten)]
    http: http::HttpArgs,
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is no number of seconds"))?;
    match seconds {
        0.0 => Ok(Duration::MAX),
        _ => Duration::try_from_secs_f64(seconds).map_err(|_| format!("{text} s is no time to wait")),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Compat {
    Codex,
    Native,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Eof {
    Interrupt,
    Finish,
}

impl McpServerArgs {
    /// Which tools there are.
    fn families(&self) -> ToolFamilies {
        match (self.compat.contains(&Compat::Codex), self.compat.contains(&Compat::Native)) {
            (true, false) => ToolFamilies::Codex,
            (true, true) => ToolFamilies::All,
            (false, _) => ToolFamilies::Native,
        }
    }

    /// The most that callers may ask for, from every source.
    fn ceiling(&self, config: &Config, cwd: &Path) -> anyhow::Result<Ceiling> {
        let mut all = Ceiling::default();
        config.mcp_server.limits().apply(&mut all, &ceiling::KEYS, cwd)?;
        // Over the network nobody gets out of the sandbox unless the operator says so.
        let is_open = self.http.listen.is_some() && config.mcp_server.limits().max_sandbox.is_none();
        let by_door = is_open.then_some(SandboxMode::WorkspaceWrite);
        let flags = Limits {
            max_sandbox: self.max_sandbox.or(by_door),
            max_approval: self.max_approval,
            allow_roots: self.allow_root.clone(),
        };
        flags.apply(&mut all, &ceiling::FLAGS, cwd)?;
        ceiling::apply_requirements(&mut all, Path::new(ceiling::REQUIREMENTS))?;
        if self.http.is_tokenless() {
            all.refuse_host_network(http::NO_HOST_NETWORK, &config.workspace_write())?;
        }
        all.check_not_empty()?;
        Ok(all)
    }
}

/// Serves until the client goes away.
pub(crate) fn run(args: &McpServerArgs, global: &Global, exe: PathBuf) -> anyhow::Result<ExitCode> {
    if args.http.listen.is_some() && crate::config::stays_dumpable() {
        bail!(
            "OPENOXIDE_DUMPABLE=1 cannot be used with --listen: this process's memory holds its callers' secrets; unset it, \
             or debug a server on the standard streams"
        );
    }
    let home = crate::config::home();
    home.as_deref().map_or(Ok(()), crate::config::home::prepare_if_possible)?;
    let config = Config::load(global)?;
    let is_listening = args.http.listen.is_some();
    // With `finish` the end of input ends nothing by itself.
    let ends_with_input = !is_listening && args.on_eof == Eof::Interrupt;
    let watchdog = Watchdog::start(if ends_with_input { Input::Standard } else { Input::Elsewhere })?;
    // Threads, commands and connections hold descriptors, and the usual soft limit is for programs that hold few.
    if let Err(error) = openoxide_sandbox::raise_descriptor_limit() {
        tracing::warn!("the limit on open descriptors was not raised: {error}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(std::thread::available_parallelism().map_or(2, usize::from).min(4))
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(async {
        let cwd = crate::config::current_directory()?;
        let provider = config.chosen_provider(home.as_deref())?.provider();
        let mut host_paths = crate::config::places(Some(cwd.clone())).host_paths();
        host_paths.secrets.extend(args.http.secret_files());
        let child_env = config.child_env(&host_paths);
        let launcher = Launcher::new(exe, host_paths);
        let ceiling = args.ceiling(&config, &cwd)?;
        let mut core = CoreConfig::new(cwd, config.model_name(home.as_deref())?, provider, launcher);
        core.ceiling = ceiling;
        let families = args.families();
        core.default_sandbox = match config.sandbox_mode {
            // As it was there where nothing is configured.
            None if families != ToolFamilies::Native => SandboxMode::ReadOnly,
            _ => config.sandbox_mode(),
        };
        core.default_approval_policy = config.approval_policy();
        core.workspace_write = config.workspace_write();
        core.profiles = config.profiles().clone().into();
        core.rules = config.rules().into();
        core.child_env = child_env;
        args.http.take_secrets(&mut core.child_env);
        core.user_instructions = home.as_ref().and_then(|home| crate::config::user_instructions(home));
        let is_kept = !args.ephemeral && config.history.persistence == Persistence::SaveAll;
        core.home = home.clone().filter(|_| is_kept);
        if let Some(bytes) = config.project_doc_max_bytes {
            core.project_doc_max_bytes = bytes;
        }
        if let Some(tokens) = config.tool_output_token_limit {
            core.tool_output_token_limit = tokens;
        }
        core.auto_compact_token_limit = config.model_auto_compact_token_limit;
        core.compact_prompt = config.compact_prompt.clone();
        core.limits.max_steps = config.max_steps.unwrap_or(core.limits.max_steps);
        core.limits.max_turn_tokens = config.max_turn_tokens;
        core.limits.max_turn_seconds = config.max_turn_seconds;
        if let Some(seconds) = config.mcp_server.idle_thread_sec {
            core.limits.idle_thread = (seconds > 0).then(|| Duration::from_secs(seconds));
        }
        if let Some(seconds) = config.mcp_server.abandoned_turn_sec {
            core.limits.abandoned_turn = (seconds > 0).then(|| Duration::from_secs(seconds));
        }
        let history = &config.history;
        core.limits.history_max_age =
            history.max_age_days.map(|days| Duration::from_secs(days.saturating_mul(24 * 3600)));
        core.limits.history_max_bytes = history.max_bytes;
        core.limits.history_max_bytes_per_principal = history.max_bytes_per_principal;
        core.limits.max_load_bytes = config.history.max_load_bytes.unwrap_or(core.limits.max_load_bytes);
        core.limits.max_threads = config.mcp_server.max_threads.unwrap_or(core.limits.max_threads);
        core.limits.max_history_bytes = config.mcp_server.max_history_bytes.unwrap_or(core.limits.max_history_bytes);
        core.limits.max_diff_bytes = config.mcp_server.max_diff_bytes.unwrap_or(core.limits.max_diff_bytes);
        core.limits.max_open_turns = config.mcp_server.max_open_turns.unwrap_or(core.limits.max_open_turns);
        core.limits.max_open_prompt_bytes =
            config.mcp_server.max_open_prompt_bytes.unwrap_or(core.limits.max_open_prompt_bytes);
        core.limits.share_percent = config.mcp_server.principal_share_percent.unwrap_or(core.limits.share_percent);
        let listener = args.http.config(&config.mcp_server)?;
        core.limits.owners = listener.as_ref().map_or(1, HttpConfig::principals);
        http::check_room(&core.limits, listener.as_ref())?;
        if core.limits.owners > 1 {
            // Callers who do not know each other do not meet in a shared directory, unless the operator wants it.
            core.workspace_write.private_tmp.get_or_insert(true);
        }
        core.limits.max_picture_bytes = config.mcp_server.max_picture_bytes.unwrap_or(core.limits.max_picture_bytes);
        core.limits.max_queued_turns = config.mcp_server.max_queued_turns.unwrap_or(core.limits.max_queued_turns);
        if let Some(seconds) = config.mcp_server.approval_timeout_sec {
            core.approval_timeout = Duration::from_secs(seconds);
        }
        let milliseconds = config.mcp_server.person_takes_ms.unwrap_or(PERSON_TAKES_MS);
        core.person_takes = Duration::from_millis(milliseconds);
        let manager = ThreadManager::new(core);
        let configured = config.mcp_server.max_wait_sec.map(|seconds| match seconds {
            0 => Duration::MAX,
            _ => Duration::from_secs(seconds),
        });
        let max_wait = args.max_wait.or(configured);
        let kept = |name: &str| home.as_ref().filter(|_| is_kept).map(|home| home.join(name));
        let (state_key_file, tasks) = (kept("state.key"), kept("tasks"));
        let approval_strategy = match args.approval_fallback.or(config.mcp_server.approval_fallback) {
            None | Some(Fallback::AutoWithinPolicy) => ApprovalStrategy::AutoWithinPolicy,
            Some(Fallback::Deny) => ApprovalStrategy::DenyOnApproval,
        };
        let agent = Server::new(ServerConfig {
            manager,
            state_key_file,
            tasks,
            approval_strategy,
            max_wait,
            answer_within: config.mcp_server.answer_within(),
            task_after: config.mcp_server.task_after(),
            write_timeout: config.mcp_server.write_timeout(),
            on_eof: match args.on_eof {
                Eof::Interrupt => OnEof::Interrupt,
                Eof::Finish => OnEof::Finish,
            },
            families,
            on_trace: on_trace(),
        });
        match args.http.listen.as_deref().zip(listener) {
            Some((url, listener)) => http::serve(url, listener, agent, watchdog.asked()).await,
            None => {
                let stop = async {
                    // Cancel-safe: a signal stays counted, and a closed output stays closed.
                    tokio::select! {
                        () = watchdog.asked() => Interruption::ServerStopped,
                        () = closed_output::noticed() => {
                            watchdog.arm();
                            Interruption::ConnectionLost
                        }
                    }
                };
                let (stdin, stdout) = (tokio::io::stdin(), tokio::io::stdout());
                match args.on_eof {
                    Eof::Interrupt => serve(watchdog.watching(stdin), stdout, agent, stop).await,
                    // Open calls take as long as they take.
                    Eof::Finish => serve(stdin, stdout, agent, stop).await,
                }
                Ok(())
            }
        }
    })?;
    // A read of stdin may still block one of the runtime's threads; it must not hold up the end.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// Who is told of the traces that calls belong to.
fn on_trace() -> Option<fn(&tracing::Span, &openoxide_mcp_server::TraceContext)> {
    #[cfg(feature = "otel")]
    return Some(crate::otel::continue_trace);
    #[cfg(not(feature = "otel"))]
    None
}
