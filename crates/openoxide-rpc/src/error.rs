//! JSON-RPC errors: the codes of the specification and one type that carries them. Codes of a protocol are the protocol's.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Error codes (JSON-RPC 2.0 section 5.1).
pub mod code {
    /// The line is not JSON.
    pub const PARSE_ERROR: i32 = -32700;
    /// The line is JSON, but no JSON-RPC message that may be served.
    pub const INVALID_REQUEST: i32 = -32600;
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// The parameters are wrong; the message names the field.
    pub const INVALID_PARAMS: i32 = -32602;
    /// A bug of the server.
    pub const INTERNAL_ERROR: i32 = -32603;
}

/// A JSON-RPC error object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// One of [`code`], or a code of the protocol.
    pub code: i32,
    /// What was wrong, what was allowed, and what to do.
    pub message: String,
    /// Machine-readable details.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<Value>>,
}

impl RpcError {
    /// An error without details.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same error with machine-readable details.
    #[must_use]
    pub fn with_data(self, data: Value) -> Self {
        Self { data: Some(Box::new(data)), ..self }
    }

    /// -32602 with the field named by the message.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// -32600.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_REQUEST, message)
    }

    /// -32601 for `method`, which `data.method` repeats.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(code::METHOD_NOT_FOUND, format!("method not found: {method}")).with_data(json!({ "method": method }))
    }

    /// -32603.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL_ERROR, message)
    }
}
