//! The table of open calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use openoxide_mcp_protocol::RequestId;
use openoxide_rpc::lock;

use crate::backend::Call;

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
