//! What a request says of itself and its sender: the `_meta` of both eras.
//!
//! Modern requests (2026-07-28) carry their version and capabilities in `_meta`; legacy ones rely on what
//! `initialize` said once.

use rmcp::model::{ClientCapabilities, Implementation, ProgressToken};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::tasks::TASKS_EXTENSION;
use crate::{Era, WireError, meta_keys};

/// Log severities (RFC 5424), least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

/// Whether these capabilities include form elicitation. An empty `elicitation` object counts (MCP 2025-11-25,
/// elicitation "Capabilities").
pub fn supports_form_elicitation(capabilities: &ClientCapabilities) -> bool {
    capabilities.elicitation.as_ref().is_some_and(|e| e.form.is_some() || e.url.is_none())
}

/// What is known of the sender of a request.
#[derive(Debug, Clone, Default)]
pub struct ClientFacts {
    /// Whether it can be asked with a form.
    pub can_be_asked: bool,
    /// Its name, for the log.
    pub name: Option<String>,
    /// Whether it takes a task for an answer (modern era).
    pub takes_tasks: bool,
}

impl ClientFacts {
    /// Reads them from capabilities and identity.
    pub fn new(capabilities: &ClientCapabilities, info: Option<&Implementation>) -> Self {
        let declares = |extension: &str| {
            capabilities.extensions.as_ref().is_some_and(|extensions| extensions.contains_key(extension))
        };
        Self {
            can_be_asked: supports_form_elicitation(capabilities),
            name: info.map(|info| info.name.clone()),
            takes_tasks: declares(TASKS_EXTENSION),
        }
    }
}

/// The `_meta` of a request, read once.
#[derive(Debug, Clone, Default)]
pub struct RequestMeta {
    /// Wants progress under this token.
    pub progress_token: Option<ProgressToken>,
    /// What a modern request says of itself; `None` for a legacy one.
    pub modern: Option<Box<ModernMeta>>,
    /// The trace it belongs to.
    pub trace: Option<TraceContext>,
    /// What the request is about, where its method has such a field: the `name` of a tool or prompt, the `uri` of a
    /// resource, the `taskId` of a task.
    pub subject: Option<String>,
}

/// Where in a trace a request was made (W3C Trace Context, by MCP 2026-07-28 "OpenTelemetry Trace Context").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// `00-<trace id>-<span id>-<flags>` in lower-case hexadecimal digits.
    pub parent: String,
    /// Of the vendors on the way, as it came.
    pub state: Option<String>,
}

impl TraceContext {
    /// One that is malformed is none: a trace is never a reason to refuse.
    fn new(parent: Option<&RawValue>, state: Option<&RawValue>) -> Option<Self> {
        let parent: String = serde_json::from_str(parent?.get()).ok()?;
        let parts: Vec<&str> = parent.split('-').collect();
        let is_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        let is_known = lengths == [2, 32, 16, 2] && parts[0] != "ff" && parts.iter().all(|part| is_hex(part));
        // All zeros is no id.
        let has_ids = is_known && parts[1..3].iter().all(|id| id.bytes().any(|byte| byte != b'0'));
        let state = state.and_then(|state| serde_json::from_str(state.get()).ok());
        has_ids.then_some(Self { parent, state })
    }
}

/// The modern part of a request's `_meta`.
#[derive(Debug, Clone)]
pub struct ModernMeta {
    /// Its sender.
    pub client: ClientFacts,
    /// The least severe log message it wants; `None` wants none.
    pub log_level: Option<LogLevel>,
    /// All that its sender can do.
    pub capabilities: ClientCapabilities,
}

#[derive(Deserialize)]
struct RawParams<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<RawMeta<'a>>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow, rename = "taskId")]
    task_id: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawMeta<'a> {
    #[serde(borrow, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
    #[serde(borrow)]
    traceparent: Option<&'a RawValue>,
    #[serde(borrow)]
    tracestate: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientInfo")]
    info: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/logLevel")]
    log_level: Option<&'a RawValue>,
}

fn field<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>, key: &str) -> Result<Option<T>, WireError> {
    raw.map(|raw| serde_json::from_str(raw.get()))
        .transpose()
        .map_err(|error| WireError::invalid_params(format!("params._meta[\"{key}\"] is not valid: {error}")))
}

impl RequestMeta {
    /// Reads the `_meta` of the raw parameters of `method`.
    ///
    /// # Errors
    /// -32602 where `params` is no object or a key of `_meta` is malformed or missing, -32022 where a version is named
    /// that is not served per request.
    pub fn parse(method: &str, params: Option<&RawValue>) -> Result<Self, WireError> {
        let Some(params) = params else {
            return Ok(Self::default());
        };
        let raw: RawParams<'_> = serde_json::from_str(params.get()).map_err(|error| {
            WireError::invalid_params(format!("params must be an object, with an object as _meta if any: {error}"))
        })?;
        let subject = match method {
            "tools/call" | "prompts/get" => raw.name,
            "resources/read" => raw.uri,
            "tasks/get" | "tasks/update" | "tasks/cancel" => raw.task_id,
            _ => None,
        };
        // One that is no string is refused by its method.
        let subject = subject.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let Some(meta) = raw.meta else {
            return Ok(Self { subject, ..Self::default() });
        };
        let progress_token = field(meta.progress_token, "progressToken")?;
        let version = field::<String>(meta.version, meta_keys::PROTOCOL_VERSION)?;
        let modern = match Era::named(version.as_deref(), meta.capabilities.is_some())? {
            Era::Legacy => None,
            Era::Modern => {
                let capabilities: ClientCapabilities =
                    field(meta.capabilities, meta_keys::CLIENT_CAPABILITIES)?.unwrap_or_default();
                let info: Option<Implementation> = field(meta.info, meta_keys::CLIENT_INFO)?;
                Some(Box::new(ModernMeta {
                    client: ClientFacts::new(&capabilities, info.as_ref()),
                    log_level: field(meta.log_level, meta_keys::LOG_LEVEL)?,
                    capabilities,
                }))
            }
        };
        let trace = TraceContext::new(meta.traceparent, meta.tracestate);
        Ok(Self { progress_token, modern, trace, subject })
    }

    /// The era that it puts its request in.
    pub fn era(&self) -> Era {
        if self.modern.is_some() { Era::Modern } else { Era::Legacy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MODERN, code};

    fn parse(json: &str) -> Result<RequestMeta, WireError> {
        RequestMeta::parse("tools/call", Some(&RawValue::from_string(json.to_owned()).unwrap()))
    }

    #[test]
    fn a_request_without_modern_keys_is_legacy() {
        assert!(parse("{}").unwrap().modern.is_none());
        let meta = parse(r#"{"_meta":{"progressToken":7}}"#).unwrap();
        assert!(meta.modern.is_none() && meta.progress_token.is_some());
    }

    #[test]
    fn a_modern_request_names_version_and_capabilities() {
        let meta = parse(
            r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
                "io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},
                "io.modelcontextprotocol/logLevel":"warning"}}"#,
        )
        .unwrap();
        let modern = meta.modern.unwrap();
        assert!(modern.client.can_be_asked);
        assert_eq!(modern.log_level, Some(LogLevel::Warning));
    }

    #[test]
    fn a_trace_is_taken_where_it_is_one() {
        let id = "0af7651916cd43dd8448eb211c80319c";
        let trace = |parent: &str| parse(&format!(r#"{{"_meta":{{"traceparent":"{parent}"}}}}"#)).unwrap().trace;
        let good = format!("00-{id}-00f067aa0ba902b7-01");
        assert_eq!(trace(&good).unwrap().parent, good);
        let nobody = "0".repeat(32);
        for wrong in ["", "x", &good[1..], &good.to_uppercase(), &good.replace(id, &nobody)] {
            assert_eq!(trace(wrong), None, "{wrong}");
        }
        assert_eq!(parse(r#"{"_meta":{"traceparent":7}}"#).unwrap().trace, None);
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        let error = parse(r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#).unwrap_err();
        assert_eq!(error.code, code::INVALID_PARAMS);
        assert!(error.message.contains(meta_keys::CLIENT_CAPABILITIES), "{error}");
        let error = parse(r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}"#).unwrap_err();
        assert!(error.message.contains(meta_keys::PROTOCOL_VERSION), "{error}");
        let error = parse(
            r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2031-01-01","io.modelcontextprotocol/clientCapabilities":{}}}"#,
        )
        .unwrap_err();
        assert_eq!(error.code, code::UNSUPPORTED_PROTOCOL_VERSION);
        assert_eq!(error.data.unwrap()["supported"][0], MODERN);
    }

    #[test]
    fn the_subject_is_the_field_of_its_method_and_no_other() {
        let params = RawValue::from_string(r#"{"name":"n","uri":"u","taskId":"t"}"#.to_owned()).unwrap();
        for (method, expected) in
            [("tools/call", Some("n")), ("resources/read", Some("u")), ("tasks/get", Some("t")), ("tools/list", None)]
        {
            assert_eq!(RequestMeta::parse(method, Some(&params)).unwrap().subject.as_deref(), expected, "{method}");
        }
        let twice = RawValue::from_string(r#"{"name":"n","name":"m"}"#.to_owned()).unwrap();
        assert_eq!(RequestMeta::parse("tools/call", Some(&twice)).unwrap_err().code, code::INVALID_PARAMS);
    }

    #[test]
    fn form_elicitation_is_the_default_kind() {
        let can = |json: &str| supports_form_elicitation(&serde_json::from_str(json).unwrap());
        assert!(can(r#"{"elicitation":{}}"#));
        assert!(can(r#"{"elicitation":{"form":{},"url":{}}}"#));
        assert!(!can(r#"{"elicitation":{"url":{}}}"#));
        assert!(!can("{}"));
    }
}
