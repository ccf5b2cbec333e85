//! The process's one HTTP client: made on first use, shared by all providers, its connections kept alive.
//!
//! TLS is rustls over ring with the system's certificates: against aws-lc it builds without a large C library and leaves the
//! binary about 2 MB smaller.
//!
//! A server that never calls a provider over HTTP pays nothing, and one that only calls a loopback address never loads
//! root certificates. What is sent and what comes back is not known here.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use reqwest::Url;

use crate::ModelError;

/// Idle connections kept per host. Past it, a finished connection is closed instead of kept.
const IDLE_PER_HOST: usize = 64;
/// Idle connections older than this are closed; below what common servers and load balancers keep.
const IDLE_FOR: Duration = Duration::from_secs(50);

/// A handle on the shared client; clones share it. Creating one costs an allocation and opens nothing.
#[derive(Clone, Default)]
pub struct HttpClient {
    made: Arc<Mutex<Vec<(Kind, reqwest::Client)>>>,
}

/// What makes two clients different. Most processes have exactly one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    /// Plain HTTP to a loopback address: no root certificates, no proxy.
    loopback: bool,
    connect_timeout: Duration,
}

impl HttpClient {
    /// A handle on a client that does not exist yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The client for `url`, made at the first call. Loading root certificates reads files and takes milliseconds, so
    /// it happens on the blocking pool.
    pub(crate) async fn get(&self, url: &Url, connect_timeout: Duration) -> Result<reqwest::Client, ModelError> {
        let kind = Kind { loopback: is_plain_loopback(url), connect_timeout };
        if kind.loopback {
            return self.get_or_make(kind);
        }
        if let Some(client) = self.find(kind) {
            return Ok(client);
        }
        let this = self.clone();
        match tokio::task::spawn_blocking(move || this.get_or_make(kind)).await {
            Ok(made) => made,
            Err(error) => Err(ModelError::Config { reason: format!("the HTTP client could not be made: {error}") }),
        }
    }

    fn find(&self, kind: Kind) -> Option<reqwest::Client> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.iter().find(|(k, _)| *k == kind).map(|(_, client)| client.clone())
    }

    // The lock is held while a client is made, so that callers who come meanwhile wait for it and share it.
    fn get_or_make(&self, kind: Kind) -> Result<reqwest::Client, ModelError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = made.iter().find(|(k, _)| *k == kind) {
            return Ok(client.clone());
        }
        let client = make(kind).map_err(|error| ModelError::Config {
            reason: format!(
                "the HTTP client could not be made: {}; install the system's CA certificates or set SSL_CERT_FILE",
                root_cause(&error)
            ),
        })?;
        made.push((kind, client.clone()));
        Ok(client)
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpClient")
    }
}

/// Gives every HTTPS client of the process its cryptography. A second installation, or one by the program itself, is left
/// alone: any provider will do.
pub fn install_crypto() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn make(kind: Kind) -> Result<reqwest::Client, reqwest::Error> {
    install_crypto();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("openoxide/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(kind.connect_timeout)
        .pool_max_idle_per_host(IDLE_PER_HOST)
        .pool_idle_timeout(IDLE_FOR)
        .tcp_keepalive(Duration::from_secs(60))
        .tcp_nodelay(true)
        // A redirect would send the key and the history to an address nobody configured.
        .redirect(reqwest::redirect::Policy::none());
    if kind.loopback {
        builder = builder.no_proxy().tls_certs_only([]);
    }
    builder.build()
}

/// Whether `url` is plain HTTP to this machine, spelled as an address or `localhost`.
pub(crate) fn is_plain_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    url.scheme() == "http"
        && (host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback()))
}

/// The innermost message of an error: the client's outer ones only repeat the URL.
pub(crate) fn root_cause(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// What kept a request from getting a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The request could not be built.
    Ours,
    /// Nothing listens there.
    Refused,
    /// No connection within the limit.
    ConnectTimeout,
    /// The host has no address or cannot be reached.
    NoRoute,
    /// The host's certificate or protocol is not one to trust.
    Untrusted,
    /// There was a connection and it broke.
    Reset,
}

/// Tells the ways apart in which sending can fail.
pub(crate) fn trouble(error: &reqwest::Error) -> Trouble {
    if error.is_builder() {
        return Trouble::Ours;
    }
    let mut at: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = at {
        let inner = cause.downcast_ref::<std::io::Error>();
        if inner.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused) {
            return Trouble::Refused;
        }
        // An IO error does not name what it wraps as its source.
        let wrapped = inner.and_then(|io| io.get_ref());
        if cause.is::<rustls::Error>() || wrapped.is_some_and(|wrapped| wrapped.is::<rustls::Error>()) {
            return Trouble::Untrusted;
        }
        at = cause.source();
    }
    match (error.is_connect(), error.is_timeout()) {
        (true, true) => Trouble::ConnectTimeout,
        (true, false) => Trouble::NoRoute,
        (false, _) => Trouble::Reset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_to_this_machine_is_loopback() {
        for (url, expected) in [
            ("http://127.0.0.1:8080/v1", true),
            ("http://localhost/v1", true),
            ("http://[::1]:9/", true),
            ("https://127.0.0.1/", false),
            ("http://10.0.0.1/", false),
            ("http://localhost.example/", false),
        ] {
            assert_eq!(is_plain_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[tokio::test]
    async fn clones_share_one_client_per_kind() {
        let client = HttpClient::new();
        let url = Url::parse("http://127.0.0.1:1/").unwrap();
        let second = Duration::from_secs(1);
        client.get(&url, second).await.unwrap();
        client.clone().get(&url, second).await.unwrap();
        assert_eq!(client.made.lock().unwrap().len(), 1);
    }
}
