//! The life of a server: it is open, then it ends. What is open is counted here, so that the end can wait for all of it.
//!
//! The end has three steps ([`crate::Server::end`]): no further call begins; calls that began get to their turns,
//! which are interrupted; each call gives its answer. A call that comes later is answered at once, without a turn.

use tokio::sync::watch;

#[derive(Default)]
struct State {
    is_ending: bool,
    /// Nobody can answer a question any more: the only client has ended its input.
    cannot_ask: bool,
    /// Calls that have not got to their turns yet.
    submitting: usize,
    /// Requests without an answer, and tasks without a result.
    open: usize,
}

/// Shared by all connections of a server. The sender and all receivers are in here, so the channel is never closed.
pub(crate) struct Lifecycle(watch::Sender<State>);

impl Default for Lifecycle {
    fn default() -> Self {
        Self(watch::Sender::new(State::default()))
    }
}

/// A request that is open until this is dropped, which is after its answer was queued.
pub(crate) struct OpenRequest(watch::Sender<State>);

/// A call on its way to its turn, until this is dropped.
pub(crate) struct Submitting(watch::Sender<State>);

impl Lifecycle {
    /// Counts a request that is answered whether the server ends or not.
    pub(crate) fn open(&self) -> OpenRequest {
        self.0.send_modify(|state| state.open += 1);
        OpenRequest(self.0.clone())
    }

    /// Counts a call that is to get to a turn; `None` once the end has begun.
    pub(crate) fn begin_call(&self) -> Option<(OpenRequest, Submitting)> {
        let is_open = self.0.send_if_modified(|state| {
            if !state.is_ending {
                state.open += 1;
                state.submitting += 1;
            }
            !state.is_ending
        });
        is_open.then(|| (OpenRequest(self.0.clone()), Submitting(self.0.clone())))
    }

    /// Begins the end: [`Lifecycle::begin_call`] refuses from now on.
    pub(crate) fn begin_end(&self) {
        self.0.send_modify(|state| state.is_ending = true);
    }

    /// Notes that nobody can answer a question any more.
    pub(crate) fn stop_asking(&self) {
        self.0.send_modify(|state| state.cannot_ask = true);
    }

    /// Ready when nobody can answer a question any more. Cancel-safe.
    pub(crate) async fn asking_stopped(&self) {
        self.wait(|state| state.cannot_ask).await;
    }

    /// Ready when every call that began has got to its turn. Cancel-safe.
    pub(crate) async fn submitted(&self) {
        self.wait(|state| state.submitting == 0).await;
    }

    /// Ready when nothing is open. Cancel-safe.
    pub(crate) async fn answered(&self) {
        self.wait(|state| state.open == 0).await;
    }

    async fn wait(&self, holds: impl FnMut(&State) -> bool) {
        // An error is a closed channel, which the sender in here excludes.
        let _ = self.0.subscribe().wait_for(holds).await;
    }
}

impl Clone for OpenRequest {
    fn clone(&self) -> Self {
        self.0.send_modify(|state| state.open += 1);
        Self(self.0.clone())
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.send_modify(|state| state.open -= 1);
    }
}

impl Drop for Submitting {
    fn drop(&mut self) {
        self.0.send_modify(|state| state.submitting -= 1);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn the_end_begins_no_call_and_waits_for_those_that_began() {
        let lifecycle = Lifecycle::default();
        let (call, submitting) = lifecycle.begin_call().unwrap();
        let task = call.clone();
        lifecycle.begin_end();
        assert!(lifecycle.begin_call().is_none());
        let mut submitted = std::pin::pin!(lifecycle.submitted());
        let mut answered = std::pin::pin!(lifecycle.answered());
        assert!(poll!(submitted.as_mut()).is_pending());
        drop(submitting);
        submitted.await;
        drop(call);
        assert!(poll!(answered.as_mut()).is_pending(), "its task is still open");
        drop(task);
        answered.await;
    }
}
