//! A request on its way to its answer: what a method has of its connection and its sender.

use std::sync::Arc;

use openoxide_mcp_protocol::{ClientFacts, Era, RequestMeta, WireError, code, complete};
use openoxide_rpc::Responder;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Agreed, Connection};

/// What a request that waits for its answer counts beside its parameters, in bytes.
const WAITING_OVERHEAD: usize = 4 * 1024;

/// One request.
pub(crate) struct Request<'a> {
    /// The connection it came on.
    pub(crate) connection: &'a Arc<Connection>,
    /// What `initialize` agreed on with a legacy client.
    pub(crate) agreed: &'a mut Option<Agreed>,
    pub(crate) era: Era,
    pub(crate) meta: RequestMeta,
    pub(crate) params: Option<Box<RawValue>>,
    pub(crate) responder: Responder,
}

impl Request<'_> {
    /// Whether it is of 2026-07-28.
    pub(crate) fn is_modern(&self) -> bool {
        self.era == Era::Modern
    }

    /// What is known of its sender.
    pub(crate) fn client(&self) -> ClientFacts {
        match (&self.meta.modern, &self.agreed) {
            (Some(modern), _) => modern.client.clone(),
            (None, Some(agreed)) => agreed.client.clone(),
            (None, None) => ClientFacts::default(),
        }
    }

    /// Answers with a result or an error. A modern result gets what each of them carries.
    pub(crate) fn answer(self, outcome: Result<Value, WireError>) {
        let era = self.era;
        self.responder.answer(outcome.map(|result| complete(era, result)).as_ref());
    }

    /// Answers with an error.
    pub(crate) fn refuse(self, error: &WireError) {
        self.responder.answer::<Value>(Err(error));
    }

    /// Answers with what `work` finds on the disk, on a thread for it and when there is room for the answer.
    pub(crate) fn answer_in_background(self, work: impl FnOnce() -> Result<Value, WireError> + Send + 'static) {
        let Self { connection, params, responder, era, .. } = self;
        let connection = Arc::clone(connection);
        // The work holds about what the request did.
        let bytes = params.map_or(0, |params| params.get().len()) + WAITING_OVERHEAD;
        let cost = u32::try_from(bytes).unwrap_or(u32::MAX);
        let Ok(waiting) = Arc::clone(&connection.waiting).try_acquire_many_owned(cost) else {
            let message = "as many requests wait for their answers as may; read the answers, and send it again";
            return responder.answer::<Value>(Err(&WireError::invalid_request(message)));
        };
        let (open, out) = (connection.server.lifecycle.open(), Arc::clone(responder.out()));
        tokio::spawn(async move {
            // A closed semaphore would be an error, and this one is never closed.
            let reading = connection.reading.acquire().await.ok();
            let room = out.room_for_input().await;
            // Nobody is left to read it.
            if out.is_closed() {
                return;
            }
            match tokio::task::spawn_blocking(work).await {
                Ok(outcome) => responder.answer(outcome.map(|result| complete(era, result)).as_ref()),
                Err(error) => {
                    tracing::error!(%error, "a request could not be answered");
                    responder.answer::<Value>(Err(&WireError::new(
                        code::INTERNAL_ERROR,
                        "the request could not be answered; send it again",
                    )));
                }
            }
            drop((reading, waiting, open, room));
        });
    }
}
