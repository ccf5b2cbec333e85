//! One thread: takes [`crate::Op`]s, tells [`crate::Event`]s, and has a driver task only while a turn runs.
//!
//! All of its state is under one lock, held for a few statements and never across an await. Whatever changes what a
//! [`Snapshot`] shows is announced under that lock, so that a snapshot and the events after it fit together. Lock
//! order: state, then rollout, then event queues.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use openoxide_llm::Usage;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::directory::ThreadDirectory;
use super::event_log::{LogLimits, OpenItem, Progress};
use super::events::{Cursor, EventReceiver, Hub, Subscription};
use super::shared::Core;
use super::state::State;
use crate::api::Owner;
use crate::mutex::lock;
use crate::store::Rollout;
use crate::tools::commands::Commands;
use crate::tools::reads::ReadPool;
use crate::{ApprovalId, ApprovalRequest, Held, PlanStep, ThreadConfig, ThreadId, TurnId, TurnResult};

/// Who keeps the threads in memory, as far as a thread needs it.
pub(crate) trait Registry: Send + Sync {
    /// Drops a thread that was shut down or is gone.
    fn forget(&self, id: ThreadId);

    /// Whether a thread is in memory.
    fn has(&self, id: ThreadId) -> bool;

    /// Room for so many bytes of a history, for which idle threads leave memory; none where not enough of them are idle.
    fn room_for_history(&self, owner: &Owner, bytes: usize) -> Option<Held<Owner>>;
}

/// A conversation that lasts; see the module.
pub struct Thread {
    id: ThreadId,
    config: ThreadConfig,
    directory: ThreadDirectory,
    /// Whether a directory for temporary files was made.
    pub(crate) has_temporary: AtomicBool,
    pub(crate) core: Arc<Core>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) commands: Arc<Commands>,
    pub(super) registry: Weak<dyn Registry>,
    pub(super) state: Mutex<State>,
    pub(super) rollout: Mutex<Rollout>,
    /// Held while the thread is taken into use. Taken before the state.
    pub(super) claiming: Mutex<()>,
    /// Told each time the driver stops running turns.
    pub(super) idle: Notify,
    /// Its place among the threads in memory, once it is there.
    pub(super) place: OnceLock<Held<Owner>>,
    /// Room for its history as it was after the latest turn, where there was any.
    pub(super) room: Mutex<Option<Held<Owner>>>,
    /// Processes that read for the turn that runs, once one was needed.
    pub(super) readers: Mutex<Option<Arc<ReadPool>>>,
}

/// What a thread is doing at one moment, and everything it tells from then on.
pub struct Attachment {
    /// The moment.
    pub snapshot: Snapshot,
    /// The items of the running turn that have begun and are not complete, in the order they began. Those that are
    /// complete are written, and in [`crate::Transcript`].
    pub open_items: Vec<OpenItem>,
    /// What comes after it.
    pub events: EventReceiver,
}

/// What [`Thread::attach_from`] found.
pub enum Resumed {
    /// Each event after the cursor, none missing and none twice.
    Covered(EventReceiver),
    /// Events after the cursor are no longer kept, or the cursor is of before the thread was loaded. Whoever asked starts
    /// over from this; what completed in between is in [`crate::Transcript`].
    Gap(Attachment),
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
    /// The latest plan of the running turn.
    pub plan: Option<Arc<Vec<PlanStep>>>,
    /// Tokens that the running turn has spent so far.
    pub usage: Usage,
    /// Whether the thread was shut down.
    pub closed: bool,
}

impl Thread {
    pub(crate) fn new(
        core: Arc<Core>,
        registry: Weak<dyn Registry>,
        id: ThreadId,
        config: ThreadConfig,
        directory: ThreadDirectory,
        state: State,
        rollout: Rollout,
    ) -> Self {
        let limits = &core.config.limits;
        let log_limits = LogLimits { delta_bytes: limits.event_queue_bytes, log_bytes: limits.event_log_bytes };
        Self {
            id,
            config,
            directory,
            has_temporary: AtomicBool::new(false),
            hub: Arc::new(Hub::new(log_limits)),
            commands: Arc::new(Commands::new(limits.max_background_commands)),
            registry,
            state: Mutex::new(state),
            rollout: Mutex::new(rollout),
            claiming: Mutex::default(),
            idle: Notify::new(),
            place: OnceLock::new(),
            room: Mutex::default(),
            readers: Mutex::default(),
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

    /// Tokens of all turns that have ended.
    pub fn usage(&self) -> openoxide_llm::Usage {
        lock(&self.state).usage
    }

    /// The most tokens that its model reads at once.
    pub fn context_window(&self) -> u64 {
        self.core.config.provider.facts(&self.config.model).context_window
    }

    /// The thread at this moment and everything it tells afterwards, with nothing missed or told twice between them.
    pub fn attach(self: &Arc<Self>) -> Attachment {
        self.attach_locked(&lock(&self.state))
    }

    /// Attaches again after an event that was told before: [`EventReceiver::cursor`] says where that was. A thread keeps
    /// what it has told while a turn runs, up to `Limits::event_log_bytes`; an idle thread keeps nothing, so that only one
    /// who had read all of it is there without a gap.
    ///
    /// Deltas of items that completed in between are not told again: the completed item has their text.
    pub fn attach_from(self: &Arc<Self>, cursor: Cursor) -> Resumed {
        let state = lock(&self.state);
        match self.hub.subscribe_from(cursor) {
            Some(events) => {
                self.close_if_over(&state);
                Resumed::Covered(events)
            }
            None => Resumed::Gap(self.attach_locked(&state)),
        }
    }

    /// What the thread is doing at this moment, for whoever does not follow it.
    pub fn snapshot(&self) -> Snapshot {
        Self::snapshot_of(&lock(&self.state), self.hub.progress())
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
        self.unused_for().is_some() && self.commands.alive().is_empty()
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

    /// The questions that wait for a decision, oldest first.
    pub fn pending_approvals(&self) -> Vec<Arc<ApprovalRequest>> {
        lock(&self.state).pending.iter().map(|pending| Arc::clone(&pending.request)).collect()
    }

    /// Notes that a question is put to somebody now. The first time counts.
    pub fn put_question(&self, id: ApprovalId) {
        if let Some(pending) = lock(&self.state).pending.iter_mut().find(|pending| pending.request.id == id) {
            pending.put_at.get_or_insert_with(Instant::now);
        }
    }

    /// Whether an answer to a question that comes now is faster than a person's ([`crate::Config::person_takes`]).
    pub fn is_faster_than_a_person(&self, id: ApprovalId) -> bool {
        let state = lock(&self.state);
        let pending = state.pending.iter().find(|pending| pending.request.id == id);
        pending
            .and_then(|pending| pending.put_at)
            .is_some_and(|put_at| put_at.elapsed() < self.core.config.person_takes)
    }

    pub(super) fn attach_locked(&self, state: &State) -> Attachment {
        let Subscription { events, open_items, progress } = self.hub.subscribe();
        self.close_if_over(state);
        Attachment { snapshot: Self::snapshot_of(state, progress), open_items, events }
    }

    /// Tells readers of a thread that was shut down that nothing more comes.
    fn close_if_over(&self, state: &State) {
        if state.closed.is_some() && state.running.is_none() {
            self.hub.close();
        }
    }

    fn snapshot_of(state: &State, progress: Progress) -> Snapshot {
        Snapshot {
            running: state.running.as_ref().map(|running| running.turn_id),
            started_at: state.running.as_ref().map(|running| running.started.into_std()),
            queued: state.queue.iter().map(|queued| queued.turn_id).collect(),
            pending: state.pending.iter().map(|pending| Arc::clone(&pending.request)).collect(),
            last: state.results.back().map(|kept| Arc::clone(&kept.result)),
            plan: progress.plan,
            usage: progress.usage,
            closed: state.closed.is_some(),
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.core.kept_diffs.forget_thread(self.id);
        self.core.runner.release(&self.id.to_string());
        self.drop_temporary();
    }
}
