//! The side of a thread that the driver of its turn sees: how a turn begins, writes, asks and ends.

use std::path::PathBuf;
use std::sync::Arc;

use openoxide_llm::{HistoryItem, Usage, unbound};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::handle::Thread;
use super::state::{Pending, Running, Settled, State, UNKNOWN_ITEM_IDS};
use crate::mutex::lock;
use crate::rules::approvals;
use crate::store::{EventRecord, Prefix, RolloutItem, TurnContext};
use crate::tools::{ToolHost as _, Toolbox, without_oldest_pictures};
use crate::turn::{ContextDue, History, LastingState, StartedTurn, TurnHost, TurnStart, estimate};
use crate::{
    ApprovalId, ApprovalRequest, CoreError, Decider, Decision, DenialReason, Event, RememberedApproval, Submitted,
    TurnResult, TurnStatus,
};

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
            0 => estimate(&state.history),
            known => known,
        };
        TurnStart {
            context_tokens,
            context_due: state.context_due,
            summed_up: state.summed_up,
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

    /// Settles a question, without waiting for the disk: whoever decides may be a task that everybody waits for. That it
    /// is settled is written and told by the turn's own task ([`Thread::write_settled`]), which the decision wakes.
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
        let Pending { request, answer, .. } = state.pending.remove(at);
        state.settled.push(Settled { request, decision: decision.clone(), by: by.clone() });
        // The driver is gone only when the turn is over, and then nothing waits for the decision.
        drop(answer.send((decision, by.clone())));
        Ok(Submitted::Done)
    }

    /// Records and announces the end of the turn under way, and begins the next one, which is returned.
    pub(crate) fn finish_turn(
        self: &Arc<Self>,
        mut result: TurnResult,
        carried: Option<LastingState>,
    ) -> Option<StartedTurn> {
        let next_item_id;
        {
            let mut state = lock(&self.state);
            let unanswered = std::mem::take(&mut state.pending).into_iter().map(|pending| Settled {
                request: pending.request,
                decision: Decision::Deny { reason: DenialReason::Cancelled, note: None },
                by: Decider::TurnEnd,
            });
            state.settled.extend(unanswered);
            state.next_item_id = match &carried {
                Some(carried) => carried.next_item_id,
                None => state.next_item_id + UNKNOWN_ITEM_IDS,
            };
            next_item_id = state.next_item_id;
        }
        self.write_settled();
        let (is_kept, is_written, at) = {
            let mut rollout = lock(&self.rollout);
            let at = rollout.length();
            let ended = EventRecord::turn_ended(&result).with_next_item_id(Some(next_item_id));
            let is_written = rollout.append(&RolloutItem::EventMsg(ended));
            if let Some(disk_use) = self.core.disk_use.as_ref().filter(|_| rollout.is_begun()) {
                disk_use.note(self.id(), &self.config().owner, rollout.length());
            }
            (rollout.is_begun(), is_written, at)
        };
        let is_new = lock(&self.state).results.is_empty();
        if is_kept {
            self.core.changes.tell(self.id(), self.config().owner.clone(), is_new);
        }
        let mut state = lock(&self.state);
        let state = &mut *state;
        result.warnings = self.take_warnings(state);
        let result = Arc::new(result);
        if let Some(LastingState { remembered, context_tokens, summed_up, .. }) = carried {
            (state.remembered, state.context_tokens, state.summed_up) = (remembered, context_tokens, summed_up);
        }
        state.finished_len = state.history.len();
        state.usage = result.thread_usage;
        self.keep_result(state, &result, at, is_written);
        if !is_written {
            self.not_written(state);
        }
        self.conclude(state, result, is_new)
    }

    /// Announces the end of a turn that could not begin: somebody else uses the thread, or it is gone. Nothing of it is
    /// written, since the rollout is not this process's.
    pub(crate) fn refuse_turn(self: &Arc<Self>, turn: &StartedTurn, error: &CoreError) -> Option<StartedTurn> {
        let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        let mut state = lock(&self.state);
        let result = Arc::new(TurnResult {
            thread_id: self.id(),
            turn_id: turn.turn_id,
            status: TurnStatus::Failed,
            content: format!("{error}{hint}"),
            files_changed: Vec::new(),
            diff: None,
            usage: Usage::default(),
            thread_usage: state.usage,
            duration_ms: u64::try_from(turn.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            denials: Vec::new(),
            warnings: Vec::new(),
        });
        self.conclude(&mut state, result, false)
    }

    /// Announces the end of the turn under way and begins the next one. An idle thread is given up before anybody hears
    /// of the end, so that whoever does may go on with it elsewhere.
    fn conclude(self: &Arc<Self>, state: &mut State, result: Arc<TurnResult>, is_first: bool) -> Option<StartedTurn> {
        state.last_used = Instant::now();
        let running = state.running.take();
        let is_abandoned = running.as_ref().is_some_and(|running| running.abandoned);
        // The next turn of the thread takes the place over.
        let place = running.map(|running| running.place);
        self.release_if_idle(state);
        self.hub.emit(Event::TurnEnded { turn_id: result.turn_id, result });
        let next = place.and_then(|place| self.start_next(state, place));
        if next.is_none() {
            let is_kept = lock(&self.rollout).behind().is_none() && !lock(&self.rollout).is_ephemeral();
            if is_abandoned
                && is_first
                && is_kept
                && let Some(registry) = self.registry.upgrade()
            {
                registry.forget(self.id());
            }
            self.hub.rest();
            if state.closed.is_some() {
                self.hub.close();
            }
            self.idle.notify_waiters();
        }
        next
    }

    /// What the thread's requests begin with.
    pub(crate) fn prefix(&self) -> Option<Prefix> {
        lock(&self.state).prefix.clone()
    }

    /// Writes what the thread's requests begin with from here on, and leaves out of the history what is bound to another beginning.
    fn note_prefix(&self, prefix: Prefix) {
        let is_written =
            lock(&self.rollout).append(&RolloutItem::EventMsg(EventRecord::Prefix { prefix: prefix.clone() }));
        let mut state = lock(&self.state);
        let (ended, open) = state.history.split_at(state.finished_len);
        let (mut items, open) = (unbound(ended), unbound(open));
        state.finished_len = items.len();
        items.extend(open);
        (state.history, state.prefix) = (Arc::new(items), Some(prefix));
        if !is_written {
            self.not_written(&mut state);
        }
    }

    /// Makes the rollout durable without holding anything up.
    pub(crate) fn sync_later(&self) {
        let syncer = lock(&self.rollout).syncer();
        if let Some(syncer) = syncer {
            self.core.sync.push(self.id(), syncer);
        }
    }
}

impl TurnHost for Thread {
    fn toolbox(&self) -> &Toolbox {
        self.core.tools(self.config())
    }

    fn compact_at(&self) -> Option<u64> {
        self.core.compact_at(&self.config().model)
    }

    fn room(&self) -> u64 {
        self.core.room(&self.config().model)
    }

    fn files_changed(&self) -> Vec<PathBuf> {
        let state = lock(&self.state);
        state.results.iter().flat_map(|kept| kept.result.files_changed.iter().cloned()).collect()
    }

    fn begin_with(&self, digest: &str) {
        let is_new = lock(&self.state).prefix.as_ref().is_none_or(|known| known.digest != digest);
        if is_new {
            self.note_prefix(Prefix { digest: digest.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() });
        }
    }

    fn unbind(&self) {
        let known = lock(&self.state).prefix.clone();
        if let Some(prefix) = known {
            self.note_prefix(prefix);
        }
    }

    fn directory_id(&self) -> &str {
        self.directory().id().as_str()
    }

    fn take_remade(&self) -> bool {
        self.directory().take_remade()
    }

    fn record_turn(&self, context: TurnContext) {
        let turn_id = context.turn_id;
        lock(&self.state).context = Some(context.clone());
        self.record(&RolloutItem::TurnContext(context));
        self.hub.emit(Event::TurnStarted { turn_id });
        self.tell_warnings(turn_id);
    }

    fn append(&self, item: HistoryItem) {
        let item = Arc::new(item);
        let is_written = lock(&self.rollout).append(&RolloutItem::ResponseItem(Arc::clone(&item)));
        let mut state = lock(&self.state);
        Arc::make_mut(&mut state.history).push(item);
        if !is_written {
            self.not_written(&mut state);
        }
    }

    fn history(&self) -> History {
        Arc::clone(&lock(&self.state).history)
    }

    fn replace_history(&self, items: Vec<Arc<HistoryItem>>) {
        let checkpoint = lock(&self.state).checkpoint(&self.core.kept_diffs);
        let is_written = {
            let mut rollout = lock(&self.rollout);
            let has_checkpoint = checkpoint.is_none_or(|checkpoint| rollout.append(&checkpoint));
            rollout.append(&RolloutItem::Compacted(items.clone())) && has_checkpoint
        };
        let mut state = lock(&self.state);
        // It holds what the turn under way has done so far, in the summary's words.
        state.finished_len = items.len();
        state.history = Arc::new(items);
        if !is_written {
            self.not_written(&mut state);
        }
    }

    fn bound_pictures(&self) {
        let max = self.core.config.limits.max_picture_bytes;
        if let Some(items) = without_oldest_pictures(&self.history(), max) {
            // What comes after a picture that is given up is bound to a beginning that had it.
            self.unbind();
            let items = unbound(&items);
            // Item for item, so what belongs to ended turns stays the same.
            let finished_len = lock(&self.state).finished_len;
            self.replace_history(items);
            lock(&self.state).finished_len = finished_len;
        }
    }

    fn context_sent(&self) {
        lock(&self.state).context_due = ContextDue::Nothing;
    }

    fn take_steers(&self) -> Vec<String> {
        lock(&self.state).running.as_mut().map(taken).unwrap_or_default()
    }

    fn seal(&self, status: TurnStatus) -> Vec<String> {
        let mut state = lock(&self.state);
        let Some(running) = &mut state.running else { return Vec::new() };
        running.sealed = status != TurnStatus::Completed || running.steers.is_empty();
        taken(running)
    }

    fn grant(&self, approval: RememberedApproval) {
        let is_written =
            lock(&self.rollout).append(&RolloutItem::EventMsg(EventRecord::Remembered { approval: approval.clone() }));
        let mut state = lock(&self.state);
        state.granted.push(approval);
        if !is_written {
            self.not_written(&mut state);
        }
    }

    fn ask(&self, requests: Vec<ApprovalRequest>) -> Vec<oneshot::Receiver<(Decision, Decider)>> {
        let requests: Vec<_> = requests.into_iter().map(Arc::new).collect();
        let mut state = lock(&self.state);
        let mut decisions = Vec::with_capacity(requests.len());
        for request in &requests {
            let (answer, decision) = oneshot::channel();
            state.pending.push(Pending { request: Arc::clone(request), put_at: None, answer });
            decisions.push(decision);
        }
        for request in requests {
            self.hub.emit(Event::ApprovalRequested { turn_id: request.turn_id, request });
        }
        decisions
    }

    fn time_out(&self, id: ApprovalId) {
        let decision = Decision::Deny { reason: DenialReason::TimedOut, note: None };
        // It was settled at the same moment where there is none.
        drop(self.settle(&mut lock(&self.state), id, decision, &Decider::TimeOut));
    }

    fn write_settled(&self) {
        let settled = std::mem::take(&mut lock(&self.state).settled);
        for Settled { request, decision, by } in settled {
            let is_written = lock(&self.rollout).append(&RolloutItem::EventMsg(EventRecord::ApprovalDecided {
                turn_id: request.turn_id,
                id: request.id,
                what: approvals::describe(&request.action),
                decision: approvals::decision_word(&decision),
                by: by.to_string(),
            }));
            if !is_written {
                self.not_written(&mut lock(&self.state));
            }
            self.hub.emit(Event::ApprovalSettled { turn_id: request.turn_id, id: request.id });
        }
    }
}
