//! The `openoxide` binary: parses arguments, reads configuration and environment, starts one mode.
//!
//! Everything that reads the environment, the home or the current directory is here; the crates below are given what
//! they need.

mod app_server;
mod closed_output;
mod codex_flags;
mod config;
mod config_cmd;
mod config_flags;
mod doctor;
mod exec_server;
mod guard_args;
mod log;
mod login_cmd;
mod mcp_server;
#[cfg(feature = "otel")]
mod otel;
mod rules_cmd;
mod sandbox_cmd;
mod serving;
mod threads_cmd;
mod try_cmd;
mod watchdog;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser, Subcommand};

/// A coding agent that other programs drive over the Model Context Protocol.
#[derive(Debug, Parser)]
#[command(name = "openoxide", version, about)]
struct Cli {
    #[command(subcommand)]
    mode: Mode,
    #[command(flatten)]
    global: Global,
}

/// Options of every mode.
#[derive(Debug, clap::Args)]
struct Global {
    /// Set a configuration key: dotted.key=value, the value in TOML or a plain word. Repeatable.
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE", global = true)]
    config: Vec<String>,
    /// Use the settings of this profile, a table [profiles.NAME] of the configuration.
    #[arg(short = 'p', long, value_name = "NAME", global = true)]
    profile: Option<String>,
    /// The model to use.
    #[arg(short = 'm', long, value_name = "NAME", global = true)]
    model: Option<String>,
    /// Work in this directory instead of the current one.
    #[arg(short = 'C', long = "cd", value_name = "DIR", global = true)]
    cd: Option<PathBuf>,
    /// Log more to standard error than errors; twice for everything. Without it RUST_LOG is followed.
    #[arg(short = 'v', long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
}

impl Global {
    /// The flags that a server started by us is given too.
    fn forwarded(&self) -> Vec<String> {
        let config = self.config.iter().flat_map(|pair| ["-c".to_owned(), pair.clone()]);
        let model = self.model.iter().flat_map(|model| ["-m".to_owned(), model.clone()]);
        let profile = self.profile.iter().flat_map(|profile| ["--profile".to_owned(), profile.clone()]);
        config.chain(model).chain(profile).collect()
    }
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// Serve MCP on standard input and output, or over HTTP (--listen).
    McpServer(mcp_server::McpServerArgs),
    /// Serve the app-server protocol, which Codex's own clients speak.
    AppServer(app_server::AppServerArgs),
    /// Run commands and file operations for a client elsewhere, in the sandbox.
    ExecServer(exec_server::ExecServerArgs),
    /// Try the whole path at once: start the server, hand it a task, watch, approve, see the result.
    Try(try_cmd::TryArgs),
    /// Run one command the way the agent would.
    Sandbox(sandbox_cmd::SandboxArgs),
    /// Tell what the approval rules say of commands.
    Rules(rules_cmd::RulesArgs),
    /// Look at, copy, put aside and delete the threads that are kept.
    Threads(threads_cmd::ThreadsArgs),
    /// Print the value of each configuration key that is set, and where it came from.
    Config(config_cmd::ConfigArgs),
    /// Store the key of a model provider, for its owner's eyes alone.
    Login(login_cmd::LoginArgs),
    /// Forget a stored key.
    Logout(login_cmd::LogoutArgs),
    /// Tell what works here, and how to fix what does not.
    Doctor(doctor::DoctorArgs),
}

fn main() -> ExitCode {
    // First of all, because this process may be the supervisor of one command.
    openoxide_sandbox::dispatch_helper_with(Some(openoxide_core::serve_reads));
    // Or the relay between a server and one command, inside of the sandbox.
    openoxide_exec_server::dispatch_relay();
    openoxide_sandbox::hide_own_process(config::stays_dumpable());
    let given = codex_flags::read(std::env::args_os());
    if given.asks_version {
        return codex_flags::print_version();
    }
    let cli = Cli::parse_from(config_flags::gathered(given.arguments, Cli::command));
    let done = log::start(cli.global.verbose).and_then(|_logging| {
        given.ignored.iter().for_each(|flag| log::say(&codex_flags::ignored(flag)));
        run(cli)
    });
    let code = done.unwrap_or_else(|error| {
        // A message may hold names of files and what servers have said.
        log::say(&openoxide_display::visible_lines(&format!("{error:#}")));
        ExitCode::FAILURE
    });
    log::flush();
    code
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    if let Some(cd) = &cli.global.cd {
        std::env::set_current_dir(cd).with_context(|| format!("cannot work in {}", cd.display()))?;
    }
    let exe = std::env::current_exe().context("cannot find the path of this program")?;
    match cli.mode {
        Mode::McpServer(args) => mcp_server::run(&args, &cli.global, exe),
        Mode::AppServer(args) => app_server::run(&args, &cli.global, exe),
        Mode::ExecServer(args) => exec_server::run(&args, &cli.global, exe),
        Mode::Sandbox(args) => sandbox_cmd::run(args, &cli.global, exe),
        Mode::Rules(args) => rules_cmd::run(args, &cli.global),
        Mode::Threads(args) => threads_cmd::run(args),
        Mode::Config(args) => config_cmd::run(&args, &cli.global),
        Mode::Login(args) => login_cmd::login(&args),
        Mode::Logout(args) => login_cmd::logout(&args),
        Mode::Doctor(args) => doctor::run(&args, &cli.global, exe),
        Mode::Try(args) => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
            runtime.block_on(try_cmd::run(args, exe, cli.global.forwarded()))
        }
    }
}
