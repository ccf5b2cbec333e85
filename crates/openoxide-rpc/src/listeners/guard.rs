//! Who may come in: the place a request comes from, the token it carries, and how often.

use std::net::SocketAddr;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::authority::{self, Authority, Origin};
use super::caller::{Caller, Token, holder};
use super::connections::Source;
use super::peer::PeerUser;
use super::rate::{Left, Rate};
use crate::{Header, RequestId, RpcError};

/// Callers whose rate is remembered: there are as many as tokens.
const MOST_CALLERS: usize = usize::MAX;
/// Sources of wrong tokens that are remembered.
const MOST_SOURCES: usize = 1024;

/// Whom a guard lets in.
#[derive(Debug, Clone)]
pub struct GuardConfig {
    /// Bearer tokens. Without any, and on a unix socket always, only the user of this process is served.
    pub tokens: Vec<Token>,
    /// Names in `Host` beside the loopback's own.
    pub allowed_hosts: Vec<String>,
    /// Pages that are let in.
    pub allowed_origins: Vec<Origin>,
    /// Whether pages of the loopback are let in as well where it is the loopback that is listened on.
    pub allow_loopback_pages: bool,
    /// Requests per second and caller; short bursts of twice as many pass.
    pub requests_per_second: u32,
    /// Wrong tokens per second and source that are told that they are wrong. A right one passes always: who guesses must
    /// not keep others out who share the address.
    pub failures_per_second: Option<u32>,
    /// How the operator changes this, for messages.
    pub hints: Hints,
}

impl Default for GuardConfig {
    fn default() -> Self {
        Self {
            tokens: Vec::new(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            allow_loopback_pages: false,
            requests_per_second: 200,
            failures_per_second: Some(5),
            hints: Hints::default(),
        }
    }
}

/// What an operator sets to let somebody in, such as the name of an option.
#[derive(Debug, Clone, Copy)]
pub struct Hints {
    /// Adds to [`GuardConfig::allowed_hosts`].
    pub allow_host: &'static str,
    /// Adds to [`GuardConfig::allowed_origins`].
    pub allow_origin: &'static str,
    /// Adds to [`GuardConfig::tokens`].
    pub token: &'static str,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            allow_host: "GuardConfig::allowed_hosts",
            allow_origin: "GuardConfig::allowed_origins",
            token: "GuardConfig::tokens",
        }
    }
}

/// What is listened on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A TCP address.
    Address(SocketAddr),
    /// A unix socket. It has no name that could be rebound, and only its user reaches it.
    Unix,
}

impl Place {
    /// Whether only this machine reaches it.
    fn is_loopback(self) -> bool {
        match self {
            Self::Address(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix => true,
        }
    }
}

/// Why a request is not served.
#[derive(Debug)]
pub struct Refusal {
    /// The HTTP status.
    pub status: StatusCode,
    /// What the body says.
    pub error: RpcError,
    /// A header that goes with the status.
    pub header: Option<(HeaderName, HeaderValue)>,
}

impl Refusal {
    /// A status and a message.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Box<Self> {
        Box::new(Self { status, error: RpcError::invalid_request(message), header: None })
    }

    fn with(mut self: Box<Self>, name: HeaderName, value: &'static str) -> Box<Self> {
        self.header = Some((name, HeaderValue::from_static(value)));
        self
    }

    /// 503 for a caller with its share of connections; `bound` ends a sentence that says of what there are "as many as".
    pub fn too_many_connections(bound: &str) -> Box<Self> {
        let message = format!("there are as many connections as {bound}; close one, and try again");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// The response to a request that is refused before any message of it was looked at.
    pub fn to_response(&self, header: Header) -> Response {
        let mut response = error_response(header, None, self.status, &self.error);
        if let Some((name, value)) = &self.header {
            response.headers_mut().insert(name.clone(), value.clone());
        }
        response
    }
}

/// A JSON-RPC error as a response, with the id of its request where it has one.
pub fn error_response(header: Header, id: Option<&RequestId>, status: StatusCode, error: &RpcError) -> Response {
    let line = header.response::<serde_json::Value>(id, Err(error));
    (status, [(header::CONTENT_TYPE, "application/json")], line).into_response()
}

/// Decides who is let in.
pub struct Guard {
    is_unix: bool,
    tokens: Vec<Token>,
    /// Names that `Host` may hold; none where any will do.
    hosts: Option<Vec<String>>,
    origins: Vec<Origin>,
    takes_loopback_pages: bool,
    requests: Rate<Caller>,
    failures: Option<Rate<Source>>,
    hints: Hints,
}

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl Guard {
    /// A guard for this place.
    ///
    /// # Errors
    /// Whoever reaches the place can use the server, so that the network needs a token, and so does a system that does not
    /// tell whose the other end of a connection is.
    pub fn new(config: GuardConfig, place: Place) -> std::io::Result<Self> {
        check_place(place, &config)?;
        let named = config.allowed_hosts.iter().map(|name| name.to_ascii_lowercase());
        // A page that a name was rebound for has no token. Without tokens the name is all there is to go by.
        let hosts = match place {
            Place::Unix => None,
            Place::Address(_) if place.is_loopback() || !config.allowed_hosts.is_empty() => {
                Some(LOOPBACK.iter().map(|name| (*name).to_owned()).chain(named).collect())
            }
            Place::Address(_) => None,
        };
        Ok(Self {
            is_unix: place == Place::Unix,
            tokens: if place == Place::Unix { Vec::new() } else { config.tokens },
            hosts,
            origins: config.allowed_origins,
            takes_loopback_pages: config.allow_loopback_pages && place.is_loopback(),
            requests: Rate::new(config.requests_per_second, MOST_CALLERS),
            failures: config.failures_per_second.map(|rate| Rate::new(rate, MOST_SOURCES)),
            hints: config.hints,
        })
    }

    /// Whether it asks whose process is at the other end: nothing else tells who it is.
    pub fn asks_for_users(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Lets a request in, or says why not. `user` is who is at the other end of its connection, and `source` where that is.
    ///
    /// # Errors
    /// What to answer.
    pub fn admit(&self, request: &Parts, user: PeerUser, source: Source) -> Result<Caller, Box<Refusal>> {
        self.check_place(request)?;
        self.check_user(user)?;
        let caller = self.caller(&request.headers, source)?;
        self.check_rate(&caller)?;
        Ok(caller)
    }

    /// Where a request comes from.
    ///
    /// # Errors
    /// 400 for what cannot be read in one way only, 403 for a name or a page that was not let in (DNS rebinding).
    pub fn check_place(&self, request: &Parts) -> Result<(), Box<Refusal>> {
        let malformed = |message| Refusal::new(StatusCode::BAD_REQUEST, message);
        let Authority { host, .. } = authority::target_of(&request.uri, &request.headers).map_err(malformed)?;
        let origin = authority::origin_of(&request.headers).map_err(malformed)?;
        if let Some(allowed) = self.hosts.as_ref().filter(|allowed| !allowed.contains(&host)) {
            let (allowed, hint) = (allowed.join(", "), self.hints.allow_host);
            let message = format!("Host is {host:?}; allowed: {allowed}. Allow it with {hint}");
            return Err(Refusal::new(StatusCode::FORBIDDEN, message));
        }
        if let Some(origin) = origin.filter(|origin| !self.takes_origin(origin)) {
            let (origin, hint) = (origin.to_string(), self.hints.allow_origin);
            let message = format!("Origin {origin:?} is not allowed; allow it with {hint}");
            return Err(Refusal::new(StatusCode::FORBIDDEN, message));
        }
        Ok(())
    }

    fn takes_origin(&self, origin: &Origin) -> bool {
        if self.origins.contains(origin) {
            return true;
        }
        match origin {
            Origin::Of { scheme, authority } => {
                let is_page = scheme == "http" || scheme == "https";
                self.takes_loopback_pages && is_page && LOOPBACK.contains(&authority.host.as_str())
            }
            Origin::Opaque => false,
        }
    }

    /// Without tokens a client counts as the local user, and so has to be that user: 403 for others.
    fn check_user(&self, user: PeerUser) -> Result<(), Box<Refusal>> {
        if !self.tokens.is_empty() {
            return Ok(());
        }
        let Some(whose) = user.why_not_served() else { return Ok(()) };
        let message = match self.is_unix {
            true => whose,
            false => format!("{whose}; start the server with {}, and send the token", self.hints.token),
        };
        Err(Refusal::new(StatusCode::FORBIDDEN, message))
    }

    /// Whose token it is: 401 for none of ours, 429 for the latest of too many.
    fn caller(&self, headers: &HeaderMap, source: Source) -> Result<Caller, Box<Refusal>> {
        if self.tokens.is_empty() {
            return Ok(Caller::Local);
        }
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        if let Some(caller) = given.and_then(|given| holder(&self.tokens, given)) {
            return Ok(caller);
        }
        let Some(failures) = &self.failures else { return Err(without_token()) };
        match failures.take(&source.counted()) {
            Left::Some => Err(without_token()),
            Left::Last => {
                tracing::warn!("requests from {source} come without a token of this server, again and again");
                Err(without_token())
            }
            Left::None => {
                let rate = failures.per_second();
                let message = format!("more than {rate} requests a second without a token of this server; ask for one");
                Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, message).with(header::RETRY_AFTER, "1"))
            }
        }
    }

    /// 429 for more than the rate.
    fn check_rate(&self, caller: &Caller) -> Result<(), Box<Refusal>> {
        match self.requests.take(caller) {
            Left::Some | Left::Last => Ok(()),
            Left::None => {
                let message = format!("more than {} requests a second; ask more slowly", self.requests.per_second());
                Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, message).with(header::RETRY_AFTER, "1"))
            }
        }
    }
}

fn without_token() -> Box<Refusal> {
    let message = "a bearer token of this server is needed in Authorization";
    Refusal::new(StatusCode::UNAUTHORIZED, message).with(header::WWW_AUTHENTICATE, "Bearer")
}

fn check_place(place: Place, config: &GuardConfig) -> std::io::Result<()> {
    let hint = config.hints.token;
    let why = match place {
        Place::Unix => return Ok(()),
        _ if !config.tokens.is_empty() => return Ok(()),
        Place::Address(_) if place.is_loopback() && cfg!(target_os = "linux") => return Ok(()),
        Place::Address(_) if place.is_loopback() => {
            format!("this system does not tell which user connects, and there is no token; give one with {hint}")
        }
        Place::Address(address) => format!(
            "{address} can be reached from other machines and there is no token; give one with {hint}, or listen on \
             127.0.0.1"
        ),
    };
    Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why))
}

#[cfg(test)]
mod tests;
