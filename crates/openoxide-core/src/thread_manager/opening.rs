//! Opening a thread that is not in memory, for whoever must not wait for the disk: a place in line is taken at once, and
//! the loading is done when it comes up. So prompts of one thread keep the order in which they came, loaded or not.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::ThreadManager;
use crate::events::lock;
use crate::thread::Claim;
use crate::{CoreError, Holder, Thread, ThreadId};

/// From one look whether another process still uses a thread to the next.
const BUSY_ROUND: Duration = Duration::from_millis(50);

/// How long a thread is waited for that this process is closing: its commands have two seconds to end.
const OWN_PATIENCE: Duration = Duration::from_secs(4);

/// Where a caller stands who wants a thread.
pub enum Entrance {
    /// A turn of the thread runs here and nobody waits for it.
    Open(Arc<Thread>),
    /// The disk has to be asked, or others are before.
    Line(Ticket),
}

/// A place in the line before a thread.
pub struct Ticket {
    manager: Arc<ThreadManager>,
    id: ThreadId,
    before: Option<oneshot::Receiver<()>>,
    pass: Pass,
}

/// The right to be the first at a thread; the next in line has it once this is dropped, and so has another process where
/// nothing was asked of the thread.
pub struct Pass {
    lines: Arc<Lines>,
    id: ThreadId,
    claim: Option<Claim>,
    /// Closed when this is dropped, which is what the next waits for.
    _done: oneshot::Sender<()>,
}

/// The lines before threads.
#[derive(Default)]
pub(super) struct Lines {
    lines: Mutex<HashMap<ThreadId, Line>>,
}

struct Line {
    length: usize,
    /// What the next one waits for.
    last: Option<oneshot::Receiver<()>>,
}

impl Lines {
    fn is_empty(&self, id: ThreadId) -> bool {
        !lock(&self.lines).contains_key(&id)
    }

    fn join(self: &Arc<Self>, id: ThreadId) -> (Option<oneshot::Receiver<()>>, Pass) {
        let (done, next) = oneshot::channel();
        let mut lines = lock(&self.lines);
        let line = lines.entry(id).or_insert(Line { length: 0, last: None });
        line.length += 1;
        let before = line.last.replace(next);
        (before, Pass { lines: Arc::clone(self), id, claim: None, _done: done })
    }
}

impl Drop for Pass {
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

impl ThreadManager {
    /// Takes a place before a thread. Never blocks.
    pub fn enter(self: &Arc<Self>, id: ThreadId) -> Entrance {
        if self.lines.is_empty(id)
            && let Some(thread) = self.in_memory(id).filter(|thread| thread.is_busy())
        {
            return Entrance::Open(thread);
        }
        let (before, pass) = self.lines.join(id);
        Entrance::Line(Ticket { manager: Arc::clone(self), id, before, pass })
    }
}

impl Ticket {
    /// Waits for those before, then gives the thread as it is on disk, loaded where it has to be. Where another process
    /// uses it, it is waited for, for as long as `patience` says. The pass is to be kept until what was wanted of the
    /// thread is asked.
    ///
    /// # Errors
    /// As [`ThreadManager::get_or_load`].
    pub async fn open(self, patience: Duration) -> (Result<Arc<Thread>, CoreError>, Pass) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_waits_for_the_one_before_and_nothing_is_kept() {
        let lines = Arc::new(Lines::default());
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
