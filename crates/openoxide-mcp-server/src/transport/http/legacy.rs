//! Legacy messages (MCP 2025-03-26 to 2025-11-25): `initialize` begins a session, which the rest belongs to.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use openoxide_mcp_protocol::{Message, WireError};

use super::connections::Connection;
use super::sessions::LegacySession;
use super::stream::{Sending, event_stream, respond};
use super::{HttpState, headers, not_allowed, refusal};
use crate::principal::Principal;
use openoxide_rpc::Outgoing;
use openoxide_rpc::Responders;
use openoxide_rpc::lock;

const SESSION_ID: &str = "mcp-session-id";

/// Answers a POST.
pub(super) async fn answer_post(
    state: &Arc<HttpState>,
    connection: &Arc<Connection>,
    principal: Principal,
    headers: &HeaderMap,
    message: Message,
) -> Result<Response, Response> {
    if let Message::Request(request) = &message
        && request.method == "initialize"
        && !headers.contains_key(SESSION_ID)
    {
        return begin(state, connection, principal, message).await;
    }
    let session = session_of(state, &principal, headers).map_err(|refused| *refused)?;
    if !message.wants_answer() {
        // Nothing comes of it that would want a stream.
        let nowhere = Responders::line(Arc::new(Outgoing::default()));
        lock(&session.session).serve(message, &nowhere);
        return Ok(StatusCode::ACCEPTED.into_response());
    }
    Ok(answer(&session, connection, message).await)
}

async fn answer(session: &Arc<LegacySession>, connection: &Arc<Connection>, message: Message) -> Response {
    let is_ping = matches!(&message, Message::Request(request) if request.method == "ping");
    // A client that does not read its answers is not served any further, but it may ask whether anybody is there.
    let room = if is_ping { None } else { Some(session.unread().room_to_admit().await) };
    let (out, events) = session.new_stream();
    lock(&session.session).serve(message, &Responders::line(out));
    drop(room);
    respond(Sending { primed: session.primes(), ..Sending::resumable(events, 0, connection) }).await
}

async fn begin(
    state: &Arc<HttpState>,
    connection: &Arc<Connection>,
    principal: Principal,
    message: Message,
) -> Result<Response, Response> {
    let place = state.sessions.place(&principal).map_err(|exceeded| {
        let message =
            format!("there are as many sessions as {exceeded}, and none of them is idle; end one, and try again");
        refusal(StatusCode::SERVICE_UNAVAILABLE, &WireError::invalid_request(message))
    })?;
    let unread = state.unread.of(&principal);
    let connect = |out| state.service.connect(principal, out);
    let session = state.sessions.prepare(place, unread, connect);
    let mut response = answer(&session, connection, message).await;
    // One that was refused begins nothing. `initialize` is answered at once, so that it is known by now.
    if lock(&session.session).agreed_version().is_some() {
        let id = HeaderValue::from_str(session.id()).expect("an id is of hexadecimal digits");
        response.headers_mut().insert(SESSION_ID, id);
        state.sessions.enter(session);
    }
    Ok(response)
}

/// The session a request names: 400 without a name, 404 where it is none of theirs.
fn session_of(
    state: &HttpState,
    principal: &Principal,
    headers: &HeaderMap,
) -> Result<Arc<LegacySession>, Box<Response>> {
    let Some(id) = headers.get(SESSION_ID) else {
        let message = "there is no Mcp-Session-Id; send initialize first and use the id of its answer, or send \
                       requests of 2026-07-28, which need none";
        return Err(Box::new(refusal(StatusCode::BAD_REQUEST, &WireError::invalid_request(message))));
    };
    let session = id.to_str().ok().and_then(|id| state.sessions.find(id, principal));
    session.ok_or_else(|| {
        let message = "there is no such session, or not any more; send initialize to begin one";
        Box::new(refusal(StatusCode::NOT_FOUND, &WireError::invalid_request(message)))
    })
}

/// Whether a request without a body says that it is of the modern era.
fn is_modern(headers: &HeaderMap) -> bool {
    headers.get("mcp-protocol-version").is_some_and(|version| version == openoxide_mcp_protocol::MODERN)
}

/// Answers a GET: the stream of what belongs to no request, or one that broke off.
pub(super) fn answer_get(
    state: &Arc<HttpState>,
    connection: &Arc<Connection>,
    principal: &Principal,
    headers: &HeaderMap,
) -> Response {
    if is_modern(headers) {
        return not_allowed(&Method::GET, "this version has no stream beside those of its requests");
    }
    if let Err(refused) = headers::check_accept(headers, &["text/event-stream"]) {
        return *refused;
    }
    let session = match session_of(state, principal, headers) {
        Ok(session) => session,
        Err(refused) => return *refused,
    };
    if let Some(last) = headers.get("last-event-id") {
        let found = last.to_str().ok().and_then(|last| session.resume(last));
        let Some((events, from)) = found else {
            let error = WireError::invalid_request(format!("Last-Event-ID {last:?} names no event of this session"));
            return refusal(StatusCode::NOT_FOUND, &error);
        };
        return event_stream(Sending::resumable(events, from, connection));
    }
    let (events, until) = session.read_standalone();
    let from = events.latest_sent();
    event_stream(Sending {
        primed: session.primes(),
        until: Some(until),
        ..Sending::resumable(events, from, connection)
    })
}

/// Answers a DELETE: ends a session.
pub(super) fn answer_delete(state: &Arc<HttpState>, principal: &Principal, headers: &HeaderMap) -> Response {
    if is_modern(headers) {
        return not_allowed(&Method::DELETE, "this version has no sessions");
    }
    match session_of(state, principal, headers) {
        Ok(session) => {
            state.sessions.remove(&session);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(refused) => *refused,
    }
}
