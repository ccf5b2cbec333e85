//! `openoxide exec-server`: puts configuration, environment and a transport together and serves commands and files to clients
//! elsewhere.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use openoxide_core::{Ceiling, SandboxMode};
use openoxide_exec_server::{DEFAULT_LISTEN_URL, ExecServer, ExecServerConfig, GuardConfig, Hints, ListenUrl, Shell};
use openoxide_sandbox::Launcher;
use tokio::net::TcpListener;

use crate::Global;
use crate::config::ceiling::{self, Limits};
use crate::config::{self, Config};
use crate::guard_args;
use crate::sandbox_cmd::parse_mode;
use crate::serving;
use crate::watchdog::{Input, Watchdog};

/// Arguments of `openoxide exec-server`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExecServerArgs {
    /// Serve here: ws://IP:PORT (port 0 takes a free one), or stdio. The first line of standard output is the address.
    /// Without a token only programs of the same user are served, on the loopback.
    #[arg(long, value_name = "URL", default_value = DEFAULT_LISTEN_URL)]
    listen: ListenUrl,
    /// How long a session waits for a client whose connection was lost; 0 ends it with its connection.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    resume_seconds: u64,
    /// The most that callers may ask for: read-only, workspace-write or danger-full-access.
    #[arg(long, value_name = "MODE", value_parser = parse_mode, default_value = "workspace-write")]
    max_sandbox: SandboxMode,
    /// Let commands start and files be changed below this directory only. Repeatable. Default: the current directory.
    #[arg(long, value_name = "DIR")]
    allow_root: Vec<PathBuf>,
    /// Bearer tokens, one a line: NAME TOKEN. Each name has its own sessions. Only the user may read the file.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The environment variable that holds a bearer token.
    #[arg(long, value_name = "VARIABLE")]
    token_env: Option<String>,
    /// A name that Host may hold, beside the loopback's own. Repeatable.
    #[arg(long, value_name = "NAME", value_parser = guard_args::parse_host)]
    allow_host: Vec<String>,
}

impl ExecServerArgs {
    fn has_token(&self) -> bool {
        self.token_file.is_some() || self.token_env.is_some()
    }

    /// The most that callers may ask for, by the command line and the machine's requirements.
    fn limits(&self, cwd: &Path) -> anyhow::Result<(SandboxMode, Vec<PathBuf>)> {
        let mut all = Ceiling::default();
        let allow_roots = if self.allow_root.is_empty() { vec![cwd.to_path_buf()] } else { self.allow_root.clone() };
        let flags = Limits { max_sandbox: Some(self.max_sandbox), max_approval: None, allow_roots };
        flags.apply(&mut all, &ceiling::FLAGS, cwd)?;
        ceiling::apply_requirements(&mut all, Path::new(ceiling::REQUIREMENTS))?;
        all.check_not_empty()?;
        let modes = all.sandboxes();
        // Whoever says nothing gets workspace-write, so that nothing above it is allowed where that is not.
        let max = match (modes.contains(&SandboxMode::WorkspaceWrite), modes.last()) {
            (true, Some(most)) => *most,
            (false, _) if modes.contains(&SandboxMode::ReadOnly) => SandboxMode::ReadOnly,
            _ => bail!("the requirements of this machine allow neither read-only nor workspace-write"),
        };
        let is_open = matches!(self.listen, ListenUrl::WebSocket(_)) && !self.has_token();
        if max == SandboxMode::DangerFullAccess && is_open {
            bail!(
                "--max-sandbox danger-full-access needs a token: any command with the network could call this server and \
                 leave its sandbox; start it with --token-file or --token-env"
            );
        }
        Ok((max, all.roots().unwrap_or_default().to_vec()))
    }

    fn guard(&self) -> anyhow::Result<GuardConfig> {
        Ok(GuardConfig {
            tokens: guard_args::tokens(self.token_env.as_deref(), self.token_file.as_deref())?,
            allowed_hosts: self.allow_host.clone(),
            hints: Hints {
                allow_host: "--allow-host",
                allow_origin: "a client that is no page: pages are not served",
                token: "--token-file or --token-env",
            },
            ..GuardConfig::default()
        })
    }
}

/// Serves until the client goes away, or a signal comes.
pub(crate) fn run(args: &ExecServerArgs, global: &Global, exe: PathBuf) -> anyhow::Result<ExitCode> {
    let home = config::home();
    home.as_deref().map_or(Ok(()), config::home::prepare_if_possible)?;
    let config = Config::load(global)?;
    let is_stdio = args.listen == ListenUrl::Stdio;
    if is_stdio && args.has_token() {
        bail!("--token-file and --token-env are for ws://; on the standard streams the client is whoever started this");
    }
    let watchdog = Watchdog::start(if is_stdio { Input::Standard } else { Input::Elsewhere })?;
    let runtime = serving::runtime()?;
    runtime.block_on(async {
        let cwd = config::current_directory()?;
        let mut host_paths = config::places(Some(cwd.clone())).host_paths();
        host_paths.secrets.extend(args.token_file.iter().map(|file| cwd.join(file)));
        let mut env = config.child_env(&host_paths);
        if let Some(variable) = &args.token_env {
            env.remove(std::ffi::OsStr::new(variable));
        }
        let (max_sandbox, allow_roots) = args.limits(&cwd)?;
        let server = ExecServer::new(ExecServerConfig {
            launcher: Launcher::new(exe.clone(), host_paths),
            program: exe,
            cwd,
            shell: shell(&env),
            env,
            max_sandbox,
            allow_roots,
            resume: Duration::from_secs(args.resume_seconds),
        })?;
        match args.listen {
            ListenUrl::Stdio => {
                let (stdin, stdout) = (watchdog.watching(tokio::io::stdin()), tokio::io::stdout());
                // What is cut off by a signal is ended below.
                tokio::select! {
                    () = server.serve_streams(stdin, stdout) => {}
                    () = watchdog.asked() => {}
                }
            }
            ListenUrl::WebSocket(address) => {
                let listener =
                    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
                let guard = args.guard()?;
                let bound = listener.local_addr()?;
                let serving = server.serve_listener(listener, guard, watchdog.asked());
                // Whoever reads the address may connect at once: the system keeps the connection until it is served.
                writeln!(std::io::stdout(), "ws://{bound}").context("nobody reads the address")?;
                serving.await?;
            }
        }
        server.end().await;
        anyhow::Ok(())
    })?;
    // A read of stdin may still block one of the runtime's threads; it must not hold up the end.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// The user's shell, as a client has to know it.
fn shell(env: &std::collections::BTreeMap<std::ffi::OsString, std::ffi::OsString>) -> Shell {
    let named = env.get(std::ffi::OsStr::new("SHELL")).and_then(|shell| shell.to_str());
    let known = named.into_iter().chain(["/bin/bash", "/bin/sh"]).find(|path| Path::new(path).is_file());
    let path = known.unwrap_or("/bin/sh").to_owned();
    let name = Path::new(&path).file_name().map_or_else(|| "sh".to_owned(), |name| name.to_string_lossy().into_owned());
    Shell { name, path }
}
