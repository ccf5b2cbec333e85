//! The Streamable HTTP door (MCP 2025-03-26 to 2026-07-28, basic/transports): `/mcp` for both eras, `/healthz` and
//! `/readyz`.
//!
//! A modern request is a connection of its own, and closing its response cancels it. A legacy client has a session, and
//! what belongs to a call goes on the stream of that call, which can be taken up again with `Last-Event-ID`. Who may come in
//! is in [`guard`], what headers must say in [`headers`], how lines become a response in [`stream`].

mod guard;
mod headers;
mod legacy;
mod modern;
mod params;
mod sessions;
mod stream;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http_body_util::LengthLimitError;
use openoxide_mcp_protocol::{Envelope, RequestId, WireError, parse_line};
use tokio::net::TcpListener;
use tokio::sync::watch;

use guard::Guard;
pub use guard::Token;
use headers::Wire;
use sessions::Sessions;

use crate::door::Service;
use crate::reader::MAX_LINE;

/// From the end of all turns until connections are cut.
const FLUSH: Duration = Duration::from_millis(200);
/// From one look for idle sessions to the next.
const TIDY: Duration = Duration::from_secs(60);

/// How the door is kept.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Bearer tokens. Without any, everybody who reaches the address is the local user.
    pub tokens: Vec<Token>,
    /// Names in `Host` beside the loopback's own.
    pub allowed_hosts: Vec<String>,
    /// Values of `Origin` beside the loopback's own.
    pub allowed_origins: Vec<String>,
    /// Requests per second and principal; short bursts of twice as many pass.
    pub requests_per_second: u32,
    /// Legacy sessions at once.
    pub max_sessions: usize,
    /// How long a legacy session may be unused.
    pub idle_session: Duration,
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
        }
    }
}

/// What the handlers share.
struct Door {
    service: Arc<dyn Service>,
    guard: Guard,
    sessions: Arc<Sessions>,
    /// True once the server ends.
    stopping: watch::Receiver<bool>,
}

/// Serves HTTP until `stop` is ready; then ends every turn and every process, answers what is still open, and returns.
///
/// # Errors
/// The address is no loopback address and there is no token; or the listener fails.
pub async fn serve_http(
    listener: TcpListener,
    service: Arc<dyn Service>,
    config: HttpConfig,
    stop: impl Future<Output = ()> + Send,
) -> std::io::Result<()> {
    let address = listener.local_addr()?;
    check_address(address, &config)?;
    let (stopping, is_stopping) = watch::channel(false);
    let sessions = Arc::new(Sessions::new(config.max_sessions, config.idle_session));
    let door = Arc::new(Door {
        service: Arc::clone(&service),
        guard: Guard::new(&config, address),
        sessions: Arc::clone(&sessions),
        stopping: is_stopping.clone(),
    });
    let router = Router::new()
        .route("/mcp", post(take_post).get(take_get).delete(take_delete).options(take_options))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readiness))
        .with_state(door);
    let mut tidied = tokio::time::interval(TIDY);
    let mut until_stopped = is_stopping.clone();
    let serving = axum::serve(listener, router).with_graceful_shutdown(async move {
        // A sender that is gone is an end as well.
        let _ = until_stopped.wait_for(|stopping| *stopping).await;
    });
    let mut serving = tokio::spawn(serving.into_future());
    let mut stop = std::pin::pin!(stop);
    loop {
        // Cancel-safe: a stop that is ready stays so, and a tick that is lost comes again.
        tokio::select! {
            () = &mut stop => break,
            _ = tidied.tick() => sessions.tidy(),
            ended = &mut serving => return ended.map_err(std::io::Error::other)?,
        }
    }
    tracing::info!("asked to stop");
    // No new connection from here on. Those there are get the answers of the turns that end now.
    stopping.send_replace(true);
    sessions.end_subscriptions();
    service.shut_down().await;
    sessions.close_all();
    if tokio::time::timeout(FLUSH, &mut serving).await.is_err() {
        serving.abort();
    }
    Ok(())
}

/// Whoever can reach the port can run commands, so that the network needs a token.
fn check_address(address: SocketAddr, config: &HttpConfig) -> std::io::Result<()> {
    if address.ip().is_loopback() || !config.tokens.is_empty() {
        return Ok(());
    }
    Err(std::io::Error::new(
        std::io::ErrorKind::InvalidInput,
        format!(
            "{address} can be reached from other machines and there is no token; give one with --token-file or \
             --token-env, or listen on 127.0.0.1"
        ),
    ))
}

/// A refusal before any message was looked at. The body is a JSON-RPC error without an id.
pub(in crate::http) fn refusal(status: StatusCode, error: &WireError) -> Response {
    refusal_of(None, status, error)
}

/// The answer to a message that is refused before it was served: a JSON-RPC error with its id, where it has one.
pub(in crate::http) fn refusal_of(id: Option<&RequestId>, status: StatusCode, error: &WireError) -> Response {
    let line = openoxide_mcp_protocol::response::<serde_json::Value>(id, Err(error));
    (status, [(header::CONTENT_TYPE, "application/json")], line).into_response()
}

async fn readiness(State(door): State<Arc<Door>>) -> (StatusCode, &'static str) {
    match *door.stopping.borrow() {
        true => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
        false => (StatusCode::OK, "ready\n"),
    }
}

async fn take_options(State(door): State<Arc<Door>>, headers: HeaderMap) -> Response {
    match door.guard.check_place(&headers) {
        Ok(()) => allow_origin(&door, StatusCode::NO_CONTENT.into_response(), &headers),
        Err(refused) => *refused,
    }
}

/// Lets the pages of an origin that was let in read the answer (CORS).
fn allow_origin(door: &Door, mut response: Response, request: &HeaderMap) -> Response {
    if let Some(origin) = request.get(header::ORIGIN)
        && door.guard.check_place(request).is_ok()
    {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(header::VARY, HeaderValue::from_static("Origin"));
        let own = "Mcp-Session-Id, MCP-Protocol-Version";
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(own));
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST, GET, DELETE"));
        let asked = request.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
        let asked = asked.unwrap_or_else(|| HeaderValue::from_static("Content-Type"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, asked);
    }
    response
}

async fn take_post(State(door): State<Arc<Door>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let response = match answer_post(&door, &parts.headers, body).await {
        Ok(response) | Err(response) => response,
    };
    allow_origin(&door, response, &parts.headers)
}

async fn answer_post(door: &Arc<Door>, headers: &HeaderMap, body: Body) -> Result<Response, Response> {
    // Nothing is read from whoever is not let in.
    let principal = door.guard.admit(headers).map_err(|refused| *refused)?;
    headers::check_post(headers).map_err(|refused| *refused)?;
    let body = read(headers, body).await?;
    let message =
        parse_line(&body).map_err(|error| refusal_of(error.id.as_ref(), StatusCode::BAD_REQUEST, &error.error))?;
    match headers::wire_of(headers, &message).map_err(|refused| *refused)? {
        Wire::Modern => {
            params::check(headers, &message, &*door.service).map_err(|refused| *refused)?;
            modern::answer(door, principal, message).await
        }
        Wire::Legacy => legacy::answer_post(door, principal, headers, message).await,
    }
}

/// The body, if it is not too long.
async fn read(headers: &HeaderMap, body: Body) -> Result<Bytes, Response> {
    let too_long = || {
        let message = format!("the body is longer than {MAX_LINE} bytes; put long material in a file");
        refusal(StatusCode::PAYLOAD_TOO_LARGE, &WireError::invalid_request(message))
    };
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > MAX_LINE) {
        return Err(too_long());
    }
    axum::body::to_bytes(body, MAX_LINE).await.map_err(|error| {
        let is_limit = std::error::Error::source(&error).is_some_and(|source| source.is::<LengthLimitError>());
        match is_limit {
            true => too_long(),
            false => {
                refusal(StatusCode::BAD_REQUEST, &WireError::invalid_request(format!("the body broke off: {error}")))
            }
        }
    })
}

async fn take_get(State(door): State<Arc<Door>>, headers: HeaderMap) -> Response {
    let response = match door.guard.admit(&headers) {
        Ok(principal) => legacy::answer_get(&door, &principal, &headers),
        Err(refused) => *refused,
    };
    allow_origin(&door, response, &headers)
}

async fn take_delete(State(door): State<Arc<Door>>, headers: HeaderMap) -> Response {
    let response = match door.guard.admit(&headers) {
        Ok(principal) => legacy::answer_delete(&door, &principal, &headers),
        Err(refused) => *refused,
    };
    allow_origin(&door, response, &headers)
}

/// A method that this path does not take.
pub(in crate::http) fn not_allowed(method: &Method, why: &str) -> Response {
    let error = WireError::invalid_request(format!("{method} is not for this: {why}"));
    refusal(StatusCode::METHOD_NOT_ALLOWED, &error)
}

/// Whether a message wants an answer.
pub(in crate::http) fn wants_answer(message: &Envelope) -> bool {
    match message {
        Envelope::Request { .. } => true,
        Envelope::Batch(entries) => {
            entries.iter().any(|entry| entry.as_ref().is_err() || entry.as_ref().is_ok_and(wants_answer))
        }
        Envelope::Notification { .. } | Envelope::Response { .. } => false,
    }
}
