//! What follows from bounds on what is kept: looks at the disk from time to time and whenever a bound was passed, and
//! removes what deleted and lost threads have left elsewhere.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::ThreadManager;
use crate::mutex::lock;
use crate::{ThreadId, remove_temporary};

/// From the start to the first look, when nobody waits for an answer.
const FIRST_LOOK: Duration = Duration::from_secs(5);

/// From one look to the next, where no bound was passed meanwhile: other processes write threads, and threads get older.
const LOOK_ROUND: Duration = Duration::from_secs(600);

impl ThreadManager {
    /// Starts the task that deletes what is older or more than is kept, once, where there is a runtime and a bound.
    pub(super) fn watch_history(&self) {
        let Some(due) = self.core.disk_use.as_ref().map(crate::store::DiskUse::due) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.is_history_watched.swap(true, Ordering::Relaxed) {
            return;
        }
        let this = Weak::clone(&self.this);
        runtime.spawn(async move {
            let mut round = FIRST_LOOK;
            loop {
                // Cancel-safe: a notice that is not taken stays.
                tokio::select! {
                    () = due.notified() => {}
                    () = tokio::time::sleep(std::mem::replace(&mut round, LOOK_ROUND)) => {}
                }
                let Some(manager) = this.upgrade() else { return };
                drop(tokio::task::spawn_blocking(move || manager.look_at_history()).await);
            }
        });
    }

    /// Deletes what is older or more than is kept. Blocks on the disk.
    pub(crate) fn look_at_history(&self) {
        let Some(disk_use) = &self.core.disk_use else { return };
        let looked = disk_use.look(|deleted| {
            if !deleted.is_empty() {
                tracing::info!("{} threads were older or more than is kept, and are deleted", deleted.len());
            }
            // Their copies in memory are of no use to anybody; one that somebody holds finds out when it is used.
            lock(&self.threads)
                .retain(|id, thread| !(deleted.contains(id) && Arc::strong_count(thread) == 1 && thread.is_idle()));
            self.remove_temporary(deleted);
        });
        if let Err(error) = looked {
            tracing::warn!("old threads could not be deleted: {error}");
        }
    }

    /// Notes threads that were in memory alone and are gone, and removes what they have left.
    pub(super) fn lost(&self, ids: Vec<ThreadId>) {
        if ids.is_empty() {
            return;
        }
        lock(&self.expired).extend(ids.iter().copied());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return self.remove_temporary(&ids) };
        if let Some(manager) = self.this.upgrade() {
            // The disk may take its time, and nobody waits for it.
            runtime.spawn_blocking(move || manager.remove_temporary(&ids));
        }
    }

    fn remove_temporary(&self, ids: &[ThreadId]) {
        ids.iter().for_each(|id| remove_temporary(self.core.config.launcher.host_paths(), *id));
    }
}
