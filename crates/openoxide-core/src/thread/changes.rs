//! News of threads for those who watch none of them in particular.

use std::sync::Arc;

use tokio::sync::broadcast;

use crate::ThreadId;

/// News that one watcher may leave unread; who falls further behind is told that something has changed.
const KEPT: usize = 256;

/// A thread was begun, or a turn of it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadChange {
    /// Which; none where news were missed and it may be any.
    pub id: Option<ThreadId>,
    /// Whose it is, where the server has more than one user; none as well where it may be any.
    pub owner: Option<Arc<str>>,
    /// Whether it was not there before.
    pub is_new: bool,
}

/// Where news are given.
pub(crate) struct Changes(broadcast::Sender<ThreadChange>);

impl Default for Changes {
    fn default() -> Self {
        Self(broadcast::Sender::new(KEPT))
    }
}

impl Changes {
    /// Gives news to whoever watches.
    pub(crate) fn tell(&self, id: ThreadId, owner: Option<Arc<str>>, is_new: bool) {
        // Without watchers it fails, which is fine.
        let _ = self.0.send(ThreadChange { id: Some(id), owner, is_new });
    }

    /// All news from now on.
    pub(crate) fn watch(&self) -> ThreadChanges {
        ThreadChanges(self.0.subscribe())
    }
}

/// News of all threads of a manager.
pub struct ThreadChanges(broadcast::Receiver<ThreadChange>);

impl ThreadChanges {
    /// The next; `None` once the manager is gone. Cancel-safe.
    pub async fn next(&mut self) -> Option<ThreadChange> {
        match self.0.recv().await {
            Ok(change) => Some(change),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(ThreadChange { id: None, owner: None, is_new: true }),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_falls_behind_is_told_that_anything_may_have_changed() {
        let changes = Changes::default();
        let mut watcher = changes.watch();
        let id = ThreadId::new();
        changes.tell(id, None, true);
        assert_eq!(watcher.next().await, Some(ThreadChange { id: Some(id), owner: None, is_new: true }));
        (0..=KEPT).for_each(|_| changes.tell(id, None, false));
        assert_eq!(watcher.next().await, Some(ThreadChange { id: None, owner: None, is_new: true }));
        drop(changes);
        while let Some(change) = watcher.next().await {
            assert_eq!(change.id, Some(id));
        }
    }
}
