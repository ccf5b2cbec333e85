//! What is asked of a thread: prompts wait their turn, steering text waits for the model, interrupts and decisions are passed
//! on, and a shutdown ends it all.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use openoxide_llm::Usage;
use tokio::time::Instant;

use super::handle::{Attachment, Thread};
use super::state::{Queued, Running, State, Steer};
use super::temporary::remove_temporary;
use super::turns::run_turns;
use crate::api::Owner;
use crate::mutex::lock;
use crate::store::{EventRecord, RolloutItem};
use crate::turn::{StartedTurn, TurnControl};
use crate::{CoreError, Event, Held, Interruption, Op, SteerId, Submitted, TurnId, TurnResult, TurnStatus};

/// The time a shutdown may take: two seconds until SIGKILL, and what it takes to notice.
pub(crate) const SHUTDOWN_LIMIT: Duration = Duration::from_millis(2200);

impl Thread {
    /// Asks something of the thread. Returns at once; what follows is told as events. Must be called within a tokio
    /// runtime when it begins a turn.
    pub fn submit(self: &Arc<Self>, op: Op) -> Result<Submitted, CoreError> {
        self.submit_locked(&mut lock(&self.state), op)
    }

    /// [`Thread::attach`] and then [`Thread::submit`], with nothing in between: the events tell all that the
    /// operation leads to, from [`Event::TurnStarted`] on.
    pub fn submit_and_attach(self: &Arc<Self>, op: Op) -> Result<(Submitted, Attachment), CoreError> {
        let mut state = lock(&self.state);
        let attachment = self.attach_locked(&state);
        let submitted = self.submit_locked(&mut state, op)?;
        Ok((submitted, attachment))
    }

    /// Ends the turn under way when nobody has followed it for so long. Called from time to time.
    pub(crate) fn end_if_abandoned(&self, limit: Duration) {
        let mut state = lock(&self.state);
        if state.running.is_none() || !self.hub.is_unwatched() {
            state.unwatched_since = None;
            return;
        }
        let since = *state.unwatched_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= limit {
            state.unwatched_since = None;
            tracing::info!(thread = %self.id(), "a turn that nobody followed any more is ended");
            self.interrupt(&mut state, None, Interruption::Abandoned(limit));
        }
    }

    fn submit_locked(self: &Arc<Self>, state: &mut State, op: Op) -> Result<Submitted, CoreError> {
        state.last_used = Instant::now();
        if let Some(why) = &state.closed
            && !matches!(op, Op::Shutdown | Op::Interrupt { .. } | Op::Abandon { .. })
        {
            return Err(match why {
                Interruption::ThreadClosed => CoreError::ThreadClosed { id: self.id() },
                _ => CoreError::Ending,
            });
        }
        match op {
            Op::UserInput { text } => {
                let room = self.check_prompt(state, &text)?;
                self.queue_turn(state, text, room)
            }
            Op::Steer { text } => {
                let room = self.check_prompt(state, &text)?;
                match &mut state.running {
                    Some(running) if !running.sealed => {
                        let id = SteerId::new();
                        running.steers.push(Steer { id, text, _room: room });
                        Ok(Submitted::Steered(running.turn_id, id))
                    }
                    _ => self.queue_turn(state, text, room),
                }
            }
            Op::Interrupt { turn_id, why } => {
                self.interrupt(state, turn_id, why);
                Ok(Submitted::Done)
            }
            Op::Abandon { turn_id, why } => {
                if let Some(running) = &mut state.running {
                    running.abandoned |= running.turn_id == turn_id;
                }
                self.interrupt(state, Some(turn_id), why);
                Ok(Submitted::Done)
            }
            Op::Withdraw { steer } => {
                if let Some(running) = &mut state.running {
                    running.steers.retain(|one| one.id != steer);
                }
                Ok(Submitted::Done)
            }
            Op::Approval { id, decision, by } => self.settle(state, id, decision, &by),
            Op::Shutdown => {
                self.shut_down(state, &Interruption::ThreadClosed);
                Ok(Submitted::Done)
            }
        }
    }

    /// Whether a prompt may wait here; takes the room for it.
    fn check_prompt(&self, state: &State, text: &str) -> Result<Held<Owner>, CoreError> {
        let limits = &self.core.config.limits;
        if text.trim().is_empty() {
            return Err(CoreError::EmptyPrompt);
        }
        if text.len() > limits.max_prompt_bytes {
            return Err(CoreError::PromptTooLong { bytes: text.len(), max: limits.max_prompt_bytes });
        }
        let waiting = state.waiting();
        if waiting >= limits.max_queued_turns || state.waiting_bytes() + text.len() > limits.max_queued_bytes {
            return Err(CoreError::QueueFull { id: self.id(), waiting });
        }
        let room = self.core.open_prompts.take(&self.config().owner, text.len());
        room.map_err(|exceeded| CoreError::TooManyPromptBytes { exceeded })
    }

    fn queue_turn(
        self: &Arc<Self>,
        state: &mut State,
        text: String,
        room: Held<Owner>,
    ) -> Result<Submitted, CoreError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| CoreError::NoRuntime)?;
        // A turn that waits behind another of its thread takes that one's place.
        let place = match state.running.is_none() {
            true => Some(self.core.open_turns.take(&self.config().owner, 1)),
            false => None,
        };
        let place = place.transpose().map_err(|exceeded| CoreError::TooManyTurns { exceeded })?;
        self.check_disk()?;
        // Whoever is told of the thread finds it on disk.
        lock(&self.rollout).begin().map_err(|source| CoreError::Rollout { id: self.id(), source })?;
        let turn_id = TurnId::new();
        state.queue.push_back(Queued { turn_id, text, room, caller: tracing::Span::current() });
        if let Some(place) = place
            && let Some(started) = self.start_next(state, place)
        {
            runtime.spawn(run_turns(Arc::clone(self), started));
        }
        Ok(Submitted::Turn(turn_id))
    }

    /// Whether the owner's quota on disk has room for another turn.
    pub(crate) fn check_disk(&self) -> Result<(), CoreError> {
        match &self.core.disk_use {
            Some(disk_use) if !lock(&self.rollout).is_ephemeral() => disk_use.check(&self.config().owner),
            _ => Ok(()),
        }
    }

    /// Begins the turn that has waited longest, in a place among those that run.
    pub(super) fn start_next(&self, state: &mut State, place: Held<Owner>) -> Option<StartedTurn> {
        let Queued { turn_id, text, room, caller } = state.queue.pop_front()?;
        let (started, control) = (Instant::now(), Arc::new(TurnControl::default()));
        state.running = Some(Running {
            turn_id,
            started,
            control: Arc::clone(&control),
            steers: Vec::new(),
            place,
            _room: room,
            sealed: false,
            told_behind: false,
            abandoned: false,
        });
        Some(StartedTurn { turn_id, text, started, control, caller })
    }

    fn interrupt(&self, state: &mut State, turn_id: Option<TurnId>, why: Interruption) {
        if let Some(running) = &state.running
            && turn_id.is_none_or(|id| id == running.turn_id)
        {
            if !running.sealed {
                running.control.interrupt(why);
            }
        } else if let Some(id) = turn_id
            && let Some(at) = state.queue.iter().position(|queued| queued.turn_id == id)
        {
            state.queue.remove(at);
            self.withdraw(state, id, &why);
        }
    }

    /// Announces the end of a turn that never began.
    fn withdraw(&self, state: &mut State, turn_id: TurnId, why: &Interruption) {
        let result = Arc::new(TurnResult {
            thread_id: self.id(),
            turn_id,
            status: TurnStatus::Interrupted,
            content: why.withdrawn(),
            files_changed: Vec::new(),
            diff: None,
            usage: Usage::default(),
            thread_usage: state.usage,
            duration_ms: 0,
            denials: Vec::new(),
            warnings: Vec::new(),
        });
        let ended = EventRecord::turn_ended(&result).with_next_item_id(Some(state.next_item_id));
        let is_written = lock(&self.rollout).append(&RolloutItem::EventMsg(ended));
        self.keep_result(state, &result, 0, is_written);
        if !is_written {
            self.not_written(state);
        }
        self.hub.emit(Event::TurnEnded { turn_id, result });
    }

    fn shut_down(self: &Arc<Self>, state: &mut State, why: &Interruption) {
        state.closed.get_or_insert_with(|| why.clone());
        while let Some(queued) = state.queue.pop_front() {
            self.withdraw(state, queued.turn_id, why);
        }
        if state.running.is_some() {
            self.interrupt(state, None, why.clone());
        } else {
            self.hub.close();
        }
        // Outside a runtime nothing can be awaited; the commands then end with the last handle of the thread.
        if let Ok(runtime) = tokio::runtime::Handle::try_current()
            && let Some(ending) = self.commands.terminate(None)
        {
            let this = Arc::clone(self);
            runtime.spawn(async move {
                ending.await;
                lock_scope(&this.state, |state| this.release_if_idle(state));
            });
        }
        self.release_if_idle(state);
        self.core.runner.release(&self.id().to_string());
        if let Some(registry) = self.registry.upgrade() {
            registry.forget(self.id());
        }
    }

    /// Shuts the thread down and waits until its turn has ended, its processes are gone and its rollout is durable.
    pub(crate) async fn close(self: Arc<Self>, why: Interruption) {
        lock_scope(&self.state, |state| self.shut_down(state, &why));
        let turn_ended = async {
            loop {
                let idle = self.idle.notified();
                tokio::pin!(idle);
                idle.as_mut().enable();
                if lock(&self.state).running.is_none() {
                    return;
                }
                idle.await;
            }
        };
        turn_ended.await;
        if let Some(ending) = self.commands.terminate(None) {
            ending.await;
        }
        let syncer = lock(&self.rollout).close();
        let thread = Arc::clone(&self);
        let last = move || {
            remove_temporary(thread.core.config.launcher.host_paths(), thread.id());
            syncer.map(|syncer| syncer())
        };
        drop(tokio::task::spawn_blocking(last).await);
        if let Some(behind) = lock(&self.rollout).behind() {
            tracing::error!(thread = %self.id(), why = behind.why, "the end of a thread could not be saved");
        }
    }
}

/// Runs a closure under a lock, so that no guard lives on in an async function.
fn lock_scope<T, R>(mutex: &Mutex<T>, f: impl FnOnce(&mut T) -> R) -> R {
    f(&mut lock(mutex))
}
