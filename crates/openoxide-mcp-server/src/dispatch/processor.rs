//! The message processor: each message goes to what it concerns. It never blocks and never waits for core; what takes time
//! is a runner's.

use std::sync::Arc;

use openoxide_mcp_protocol::{
    CancelledParams, Envelope, EnvelopeError, Incoming, Message, RequestId, WireError, parse_params, response,
};
use openoxide_rpc::{Batch, Handler, Outgoing, Responder, Responders};
use serde_json::Value;
use serde_json::value::RawValue;

use super::table;
use crate::connection::Connection;
use crate::connection::{Agreed, Request};
use crate::service::Session;

/// Messages of one batch: each may be answered at length, and the answers go out together.
const MAX_BATCH: usize = 256;
/// The one legacy revision with batches.
const BATCH_VERSION: &str = "2025-03-26";

/// One connection's processor.
pub(crate) struct Processor {
    connection: Arc<Connection>,
    agreed: Option<Agreed>,
}

impl Processor {
    /// A connection that has said nothing yet.
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        Self { connection, agreed: None }
    }

    fn handle_batch(&mut self, entries: Vec<Result<Message, EnvelopeError>>, out: &Arc<Outgoing>) {
        let refuse = |message| Responders::line(Arc::clone(out)).refuse(None, &WireError::invalid_request(message));
        if self.agreed_version() != Some(BATCH_VERSION) {
            return refuse(format!("batches exist in protocol version {BATCH_VERSION} alone; send one message a line"));
        }
        if entries.len() > MAX_BATCH {
            return refuse(format!("the batch has {} messages; at most {MAX_BATCH} are served", entries.len()));
        }
        let wants_answer =
            |entry: &Result<Message, _>| matches!(entry, Err(_) | Ok(Message::Request(_) | Message::Batch(_)));
        let count = entries.iter().filter(|entry| wants_answer(entry)).count();
        if count == 0 {
            for entry in entries.into_iter().flatten() {
                self.handle_message(entry, &Responders::line(Arc::clone(out)));
            }
            return;
        }
        let batch = Batch::new(Arc::clone(out), count);
        for entry in entries {
            match entry {
                Ok(message) => self.handle_message(message, &Responders::batch(Arc::clone(&batch))),
                Err(error) => batch.add(Some(response::<Value>(error.id.as_ref(), Err(&error.error)))),
            }
        }
    }

    fn handle_message(&mut self, message: Message, responders: &Responders) {
        match message {
            Message::Request(Incoming { id, method, meta, params }) => {
                let (era, responder) = (meta.era(), Responder::new(id, responders.clone()));
                let Self { connection, agreed } = self;
                table::serve(&method, Request { connection, agreed, era, meta, params, responder });
            }
            Message::Notification { method, params } => self.handle_notification(&method, params.as_deref()),
            Message::Response { id, outcome } => {
                self.connection.questions.answered(&id, outcome);
            }
            Message::Batch(_) => responders.refuse(None, &WireError::invalid_request("a batch inside a batch")),
        }
    }

    fn handle_notification(&self, method: &str, params: Option<&RawValue>) {
        match method {
            "notifications/cancelled" => match parse_params::<CancelledParams>(method, params) {
                Ok(cancelled) => {
                    let reason = cancelled.reason.as_deref().unwrap_or_default();
                    self.connection.cancel(&cancelled.request_id, is_timeout(reason));
                }
                Err(error) => tracing::debug!(%error, "a malformed cancellation is ignored"),
            },
            "notifications/initialized" | "notifications/roots/list_changed" | "notifications/progress" => {}
            other => tracing::debug!(method = other, "an unknown notification is ignored"),
        }
    }
}

/// Whether the reason of a cancellation says that the client has waited too long, in the words of the SDKs. Nobody wishes the
/// work to end then.
fn is_timeout(reason: &str) -> bool {
    const WORDS: [&str; 7] =
        ["timed out", "timed-out", "timeout", "time out", "time-out", "deadline exceeded", "-32001"];
    let reason = reason.to_lowercase();
    WORDS.into_iter().any(|word| reason.contains(word))
}

impl Handler for Processor {
    fn handle(&mut self, message: Envelope, responders: &Responders) {
        match Message::read(message) {
            Ok(message) => self.serve(message, responders),
            Err(refused) => responders.refuse(refused.id.as_ref(), &refused.error),
        }
    }
}

impl Session for Processor {
    fn serve(&mut self, message: Message, responders: &Responders) {
        match message {
            Message::Batch(entries) => self.handle_batch(entries, responders.out()),
            message => self.handle_message(message, responders),
        }
    }

    fn agreed_version(&self) -> Option<&'static str> {
        self.agreed.as_ref().map(|agreed| agreed.version)
    }

    fn cancel(&self, id: &RequestId) {
        self.connection.cancel(id, false);
    }

    fn is_busy(&self) -> bool {
        self.connection.is_busy()
    }

    fn end_subscriptions(&self) {
        self.connection.subscriptions.close();
    }

    fn close(&self) {
        self.connection.close();
    }
}

#[cfg(test)]
mod tests {
    use super::is_timeout;

    #[test]
    fn a_timeout_is_told_from_a_wish() {
        for reason in [
            "McpError: MCP error -32001: Request timed out",
            "Request timed out",
            "Error: -32001",
            "request timeout",
            "Timed out while waiting for response",
            "TimeoutError: The operation was aborted due to timeout",
            "context deadline exceeded",
        ] {
            assert!(is_timeout(reason), "{reason}");
        }
        for reason in ["", "enough", "AbortError: This operation was aborted", "User cancelled", "client disconnected"]
        {
            assert!(!is_timeout(reason), "{reason}");
        }
    }
}
