//! The error codes that MCP adds to those of JSON-RPC, and what goes with them.

use openoxide_rpc::RpcError;
use serde_json::{Value, json};

/// Error codes: those of JSON-RPC, and MCP's own (MCP 2026-07-28 "Error Codes").
pub mod code {
    pub use openoxide_rpc::code::*;

    /// The resource does not exist (2025-11-25 and earlier only).
    pub const RESOURCE_NOT_FOUND: i32 = -32002;
    /// The HTTP headers do not say what the body says.
    pub const HEADER_MISMATCH: i32 = -32020;
    /// The request needs a capability that its client does not declare; `data.requiredCapabilities` names it.
    pub const MISSING_CLIENT_CAPABILITY: i32 = -32021;
    /// The request's protocol version is not served; `data.supported` lists what is.
    pub const UNSUPPORTED_PROTOCOL_VERSION: i32 = -32022;
}

/// -32021 that names by `required`, a `ClientCapabilities` object, what the client has to declare.
pub fn missing_capability(message: impl Into<String>, required: Value) -> RpcError {
    RpcError::new(code::MISSING_CLIENT_CAPABILITY, message).with_data(json!({ "requiredCapabilities": required }))
}

/// -32022 for `requested`, listing every version served.
pub fn unsupported_version(requested: &str) -> RpcError {
    let message = if crate::SUPPORTED_VERSIONS.contains(&requested) {
        format!(
            "protocol version {requested:?} is agreed on by initialize; only {} is named by each request",
            crate::MODERN
        )
    } else {
        format!("unsupported protocol version {requested:?}")
    };
    RpcError::new(code::UNSUPPORTED_PROTOCOL_VERSION, message)
        .with_data(json!({ "supported": crate::SUPPORTED_VERSIONS, "requested": requested }))
}

/// The error for a resource that does not exist, in the words of its era.
pub fn resource_not_found(uri: &str, era: crate::Era, why: &str) -> RpcError {
    let code = match era {
        crate::Era::Modern => code::INVALID_PARAMS,
        crate::Era::Legacy => code::RESOURCE_NOT_FOUND,
    };
    let message = format!("resource {uri:?} not found: {why}; resources/list has those there are");
    RpcError::new(code, message).with_data(json!({ "uri": uri }))
}
