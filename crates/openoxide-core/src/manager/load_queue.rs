//! The queues before threads that are being loaded: who comes first is first, whatever the disk does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::ThreadId;
use crate::mutex::lock;
use crate::thread::Claim;

/// The right to be the first at a thread; the next in line has it once this is dropped, and so has another process where
/// nothing was asked of the thread.
pub struct LoadGuard {
    lines: Arc<LoadQueues>,
    id: ThreadId,
    pub(super) claim: Option<Claim>,
    /// Closed when this is dropped, which is what the next waits for.
    _done: oneshot::Sender<()>,
}

/// The lines before threads.
#[derive(Default)]
pub(super) struct LoadQueues {
    lines: Mutex<HashMap<ThreadId, LoadQueue>>,
}

struct LoadQueue {
    length: usize,
    /// What the next one waits for.
    last: Option<oneshot::Receiver<()>>,
}

impl LoadQueues {
    pub(super) fn is_empty(&self, id: ThreadId) -> bool {
        !lock(&self.lines).contains_key(&id)
    }

    pub(super) fn join(self: &Arc<Self>, id: ThreadId) -> (Option<oneshot::Receiver<()>>, LoadGuard) {
        let (done, next) = oneshot::channel();
        let mut lines = lock(&self.lines);
        let line = lines.entry(id).or_insert(LoadQueue { length: 0, last: None });
        line.length += 1;
        let before = line.last.replace(next);
        (before, LoadGuard { lines: Arc::clone(self), id, claim: None, _done: done })
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        // First, so that the next finds the thread as this one leaves it.
        self.claim = None;
        let mut lines = lock(&self.lines.lines);
        if let Some(line) = lines.get_mut(&self.id) {
            line.length -= 1;
            if line.length == 0 {
                lines.remove(&self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_waits_for_the_one_before_and_nothing_is_kept() {
        let lines = Arc::new(LoadQueues::default());
        let id = ThreadId::new();
        let (before, first) = lines.join(id);
        assert!(before.is_none() && !lines.is_empty(id));
        let (second_waits, second) = lines.join(id);
        let (third_waits, third) = lines.join(id);
        let mut third_waits = third_waits.unwrap();
        assert!(third_waits.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        drop(first);
        assert!(second_waits.unwrap().await.is_err());
        drop(second);
        assert!(third_waits.await.is_err());
        drop(third);
        assert!(lines.is_empty(id));
    }
}
