//! Items of the history, and tokens.

use openoxide_llm::{Carried, HistoryItem, Role, Usage};
use serde::{Deserialize, Serialize};

use super::record::records;

records! { HistoryJson for HistoryItem }

#[derive(Serialize, Deserialize)]
#[serde(remote = "HistoryItem", tag = "type", rename_all = "snake_case")]
pub(super) enum HistoryJson {
    Message {
        #[serde(with = "RoleJson")]
        role: Role,
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        carried: Carried,
    },
    Note {
        text: String,
    },
    Image {
        media_type: String,
        data: String,
    },
    Reasoning {
        summary: String,
        raw: serde_json::Value,
    },
    FunctionCall {
        call_id: String,
        name: String,
        arguments: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        carried: Carried,
    },
    CustomToolCall {
        call_id: String,
        name: String,
        input: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        carried: Carried,
    },
    ToolOutput {
        call_id: String,
        custom: bool,
        output: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Role", rename_all = "snake_case")]
enum RoleJson {
    User,
    Assistant,
    Developer,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Usage", rename_all = "camelCase")]
pub(super) struct UsageJson {
    input_tokens: u64,
    cached_input_tokens: u64,
    output_tokens: u64,
    reasoning_output_tokens: u64,
}
