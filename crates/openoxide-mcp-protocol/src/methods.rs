//! Parameters and results of the protocol's own methods: the handshakes, listing, cancelling, progress and logging.

use rmcp::model::{
    CacheScope, ClientCapabilities, DiscoverResult, ExtensionCapabilities, Implementation, InitializeResult,
    ProgressToken, ProtocolVersion, ResourcesCapability, ServerCapabilities, ServerConfig, Tool,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::apps::UI_EXTENSION;
use crate::tasks::TASKS_EXTENSION;
use crate::{Cacheable, LogLevel, RequestId, SUPPORTED_VERSIONS, WireError};

/// How long a client may keep what `server/discover` and `tools/list` say, in milliseconds. Both are fixed for the life
/// of the process.
const FIXED_TTL_MS: u64 = 3_600_000;

const INSTRUCTIONS: &str = "OpenOxide is a coding agent. `openoxide` starts a thread on a task and answers when the turn \
is over, `openoxide-reply` continues a thread by its thread_id, `openoxide-query` asks about a repository without \
changing it. Pass cwd as an absolute path. A result with status \"running\" goes on in the background: call \
`openoxide-reply` with the thread_id and no prompt to wait for it.";

/// Parameters of `initialize` (MCP 2025-11-25 lifecycle).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeParams {
    /// The newest revision the client speaks.
    pub protocol_version: String,
    /// What it can do.
    pub capabilities: ClientCapabilities,
    /// Who it is.
    pub client_info: Implementation,
}

/// Parameters of `tools/call`. `arguments` stays raw: the tool parses it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallToolParams {
    /// The tool.
    pub name: String,
    /// Its arguments; absent means none.
    pub arguments: Option<Box<RawValue>>,
    /// Answers to the questions of an `input_required` result (2026-07-28).
    #[serde(default, deserialize_with = "crate::unique::unique_object")]
    pub input_responses: Option<serde_json::Map<String, serde_json::Value>>,
    /// The state that came with the questions.
    pub request_state: Option<String>,
}

/// Parameters of `notifications/cancelled`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelledParams {
    /// The request that is not wanted any more.
    pub request_id: RequestId,
    /// Why, for the log. One that is no text counts as none: the request is cancelled all the same.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text_or_none")]
    pub reason: Option<String>,
}

fn text_or_none<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(value.as_str().map(str::to_owned))
}

/// Parses the parameters of `method`.
///
/// # Errors
/// -32602 that says which field is wrong.
pub fn parse_params<T: DeserializeOwned>(method: &str, params: Option<&RawValue>) -> Result<T, WireError> {
    let text = params.map_or("{}", RawValue::get);
    serde_json::from_str(text)
        .map_err(|error| WireError::invalid_params(format!("invalid params of {method}: {error}")))
}

impl InitializeParams {
    /// Parses them from raw parameters.
    ///
    /// # Errors
    /// -32602 that names the missing or wrong field.
    pub fn parse(params: Option<&RawValue>) -> Result<Self, WireError> {
        parse_params("initialize", params)
    }
}

impl CallToolParams {
    /// Parses them from raw parameters.
    ///
    /// # Errors
    /// -32602 that names the missing or wrong field.
    pub fn parse(params: Option<&RawValue>) -> Result<Self, WireError> {
        parse_params("tools/call", params)
    }
}

fn implementation() -> Implementation {
    Implementation::new("openoxide", env!("CARGO_PKG_VERSION")).with_title("OpenOxide")
}

/// Our own identity as a JSON value, for the `_meta` of modern results.
pub(crate) fn server_info_value() -> serde_json::Value {
    serde_json::to_value(implementation()).expect("wire types serialize")
}

/// What a server tells of itself when a client comes.
#[derive(Debug, Clone)]
pub struct Description {
    /// What it can do. The extension for tasks is declared for it, where there are such.
    pub capabilities: ServerCapabilities,
    /// How it is used, for a model.
    pub instructions: &'static str,
}

/// What the agent tells of itself.
pub fn agent_description() -> Description {
    Description { capabilities: capabilities(), instructions: INSTRUCTIONS }
}

fn capabilities() -> ServerCapabilities {
    let mut capabilities = ServerCapabilities::default();
    capabilities.tools = Some(Default::default());
    capabilities.logging = Some(Default::default());
    let mut resources = ResourcesCapability::default();
    (resources.subscribe, resources.list_changed) = (Some(true), Some(true));
    capabilities.resources = Some(resources);
    capabilities.extensions = Some(ExtensionCapabilities::from([(UI_EXTENSION.to_owned(), Default::default())]));
    // There are none, but a server that answers `prompts/list` must say so (MCP 2026-07-28, server/prompts "Capabilities").
    capabilities.prompts = Some(Default::default());
    capabilities
}

/// The answer to `initialize` in the agreed legacy `version`.
pub fn initialize_result(version: &'static str, description: &Description) -> InitializeResult {
    let version: ProtocolVersion =
        serde_json::from_value(serde_json::Value::String(version.to_owned())).expect("a version is a string");
    InitializeResult::new(description.capabilities.clone())
        .with_server_info(implementation())
        .with_protocol_version(version)
        .with_instructions(description.instructions)
}

/// The answer to `server/discover`.
pub fn discover_result(description: &Description) -> DiscoverResult {
    let versions = SUPPORTED_VERSIONS
        .iter()
        .map(|version| serde_json::from_value(serde_json::json!(version)).expect("a version is a string"))
        .collect();
    let mut capabilities = description.capabilities.clone();
    capabilities.extensions.get_or_insert_default().insert(TASKS_EXTENSION.to_owned(), Default::default());
    let config =
        ServerConfig::new(capabilities).with_server_info(implementation()).with_instructions(description.instructions);
    let mut result = DiscoverResult::from_server_info(versions, config);
    result.ttl_ms = FIXED_TTL_MS;
    result.cache_scope = CacheScope::Public;
    result
}

/// The answer to `tools/list`; cacheable in the modern era.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolsPage<'a> {
    /// All tools, in one fixed order.
    pub tools: &'a [Tool],
    /// Present in modern results.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cacheable>,
}

impl Cacheable {
    /// For what does not change while the process lives.
    pub const FIXED: Self = Self { ttl_ms: FIXED_TTL_MS, cache_scope: "public" };
}

/// Parameters of `notifications/progress`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgressMessage<'a> {
    /// The token of the request.
    pub progress_token: &'a ProgressToken,
    /// Rises with every message.
    pub progress: u64,
    /// A short human sentence.
    pub message: &'a str,
}

/// Parameters of `notifications/message`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogMessage<'a, T: Serialize> {
    /// How severe it is.
    pub level: LogLevel,
    /// Always `openoxide`.
    pub logger: &'static str,
    /// The event.
    pub data: &'a T,
    /// Which call, thread and turn it belongs to.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<&'a crate::CallMeta>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_field_is_named() {
        let params = RawValue::from_string(r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#.to_owned()).unwrap();
        let error = InitializeParams::parse(Some(&params)).unwrap_err();
        assert!(error.message.contains("clientInfo"), "{error}");
        assert!(CallToolParams::parse(None).unwrap_err().message.contains("name"));
    }

    #[test]
    fn a_request_is_cancelled_whatever_the_reason_is() {
        for (reason, read) in [
            (r#","reason":"enough""#, Some("enough")),
            (r#","reason":5"#, None),
            (r#","reason":{"a":1}"#, None),
            (r#","reason":null"#, None),
            ("", None),
        ] {
            let params = RawValue::from_string(format!(r#"{{"requestId":1{reason}}}"#)).unwrap();
            let cancelled: CancelledParams = parse_params("notifications/cancelled", Some(&params)).unwrap();
            assert_eq!(cancelled.reason.as_deref(), read);
        }
    }

    #[test]
    fn discovery_names_both_eras_and_the_server() {
        let result = serde_json::to_value(discover_result(&agent_description())).unwrap();
        assert_eq!(result["supportedVersions"][0], "2026-07-28");
        assert_eq!(result["resultType"], "complete");
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "openoxide");
        assert_eq!(
            result["capabilities"],
            serde_json::json!({
                "extensions": { TASKS_EXTENSION: {}, UI_EXTENSION: {} },
                "logging": {},
                "prompts": {},
                "resources": { "listChanged": true, "subscribe": true },
                "tools": {}
            })
        );
    }
}
