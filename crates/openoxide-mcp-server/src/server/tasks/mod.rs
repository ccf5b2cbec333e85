//! Tasks of the extension `io.modelcontextprotocol/tasks`: work whose callers were answered with a handle.
//!
//! A task is a small file that names its work, there before its creator is answered, so that it can be asked for after a
//! restart and on any connection of its principal. How it stands is the backend's to say; once the work is over the file
//! holds the result. `call::follow` sees to that.

mod record;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use openoxide_core::Interruption;
use openoxide_mcp_protocol::request_state::WorkName;
use openoxide_mcp_protocol::tasks::{TaskState, TaskStatus};
use openoxide_mcp_protocol::{Era, RequestId, WireError, complete, meta_keys, notification};
use serde_json::{Value, json};

use record::Record;

use crate::backend::{Backend, Outcome, Standing, Work};
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
    /// Has the work that they are about.
    backend: Arc<dyn Backend>,
    /// Where they are kept; none keeps them in memory alone.
    directory: Option<PathBuf>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Tasks whose work is not over, and all of them where there is no directory.
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
    pub(crate) fn new(backend: Arc<dyn Backend>, directory: Option<PathBuf>) -> Self {
        Self { backend, directory, inner: Mutex::default() }
    }

    /// Makes a task for work and writes it down.
    pub(crate) fn create(
        &self,
        principal: &Principal,
        work: WorkName,
        can_be_asked: bool,
    ) -> std::io::Result<Arc<Task>> {
        let record = Record::new(&principal.to_string(), work, can_be_asked);
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

    /// A task as far as its record tells, with what goes on.
    fn shown(&self, record: &Record, message: Option<&str>) -> TaskState {
        let mut shown = record.shown(self.backend.work_meta(&record.work), TTL, POLL);
        // Hosts show the message to a person or their model, and nothing else that names the work.
        shown.status_message = match (self.backend.work_title(&record.work), message) {
            (Some(title), Some(message)) => Some(format!("{title}: {message}")),
            (title, message) => title.or_else(|| message.map(str::to_owned)),
        };
        shown
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

    /// The work behind it, where this process has it.
    pub(crate) fn work(&self, tasks: &Tasks) -> Option<Arc<dyn Work>> {
        tasks.backend.work(&self.work_name())
    }

    /// What its work is called.
    pub(crate) fn work_name(&self) -> WorkName {
        lock(&self.state).record.work.clone()
    }

    /// It as its creator is told of it, with what goes on by then.
    pub(crate) fn created(&self, tasks: &Tasks, message: Option<String>) -> Value {
        let mut state = lock(&self.state);
        state.message = message;
        tasks.shown(&state.record, state.message.as_deref()).created()
    }

    /// How it stands. Blocks on the disk where its work has to be read.
    pub(crate) fn state(&self, tasks: &Tasks) -> TaskState {
        let (work, can_be_asked) = {
            let state = lock(&self.state);
            if state.record.is_over() {
                return tasks.shown(&state.record, None);
            }
            (state.record.work.clone(), state.record.can_be_asked)
        };
        match tasks.backend.standing(&work) {
            Standing::Over(outcome) => self.end(tasks, outcome),
            Standing::Working { message, questions } => {
                let mut shown = {
                    let state = lock(&self.state);
                    if state.record.is_over() {
                        return tasks.shown(&state.record, None);
                    }
                    tasks.shown(&state.record, message.as_deref().or(state.message.as_deref()))
                };
                if can_be_asked {
                    shown.ask(questions);
                }
                shown
            }
        }
    }

    /// Notes the outcome of its work, unless it was over before.
    pub(crate) fn end(&self, tasks: &Tasks, outcome: Outcome) -> TaskState {
        let outcome = outcome.map(|result| complete(Era::Modern, result));
        self.settle(tasks, |record| match outcome {
            Ok(result) => record.result = Some(result),
            Err(error) => record.error = Some(error),
        })
    }

    /// Cancels it, and ends its work.
    pub(crate) fn cancel(&self, tasks: &Tasks) {
        self.settle(tasks, |record| record.cancelled = true);
        if let Some(work) = self.work(tasks) {
            work.interrupt(Interruption::Cancelled);
        }
    }

    fn settle(&self, tasks: &Tasks, end: impl FnOnce(&mut Record)) -> TaskState {
        let mut state = lock(&self.state);
        if state.record.is_over() {
            return tasks.shown(&state.record, None);
        }
        end(&mut state.record);
        state.record.touch();
        state.message = None;
        let shown = tasks.shown(&state.record, None);
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
