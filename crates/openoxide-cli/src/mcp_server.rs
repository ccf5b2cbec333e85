//! `openoxide mcp-server`: puts configuration, environment and a transport together and serves: one connection on the standard
//! streams, or any number over HTTP.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use openoxide_core::{Interruption, SandboxMode, ThreadManager};
use openoxide_mcp_server::{ApprovalStrategy, HttpConfig, OnEof, Server, ServerConfig, ToolFamilies, serve};

mod http;

use crate::Global;
use crate::app_server;
use crate::closed_output;
use crate::config::{Config, Fallback};
use crate::serving::{self, Access, CoreArgs, Serving};
use crate::watchdog::{Input, Watchdog};

/// How long the clients of the app-server may take to be told that everything has ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Arguments of `openoxide mcp-server`.
#[derive(Debug, clap::Args)]
pub(crate) struct McpServerArgs {
    #[command(flatten)]
    core: CoreArgs,
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
    /// Serve the app-server protocol as well, on the same threads: ws://IP:PORT or unix://PATH. With --listen its tokens hold
    /// here too.
    #[arg(long, value_name = "URL", value_parser = app_server::parse_listener)]
    app_server: Option<app_server::Place>,
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
    let runtime = serving::runtime()?;
    runtime.block_on(async {
        let listener = args.http.config(&config.mcp_server)?;
        let beside = args.app_server.as_ref();
        let access = Access {
            is_listening: is_listening || beside.is_some(),
            is_tokenless: args.http.is_tokenless() || beside.is_some_and(|place| place.is_tokenless(&args.http.guard)),
            callers: listener.as_ref().map_or(1, HttpConfig::principals),
            secret_files: args.http.guard.secret_files(),
            secret_variable: args.http.guard.secret_variable(),
        };
        let Serving { mut core, is_kept } = args.core.serving(&config, access, home.as_deref(), exe)?;
        http::check_room(&core.limits, listener.as_ref())?;
        let families = args.families();
        if config.sandbox_mode.is_none() && families != ToolFamilies::Native {
            // As it was there where nothing is configured.
            core.default_sandbox = SandboxMode::ReadOnly;
        }
        let manager = ThreadManager::new(core);
        let app_server = match beside {
            None => None,
            Some(place) => {
                let server = app_server::server(&args.core, &config, home.as_deref(), Arc::clone(&manager));
                let (socket, guard) = (place.bind().await?, app_server::guard(&args.http.guard)?);
                let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
                // Its sender is dropped when the server ends.
                let stopped = async move { drop(stopped.await) };
                Some((stop, tokio::spawn(openoxide_app_server::serve_ws(socket, server, guard, stopped))))
            }
        };
        let configured = config.mcp_server.max_wait_sec.map(|seconds| match seconds {
            0 => Duration::MAX,
            _ => Duration::from_secs(seconds),
        });
        let max_wait = args.max_wait.or(configured);
        let kept = |name: &str| home.as_ref().filter(|_| is_kept).map(|home| home.join(name));
        let (state_key_file, tasks) = (kept("state.key"), kept("tasks"));
        let approval_strategy = match args.core.fallback(&config) {
            Fallback::AutoWithinPolicy => ApprovalStrategy::AutoWithinPolicy,
            Fallback::Deny => ApprovalStrategy::DenyOnApproval,
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
        let served = match args.http.listen.as_deref().zip(listener) {
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
        };
        if let Some((stop, serving)) = app_server {
            drop(stop);
            // Every thread is closed by now; what is left is to say so.
            drop(tokio::time::timeout(LAST_WORDS, serving).await);
        }
        served
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
