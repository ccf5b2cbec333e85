//! What clients are asked, and what they answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `item/commandExecution/requestApproval`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommandApprovalParams {
    pub(crate) kind: &'static str,
    pub(crate) thread_id: String,
    pub(crate) turn_id: String,
    pub(crate) item_id: String,
    pub(crate) started_at_ms: u64,
    pub(crate) command: String,
    pub(crate) cwd: String,
    pub(crate) command_actions: Vec<Value>,
    pub(crate) reason: Option<String>,
    pub(crate) available_decisions: Vec<&'static str>,
}

/// `item/fileChange/requestApproval`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileApprovalParams {
    pub(crate) thread_id: String,
    pub(crate) turn_id: String,
    pub(crate) item_id: String,
    pub(crate) started_at_ms: u64,
    pub(crate) reason: Option<String>,
    pub(crate) grant_root: Option<String>,
}

/// `item/tool/requestUserInput`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserInputParams {
    pub(crate) thread_id: String,
    pub(crate) turn_id: String,
    pub(crate) item_id: String,
    pub(crate) questions: Vec<Question>,
    pub(crate) is_blocking: bool,
    pub(crate) auto_resolution_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Question {
    pub(crate) id: String,
    pub(crate) header: String,
    pub(crate) question: String,
    pub(crate) is_other: bool,
    pub(crate) is_secret: bool,
    pub(crate) options: Option<Vec<QuestionOption>>,
}

#[derive(Debug, Serialize)]
pub(crate) struct QuestionOption {
    pub(crate) label: String,
    pub(crate) description: String,
}

/// The answer to a question of approval.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovalAnswer {
    /// A word, or an object that would write a rule.
    pub(crate) decision: Value,
    pub(crate) accept_settings: Option<AcceptSettings>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AcceptSettings {
    pub(crate) for_session: Option<bool>,
}

/// The answer to questions of the model's.
#[derive(Debug, Deserialize)]
pub(crate) struct UserInputAnswer {
    pub(crate) answers: BTreeMap<String, UserInputAnswers>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct UserInputAnswers {
    pub(crate) answers: Vec<String>,
}
