//! One connection: what may come when, and an answer to everything.

use std::sync::Arc;

use openoxide_rpc::listeners::Caller;
use openoxide_rpc::{Envelope, Handler, Outgoing, RequestId, Responder, Responders, RpcError};
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, watch};

use super::Shared;
use super::error::refused;
use super::methods::{self, Call};
use super::sessions::Attached;
use crate::protocol::{InitializeParams, InitializeResult};

/// Requests of a connection that are served at the same time, long polls included.
const MOST_OPEN: usize = 2048;

/// The id of answers to what has none.
const NO_ID: RequestId = RequestId::Number(-1);

/// Serves one client.
pub(super) struct Connection {
    shared: Arc<Shared>,
    caller: Caller,
    out: Arc<Outgoing>,
    attached: Option<Attached>,
    open: Arc<Semaphore>,
    /// Tells long polls that nobody waits for them any more.
    is_ended: watch::Sender<bool>,
}

impl Connection {
    pub(super) fn new(shared: Arc<Shared>, caller: Caller, out: Arc<Outgoing>) -> Self {
        let (open, is_ended) = (Arc::new(Semaphore::new(MOST_OPEN)), watch::Sender::new(false));
        Self { shared, caller, out, attached: None, open, is_ended }
    }

    fn initialize(&mut self, params: Option<Box<RawValue>>) -> Result<InitializeResult, RpcError> {
        if self.attached.is_some() {
            return Err(refused("initialize may only be sent once per connection"));
        }
        let params: InitializeParams = methods::parse(params)?;
        let resumed = params.resume_session_id.as_deref();
        let attached = self.shared.sessions.attach(&self.caller, resumed, &self.out)?;
        tracing::info!(client = params.client_name, session = attached.session.id, "a client is here");
        let session_id = attached.session.id.clone();
        self.attached = Some(attached);
        Ok(InitializeResult { session_id, environment_info: Some(self.shared.environment.clone()) })
    }

    fn serve(&mut self, responder: Responder, method: &str, params: Option<Box<RawValue>>) {
        let Some(attached) = &self.attached else {
            let error = refused("client must call initialize before using exec methods");
            return responder.answer::<()>(Err(&error));
        };
        let Some(serve) = methods::find(method) else {
            return responder.answer::<()>(Err(&RpcError::method_not_found(method)));
        };
        let Ok(place) = Arc::clone(&self.open).try_acquire_owned() else {
            let error = refused(format!("{MOST_OPEN} requests of this connection are open; wait for answers"));
            return responder.answer::<()>(Err(&error));
        };
        let call = Call {
            shared: Arc::clone(&self.shared),
            session: Arc::clone(&attached.session),
            out: Arc::clone(&self.out),
            is_ended: self.is_ended.subscribe(),
        };
        // What has to be in the order of the requests is done in here.
        let serving = serve(call, params);
        tokio::spawn(async move {
            let answer = serving.await;
            responder.answer(answer.as_ref());
            drop(place);
        });
    }
}

impl Handler for Connection {
    fn handle(&mut self, message: Envelope, responders: &Responders) {
        let refuse = |message: String| responders.refuse(Some(&NO_ID), &refused(message));
        match message {
            Envelope::Request { id, method, params } => {
                let responder = Responder::new(id, responders.clone());
                if method == "initialize" {
                    let answer = self.initialize(params);
                    return responder.answer(answer.as_ref());
                }
                self.serve(responder, &method, params);
            }
            Envelope::Notification { method, .. } if method == "initialized" => {}
            Envelope::Notification { method, .. } => {
                refuse(format!("{method:?} is no notification of this protocol; send it as a request, with an id"));
            }
            Envelope::Response { .. } => refuse("this server asks nothing, so that nothing can be answered".to_owned()),
            Envelope::Batch(_) => refuse("batches are not served; send each message by itself".to_owned()),
        }
    }

    fn input_ended(&mut self) {
        self.is_ended.send_replace(true);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.is_ended.send_replace(true);
        if let Some(attached) = &self.attached {
            self.shared.sessions.detach(attached, self.out.was_said_goodbye());
        }
    }
}
