//! Between the transports (a pair of streams, HTTP) and what serves the messages that come through them.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use openoxide_mcp_protocol::tools::Mirrored;
use openoxide_mcp_protocol::{Message, RequestId};

use crate::principal::Principal;
use openoxide_rpc::{Outgoing, Responders};

/// Serves any number of connections.
pub trait Service: Send + Sync + 'static {
    /// A connection of `principal`. `out` takes what belongs to none of its requests.
    fn connect(&self, principal: Principal, out: Arc<Outgoing>) -> Box<dyn Session>;

    /// The arguments of a tool that the headers of its calls must repeat.
    fn mirrored(&self, _tool: &str) -> Vec<Mirrored> {
        Vec::new()
    }

    /// Ends whatever goes on. Every request that was open has its answer when this is ready, and one that comes later is
    /// answered at once.
    fn shut_down(&self) -> BoxFuture<'_, ()>;
}

/// Serves one connection.
pub trait Session: Send {
    /// Takes a message. Never blocks; requests are answered by `responders` in their time.
    fn serve(&mut self, message: Message, responders: &Responders);

    /// The revision that `initialize` agreed on; none before, and none where it was refused.
    fn agreed_version(&self) -> Option<&'static str>;

    /// Ends a request for its client: nothing more is said for it.
    fn cancel(&self, id: &RequestId);

    /// Whether a request is open.
    fn is_busy(&self) -> bool;

    /// Tells listeners that there is no more to come.
    fn end_subscriptions(&self);

    /// Cancels every request.
    fn close(&self);
}
