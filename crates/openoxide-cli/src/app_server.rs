//! `openoxide app-server`: puts configuration, environment and a transport together and serves the app-server protocol: one
//! client on the standard streams, or any number by WebSocket on a TCP address or a unix socket.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use openoxide_app_server::{
    AppServer, AppServerConfig, ApprovalFallback, GuardConfig, Hints, Socket, UnixSocket, callers, serve, serve_ws,
};
use openoxide_core::{Interruption, ThreadManager};

use crate::Global;
use crate::closed_output;
use crate::config::{Config, Fallback};
use crate::guard_args::GuardArgs;

use crate::serving::{self, Access, CoreArgs, Serving};
use crate::watchdog::{Input, Watchdog};

/// The release of Codex whose app-server this is taken for: clients send newer fields to no older one.
const CODEX_VERSION: &str = "0.169.0";

/// Arguments of `openoxide app-server`.
#[derive(Debug, clap::Args)]
pub(crate) struct AppServerArgs {
    /// Where to serve: stdio://, ws://IP:PORT (port 0 takes a free one), or unix://PATH, a socket for this user alone that
    /// speaks WebSocket. Unless it is stdio://, the most that clients may ask for is workspace-write, if --max-sandbox does
    /// not say otherwise.
    #[arg(long, value_name = "URL", default_value = "stdio://", value_parser = parse_place)]
    listen: Place,
    /// The same as --listen stdio://.
    #[arg(long, conflicts_with = "listen")]
    stdio: bool,
    #[command(flatten)]
    core: CoreArgs,
    #[command(flatten)]
    guard: GuardArgs,
}

/// What is listened on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Stdio,
    Address(SocketAddr),
    Unix(PathBuf),
}

/// A place that others than the one program that started the server reach.
pub(crate) fn parse_listener(text: &str) -> Result<Place, String> {
    match parse_place(text) {
        Ok(Place::Address(_) | Place::Unix(_)) => parse_place(text),
        Ok(Place::Stdio) | Err(_) => Err(format!("{text:?} is no listener; allowed: ws://IP:PORT, unix://PATH")),
    }
}

impl Place {
    /// Whether whoever reaches a TCP address of it is served.
    pub(crate) fn is_tokenless(&self, guard: &GuardArgs) -> bool {
        // Only the user reaches a unix socket, and no confined command does: the sandbox gives it no socket with a name.
        matches!(self, Self::Address(_)) && guard.is_tokenless()
    }

    /// Listens, and says where.
    pub(crate) async fn bind(&self) -> anyhow::Result<Socket> {
        Ok(match self {
            Self::Stdio => bail!("the standard streams are no listener"),
            Self::Address(address) => {
                let listener = tokio::net::TcpListener::bind(address).await;
                let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
                // The port may have been the system's choice.
                crate::log::say(&format!("listening on ws://{}", listener.local_addr()?));
                listener.into()
            }
            Self::Unix(path) => {
                let socket = UnixSocket::bind(path).await?;
                crate::log::say(&format!("listening on unix://{}", path.display()));
                socket.into()
            }
        })
    }
}

/// Whom a listener lets in.
pub(crate) fn guard(args: &GuardArgs) -> anyhow::Result<GuardConfig> {
    Ok(GuardConfig {
        tokens: args.tokens()?,
        allowed_hosts: args.allow_host.clone(),
        allowed_origins: args.allow_origin.clone(),
        requests_per_second: args.rate_limit,
        hints: Hints { allow_host: "--allow-host", allow_origin: "--allow-origin", token: "--token-file" },
        ..GuardConfig::default()
    })
}

/// The server on these threads.
pub(crate) fn server(
    core: &CoreArgs,
    config: &Config,
    home: Option<&std::path::Path>,
    manager: std::sync::Arc<ThreadManager>,
) -> std::sync::Arc<AppServer> {
    AppServer::new(AppServerConfig {
        fallback: match core.fallback(config) {
            Fallback::AutoWithinPolicy => ApprovalFallback::AutoWithinPolicy,
            Fallback::Deny => ApprovalFallback::Deny,
        },
        write_timeout: config.mcp_server.write_timeout(),
        home: home.unwrap_or(&manager.config().cwd).to_owned(),
        codex_version: CODEX_VERSION,
        manager,
    })
}

fn parse_place(text: &str) -> Result<Place, String> {
    let wrong = || format!("{text:?} is no place to listen; allowed: stdio://, ws://IP:PORT, unix://PATH");
    match text.split_once("://").ok_or_else(wrong)? {
        ("stdio", "") => Ok(Place::Stdio),
        ("ws", address) => {
            let address = address.trim_end_matches('/').replace("localhost:", "127.0.0.1:");
            address.parse().map(Place::Address).map_err(|_| wrong())
        }
        ("unix", path) if !path.is_empty() => Ok(Place::Unix(path.into())),
        _ => Err(wrong()),
    }
}

/// Serves until the client goes away, or the process is told to end.
pub(crate) fn run(args: &AppServerArgs, global: &Global, exe: PathBuf) -> anyhow::Result<ExitCode> {
    let is_listening = args.listen != Place::Stdio;
    if is_listening && crate::config::stays_dumpable() {
        bail!(
            "OPENOXIDE_DUMPABLE=1 cannot be used with --listen: this process's memory holds its callers' secrets; unset it, \
             or debug a server on the standard streams"
        );
    }
    let home = crate::config::home();
    home.as_deref().map_or(Ok(()), crate::config::home::prepare_if_possible)?;
    let config = Config::load(global)?;
    let watchdog = Watchdog::start(if is_listening { Input::Elsewhere } else { Input::Standard })?;
    let runtime = serving::runtime()?;
    runtime.block_on(async {
        let guard = guard(&args.guard)?;
        let access = Access {
            is_listening,
            is_tokenless: args.listen.is_tokenless(&args.guard),
            callers: callers(&guard.tokens),
            secret_files: args.guard.secret_files(),
            secret_variable: args.guard.secret_variable(),
        };
        let Serving { core, .. } = args.core.serving(&config, access, home.as_deref(), exe)?;
        let server = server(&args.core, &config, home.as_deref(), ThreadManager::new(core));
        if is_listening {
            let socket = args.listen.bind().await?;
            return serve_ws(socket, server, guard, watchdog.asked()).await.context("the listener has failed");
        }
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
        serve(watchdog.watching(tokio::io::stdin()), tokio::io::stdout(), server, stop).await;
        Ok(())
    })?;
    // A read of stdin may still block one of the runtime's threads; it must not hold up the end.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_one_of_three_kinds() {
        for (text, place) in [
            ("stdio://", Place::Stdio),
            ("ws://127.0.0.1:0", Place::Address("127.0.0.1:0".parse().unwrap())),
            ("ws://localhost:80/", Place::Address("127.0.0.1:80".parse().unwrap())),
            ("unix:///run/x.sock", Place::Unix("/run/x.sock".into())),
        ] {
            assert_eq!(parse_place(text), Ok(place));
        }
        assert!(parse_listener("stdio://").is_err() && parse_listener("unix:///x").is_ok());
        for wrong in ["", "stdio", "off", "ws://", "ws://host:1", "wss://127.0.0.1:1", "unix://", "http://127.0.0.1:1"]
        {
            assert!(parse_place(wrong).unwrap_err().contains("unix://PATH"), "{wrong}");
        }
    }
}
