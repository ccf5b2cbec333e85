//! Tasks of the extension `io.modelcontextprotocol/tasks`, kept in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openoxide_mcp_protocol::tasks::{TaskParams, TaskState, TaskStatus, UpdateTaskParams, tasks_not_declared};
use openoxide_mcp_protocol::{Era, WireError, complete, parse_params};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::schemas;

/// From a task's creation until it may be forgotten, in milliseconds.
const TTL_MS: u64 = 3_600_000;
/// How often a client is told to ask, in milliseconds.
const POLL_MS: u64 = 200;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tasks of the server by their ids.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<HashMap<String, (Task, AbortHandle)>>);

/// One task, for its work as well as for whoever asks how it stands.
#[derive(Clone)]
pub(crate) struct Task(Arc<Inner>);

struct Inner {
    state: Mutex<TaskState>,
    answers: Mutex<Map<String, Value>>,
    /// Told when the last question is answered. Only the work waits, and a stored permit counts.
    answered: Notify,
}

/// Answers a method for a client that takes tasks.
pub(crate) fn answer(
    tasks: &Tasks,
    takes_tasks: bool,
    method: &str,
    params: Option<&RawValue>,
) -> Result<Value, WireError> {
    if !takes_tasks {
        return Err(tasks_not_declared());
    }
    match method {
        "tasks/update" => {
            let UpdateTaskParams { task_id, input_responses } = parse_params(method, params)?;
            tasks.find(&task_id)?.0.update(input_responses);
        }
        "tasks/cancel" => {
            let (task, work) = tasks.find(&parse_params::<TaskParams>(method, params)?.task_id)?;
            task.end(|state| state.status = TaskStatus::Cancelled);
            work.abort();
        }
        _ => {
            let (task, _) = tasks.find(&parse_params::<TaskParams>(method, params)?.task_id)?;
            return Ok(lock(&task.0.state).detailed());
        }
    }
    Ok(complete(Era::Modern, json!({})))
}

impl Tasks {
    /// Begins a task and returns the answer to the call that wants it.
    pub(crate) fn begin<F>(&self, work: impl FnOnce(Task) -> F) -> Value
    where
        F: Future<Output = Result<Value, WireError>> + Send + 'static,
    {
        let id = uuid::Uuid::new_v4().to_string();
        let state = TaskState::without_turn(id.clone(), now(), TTL_MS, POLL_MS);
        let created = state.created();
        let inner = Inner { state: Mutex::new(state), answers: Mutex::default(), answered: Notify::new() };
        let task = Task(Arc::new(inner));
        let work = work(task.clone());
        let done = task.clone();
        let handle = tokio::spawn(async move {
            let outcome = work.await;
            done.end(|state| match outcome {
                Ok(result) => {
                    (state.status, state.result) = (TaskStatus::Completed, Some(complete(Era::Modern, result)));
                }
                Err(error) => (state.status, state.error) = (TaskStatus::Failed, Some(error)),
            });
        });
        lock(&self.0).insert(id, (task, handle.abort_handle()));
        created
    }

    fn find(&self, id: &str) -> Result<(Task, AbortHandle), WireError> {
        let found = lock(&self.0).get(id).cloned();
        found.ok_or_else(|| WireError::invalid_params(format!("taskId {id:?} names no task")))
    }

    /// Ends what goes on.
    pub(crate) fn end(&self) {
        for (_, (_, work)) in lock(&self.0).drain() {
            work.abort();
        }
    }
}

impl Task {
    /// Puts questions, each with one required field, and waits until all are answered.
    pub(crate) async fn ask(&self, questions: &[(&str, &str)]) -> Map<String, Value> {
        let schema = |field: &str| json!({ "type": if field == "confirm" { "boolean" } else { "string" } });
        {
            let mut state = lock(&self.0.state);
            state.ask(questions.iter().map(|(message, field)| {
                (uuid::Uuid::new_v4().to_string(), schemas::required_form(message, field, &schema(field)))
            }));
            state.last_updated_at = now();
        }
        self.0.answered.notified().await;
        std::mem::take(&mut lock(&self.0.answers))
    }

    /// Takes answers; those to what is not asked are ignored.
    fn update(&self, responses: Map<String, Value>) {
        let mut state = lock(&self.0.state);
        let Some(open) = &mut state.input_requests else { return };
        for (key, answer) in responses {
            if open.remove(&key).is_some() {
                lock(&self.0.answers).insert(key, answer);
            }
        }
        if open.is_empty() {
            (state.status, state.input_requests) = (TaskStatus::Working, None);
            self.0.answered.notify_one();
        }
        state.last_updated_at = now();
    }

    /// Ends it, unless it has ended before.
    fn end(&self, end: impl FnOnce(&mut TaskState)) {
        let mut state = lock(&self.0.state);
        if matches!(state.status, TaskStatus::Working | TaskStatus::InputRequired) {
            end(&mut state);
            state.input_requests = None;
            state.last_updated_at = now();
        }
    }
}

fn now() -> String {
    OffsetDateTime::now_utc().format(&Rfc3339).expect("the time of a clock can be written")
}
