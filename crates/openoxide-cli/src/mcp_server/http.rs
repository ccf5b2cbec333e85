//! `--listen` and what belongs to it.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use openoxide_core::Limits;
use openoxide_mcp_server::{HttpConfig, Server, serve_http};
use tokio::net::TcpListener;

use crate::config::McpServerTable;
use crate::guard_args::GuardArgs;

/// Arguments of the HTTP listener.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Streamable HTTP")]
pub(super) struct HttpArgs {
    /// Serve Streamable HTTP here instead of the standard streams: `http://127.0.0.1:PORT`, path /mcp; port 0 takes a free
    /// one. The most that callers may ask for is then workspace-write, unless --max-sandbox says otherwise. Without a token
    /// only programs of the same user are served, and no command reaches the network of this machine.
    #[arg(long, value_name = "URL")]
    pub(super) listen: Option<String>,
    #[command(flatten)]
    pub(super) guard: GuardArgs,
}

impl HttpArgs {
    /// Whether there is a listener that serves whoever reaches it.
    pub(super) fn is_tokenless(&self) -> bool {
        self.listen.is_some() && self.guard.is_tokenless()
    }

    /// How the listener is kept; none without one.
    ///
    /// # Errors
    /// Tokens that cannot be read or used.
    pub(super) fn config(&self, table: &McpServerTable) -> anyhow::Result<Option<HttpConfig>> {
        if self.listen.is_none() {
            return Ok(None);
        }
        let mut config = HttpConfig {
            tokens: self.guard.tokens()?,
            allowed_hosts: self.guard.allow_host.clone(),
            allowed_origins: self.guard.allow_origin.clone(),
            requests_per_second: self.guard.rate_limit,
            ..HttpConfig::default()
        };
        config.share_percent = table.principal_share_percent.unwrap_or(config.share_percent);
        config.write_timeout = table.write_timeout();
        table.http.apply(&mut config);
        Ok(Some(config))
    }
}

/// Refuses a limit that leaves a caller nothing.
pub(super) fn check_room(limits: &Limits, listener: Option<&HttpConfig>) -> anyhow::Result<()> {
    let of_threads = [("max_threads", limits.max_threads), ("max_open_turns", limits.max_open_turns)];
    let of_http =
        listener.map(|http| [("http.max_sessions", http.max_sessions), ("http.max_connections", http.max_connections)]);
    for (key, limit) in of_threads.into_iter().chain(of_http.into_iter().flatten()) {
        let callers = limits.owners;
        if callers > 1 && limit < callers {
            bail!(
                "mcp_server.{key} is {limit}, and {callers} callers have a token; allowed: {callers} or more, one for each"
            );
        }
    }
    Ok(())
}

/// Serves until `stop`.
pub(super) async fn serve(
    url: &str,
    config: HttpConfig,
    agent: Arc<Server>,
    stop: impl Future<Output = ()> + Send,
) -> anyhow::Result<()> {
    let address = address_of(url)?;
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    // The port may have been the system's choice.
    crate::log::say(&format!("listening on http://{}/mcp", listener.local_addr()?));
    serve_http(listener, agent, config, stop).await.context("the HTTP server has failed")
}

/// The address in `http://ADDRESS:PORT`, with `/mcp` or without.
fn address_of(url: &str) -> anyhow::Result<SocketAddr> {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let rest = rest.strip_suffix("/mcp").or_else(|| rest.strip_suffix('/')).unwrap_or(rest);
    let rest = rest.replace("localhost:", "127.0.0.1:");
    rest.parse().with_context(|| {
        format!(
            "--listen is {url:?}; allowed: http://IP:PORT, for example http://127.0.0.1:8765 (TLS is a proxy's work)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_an_ip_and_a_port() {
        for (url, expected) in [
            ("http://127.0.0.1:8765", "127.0.0.1:8765"),
            ("http://localhost:0/mcp", "127.0.0.1:0"),
            ("http://[::1]:80/", "[::1]:80"),
            ("0.0.0.0:80", "0.0.0.0:80"),
        ] {
            assert_eq!(address_of(url).unwrap().to_string(), expected);
        }
        for wrong in ["https://127.0.0.1:1", "http://127.0.0.1", "http://example.com:80", "8080"] {
            assert!(address_of(wrong).unwrap_err().to_string().contains("http://IP:PORT"), "{wrong}");
        }
    }

    #[test]
    fn a_limit_that_leaves_a_caller_nothing_is_refused() {
        let http = HttpConfig { max_sessions: 4, ..HttpConfig::default() };
        let limits = |owners| Limits { owners, ..Limits::default() };
        assert!(check_room(&limits(4), Some(&http)).is_ok() && check_room(&limits(5), None).is_ok());
        let refused = check_room(&limits(5), Some(&http)).unwrap_err().to_string();
        assert!(refused.contains("max_sessions is 4") && refused.contains("5 or more"), "{refused}");
    }
}
