//! The side of a thread that the driver of its turn sees: how a turn begins, writes, asks and ends.

use std::io;
use std::sync::Arc;

use openoxide_model::{HistoryItem, Usage};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Thread;
use crate::approvals;
use crate::events::lock;
use crate::rollout::{EventRecord, RolloutItem};
use crate::thread_state::{ContextDue, History, Pending, Running, State, TurnControl};
use crate::{
    ApprovalId, ApprovalRequest, CoreError, Decider, Decision, DenialReason, Event, Submitted, TurnId, TurnResult,
    TurnStatus,
};

/// A turn that has just begun, for its driver.
pub(crate) struct StartedTurn {
    pub(crate) turn_id: TurnId,
    pub(crate) text: String,
    pub(crate) started: Instant,
    pub(crate) control: Arc<TurnControl>,
    /// Who asked, as far as traces tell.
    pub(crate) caller: tracing::Span,
}

/// What the driver needs of the state as a turn begins.
pub(crate) struct TurnStart {
    pub(crate) context_due: ContextDue,
    pub(crate) remembered: approvals::Remembered,
    pub(crate) next_item_id: u64,
    /// Tokens of the history, as far as that is known.
    pub(crate) context_tokens: u64,
}

/// What one turn leaves to the next.
pub(crate) struct Carried {
    pub(crate) remembered: approvals::Remembered,
    pub(crate) next_item_id: u64,
    pub(crate) context_tokens: u64,
}

/// The steering text of a turn, out of it.
fn taken(running: &mut Running) -> Vec<String> {
    std::mem::take(&mut running.steers).into_iter().map(|steer| steer.text).collect()
}

impl Thread {
    /// The state a turn begins with.
    pub(crate) fn begin_turn(&self) -> TurnStart {
        let mut state = lock(&self.state);
        // After a fork or a restart nobody has counted.
        let context_tokens = match state.context_tokens {
            0 => crate::turn::estimate(&state.history),
            known => known,
        };
        TurnStart {
            context_tokens,
            context_due: state.context_due,
            remembered: std::mem::take(&mut state.remembered),
            next_item_id: state.next_item_id,
        }
    }

    /// Tokens of the thread when a turn has spent these.
    pub(crate) fn usage_with(&self, spent: Usage) -> Usage {
        let mut usage = lock(&self.state).usage;
        usage += spent;
        usage
    }

    /// Notes that the model has been told what was due.
    pub(crate) fn context_sent(&self) {
        lock(&self.state).context_due = ContextDue::Nothing;
    }

    /// The history as it stands.
    pub(crate) fn history(&self) -> History {
        Arc::clone(&lock(&self.state).history)
    }

    /// The history of the turns that have ended.
    pub(crate) fn finished_history(&self) -> History {
        let state = lock(&self.state);
        if state.finished_len == state.history.len() {
            Arc::clone(&state.history)
        } else {
            Arc::new(state.history[..state.finished_len].to_vec())
        }
    }

    /// Index of the first history item of the turn under way.
    pub(crate) fn turn_begin(&self) -> usize {
        lock(&self.state).finished_len
    }

    /// Writes an item to the rollout, then adds it to the history.
    pub(crate) fn append(&self, item: HistoryItem) -> io::Result<()> {
        let item = Arc::new(item);
        lock(&self.rollout).append(&RolloutItem::ResponseItem(Arc::clone(&item)))?;
        self.remember(item);
        Ok(())
    }

    /// Lets another history take the place of this one.
    pub(crate) fn replace_history(&self, items: Vec<Arc<HistoryItem>>) -> io::Result<()> {
        lock(&self.rollout).append(&RolloutItem::Compacted(items.clone()))?;
        let mut state = lock(&self.state);
        // It holds what the turn under way has done so far, in the summary's words.
        state.finished_len = items.len();
        state.history = Arc::new(items);
        Ok(())
    }

    /// Adds an item to the history alone, for when the rollout is what failed.
    pub(crate) fn remember(&self, item: Arc<HistoryItem>) {
        Arc::make_mut(&mut lock(&self.state).history).push(item);
    }

    /// Writes what is not history.
    pub(crate) fn record(&self, item: &RolloutItem) -> io::Result<()> {
        lock(&self.rollout).append(item)
    }

    pub(super) fn record_end(&self, result: &TurnResult) {
        if let Err(error) = self.record(&RolloutItem::EventMsg(EventRecord::turn_ended(result))) {
            tracing::warn!(thread = %self.id, turn = %result.turn_id, %error, "the end of a turn was not recorded");
        }
    }

    /// Steering text that came since the last call and was not taken back.
    pub(crate) fn take_steers(&self) -> Vec<String> {
        lock(&self.state).running.as_mut().map(taken).unwrap_or_default()
    }

    /// Decides that the turn under way ends, so that nothing steers or interrupts it any more, and returns steering
    /// text that was not taken yet. With such text a turn that would be complete goes on instead: nothing is decided.
    pub(crate) fn seal(&self, status: TurnStatus) -> Vec<String> {
        let mut state = lock(&self.state);
        let Some(running) = &mut state.running else { return Vec::new() };
        running.sealed = status != TurnStatus::Completed || running.steers.is_empty();
        taken(running)
    }

    /// Puts questions. Whoever hears of the first finds all of them pending. Each receiver gets its decision, or is
    /// closed with the turn.
    pub(crate) fn ask(&self, requests: Vec<ApprovalRequest>) -> Vec<oneshot::Receiver<Decision>> {
        let requests: Vec<_> = requests.into_iter().map(Arc::new).collect();
        let mut state = lock(&self.state);
        let mut decisions = Vec::with_capacity(requests.len());
        for request in &requests {
            let (answer, decision) = oneshot::channel();
            state.pending.push(Pending { request: Arc::clone(request), answer });
            decisions.push(decision);
        }
        for request in requests {
            self.hub.emit(Event::ApprovalRequested { turn_id: request.turn_id, request });
        }
        decisions
    }

    /// Settles a question that nobody answered in time, unless it was settled just before.
    pub(crate) fn time_out(&self, id: ApprovalId) {
        let decision = Decision::Deny { reason: DenialReason::TimedOut, note: None };
        let mut state = lock(&self.state);
        if let Some(at) = state.pending.iter().position(|pending| pending.request.id == id) {
            let written = self.record_decision(&state.pending[at].request, &decision, &Decider::TimeOut);
            if let Err(error) = written {
                tracing::warn!(thread = %self.id, approval = %id, %error, "a time-out was not recorded");
            }
            self.take_pending(&mut state, at, decision);
        }
    }

    /// Settles a question by a decision from outside.
    pub(super) fn settle(
        &self,
        state: &mut State,
        id: ApprovalId,
        decision: Decision,
        by: &Decider,
    ) -> Result<Submitted, CoreError> {
        let at = state
            .pending
            .iter()
            .position(|pending| pending.request.id == id)
            .ok_or(CoreError::ApprovalNotPending { id })?;
        self.record_decision(&state.pending[at].request, &decision, by)
            .map_err(|source| CoreError::Rollout { id: self.id, source })?;
        self.take_pending(state, at, decision);
        Ok(Submitted::Done)
    }

    fn record_decision(&self, request: &ApprovalRequest, decision: &Decision, by: &Decider) -> io::Result<()> {
        self.record(&RolloutItem::EventMsg(EventRecord::ApprovalDecided {
            turn_id: request.turn_id,
            id: request.id,
            what: approvals::describe(&request.action),
            decision: approvals::decision_word(decision),
            by: by.to_string(),
        }))
    }

    fn take_pending(&self, state: &mut State, at: usize, decision: Decision) {
        let Pending { request, answer } = state.pending.remove(at);
        self.hub.emit(Event::ApprovalSettled { turn_id: request.turn_id, id: request.id });
        // The driver is gone only when the turn is over, and then nothing waits for the decision.
        drop(answer.send(decision));
    }

    /// Records and announces the end of the turn under way, and begins the next one, which is returned.
    pub(crate) fn finish_turn(&self, result: TurnResult, carried: Option<Carried>) -> Option<StartedTurn> {
        self.record_end(&result);
        let (is_kept, is_new) = (lock(&self.rollout).is_open(), lock(&self.state).results.is_empty());
        if is_kept {
            self.core.changes.tell(self.id, self.config.owner.clone(), is_new);
        }
        let result = Arc::new(result);
        let mut state = lock(&self.state);
        let state = &mut *state;
        for pending in state.pending.drain(..) {
            let decision = Decision::Deny { reason: DenialReason::Cancelled, note: None };
            if let Err(error) = self.record_decision(&pending.request, &decision, &Decider::TurnEnd) {
                tracing::warn!(thread = %self.id, %error, "the end of a question was not recorded");
            }
            self.hub.emit(Event::ApprovalSettled { turn_id: pending.request.turn_id, id: pending.request.id });
        }
        match carried {
            Some(Carried { remembered, next_item_id, context_tokens }) => {
                (state.remembered, state.next_item_id) = (remembered, next_item_id);
                state.context_tokens = context_tokens;
            }
            // After a panic nobody knows which ids were given out; no turn gives out this many.
            None => state.next_item_id += 1 << 32,
        }
        state.finished_len = state.history.len();
        state.usage = result.thread_usage;
        state.last_used = Instant::now();
        let place = state.running.take().map(|running| running.place);
        state.keep_result(Arc::clone(&result));
        self.hub.emit(Event::TurnEnded { turn_id: result.turn_id, result });
        let next = place.and_then(|place| self.start_next(state, place));
        if next.is_none() {
            if state.closed {
                self.hub.close();
            }
            self.idle.notify_waiters();
        }
        next
    }

    /// Makes the rollout durable without holding anything up.
    pub(crate) fn sync_later(&self) {
        let syncer = lock(&self.rollout).syncer();
        if let Some(syncer) = syncer {
            self.core.sync.push(self.id, syncer);
        }
    }
}
