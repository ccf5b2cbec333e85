//! Which threads were kept in memory alone and left it, so that whoever comes back for one is told.

use std::collections::VecDeque;

use crate::ThreadId;

/// How many are known; of the oldest beyond it nobody is told.
const KNOWN: usize = 4096;

/// See the module.
#[derive(Default)]
pub(super) struct Expired(VecDeque<ThreadId>);

impl Expired {
    /// Whether a thread is among them.
    pub(super) fn contains(&self, id: ThreadId) -> bool {
        self.0.contains(&id)
    }
}

impl Extend<ThreadId> for Expired {
    fn extend<T: IntoIterator<Item = ThreadId>>(&mut self, ids: T) {
        self.0.extend(ids);
        let over = self.0.len().saturating_sub(KNOWN);
        self.0.drain(..over);
    }
}
