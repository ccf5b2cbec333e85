//! Parameters of requests. Fields that are not known here are accepted: clients of each week bring new ones. A field that
//! asks for something that is not there is read, so that it is refused by name.

use openoxide_rpc::RpcError;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Reads parameters; none count as an empty object.
///
/// # Errors
/// -32600 with the field.
pub(crate) fn read<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, RpcError> {
    let text = params.map_or("{}", RawValue::get);
    let text = if text == "null" { "{}" } else { text };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let (path, why) = (error.path().to_string(), error.inner().to_string());
        let place = if path == "." { String::new() } else { format!("{path}: ") };
        RpcError::invalid_request(format!("Invalid request: {place}{why}"))
    })
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InitializeParams {
    pub(crate) client_info: ClientInfo,
    pub(crate) capabilities: Option<Capabilities>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ClientInfo {
    pub(crate) name: String,
    pub(crate) version: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Capabilities {
    pub(crate) opt_out_notification_methods: Option<Vec<String>>,
}

/// What `thread/start`, `thread/resume` and `turn/start` may say of how a thread runs.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Settings {
    pub(crate) cwd: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) model_provider: Option<String>,
    pub(crate) approval_policy: Option<Value>,
    pub(crate) approvals_reviewer: Option<String>,
    /// A word.
    pub(crate) sandbox: Option<String>,
    /// An object with a `type`.
    pub(crate) sandbox_policy: Option<SandboxChoice>,
    /// The name of a profile.
    pub(crate) permissions: Option<String>,
    pub(crate) effort: Option<String>,
    pub(crate) summary: Option<String>,
    pub(crate) base_instructions: Option<String>,
    pub(crate) developer_instructions: Option<String>,
    pub(crate) config: Option<Map<String, Value>>,
    pub(crate) output_schema: Option<Value>,
    pub(crate) dynamic_tools: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SandboxChoice {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) writable_roots: Option<Vec<String>>,
    pub(crate) network_access: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ThreadStartParams {
    #[serde(flatten)]
    pub(crate) settings: Settings,
    pub(crate) ephemeral: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThreadResumeParams {
    pub(crate) thread_id: String,
    #[serde(flatten)]
    pub(crate) settings: Settings,
    pub(crate) exclude_turns: Option<bool>,
    pub(crate) history: Option<Vec<Value>>,
    pub(crate) path: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThreadParams {
    pub(crate) thread_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThreadReadParams {
    pub(crate) thread_id: String,
    pub(crate) include_turns: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThreadListParams {
    pub(crate) cursor: Option<String>,
    pub(crate) limit: Option<usize>,
    pub(crate) archived: Option<bool>,
    pub(crate) cwd: Option<OneOrMany>,
    pub(crate) search_term: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnStartParams {
    pub(crate) thread_id: String,
    pub(crate) input: Vec<Input>,
    pub(crate) client_user_message_id: Option<String>,
    #[serde(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnSteerParams {
    pub(crate) thread_id: String,
    pub(crate) expected_turn_id: String,
    pub(crate) input: Vec<Input>,
    pub(crate) client_user_message_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnInterruptParams {
    pub(crate) thread_id: String,
    pub(crate) turn_id: String,
}

/// A part of what the person says. Other parts than these are refused by their type.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Input {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) text: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) path: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct SkillsListParams {
    pub(crate) cwds: Option<Vec<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let error = read::<ThreadParams>(None).unwrap_err();
        assert_eq!((error.code, error.message.contains("threadId")), (-32600, true), "{error}");
        let error = read::<TurnStartParams>(Some(&raw(r#"{"threadId":"x","input":[{"type":7}]}"#))).unwrap_err();
        assert!(error.message.starts_with("Invalid request: "), "{error}");
        assert!(read::<ThreadStartParams>(Some(&raw(r#"{"cwd":"/w","bogus":[1]}"#))).is_ok());
        assert!(read::<ThreadStartParams>(Some(&raw("null"))).is_ok());
    }
}
