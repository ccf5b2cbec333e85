//! What each principal has not read, over all its requests, sessions and connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::principal::Principal;
use openoxide_rpc::Unread;
use openoxide_rpc::lock;

/// One bound for each. Principals are as many as tokens, so that none is ever forgotten.
pub(super) struct EachUnread {
    limit: usize,
    patience: Duration,
    by: Mutex<HashMap<Principal, Arc<Unread>>>,
}

impl EachUnread {
    /// `limit` bytes for each, and `patience` for a response that stands still.
    pub(super) fn new(limit: usize, patience: Duration) -> Self {
        Self { limit, patience, by: Mutex::default() }
    }

    /// What this principal has not read.
    pub(super) fn of(&self, principal: &Principal) -> Arc<Unread> {
        let mut by = lock(&self.by);
        let unread = by.entry(principal.clone()).or_insert_with(|| Unread::new(self.limit, self.patience));
        Arc::clone(unread)
    }

    /// Gives everybody little time to read: the server ends.
    pub(super) fn hurry(&self) {
        lock(&self.by).values().for_each(|unread| unread.hurry());
    }
}
