//! Makes rollouts durable, one after the other on one blocking thread, however many turns end at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::Syncer;
use crate::ThreadId;
use crate::mutex::lock;

/// Rollouts that wait to be made durable, at most one entry for each thread.
#[derive(Default)]
pub(crate) struct SyncQueue {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    waiting: HashMap<ThreadId, Syncer>,
    working: bool,
}

impl SyncQueue {
    /// Makes a rollout durable soon. Must be called within a tokio runtime.
    pub(crate) fn push(self: &Arc<Self>, id: ThreadId, syncer: Syncer) {
        let mut inner = lock(&self.inner);
        inner.waiting.insert(id, syncer);
        if !std::mem::replace(&mut inner.working, true) {
            let queue = Arc::clone(self);
            drop(tokio::task::spawn_blocking(move || queue.work()));
        }
    }

    fn work(&self) {
        loop {
            let mut inner = lock(&self.inner);
            let batch = std::mem::take(&mut inner.waiting);
            if batch.is_empty() {
                inner.working = false;
                return;
            }
            drop(inner);
            for (id, syncer) in batch {
                if let Err(error) = syncer() {
                    tracing::warn!(thread = %id, %error, "the rollout may not survive a power cut");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn all_that_is_pushed_is_synced_in_the_end() {
        let queue = Arc::new(SyncQueue::default());
        let (done, count) = (Arc::new(tokio::sync::Notify::new()), Arc::new(AtomicUsize::new(0)));
        for _ in 0..100 {
            let (done, count) = (Arc::clone(&done), Arc::clone(&count));
            let syncer = move || {
                if count.fetch_add(1, Ordering::SeqCst) == 99 {
                    done.notify_one();
                }
                Ok(())
            };
            queue.push(ThreadId::new(), Box::new(syncer));
        }
        done.notified().await;
        assert_eq!(count.load(Ordering::SeqCst), 100);
    }
}
