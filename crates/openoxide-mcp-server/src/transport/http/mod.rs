//! The Streamable HTTP transport (MCP 2025-03-26 to 2026-07-28, basic/transports): `/mcp` for both eras, `/healthz` and
//! `/readyz`.
//!
//! A modern request is a connection of its own, and closing its response cancels it. A legacy client has a session, and
//! what belongs to a call goes on the stream of that call, which can be taken up again with `Last-Event-ID`. Who may come in
//! is in [`guard`], what headers must say in [`headers`], how lines become a response in [`stream`]. Connections come from
//! [`listener`] and count in [`connections`].

mod authority;
mod body;
mod config;
mod connections;
mod guard;
mod headers;
mod legacy;
mod listener;
mod modern;
mod params;
mod peer;
mod refusal;
mod sessions;
mod state;
mod stream;
mod token;
mod unread;

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use openoxide_core::{Shares, share_of};
use openoxide_mcp_protocol::{EnvelopeError, Message, WireError};
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use authority::{Authority, Origin};
use body::Bodies;
pub use config::HttpConfig;
use config::{check_address, is_loopback};
use connections::{Connection, Connections};
use guard::Guard;
use headers::Wire;
use listener::Listener;
use peer::PeerUsers;
use refusal::{not_allowed, refusal, refusal_of};
use sessions::Sessions;
use state::HttpState;
pub use token::Token;
use unread::EachUnread;

use crate::principal::Principal;
use crate::service::Service;
use openoxide_rpc::lines::MAX_LINE;

/// From the end of all turns until connections are cut.
const FLUSH: Duration = Duration::from_millis(200);
/// From one look for idle sessions to the next.
const TIDY: Duration = Duration::from_secs(60);

/// From this length on, in bytes, a body is parsed on a thread of its own.
const LONG_BODY: usize = 64 << 10;

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
    let callers = config.principals();
    let share = |limit| share_of(limit, config.share_percent, callers);
    let places = Shares::new(config.max_sessions, share(config.max_sessions), callers);
    let sessions = Arc::new(Sessions::new(places, config.idle_session));
    let authenticated = Shares::new(config.max_connections, share(config.max_connections), callers);
    let connections = Connections::new(config.max_unauthenticated, config.max_unauthenticated_per_peer, authenticated);
    // One body of full length always fits beside what is kept for the others, which is half at most.
    let max_body_bytes = config.max_body_bytes.max(2 * MAX_LINE);
    let held = Shares::new(max_body_bytes, share(max_body_bytes).max(MAX_LINE), callers);
    let unread = Arc::new(EachUnread::new(config.max_unread_bytes, config.write_timeout));
    let state = Arc::new(HttpState {
        service: Arc::clone(&service),
        guard: Guard::new(&config, address),
        bodies: Bodies { patience: config.body_timeout, held },
        sessions: Arc::clone(&sessions),
        unread: Arc::clone(&unread),
        stopping: is_stopping.clone(),
    });
    let router = Router::new()
        .route("/mcp", post(take_post).get(take_get).delete(take_delete).options(take_options))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readiness))
        .with_state(state);
    let mut tidied = tokio::time::interval(TIDY);
    let listener = Listener {
        socket: listener,
        router,
        connections,
        head_timeout: config.head_timeout,
        users: config.tokens.is_empty().then(PeerUsers::open),
        stopping: is_stopping,
    };
    let mut serving = tokio::spawn(listener.serve());
    let mut stop = std::pin::pin!(stop);
    loop {
        // Cancel-safe: a stop that is ready stays so, and a tick that is lost comes again.
        tokio::select! {
            () = &mut stop => break,
            _ = tidied.tick() => sessions.tidy(),
            ended = &mut serving => return ended.map_err(std::io::Error::other),
        }
    }
    tracing::info!("asked to stop");
    // No new connection from here on. Those there are get the answers of the turns that end now.
    stopping.send_replace(true);
    sessions.end_subscriptions();
    unread.hurry();
    service.shut_down().await;
    sessions.close_all();
    if tokio::time::timeout(FLUSH, &mut serving).await.is_err() {
        serving.abort();
    }
    Ok(())
}

async fn readiness(State(state): State<Arc<HttpState>>) -> (StatusCode, &'static str) {
    match *state.stopping.borrow() {
        true => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
        false => (StatusCode::OK, "ready\n"),
    }
}

/// Lets a request in and counts its connection for its caller, or says why not.
fn admit(state: &HttpState, connection: &Connection, parts: &Parts) -> Result<Principal, Box<Response>> {
    headers::check_once(&parts.headers)?;
    let principal = state.guard.admit(parts, connection.user())?;
    connection.authenticate(&principal).map_err(guard::too_many_connections)?;
    Ok(principal)
}

async fn take_options(State(state): State<Arc<HttpState>>, parts: Parts) -> Response {
    match state.guard.check_place(&parts) {
        Ok(()) => allow_origin(&state, StatusCode::NO_CONTENT.into_response(), &parts),
        Err(refused) => *refused,
    }
}

/// Lets the pages of an origin that was let in read the answer (CORS).
fn allow_origin(state: &HttpState, mut response: Response, request: &Parts) -> Response {
    if let Some(origin) = request.headers.get(header::ORIGIN)
        && state.guard.check_place(request).is_ok()
    {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(header::VARY, HeaderValue::from_static("Origin"));
        let own = "Mcp-Session-Id, MCP-Protocol-Version";
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(own));
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST, GET, DELETE"));
        let asked = request.headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
        let asked = asked.unwrap_or_else(|| HeaderValue::from_static("Content-Type"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, asked);
    }
    response
}

async fn take_post(
    State(state): State<Arc<HttpState>>,
    Extension(connection): Extension<Arc<Connection>>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let response = match answer_post(&state, &connection, &parts, body).await {
        Ok(response) | Err(response) => response,
    };
    allow_origin(&state, response, &parts)
}

async fn answer_post(
    state: &Arc<HttpState>,
    connection: &Arc<Connection>,
    parts: &Parts,
    body: Body,
) -> Result<Response, Response> {
    // Nothing is read from a caller that is not let in.
    let principal = admit(state, connection, parts).map_err(|refused| *refused)?;
    let headers = &parts.headers;
    headers::check_post(headers).map_err(|refused| *refused)?;
    let body = state.bodies.read(&principal, headers, body).await?;
    let message = parse(body).await.map_err(|refused| {
        refusal_of(refused.id.as_ref(), StatusCode::BAD_REQUEST, &headers::told(headers, refused.error))
    })?;
    match headers::wire_of(headers, &message).map_err(|refused| *refused)? {
        Wire::Modern => {
            params::check(headers, &message, &*state.service).map_err(|refused| *refused)?;
            modern::answer(state, connection, principal, message).await
        }
        Wire::Legacy => legacy::answer_post(state, connection, principal, headers, message).await,
    }
}

/// Parses a body. A long one keeps a thread busy for a while, which must not be one that serves everybody.
async fn parse(body: Bytes) -> Result<Message, EnvelopeError> {
    if body.len() <= LONG_BODY {
        return Message::parse(&body);
    }
    match tokio::task::spawn_blocking(move || Message::parse(&body)).await {
        Ok(parsed) => parsed,
        Err(_) => Err(EnvelopeError { id: None, error: WireError::invalid_request("the body could not be parsed") }),
    }
}

async fn take_get(
    State(state): State<Arc<HttpState>>,
    Extension(connection): Extension<Arc<Connection>>,
    parts: Parts,
) -> Response {
    let response = match admit(&state, &connection, &parts) {
        Ok(principal) => legacy::answer_get(&state, &connection, &principal, &parts.headers),
        Err(refused) => *refused,
    };
    allow_origin(&state, response, &parts)
}

async fn take_delete(
    State(state): State<Arc<HttpState>>,
    Extension(connection): Extension<Arc<Connection>>,
    parts: Parts,
) -> Response {
    let response = match admit(&state, &connection, &parts) {
        Ok(principal) => legacy::answer_delete(&state, &principal, &parts.headers),
        Err(refused) => *refused,
    };
    allow_origin(&state, response, &parts)
}
