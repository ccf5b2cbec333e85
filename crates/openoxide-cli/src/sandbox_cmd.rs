//! `openoxide sandbox`: runs one command the way the agent would, on the streams of this process, so that a person can
//! find out what a mode allows.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use openoxide_core::git_starts;
use openoxide_sandbox::{CommandSpec, DEFAULT_OUTPUT_LIMIT, Launcher, SandboxMode, SandboxPolicy};

use crate::Global;
use crate::config::{self, Config};

/// What a shell reports for a command that could not be started.
const NOT_STARTED: u8 = 125;

/// Arguments of `openoxide sandbox`.
#[derive(Debug, clap::Args)]
pub(crate) struct SandboxArgs {
    /// How far the command may reach: read-only, workspace-write or danger-full-access. Default: the configured mode.
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    sandbox: Option<SandboxMode>,
    /// The workspace, and the directory the command starts in. Default: the current directory.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The command and its arguments, after `--`.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<String>,
}

/// A sandbox mode by its name.
pub(crate) fn parse_mode(text: &str) -> Result<SandboxMode, String> {
    let modes = [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite, SandboxMode::DangerFullAccess];
    let names = modes.map(SandboxMode::as_str).join(", ");
    modes.into_iter().find(|mode| mode.as_str() == text).ok_or_else(|| format!("allowed: {names}"))
}

/// Runs the command; the exit code is its own.
pub(crate) fn run(args: SandboxArgs, global: &Global, exe: PathBuf) -> anyhow::Result<ExitCode> {
    config::home().as_deref().map_or(Ok(()), config::home::prepare_if_possible)?;
    let config = Config::load(global)?;
    let current = config::current_directory()?;
    let workspace = args.cwd.map_or_else(|| current.clone(), |cwd| current.join(cwd));
    if !workspace.is_dir() {
        bail!("--cwd {} is not a directory; name an existing one", workspace.display());
    }
    let workspace = workspace.canonicalize().context("the workspace cannot be resolved")?;
    let mode = args.sandbox.unwrap_or(config.sandbox_mode());
    let host_paths = config::places(Some(workspace.clone())).host_paths();
    let mut env = config.child_env(&host_paths);
    // As a thread's commands have it, for this one.
    let temporary = match mode {
        SandboxMode::ReadOnly => None,
        _ => Some(temporary_directory(host_paths.tmpdir.as_deref())?),
    };
    env.extend(temporary.iter().map(|directory| ("TMPDIR".into(), directory.path().into())));
    let policy = SandboxPolicy {
        temporary: temporary.as_ref().map(|directory| directory.path().into()),
        ..SandboxPolicy::new(mode, workspace.clone(), config.workspace_write())
    };
    let launcher = Launcher::new(exe, host_paths);
    let git_from = if policy.opens_git() { git_starts(&args.command, &workspace) } else { Vec::new() };
    let exit = launcher.run_attached(CommandSpec {
        argv: args.command,
        cwd: workspace,
        env,
        tty: false,
        policy,
        git_from,
        output_limit: DEFAULT_OUTPUT_LIMIT,
        thread_marker: None,
    });
    // Removed with what the command has left there, before this process ends.
    drop(temporary);
    match exit {
        Ok(exit) => {
            let code = exit.code.or(exit.signal.map(|signal| 128 + signal)).unwrap_or(1);
            Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
        }
        Err(error) => {
            crate::log::say(&openoxide_display::visible_lines(&error.to_string()));
            Ok(ExitCode::from(NOT_STARTED))
        }
    }
}

/// A directory for temporary files that is the user's alone.
fn temporary_directory(parent: Option<&Path>) -> anyhow::Result<tempfile::TempDir> {
    let parent = parent.unwrap_or(Path::new("/tmp"));
    let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
    let made = tempfile::Builder::new().prefix("openoxide-").tempdir_in(&parent);
    made.with_context(|| format!("no directory for temporary files can be made in {}", parent.display()))
}
