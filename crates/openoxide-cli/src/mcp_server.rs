//! `openoxide mcp-server`: puts configuration, environment and standard streams together and serves one connection.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use openoxide_core::{Config as CoreConfig, ThreadManager};
use openoxide_mcp_server::{ServerConfig, serve};
use openoxide_sandbox::Launcher;
use tokio::signal::unix::{SignalKind, signal};

use crate::Global;
use crate::config::Config;

/// Arguments of `openoxide mcp-server`.
#[derive(Debug, clap::Args)]
pub(crate) struct McpServerArgs {
    /// Keep nothing after exit: threads are not written to disk.
    #[arg(long)]
    ephemeral: bool,
}

/// Serves until the client goes away.
pub(crate) fn run(args: &McpServerArgs, global: &Global, exe: PathBuf) -> anyhow::Result<ExitCode> {
    let home = crate::config::home();
    let config = Config::load(home.as_deref(), &global.config, global.model.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(std::thread::available_parallelism().map_or(2, usize::from).min(4))
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(async {
        let cwd = crate::config::current_directory()?;
        let provider = config.provider();
        let launcher = Launcher::new(exe, crate::config::surroundings(home.clone()));
        let mut core = CoreConfig::new(cwd, config.model_name(), provider, launcher);
        core.child_env = config.child_env();
        core.user_instructions = home.as_ref().and_then(|home| std::fs::read_to_string(home.join("AGENTS.md")).ok());
        core.home = home.clone().filter(|_| !args.ephemeral);
        if let Some(bytes) = config.project_doc_max_bytes {
            core.project_doc_max_bytes = bytes;
        }
        if let Some(tokens) = config.tool_output_token_limit {
            core.tool_output_token_limit = tokens;
        }
        if let Some(seconds) = config.mcp_server.approval_timeout_sec {
            core.approval_timeout = Duration::from_secs(seconds);
        }
        let manager = ThreadManager::new(core);
        let state_key_file = home.filter(|_| !args.ephemeral).map(|home| home.join("state.key"));
        let server = ServerConfig { manager, state_key_file };
        serve(tokio::io::stdin(), tokio::io::stdout(), server, stopped()?).await;
        anyhow::Ok(())
    })?;
    // A read of stdin may still block one of the runtime's threads; it must not hold up the end.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// Ready when the process is told to end.
fn stopped() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        // Both are cancel-safe: a signal stays counted until it is received.
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
