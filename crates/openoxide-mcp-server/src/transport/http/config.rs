//! How Streamable HTTP is served: the limits of a listener, and which addresses it may take.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use openoxide_core::DEFAULT_SHARE_PERCENT;

use super::authority::Origin;
use super::token::Token;

/// How the listener is kept.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Bearer tokens. Without any, only the user of this process is served.
    pub tokens: Vec<Token>,
    /// Names in `Host` beside the loopback's own.
    pub allowed_hosts: Vec<String>,
    /// Pages that are let in beside the loopback's own.
    pub allowed_origins: Vec<Origin>,
    /// Requests per second and principal; short bursts of twice as many pass.
    pub requests_per_second: u32,
    /// Legacy sessions at once.
    pub max_sessions: usize,
    /// How long a legacy session may be unused.
    pub idle_session: Duration,
    /// How long a request's head may take, from the connection or the end of the answer before.
    pub head_timeout: Duration,
    /// How long a request's body may stand still.
    pub body_timeout: Duration,
    /// Connections on which no request was let in so far.
    pub max_unauthenticated: usize,
    /// The same of one address.
    pub max_unauthenticated_per_peer: usize,
    /// Connections on which a request was let in.
    pub max_connections: usize,
    /// Bytes of bodies that are not read to their end.
    pub max_body_bytes: usize,
    /// Bytes that one principal may leave unread before nothing more is made for it.
    pub max_unread_bytes: usize,
    /// How long a response may stand still then, before it counts as lost.
    pub write_timeout: Duration,
    /// How much of a limit one principal may hold where there are several, in percent.
    pub share_percent: u8,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            tokens: Vec::new(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            requests_per_second: 200,
            max_sessions: 1024,
            idle_session: Duration::from_secs(1800),
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            max_unauthenticated: 256,
            max_unauthenticated_per_peer: 128,
            max_connections: 4096,
            max_body_bytes: 256 << 20,
            max_unread_bytes: 32 << 20,
            write_timeout: Duration::from_secs(300),
            share_percent: DEFAULT_SHARE_PERCENT,
        }
    }
}

impl HttpConfig {
    /// How many callers are told apart.
    #[must_use]
    pub fn principals(&self) -> usize {
        self.tokens.iter().map(Token::name).collect::<HashSet<_>>().len().max(1)
    }
}

/// Whether only this machine reaches an address.
pub(super) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Anyone who can reach the port can run commands, so that the network needs a token, and so does a system that does not tell
/// whose the other end of a connection is.
pub(super) fn check_address(address: SocketAddr, config: &HttpConfig) -> std::io::Result<()> {
    if !config.tokens.is_empty() {
        return Ok(());
    }
    if is_loopback(address) {
        return match cfg!(target_os = "linux") {
            true => Ok(()),
            false => Err(std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                "this system does not tell which user connects, and there is no token; give one with --token-file or \
                 --token-env",
            )),
        };
    }
    Err(std::io::Error::new(
        std::io::ErrorKind::InvalidInput,
        format!(
            "{address} can be reached from other machines and there is no token; give one with --token-file or \
             --token-env, or listen on 127.0.0.1"
        ),
    ))
}
