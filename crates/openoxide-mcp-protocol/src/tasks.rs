//! The wire of the tasks extension `io.modelcontextprotocol/tasks` (SEP-2663): a `tools/call` answered with a handle
//! whose state is polled, told and cancelled.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{Ask, Era, WireError, complete};

/// The name under which both sides declare the extension.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// `_meta` key with what is behind a task: for a turn its thread and itself.
const WORK: &str = "openoxide/task";

/// How a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// The turn runs or waits for its start.
    Working,
    /// The turn waits for answers to `inputRequests`.
    InputRequired,
    /// The turn is over; `result` is what the call would have answered.
    Completed,
    /// The task was cancelled before the turn was over.
    Cancelled,
    /// The call would have been answered with a JSON-RPC error. Never happens to a turn: what goes wrong there is a result
    /// with `isError`.
    Failed,
}

/// A task with what its status calls for (`DetailedTask` of the extension).
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskState {
    /// Unguessable.
    pub task_id: String,
    /// How it stands.
    pub status: TaskStatus,
    /// What goes on, for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// RFC 3339.
    pub created_at: String,
    /// RFC 3339.
    pub last_updated_at: String,
    /// From creation until it may be forgotten, in milliseconds.
    pub ttl_ms: u64,
    /// How often to ask, in milliseconds.
    pub poll_interval_ms: u64,
    /// The questions that wait, by a key that is never used again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_requests: Option<Map<String, Value>>,
    /// The result of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The error of the call, for [`TaskStatus::Failed`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<WireError>,
    /// What is behind it.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Value>,
}

impl TaskState {
    /// A task that works. `work` says what on, for a program.
    pub fn new(task_id: String, work: Option<Value>, created_at: String, ttl_ms: u64, poll_ms: u64) -> Self {
        Self {
            task_id,
            status: TaskStatus::Working,
            status_message: None,
            last_updated_at: created_at.clone(),
            created_at,
            ttl_ms,
            poll_interval_ms: poll_ms,
            input_requests: None,
            result: None,
            error: None,
            meta: work.map(|work| json!({ WORK: work })),
        }
    }

    /// Puts questions by their keys.
    pub fn ask(&mut self, questions: impl IntoIterator<Item = (String, Ask)>) {
        let requests: Map<String, Value> = questions.into_iter().map(|(key, ask)| (key, ask.to_wire())).collect();
        if !requests.is_empty() {
            self.status = TaskStatus::InputRequired;
            self.input_requests = Some(requests);
        }
    }

    /// The answer to the `tools/call` that began it (`CreateTaskResult`).
    pub fn created(&self) -> Value {
        let mut result = self.params();
        result["resultType"] = json!("task");
        complete(Era::Modern, result)
    }

    /// The answer to `tasks/get`.
    pub fn detailed(&self) -> Value {
        complete(Era::Modern, self.params())
    }

    /// The parameters of `notifications/tasks`.
    pub fn params(&self) -> Value {
        serde_json::to_value(self).expect("wire types serialize")
    }
}

/// Parameters of `tasks/get` and `tasks/cancel`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TaskParams {
    /// The task.
    pub task_id: String,
}

/// Parameters of `tasks/update`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateTaskParams {
    /// The task.
    pub task_id: String,
    /// Answers by the keys of their questions.
    #[serde(deserialize_with = "unique_responses")]
    pub input_responses: Map<String, Value>,
}

fn unique_responses<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Map<String, Value>, D::Error> {
    let object = crate::unique::unique_object(deserializer)?;
    object.ok_or_else(|| serde::de::Error::custom("inputResponses is null; it is an object of answers"))
}

/// -32021: what was asked for is for clients that declare the extension.
pub fn tasks_not_declared() -> WireError {
    crate::missing_capability(
        format!(
            "the request's client capabilities do not declare the extension {TASKS_EXTENSION}; declare it in each \
             request that is about tasks"
        ),
        json!({ "extensions": { TASKS_EXTENSION: {} } }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_flat_on_the_wire_and_says_only_what_its_status_calls_for() {
        let turn = json!({ "threadId": "t", "turnId": "u" });
        let mut task = TaskState::new("k".into(), Some(turn), "2026-01-01T00:00:00Z".into(), 1000, 10);
        let created = task.created();
        assert_eq!(
            (&created["resultType"], &created["status"], &created["taskId"]),
            (&json!("task"), &json!("working"), &json!("k"))
        );
        assert!(created.get("result").is_none() && created.get("inputRequests").is_none());
        assert_eq!(created["_meta"][WORK]["threadId"], "t");
        task.ask([("q".to_owned(), Ask::form(json!({ "message": "may I?" })))]);
        let asked = task.detailed();
        assert_eq!((&asked["resultType"], &asked["status"]), (&json!("complete"), &json!("input_required")));
        assert_eq!(asked["inputRequests"]["q"]["method"], "elicitation/create");
    }

    #[test]
    fn a_task_without_a_turn_names_none_and_may_fail() {
        let mut task = TaskState::new("k".into(), None, "2026-01-01T00:00:00Z".into(), 1000, 10);
        (task.status, task.error) = (TaskStatus::Failed, Some(tasks_not_declared()));
        let failed = task.params();
        assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("failed"), &json!(-32021)));
        assert!(failed.get("_meta").is_none() && failed.get("result").is_none());
    }
}
