//! Diffs of ended turns that memory alone has: of threads that are not kept on disk, and of turns whose end could not be
//! written yet. They are bounded over all threads. Beyond the bound the owner that takes most loses its oldest.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use crate::mutex::lock;
use crate::{ThreadId, TurnId, TurnResult};

/// See the module.
pub(crate) struct KeptDiffs {
    max_bytes: usize,
    /// Oldest first.
    kept: Mutex<VecDeque<Kept>>,
}

struct Kept {
    owner: Option<Arc<str>>,
    result: Arc<TurnResult>,
}

impl Kept {
    fn bytes(&self) -> usize {
        self.result.diff.as_ref().map_or(0, String::len)
    }
}

impl KeptDiffs {
    /// None yet, and never more than so many bytes.
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, kept: Mutex::default() }
    }

    /// The bound.
    pub(crate) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Keeps a result with its diff.
    pub(crate) fn keep(&self, owner: Option<Arc<str>>, result: Arc<TurnResult>) {
        let mut kept = lock(&self.kept);
        kept.push_back(Kept { owner, result });
        while kept.iter().map(Kept::bytes).sum::<usize>() > self.max_bytes {
            let mut shares: HashMap<_, usize> = HashMap::new();
            for one in kept.iter() {
                *shares.entry(one.owner.clone()).or_default() += one.bytes();
            }
            let most = shares.into_iter().max_by_key(|(_, bytes)| *bytes).map(|(owner, _)| owner);
            let Some(at) = kept.iter().position(|one| Some(&one.owner) == most.as_ref()) else { return };
            kept.remove(at);
        }
    }

    /// The result of a turn with its diff, where it is kept.
    pub(crate) fn find(&self, turn: TurnId) -> Option<Arc<TurnResult>> {
        lock(&self.kept).iter().find(|kept| kept.result.turn_id == turn).map(|kept| Arc::clone(&kept.result))
    }

    /// Gives up what is kept of a turn.
    pub(crate) fn forget(&self, turn: TurnId) {
        lock(&self.kept).retain(|kept| kept.result.turn_id != turn);
    }

    /// Gives up what is kept of a thread.
    pub(crate) fn forget_thread(&self, id: ThreadId) {
        lock(&self.kept).retain(|kept| kept.result.thread_id != id);
    }
}
