//! The table of open calls, and what a call carries with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use openoxide_mcp_protocol::{ClientFacts, Era, LogLevel, ProgressToken, RequestId};
use tokio::sync::Notify;

use super::ConnectionLogLevel;
use openoxide_rpc::lock;
use openoxide_rpc::{Gate, Outgoing};

/// One open `tools/call`, as its runner and its reporter see it.
pub(crate) struct Call {
    /// The request.
    pub(crate) id: RequestId,
    /// How it is served.
    pub(crate) era: Era,
    /// Who sent it.
    pub(crate) client: ClientFacts,
    /// Wants progress under this token.
    pub(crate) progress_token: Option<ProgressToken>,
    /// The log level of a modern request; a legacy one follows its connection.
    pub(crate) log_level: Option<LogLevel>,
    /// Whether it is one of Codex's tools, and spoken to as such.
    pub(crate) is_codex: bool,
    /// Takes what is said for it.
    pub(crate) out: Arc<Outgoing>,
    /// What may still be said for it.
    pub(crate) gate: Arc<Gate>,
    /// Told once when the client cancels; the runner is the only one who waits, and a stored permit counts.
    pub(crate) cancelled: Notify,
}

impl Call {
    /// Whether its client is sent messages of this level. A legacy one has said so for its connection.
    pub(crate) fn wants(&self, level: LogLevel, connection: &ConnectionLogLevel) -> bool {
        let wanted = match self.era {
            Era::Modern => self.log_level,
            Era::Legacy => Some(connection.get()),
        };
        wanted.is_some_and(|wanted| level >= wanted)
    }
}

/// The open calls of a connection by request id. The processor enters; the entry goes when the runner ends.
#[derive(Default)]
pub(crate) struct Calls(Mutex<HashMap<RequestId, Arc<Call>>>);

/// Keeps a call in the table until dropped.
pub(crate) struct OpenCall {
    calls: Arc<Calls>,
    pub(crate) call: Arc<Call>,
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Arc<Call>>> {
        lock(&self.0)
    }

    /// Whether a call with this id is open.
    pub(crate) fn contains(&self, id: &RequestId) -> bool {
        self.lock().contains_key(id)
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// The requests of those that are open.
    pub(crate) fn ids(&self) -> Vec<RequestId> {
        self.lock().keys().cloned().collect()
    }

    /// Enters a call.
    pub(crate) fn open(self: &Arc<Self>, call: Call) -> OpenCall {
        let call = Arc::new(call);
        self.lock().insert(call.id.clone(), Arc::clone(&call));
        OpenCall { calls: Arc::clone(self), call }
    }

    /// Takes out a call that the client cancels.
    pub(crate) fn take(&self, id: &RequestId) -> Option<Arc<Call>> {
        self.lock().remove(id)
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut calls = self.calls.lock();
        // After a cancel the id may have been used again for another call.
        if calls.get(&self.call.id).is_some_and(|open| Arc::ptr_eq(open, &self.call)) {
            calls.remove(&self.call.id);
        }
    }
}
