//! Tasks of the extension `io.modelcontextprotocol/tasks`: turns whose callers were answered with a handle.
//!
//! A task is a small file that names its thread and turn, there before its creator is answered, so that it can be asked for
//! after a restart and on any connection of its principal. How it stands is read off the thread; once the turn is over the
//! file holds the result. `call::follow` sees to that.

mod record;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use openoxide_core::{CoreError, Interruption, Op, Thread, ThreadId, ThreadManager, TurnId};
use openoxide_mcp_protocol::tasks::{TaskState, TaskStatus};
use openoxide_mcp_protocol::{CallStatus, Era, RequestId, WireError, meta_keys, notification};
use serde_json::{Value, json};

use record::Record;

use crate::convert::{output, question};
use crate::principal::Principal;
use openoxide_rpc::Outgoing;
use openoxide_rpc::lock;

/// From a task's creation until it may be forgotten.
const TTL: Duration = Duration::from_secs(7 * 24 * 3600);
/// How often a client is told to ask.
const POLL: Duration = Duration::from_secs(2);
/// Tasks kept in memory where there is no directory for them.
const KEPT: usize = 1024;
/// From one look for forgotten tasks to the next.
const SWEEP: Duration = Duration::from_secs(3600);

/// The tasks of a server.
pub(crate) struct Tasks {
    /// Has the threads that they are about.
    manager: Arc<ThreadManager>,
    /// Where they are kept; none keeps them in memory alone.
    directory: Option<PathBuf>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Tasks whose turn is not over, and all of them where there is no directory.
    open: HashMap<String, Arc<Task>>,
    swept: Option<Instant>,
}

/// One task.
pub(crate) struct Task {
    directory: Option<PathBuf>,
    state: Mutex<State>,
}

struct State {
    record: Record,
    /// What goes on, for a person.
    message: Option<String>,
    watchers: Vec<Watcher>,
    /// When somebody last asked.
    asked: Instant,
}

/// An open `subscriptions/listen` that wants to be told how a task stands.
#[derive(Clone)]
struct Watcher {
    subscription: RequestId,
    out: Weak<Outgoing>,
}

impl Tasks {
    /// Tasks that are kept in `directory`.
    pub(crate) fn new(manager: Arc<ThreadManager>, directory: Option<PathBuf>) -> Self {
        Self { manager, directory, inner: Mutex::default() }
    }

    /// Makes a task for a turn and writes it down.
    pub(crate) fn create(
        &self,
        principal: &Principal,
        thread: ThreadId,
        turn: TurnId,
        can_be_asked: bool,
    ) -> std::io::Result<Arc<Task>> {
        let record = Record::new(&principal.to_string(), thread, turn, can_be_asked);
        if let Some(directory) = &self.directory {
            record.write(directory)?;
        }
        let id = record.task_id.clone();
        let task = Arc::new(Task::new(self.directory.clone(), record));
        let mut inner = lock(&self.inner);
        inner.open.insert(id, Arc::clone(&task));
        self.forget_old(&mut inner);
        Ok(task)
    }

    /// Forgets what may be forgotten, from time to time.
    fn forget_old(&self, inner: &mut Inner) {
        let Some(directory) = &self.directory else {
            while inner.open.len() > KEPT {
                let over = inner.open.values().filter(|task| task.is_over());
                let Some(oldest) = over.min_by_key(|task| lock(&task.state).record.created_ms) else { return };
                let id = lock(&oldest.state).record.task_id.clone();
                inner.open.remove(&id);
            }
            return;
        };
        if inner.swept.is_some_and(|at| at.elapsed() < SWEEP) {
            return;
        }
        inner.swept = Some(Instant::now());
        let directory = directory.clone();
        tokio::task::spawn_blocking(move || record::sweep(&directory, TTL));
    }

    /// The task of this id, if it is this principal's.
    pub(crate) fn find(&self, id: &str, principal: &Principal) -> Result<Arc<Task>, WireError> {
        let found = lock(&self.inner).open.get(id).cloned();
        let task = found.or_else(|| {
            let directory = self.directory.as_ref()?;
            Some(Arc::new(Task::new(Some(directory.clone()), Record::read(directory, id)?)))
        });
        let not_found = || {
            WireError::invalid_params(format!(
                "taskId {id:?} names no task of yours; use the taskId of a result with resultType \"task\""
            ))
        };
        let task = task.ok_or_else(not_found)?;
        let mut state = lock(&task.state);
        if state.record.principal != principal.to_string() {
            return Err(not_found());
        }
        if state.record.is_expired(TTL) {
            return Err(WireError::invalid_params(format!("task {id} has expired")));
        }
        state.asked = Instant::now();
        drop(state);
        Ok(task)
    }

    fn forget(&self, task: &Task) {
        if self.directory.is_some() {
            let id = lock(&task.state).record.task_id.clone();
            lock(&self.inner).open.remove(&id);
        }
    }
}

impl Task {
    fn new(directory: Option<PathBuf>, record: Record) -> Self {
        let state = State { record, message: None, watchers: Vec::new(), asked: Instant::now() };
        Self { directory, state: Mutex::new(state) }
    }

    fn is_over(&self) -> bool {
        lock(&self.state).record.is_over()
    }

    pub(crate) fn can_be_asked(&self) -> bool {
        lock(&self.state).record.can_be_asked
    }

    /// Its id.
    pub(crate) fn id(&self) -> String {
        lock(&self.state).record.task_id.clone()
    }

    /// How long nobody has asked for it or listened to it.
    pub(crate) fn unasked_for(&self) -> Duration {
        let mut state = lock(&self.state);
        state.watchers.retain(Watcher::listens);
        if state.watchers.is_empty() { state.asked.elapsed() } else { Duration::ZERO }
    }

    /// The work behind it, where that is in memory.
    pub(crate) fn thread_in_memory(&self, tasks: &Tasks) -> Option<Arc<Thread>> {
        let thread = lock(&self.state).record.thread_id;
        tasks.manager.in_memory(thread)
    }

    /// How it stands. Blocks on the disk where its thread has to be read.
    pub(crate) fn state(&self, tasks: &Tasks) -> TaskState {
        let (thread_id, turn, is_over, can_be_asked, mut shown) = {
            let state = lock(&self.state);
            let record = &state.record;
            let mut shown = record.shown(TTL, POLL);
            shown.status_message.clone_from(&state.message);
            (record.thread_id, record.turn_id, record.is_over(), record.can_be_asked, shown)
        };
        if is_over {
            return shown;
        }
        let thread = match tasks.manager.get_or_load(thread_id) {
            Ok(thread) => thread,
            Err(CoreError::ThreadBusy { .. }) => {
                shown.status_message = Some("another process works on it".to_owned());
                return shown;
            }
            Err(error) => return self.end(tasks, lost(thread_id, &error.to_string())),
        };
        if let Some(result) = thread.result_of(turn) {
            return self.end(tasks, output::ended(Era::Modern, &thread, &result));
        }
        let now = thread.snapshot();
        if now.running != Some(turn) && !now.queued.contains(&turn) {
            // It may have ended in between.
            return match thread.result_of(turn) {
                Some(result) => self.end(tasks, output::ended(Era::Modern, &thread, &result)),
                None => self.end(tasks, lost(thread_id, "the program ended before the turn did")),
            };
        }
        if can_be_asked {
            let asked = now.pending.iter().filter(|request| request.turn_id == turn);
            shown.ask(asked.map(|request| (request.id.to_string(), question::to_wire(request))));
        }
        shown
    }

    /// Notes the result of its turn, unless it was over before.
    pub(crate) fn end(&self, tasks: &Tasks, result: Value) -> TaskState {
        self.settle(tasks, |record| record.result = Some(result))
    }

    /// Cancels it, and ends its turn.
    pub(crate) fn cancel(&self, tasks: &Tasks) {
        self.settle(tasks, |record| record.cancelled = true);
        let turn = lock(&self.state).record.turn_id;
        if let Some(thread) = self.thread_in_memory(tasks)
            && let Err(error) = thread.submit(Op::Interrupt { turn_id: Some(turn), why: Interruption::Cancelled })
        {
            tracing::debug!(%error, "the turn of a cancelled task was not there to interrupt");
        }
    }

    fn settle(&self, tasks: &Tasks, end: impl FnOnce(&mut Record)) -> TaskState {
        let mut state = lock(&self.state);
        if state.record.is_over() {
            return state.record.shown(TTL, POLL);
        }
        end(&mut state.record);
        state.record.touch();
        state.message = None;
        let shown = state.record.shown(TTL, POLL);
        let written = self.directory.as_ref().map_or(Ok(()), |directory| state.record.write(directory));
        state.tell(&shown);
        drop(state);
        match written {
            Ok(()) => tasks.forget(self),
            Err(error) => tracing::warn!(%error, "how a task ended could not be written; it is kept in memory"),
        }
        shown
    }

    /// Tells the listeners what goes on.
    pub(crate) fn progress(&self, tasks: &Tasks, message: Option<String>) {
        if let Some(message) = message {
            let mut state = lock(&self.state);
            state.message = Some(message);
            state.record.touch();
        }
        if lock(&self.state).watchers.is_empty() {
            return;
        }
        // Read without the lock: the thread's own is taken within.
        let shown = self.state(tasks);
        if matches!(shown.status, TaskStatus::Working | TaskStatus::InputRequired) {
            lock(&self.state).tell(&shown);
        }
    }

    /// Tells a listener how it stands, and from now on each change.
    pub(crate) fn watch(&self, tasks: &Tasks, subscription: &RequestId, out: &Arc<Outgoing>) {
        let watcher = Watcher { subscription: subscription.clone(), out: Arc::downgrade(out) };
        lock(&self.state).watchers.push(watcher.clone());
        // Afterwards, so that nothing is missed in between.
        let shown = self.state(tasks);
        watcher.tell(&shown, out);
    }

    /// Tells a listener no more.
    pub(crate) fn unwatch(&self, subscription: &RequestId, out: &Arc<Outgoing>) {
        let is_theirs = |watcher: &Watcher| {
            watcher.subscription == *subscription && std::ptr::eq(watcher.out.as_ptr(), Arc::as_ptr(out))
        };
        lock(&self.state).watchers.retain(|watcher| !is_theirs(watcher));
    }
}

impl State {
    fn tell(&mut self, shown: &TaskState) {
        self.watchers.retain(|watcher| match watcher.out.upgrade() {
            Some(out) => {
                watcher.tell(shown, &out);
                true
            }
            None => false,
        });
    }
}

impl Watcher {
    fn listens(&self) -> bool {
        self.out.strong_count() > 0
    }

    /// What is not the end may be dropped for a client that does not read: more is to come.
    fn tell(&self, shown: &TaskState, out: &Outgoing) {
        let mut params = shown.params();
        params["_meta"][meta_keys::SUBSCRIPTION_ID] = json!(self.subscription);
        let line = notification("notifications/tasks", &params);
        match shown.status {
            TaskStatus::Working => out.offer(line),
            TaskStatus::InputRequired | TaskStatus::Completed | TaskStatus::Cancelled | TaskStatus::Failed => {
                out.push(line)
            }
        }
    }
}

/// The result of a turn of which nothing is left but what its thread has.
fn lost(thread: ThreadId, why: &str) -> Value {
    let message = format!(
        "The turn was interrupted: {why}. What it did until then stands. Continue the thread with openoxide-reply"
    );
    output::failed_on(Era::Modern, thread.to_string(), CallStatus::Interrupted, &message)
}
