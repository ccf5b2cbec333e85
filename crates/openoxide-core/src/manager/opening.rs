//! Opening a thread that is not in memory, for whoever must not wait for the disk: a place in line is taken at once, and
//! the loading is done when it comes up. So prompts of one thread keep the order in which they came, loaded or not.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::load_queue::LoadGuard;
use super::threads::ThreadManager;
use crate::{CoreError, Holder, Thread, ThreadId};

/// From one look whether another process still uses a thread to the next.
const BUSY_ROUND: Duration = Duration::from_millis(50);

/// How long a thread is waited for that this process is closing: its commands have two seconds to end.
const OWN_PATIENCE: Duration = Duration::from_secs(4);

/// Where a caller stands who wants a thread.
pub enum ThreadAccess {
    /// A turn of the thread runs here and nobody waits for it.
    Open(Arc<Thread>),
    /// The disk has to be asked, or others are before.
    Queued(LoadTicket),
}

/// A place in the line before a thread.
pub struct LoadTicket {
    manager: Arc<ThreadManager>,
    id: ThreadId,
    before: Option<oneshot::Receiver<()>>,
    pass: LoadGuard,
}

impl ThreadManager {
    /// Takes a place before a thread. Never blocks.
    pub fn enter(self: &Arc<Self>, id: ThreadId) -> ThreadAccess {
        if self.lines.is_empty(id)
            && let Some(thread) = self.in_memory(id).filter(|thread| thread.is_busy())
        {
            return ThreadAccess::Open(thread);
        }
        let (before, pass) = self.lines.join(id);
        ThreadAccess::Queued(LoadTicket { manager: Arc::clone(self), id, before, pass })
    }
}

impl LoadTicket {
    /// Waits for those before, then gives the thread as it is on disk, loaded where it has to be. Where another process
    /// uses it, it is waited for, for as long as `patience` says. The pass is to be kept until what was wanted of the
    /// thread is asked.
    ///
    /// # Errors
    /// As [`ThreadManager::get_or_load`].
    pub async fn open(self, patience: Duration) -> (Result<Arc<Thread>, CoreError>, LoadGuard) {
        let Self { manager, id, before, mut pass } = self;
        if let Some(before) = before {
            // It is never sent, only closed.
            let _ = before.await;
        }
        let deadline = Instant::now().checked_add(patience);
        let own_deadline = Instant::now() + OWN_PATIENCE;
        loop {
            if let Some(thread) = manager.in_memory(id).filter(|thread| thread.is_busy()) {
                return (Ok(thread), pass);
            }
            let claiming = Arc::clone(&manager);
            let claimed = match tokio::task::spawn_blocking(move || claiming.claim(id)).await {
                Ok(claimed) => claimed,
                Err(error) => Err(CoreError::Rollout { id, source: std::io::Error::other(error) }),
            };
            match claimed {
                Ok((thread, claim)) => {
                    pass.claim = Some(claim);
                    return (Ok(thread), pass);
                }
                Err(CoreError::ThreadBusy { holder, .. })
                    if (deadline.is_none_or(|deadline| Instant::now() < deadline)
                        || is_this_process(holder.as_ref()) && Instant::now() < own_deadline)
                        && !manager.is_ending.load(Ordering::Relaxed) =>
                {
                    // Another process says nothing when it is done.
                    tokio::time::sleep(BUSY_ROUND).await;
                }
                Err(error) => return (Err(error), pass),
            }
        }
    }
}

/// Whether this very process is still ending what it did on a thread that was closed.
fn is_this_process(holder: Option<&Holder>) -> bool {
    holder.is_some_and(|holder| holder.pid == std::process::id())
}
