//! Modern requests: each a connection of its own, cancelled when its response is not wanted any more.

use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use openoxide_mcp_protocol::{Message, RequestId, WireError};

use super::connections::Connection;
use super::stream::{EventStream, OnStop, Sending, respond};
use super::{HttpState, refusal};
use crate::principal::Principal;
use crate::service::Session;
use openoxide_rpc::Outgoing;
use openoxide_rpc::Responders;
use openoxide_rpc::lock;

/// Cancels a request unless it is answered.
struct CancelOnDrop {
    session: Arc<Mutex<Box<dyn Session>>>,
    id: RequestId,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        lock(&self.session).cancel(&self.id);
    }
}

/// Answers a message.
pub(super) async fn answer(
    state: &Arc<HttpState>,
    connection: &Arc<Connection>,
    principal: Principal,
    message: Message,
) -> Result<Response, Response> {
    let id = match &message {
        Message::Request(request) => request.id.clone(),
        // The revision has no notification from clients over HTTP; one that comes says nothing to us.
        Message::Notification { .. } => return Ok(StatusCode::ACCEPTED.into_response()),
        Message::Response { .. } | Message::Batch(_) => {
            let error = WireError::invalid_request("a body of this version is one request or one notification");
            return Err(refusal(StatusCode::BAD_REQUEST, &error));
        }
    };
    let unread = state.unread.of(&principal);
    let out = Outgoing::for_one_answer(&unread);
    let mut session = state.service.connect(principal, Arc::clone(&out));
    {
        // A client that does not read its answers is not served any further.
        let _room = unread.room_to_admit().await;
        session.serve(message, &Responders::line(Arc::clone(&out)));
    }
    let session = Arc::new(Mutex::new(session));
    let listening = Arc::clone(&session);
    let on_stop =
        OnStop { stopping: state.stopping.clone(), act: Box::new(move || lock(&listening).end_subscriptions()) };
    let guard = CancelOnDrop { session, id };
    let sending = Sending {
        over: Arc::downgrade(connection),
        events: EventStream::new(String::new(), out, 0),
        from: 0,
        numbered: false,
        primed: false,
        until: None,
        on_stop: Some(on_stop),
        _guard: Some(Box::new(guard)),
    };
    Ok(respond(sending).await)
}
