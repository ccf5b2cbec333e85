//! Legacy messages (MCP 2025-03-26 to 2025-11-25): `initialize` begins a session, which the rest belongs to.

use std::sync::{Arc, PoisonError};

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use openoxide_mcp_protocol::{Envelope, LEGACY_LATEST, WireError, negotiate_legacy};

use super::sessions::LegacySession;
use super::stream::{Sending, event_stream, respond};
use super::{Door, headers, not_allowed, refusal, wants_answer};
use crate::answers::Route;
use crate::outgoing::Outgoing;
use crate::principal::Principal;

const SESSION_ID: &str = "mcp-session-id";

/// Answers a POST.
pub(super) async fn answer_post(
    door: &Arc<Door>,
    principal: Principal,
    headers: &HeaderMap,
    message: Envelope,
) -> Result<Response, Response> {
    if let Envelope::Request { method, params, .. } = &message
        && method == "initialize"
        && !headers.contains_key(SESSION_ID)
    {
        let version = version_of(params.as_deref().map(|params| params.get()));
        return begin(door, principal, version, message).await;
    }
    let session = session_of(door, &principal, headers).map_err(|refused| *refused)?;
    if !wants_answer(&message) {
        // Nothing comes of it that would want a stream.
        let nowhere = Route::line(Arc::new(Outgoing::default()));
        session.session.lock().unwrap_or_else(PoisonError::into_inner).handle(message, &nowhere);
        return Ok(StatusCode::ACCEPTED.into_response());
    }
    Ok(answer(&session, message).await)
}

async fn answer(session: &Arc<LegacySession>, message: Envelope) -> Response {
    let (out, events) = session.new_stream();
    session.session.lock().unwrap_or_else(PoisonError::into_inner).handle(message, &Route::line(out));
    let primed = session.version == LEGACY_LATEST;
    respond(Sending { events, from: 0, numbered: true, primed, until: None, on_stop: None, _guard: None }).await
}

/// The revision that `initialize` will agree on.
fn version_of(params: Option<&str>) -> String {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Asked {
        protocol_version: String,
    }
    let asked: Option<Asked> = params.and_then(|params| serde_json::from_str(params).ok());
    negotiate_legacy(&asked.map(|asked| asked.protocol_version).unwrap_or_default()).to_owned()
}

async fn begin(
    door: &Arc<Door>,
    principal: Principal,
    version: String,
    message: Envelope,
) -> Result<Response, Response> {
    if !door.sessions.has_room() {
        let error = WireError::invalid_request("there are as many sessions as there may be; try again later");
        return Err(refusal(StatusCode::SERVICE_UNAVAILABLE, &error));
    }
    let connect = |out| door.service.connect(principal.clone(), out, door.alive.clone());
    let session = door.sessions.prepare(principal.clone(), version, connect);
    let mut response = answer(&session, message).await;
    // One that was refused begins nothing. `initialize` is answered at once, so that the answer is all there is.
    if response.status() == StatusCode::OK && is_result(&mut response).await {
        let id = HeaderValue::from_str(session.id()).expect("an id is of hexadecimal digits");
        response.headers_mut().insert(SESSION_ID, id);
        door.sessions.enter(session);
    }
    Ok(response)
}

/// Whether an answer in JSON is a result. Its body is read for it and put back.
async fn is_result(response: &mut Response) -> bool {
    let body = std::mem::take(response.body_mut());
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else { return false };
    #[derive(serde::Deserialize)]
    struct Answer {
        result: Option<serde::de::IgnoredAny>,
    }
    let is_result = serde_json::from_slice::<Answer>(&bytes).is_ok_and(|answer| answer.result.is_some());
    *response.body_mut() = bytes.into();
    is_result
}

/// The session a request names: 400 without a name, 404 where it is none of theirs.
fn session_of(door: &Door, principal: &Principal, headers: &HeaderMap) -> Result<Arc<LegacySession>, Box<Response>> {
    let Some(id) = headers.get(SESSION_ID) else {
        let message = "there is no Mcp-Session-Id; send initialize first and use the id of its answer, or send \
                       requests of 2026-07-28, which need none";
        return Err(Box::new(refusal(StatusCode::BAD_REQUEST, &WireError::invalid_request(message))));
    };
    let session = id.to_str().ok().and_then(|id| door.sessions.find(id, principal));
    session.ok_or_else(|| {
        let message = "there is no such session, or not any more; send initialize to begin one";
        Box::new(refusal(StatusCode::NOT_FOUND, &WireError::invalid_request(message)))
    })
}

/// Answers a GET: the stream of what belongs to no request, or one that broke off.
pub(super) fn answer_get(door: &Arc<Door>, principal: &Principal, headers: &HeaderMap) -> Response {
    if headers.get("mcp-protocol-version").is_some_and(|version| version == openoxide_mcp_protocol::MODERN) {
        return not_allowed(&Method::GET, "this version has no stream beside those of its requests");
    }
    if let Err(refused) = headers::check_accept(headers, &["text/event-stream"]) {
        return *refused;
    }
    let session = match session_of(door, principal, headers) {
        Ok(session) => session,
        Err(refused) => return *refused,
    };
    if let Some(last) = headers.get("last-event-id") {
        let found = last.to_str().ok().and_then(|last| session.resume(last));
        let Some((events, from)) = found else {
            let error = WireError::invalid_request(format!("Last-Event-ID {last:?} names no event of this session"));
            return refusal(StatusCode::NOT_FOUND, &error);
        };
        return event_stream(Sending {
            events,
            from,
            numbered: true,
            primed: false,
            until: None,
            on_stop: None,
            _guard: None,
        });
    }
    let (events, until) = session.read_standalone();
    let primed = session.version == LEGACY_LATEST;
    let from = events.latest_sent();
    event_stream(Sending { events, from, numbered: true, primed, until: Some(until), on_stop: None, _guard: None })
}

/// Answers a DELETE: ends a session.
pub(super) fn answer_delete(door: &Arc<Door>, principal: &Principal, headers: &HeaderMap) -> Response {
    match session_of(door, principal, headers) {
        Ok(session) => {
            door.sessions.remove(&session);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(refused) => *refused,
    }
}
