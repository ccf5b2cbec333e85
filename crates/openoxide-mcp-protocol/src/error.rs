//! JSON-RPC errors: the codes of the wire and one type that carries them.

use serde::Serialize;
use serde_json::Value;

/// Error codes (MCP 2026-07-28 "Error Codes", JSON-RPC 2.0 section 5.1).
pub mod code {
    /// The line is not JSON.
    pub const PARSE_ERROR: i32 = -32700;
    /// The line is JSON, but no JSON-RPC message we may serve.
    pub const INVALID_REQUEST: i32 = -32600;
    /// The method does not exist in the request's era.
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// The parameters are wrong; the message names the field.
    pub const INVALID_PARAMS: i32 = -32602;
    /// A bug of ours.
    pub const INTERNAL_ERROR: i32 = -32603;
    /// The resource does not exist (2025-11-25 and earlier only).
    pub const RESOURCE_NOT_FOUND: i32 = -32002;
    /// The HTTP headers do not say what the body says.
    pub const HEADER_MISMATCH: i32 = -32020;
    /// The request needs a capability that its client does not declare; `data.requiredCapabilities` names it.
    pub const MISSING_CLIENT_CAPABILITY: i32 = -32021;
    /// The request's protocol version is not served; `data.supported` lists what is.
    pub const UNSUPPORTED_PROTOCOL_VERSION: i32 = -32022;
}

/// A JSON-RPC error object.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct WireError {
    /// One of [`code`].
    pub code: i32,
    /// What was wrong, what was allowed, and what to do.
    pub message: String,
    /// Machine-readable details.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<Value>>,
}

impl WireError {
    /// An error without details.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// -32602 with the field named by the message.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// -32600.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_REQUEST, message)
    }

    /// -32601 for `method`.
    pub fn method_not_found(method: &str) -> Self {
        Self {
            code: code::METHOD_NOT_FOUND,
            message: format!("method not found: {method}"),
            data: Some(Box::new(serde_json::json!({ "method": method }))),
        }
    }

    /// -32021 that names by `required`, a `ClientCapabilities` object, what the client has to declare.
    pub fn missing_capability(message: impl Into<String>, required: Value) -> Self {
        Self {
            code: code::MISSING_CLIENT_CAPABILITY,
            message: message.into(),
            data: Some(Box::new(serde_json::json!({ "requiredCapabilities": required }))),
        }
    }

    /// -32022 for `requested`, listing every version served.
    pub fn unsupported_version(requested: &str) -> Self {
        Self {
            code: code::UNSUPPORTED_PROTOCOL_VERSION,
            message: format!("unsupported protocol version {requested:?}"),
            data: Some(Box::new(serde_json::json!({ "supported": crate::SUPPORTED_VERSIONS, "requested": requested }))),
        }
    }
}
