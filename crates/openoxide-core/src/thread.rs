//! One thread: takes [`Op`]s, tells [`Event`]s, and has a driver task only while a turn runs.
//!
//! All of its state is under one lock, held for a few statements and never across an await. Whatever changes what a
//! [`Snapshot`] shows is announced under that lock, so that a snapshot and the events after it fit together. Lock
//! order: state, then rollout, then event queues.

mod disk_side;
mod room;
mod turn_side;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use openoxide_llm::Usage;
use openoxide_sandbox::{Confinement, SandboxPolicy};
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) use self::disk_side::{Claim, damage_sentence, failure, unreadable};
pub(crate) use self::turn_side::{Carried, StartedTurn, TurnStart};
use crate::directory::ThreadDirectory;
use crate::events::{EventReceiver, Hub, lock};
use crate::rollout::{EventRecord, Rollout, RolloutItem};
use crate::sessions::Sessions;
use crate::thread_manager::{Core, Owner, ThreadManager};
use crate::thread_state::{KeptResult, Queued, Running, State, Steer, TurnControl};
use crate::turn::turns;
use crate::{
    ApprovalRequest, CoreError, Event, Held, Interruption, Op, SteerId, Submitted, ThreadConfig, ThreadId, TurnId,
    TurnResult, TurnStatus,
};

/// A conversation that lasts; see the module.
pub struct Thread {
    id: ThreadId,
    config: ThreadConfig,
    directory: ThreadDirectory,
    /// Whether a directory for temporary files was made.
    pub(crate) has_temporary: AtomicBool,
    pub(crate) core: Arc<Core>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) manager: Weak<ThreadManager>,
    state: Mutex<State>,
    rollout: Mutex<Rollout>,
    /// Held while the thread is taken into use. Taken before the state.
    claiming: Mutex<()>,
    /// Told each time the driver stops running turns.
    idle: Notify,
    /// Its place among the threads in memory, once the manager has it.
    place: OnceLock<Held<Owner>>,
    /// Room for its history as it was after the latest turn, where there was any.
    room: Mutex<Option<Held<Owner>>>,
}

/// What a thread is doing at one moment, and everything it tells from then on.
pub struct Attachment {
    /// The moment.
    pub snapshot: Snapshot,
    /// What comes after it.
    pub events: EventReceiver,
}

/// What a thread is doing at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The turn under way.
    pub running: Option<TurnId>,
    /// When it began.
    pub started_at: Option<std::time::Instant>,
    /// Turns that wait, in the order they will run.
    pub queued: Vec<TurnId>,
    /// Questions that wait for a decision, oldest first.
    pub pending: Vec<Arc<ApprovalRequest>>,
    /// The result of the turn that ended last, without its diff; see [`Thread::result_of`].
    pub last: Option<Arc<TurnResult>>,
    /// Whether the thread was shut down.
    pub closed: bool,
}

impl Thread {
    pub(crate) fn new(
        core: Arc<Core>,
        manager: Weak<ThreadManager>,
        id: ThreadId,
        config: ThreadConfig,
        directory: ThreadDirectory,
        state: State,
        rollout: Rollout,
    ) -> Self {
        let limits = &core.config.limits;
        Self {
            id,
            config,
            directory,
            has_temporary: AtomicBool::new(false),
            hub: Arc::new(Hub::new(limits.event_queue_bytes)),
            sessions: Arc::new(Sessions::new(limits.max_background_commands)),
            manager,
            state: Mutex::new(state),
            rollout: Mutex::new(rollout),
            claiming: Mutex::default(),
            idle: Notify::new(),
            place: OnceLock::new(),
            room: Mutex::default(),
            core,
        }
    }

    /// The thread's id.
    pub fn id(&self) -> ThreadId {
        self.id
    }

    /// What the thread runs with; it does not change.
    pub fn config(&self) -> &ThreadConfig {
        &self.config
    }

    /// Where it works.
    pub(crate) fn directory(&self) -> &ThreadDirectory {
        &self.directory
    }

    /// What its model's provider is called.
    pub fn provider_id(&self) -> &str {
        self.core.config.provider.id()
    }

    /// What the thread's commands may touch.
    pub(crate) fn sandbox_policy(&self) -> SandboxPolicy {
        let policy = self.core.sandbox_policy(&self.config);
        SandboxPolicy { workspace_id: Some(self.directory.id().clone()), ..policy }
    }

    /// The same on this machine; none where its directories cannot be told.
    pub(crate) fn confinement(&self) -> Option<Confinement> {
        let temporary = self.temporary_directory().ok()?;
        self.core.config.launcher.confinement(&SandboxPolicy { temporary, ..self.sandbox_policy() }).ok()
    }

    /// Asks something of the thread. Returns at once; what follows is told as events. Must be called within a tokio
    /// runtime when it begins a turn.
    pub fn submit(self: &Arc<Self>, op: Op) -> Result<Submitted, CoreError> {
        self.submit_locked(&mut lock(&self.state), op)
    }

    /// The thread at this moment and everything it tells afterwards, with nothing missed or told twice between them.
    pub fn attach(self: &Arc<Self>) -> Attachment {
        self.attach_locked(&lock(&self.state))
    }

    /// [`Thread::attach`] and then [`Thread::submit`], with nothing in between: the events tell all that the
    /// operation leads to, from [`Event::TurnStarted`] on.
    pub fn submit_and_attach(self: &Arc<Self>, op: Op) -> Result<(Submitted, Attachment), CoreError> {
        let mut state = lock(&self.state);
        let attachment = self.attach_locked(&state);
        let submitted = self.submit_locked(&mut state, op)?;
        Ok((submitted, attachment))
    }

    /// For how long nobody has used the thread; none while a turn runs, somebody is about to use it, or lines of it wait
    /// for the disk.
    pub(crate) fn unused_for(&self) -> Option<Duration> {
        let state = lock(&self.state);
        let is_unused = state.running.is_none() && state.queue.is_empty() && state.claims == 0;
        (is_unused && lock(&self.rollout).behind().is_none()).then(|| state.last_used.elapsed())
    }

    /// Whether leaving memory ends nothing: it is not used, and no command of it is alive.
    pub(crate) fn is_idle(&self) -> bool {
        self.unused_for().is_some() && self.sessions.alive().is_empty()
    }

    /// Whether the thread would be lost if it left memory.
    pub(crate) fn is_ephemeral(&self) -> bool {
        lock(&self.rollout).is_ephemeral()
    }

    /// Whether a turn runs or waits, so that the rollout is open.
    pub(crate) fn is_busy(&self) -> bool {
        let state = lock(&self.state);
        state.running.is_some() || lock(&self.rollout).is_ephemeral()
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
            tracing::info!(thread = %self.id, "a turn that nobody followed any more is ended");
            self.interrupt(&mut state, None, Interruption::Abandoned(limit));
        }
    }

    /// The result of a turn that ended, without its diff; kept for the last few turns of the thread.
    pub fn kept_result(&self, turn_id: TurnId) -> Option<Arc<TurnResult>> {
        lock(&self.state).kept_result(turn_id).map(|kept| Arc::clone(&kept.result))
    }

    /// The same with its diff, which is read back from the disk where the thread is kept there: it blocks for as long as
    /// that takes. Where the diff cannot be had any more the result's warnings say so.
    pub fn result_of(&self, turn_id: TurnId) -> Option<Arc<TurnResult>> {
        let kept = lock(&self.state).kept_result(turn_id)?.clone();
        if kept.diff_bytes == 0 {
            return Some(kept.result);
        }
        if let Some(whole) = self.core.kept_diffs.find(turn_id) {
            return Some(whole);
        }
        let elsewhere = lock(&self.rollout).elsewhere();
        let mut result = (*kept.result).clone();
        let why = match elsewhere.map(|(store, _)| store.diff_of(self.id, turn_id, kept.at)) {
            Some(Ok(Some(diff))) => {
                result.diff = Some(diff);
                return Some(Arc::new(result));
            }
            Some(Ok(None)) => "the thread's file has lost it".to_owned(),
            Some(Err(error)) => format!("the thread's file cannot be read: {error}"),
            None => format!(
                "the diffs of all threads in memory may have {} bytes together (mcp_server.max_diff_bytes)",
                self.core.kept_diffs.max_bytes()
            ),
        };
        result.warnings.push(format!("the diff of this turn, {} bytes, is not there any more: {why}", kept.diff_bytes));
        Some(Arc::new(result))
    }

    /// Keeps a result for those who ask later, and its diff where the disk does not have it. `at` is where its line begins
    /// in the rollout.
    fn keep_result(&self, state: &mut State, result: &Arc<TurnResult>, at: u64, is_written: bool) {
        let is_on_disk = is_written && lock(&self.rollout).is_begun();
        if result.diff.is_some() && !is_on_disk {
            self.core.kept_diffs.keep(self.config.owner.clone(), Arc::clone(result));
        }
        if let Some(oldest) = state.keep_result(KeptResult::of(result, Some(at))) {
            self.core.kept_diffs.forget(oldest.result.turn_id);
        }
    }

    /// The questions that wait for a decision, oldest first.
    pub fn pending_approvals(&self) -> Vec<Arc<ApprovalRequest>> {
        lock(&self.state).pending.iter().map(|pending| Arc::clone(&pending.request)).collect()
    }

    fn attach_locked(&self, state: &State) -> Attachment {
        let snapshot = Snapshot {
            running: state.running.as_ref().map(|running| running.turn_id),
            started_at: state.running.as_ref().map(|running| running.started.into_std()),
            queued: state.queue.iter().map(|queued| queued.turn_id).collect(),
            pending: state.pending.iter().map(|pending| Arc::clone(&pending.request)).collect(),
            last: state.results.back().map(|kept| Arc::clone(&kept.result)),
            closed: state.closed.is_some(),
        };
        let events = self.hub.subscribe();
        if state.closed.is_some() && state.running.is_none() {
            self.hub.close();
        }
        Attachment { snapshot, events }
    }

    fn submit_locked(self: &Arc<Self>, state: &mut State, op: Op) -> Result<Submitted, CoreError> {
        state.last_used = Instant::now();
        if let Some(why) = &state.closed
            && !matches!(op, Op::Shutdown | Op::Interrupt { .. } | Op::Abandon { .. })
        {
            return Err(match why {
                Interruption::ThreadClosed => CoreError::ThreadClosed { id: self.id },
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
            return Err(CoreError::QueueFull { id: self.id, waiting });
        }
        let room = self.core.open_prompts.take(&self.config.owner, text.len());
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
            true => Some(self.core.open_turns.take(&self.config.owner, 1)),
            false => None,
        };
        let place = place.transpose().map_err(|exceeded| CoreError::TooManyTurns { exceeded })?;
        self.check_disk()?;
        // Whoever is told of the thread finds it on disk.
        lock(&self.rollout).begin().map_err(|source| CoreError::Rollout { id: self.id, source })?;
        let turn_id = TurnId::new();
        state.queue.push_back(Queued { turn_id, text, room, caller: tracing::Span::current() });
        if let Some(place) = place
            && let Some(started) = self.start_next(state, place)
        {
            runtime.spawn(turns::run_turns(Arc::clone(self), started));
        }
        Ok(Submitted::Turn(turn_id))
    }

    /// Whether the owner's quota on disk has room for another turn.
    pub(crate) fn check_disk(&self) -> Result<(), CoreError> {
        match &self.core.disk_use {
            Some(disk_use) if !lock(&self.rollout).is_ephemeral() => disk_use.check(&self.config.owner),
            _ => Ok(()),
        }
    }

    /// Begins the turn that has waited longest, in a place among those that run.
    fn start_next(&self, state: &mut State, place: Held<Owner>) -> Option<StartedTurn> {
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
            thread_id: self.id,
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
        let is_written = lock(&self.rollout).append(&RolloutItem::EventMsg(EventRecord::turn_ended(&result)));
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
            && let Some(ending) = self.sessions.terminate(None)
        {
            let this = Arc::clone(self);
            runtime.spawn(async move {
                ending.await;
                lock_scope(&this.state, |state| this.release_if_idle(state));
            });
        }
        self.release_if_idle(state);
        if let Some(manager) = self.manager.upgrade() {
            manager.forget(self.id);
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
        if let Some(ending) = self.sessions.terminate(None) {
            ending.await;
        }
        let syncer = lock(&self.rollout).close();
        let thread = Arc::clone(&self);
        let last = move || {
            crate::remove_temporary(thread.core.config.launcher.surroundings(), thread.id);
            syncer.map(|syncer| syncer())
        };
        drop(tokio::task::spawn_blocking(last).await);
        if let Some(behind) = lock(&self.rollout).behind() {
            tracing::error!(thread = %self.id, why = behind.why, "the end of a thread could not be saved");
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.core.kept_diffs.forget_thread(self.id);
        self.drop_temporary();
    }
}

/// Runs a closure under a lock, so that no guard lives on in an async function.
fn lock_scope<T, R>(mutex: &Mutex<T>, f: impl FnOnce(&mut T) -> R) -> R {
    f(&mut lock(mutex))
}

/// The time a shutdown may take: two seconds until SIGKILL, and what it takes to notice.
pub(crate) const SHUTDOWN_LIMIT: Duration = Duration::from_millis(2200);
