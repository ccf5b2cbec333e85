//! The helpers of one turn: started when the first read needs one, kept from read to read, ended with the turn.

use std::sync::{Arc, Mutex};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::helper::{Asking, HelperError, Helpers, ReadHelper};
use super::work::ReadWork;
use crate::mutex::lock;

/// The most of one turn. Further reads wait for one of them: starting one costs more than most reads.
const MAX_HELPERS: usize = 4;

/// See the module.
pub(crate) struct ReadPool {
    helpers: Arc<dyn Helpers>,
    state: Mutex<State>,
    /// One for each that may be.
    free: Semaphore,
}

#[derive(Default)]
struct State {
    idle: Vec<ReadHelper>,
    /// Nothing is kept any more.
    is_closed: bool,
    /// The thread has no box that a helper could be in.
    has_none: bool,
}

/// What came of a read.
pub(super) enum Tried<W: ReadWork> {
    /// A helper has answered.
    Told(Result<W::Found, String>),
    /// There is no helper for this thread; the read is still to be done.
    NoHelper(Box<Asking<W>>),
}

impl ReadPool {
    /// A pool without any.
    pub(crate) fn new(helpers: Arc<dyn Helpers>) -> Self {
        Self { helpers, state: Mutex::default(), free: Semaphore::new(MAX_HELPERS) }
    }

    /// Ends those that do nothing, and each of the others when it has answered.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        state.idle.clear();
    }

    /// Waits for the turn of a read; whoever reads holds it meanwhile. Never closed.
    pub(super) async fn turn_to_read(&self) -> Option<SemaphorePermit<'_>> {
        self.free.acquire().await.ok()
    }

    /// Has a helper do a read. Dropping the future ends the helper that does it.
    pub(super) async fn read<W: ReadWork>(&self, asking: Asking<W>) -> Result<Tried<W>, HelperError> {
        let idle = lock(&self.state).idle.pop();
        if let Some(mut helper) = idle {
            match helper.ask(&asking).await {
                Ok(answer) => return self.judge(helper, asking, answer).await,
                // It was ended while it did nothing, perhaps by a command: what is in the box can be killed there. A new one
                // may be luckier.
                Err(HelperError::Ended) => drop(helper),
                Err(error) => return Err(error),
            }
        }
        if lock(&self.state).has_none {
            return Ok(Tried::NoHelper(Box::new(asking)));
        }
        let Some(mut helper) = self.helpers.start().await.map_err(HelperError::NotStarted)? else {
            lock(&self.state).has_none = true;
            return Ok(Tried::NoHelper(Box::new(asking)));
        };
        let answer = helper.ask(&asking).await?;
        self.judge(helper, asking, answer).await
    }

    /// Only one whose answer was good is asked again.
    async fn judge<W: ReadWork>(
        &self,
        helper: ReadHelper,
        asking: Asking<W>,
        answer: Vec<u8>,
    ) -> Result<Tried<W>, HelperError> {
        let answer = asking.judge(answer).await?;
        let mut state = lock(&self.state);
        if !state.is_closed {
            state.idle.push(helper);
        }
        Ok(Tried::Told(answer))
    }
}
