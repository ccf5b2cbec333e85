//! `--listen` and what belongs to it: the address, tokens, and the names that are let in.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use openoxide_core::Limits;
use openoxide_mcp_server::{Authority, HttpConfig, Origin, Server, Token, serve_http};
use tokio::net::TcpListener;

use crate::config::McpServerTable;

/// Whose token it is where no name is given.
const UNNAMED: &str = "default";

/// Why commands do not get the network of this machine beside a listener without a token.
pub(super) const NO_HOST_NETWORK: &str = "the listener has no token, so that a command could call it and leave its \
                                          sandbox; start the server with --token-file or --token-env";

/// Arguments of the HTTP listener.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Streamable HTTP")]
pub(super) struct HttpArgs {
    /// Serve Streamable HTTP here instead of the standard streams: `http://127.0.0.1:PORT`, path /mcp; port 0 takes a free
    /// one. The most that callers may ask for is then workspace-write, unless --max-sandbox says otherwise. Without a token
    /// only programs of the same user are served, and no command reaches the network of this machine.
    #[arg(long, value_name = "URL")]
    pub(super) listen: Option<String>,
    /// Bearer tokens, one a line: NAME TOKEN. Each name owns its threads. Only the user may read the file.
    #[arg(long, value_name = "FILE", requires = "listen")]
    token_file: Option<PathBuf>,
    /// The environment variable that holds a bearer token.
    #[arg(long, value_name = "VARIABLE", requires = "listen")]
    token_env: Option<String>,
    /// A name that Host may hold, beside the loopback's own. Repeatable.
    #[arg(long, value_name = "NAME", requires = "listen", value_parser = parse_host)]
    allow_host: Vec<String>,
    /// A page that may call from a browser, such as `https://ide.example`. Repeatable.
    #[arg(long, value_name = "ORIGIN", requires = "listen", value_parser = parse_origin)]
    allow_origin: Vec<Origin>,
    /// Requests a second that each caller may send.
    #[arg(long, value_name = "COUNT", requires = "listen", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    rate_limit: u32,
}

impl HttpArgs {
    /// Whether there is a listener that serves whoever reaches it.
    pub(super) fn is_tokenless(&self) -> bool {
        self.listen.is_some() && self.token_file.is_none() && self.token_env.is_none()
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
            tokens: tokens(self.token_env.as_deref(), self.token_file.as_deref())?,
            allowed_hosts: self.allow_host.clone(),
            allowed_origins: self.allow_origin.clone(),
            requests_per_second: self.rate_limit,
            ..HttpConfig::default()
        };
        config.share_percent = table.principal_share_percent.unwrap_or(config.share_percent);
        config.write_timeout = table.write_timeout();
        table.http.apply(&mut config);
        Ok(Some(config))
    }

    /// Files that the agent's commands must not see.
    pub(super) fn secret_files(&self) -> Vec<PathBuf> {
        self.token_file.iter().cloned().collect()
    }

    /// Keeps from the agent's commands what the environment says of tokens.
    pub(super) fn take_secrets(&self, env: &mut BTreeMap<OsString, OsString>) {
        if let Some(variable) = &self.token_env {
            env.remove(OsStr::new(variable));
        }
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

pub(crate) fn parse_host(text: &str) -> Result<String, String> {
    match Authority::parse(text)? {
        Authority { host, port: None } => Ok(host),
        Authority { host, port: Some(port) } => {
            Err(format!("it names port {port}; give {host}, which fits every port"))
        }
    }
}

fn parse_origin(text: &str) -> Result<Origin, String> {
    Origin::parse(text.trim_end_matches('/')).map_err(|why| format!("{why}; give it as https://ide.example"))
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

/// The tokens of an environment variable and of a file.
///
/// # Errors
/// One that is not there, can be read by others, or could be guessed.
pub(crate) fn tokens(variable: Option<&str>, file: Option<&Path>) -> anyhow::Result<Vec<Token>> {
    let mut tokens = Vec::new();
    if let Some(variable) = variable {
        let secret = crate::config::variable(variable).context("--token-env")?;
        tokens.push(token(UNNAMED, secret.trim()).with_context(|| format!("--token-env {variable}"))?);
    }
    if let Some(file) = file {
        tokens.extend(tokens_in(file).with_context(|| format!("--token-file {}", file.display()))?);
    }
    Ok(tokens)
}

fn tokens_in(file: &Path) -> anyhow::Result<Vec<Token>> {
    let mode = std::fs::metadata(file)?.permissions().mode();
    if mode & 0o077 != 0 {
        bail!("others may read it (mode {:o}); run `chmod 600` on it", mode & 0o777);
    }
    let text = std::fs::read_to_string(file)?;
    let (mut tokens, mut lines) = (Vec::new(), HashMap::new());
    for (number, line) in (1..).zip(text.lines()) {
        let (name, secret) = match line.split_whitespace().collect::<Vec<_>>()[..] {
            [] => continue,
            [first, ..] if first.starts_with('#') => continue,
            [secret] => (UNNAMED, secret),
            [name, secret] => (name, secret),
            _ => bail!("line {number} has more than a name and a token"),
        };
        // Whose it is would be whoever stands first.
        if let Some(first) = lines.insert(secret, number) {
            bail!("lines {first} and {number} have the same token; give each caller a token of its own");
        }
        tokens.push(token(name, secret).with_context(|| format!("line {number}"))?);
    }
    if tokens.is_empty() {
        bail!("it holds no token; a line is NAME TOKEN");
    }
    Ok(tokens)
}

fn token(name: &str, secret: &str) -> anyhow::Result<Token> {
    Token::new(name, secret).map_err(anyhow::Error::msg)
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
    fn names_that_would_never_fit_are_refused() {
        assert_eq!(parse_host("Agent.example"), Ok("agent.example".to_owned()));
        assert!(parse_host("agent.example:80").unwrap_err().contains("give agent.example"));
        assert!(parse_host("http://agent.example").is_err());
        assert!(parse_origin("https://ide.example/").is_ok());
        assert!(parse_origin("ide.example").unwrap_err().contains("https://ide.example"));
    }

    #[test]
    fn a_limit_that_leaves_a_caller_nothing_is_refused() {
        let http = HttpConfig { max_sessions: 4, ..HttpConfig::default() };
        let limits = |owners| Limits { owners, ..Limits::default() };
        assert!(check_room(&limits(4), Some(&http)).is_ok() && check_room(&limits(5), None).is_ok());
        let refused = check_room(&limits(5), Some(&http)).unwrap_err().to_string();
        assert!(refused.contains("max_sessions is 4") && refused.contains("5 or more"), "{refused}");
    }

    #[test]
    fn a_token_file_is_private_and_names_who() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens");
        let secret = "0123456789abcdefghijklmnop";
        std::fs::write(&file, format!("# who may\n\nada {secret}\n{secret}x\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(tokens_in(&file).unwrap_err().to_string().contains("chmod 600"));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(tokens_in(&file).unwrap().len(), 2);
        let twice = format!("ada {secret}\n\nbob {secret}\n");
        for (text, why) in [
            ("", "no token"),
            ("\na b c", "line 2 has more than"),
            ("ada short", "random"),
            (&twice, "lines 1 and 3 have the same token"),
        ] {
            std::fs::write(&file, text).unwrap();
            let error = format!("{:#}", tokens_in(&file).unwrap_err());
            assert!(error.contains(why) && !error.contains(secret), "{text}: {error}");
        }
    }
}
