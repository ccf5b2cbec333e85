//! Answers to requests that are not served: a status, and a JSON-RPC error that says why.

use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use openoxide_mcp_protocol::{RequestId, WireError};

/// A refusal before any message was looked at. The body is a JSON-RPC error without an id.
pub(super) fn refusal(status: StatusCode, error: &WireError) -> Response {
    refusal_of(None, status, error)
}

/// The answer to a message that is refused before it was served: a JSON-RPC error with its id, where it has one.
pub(super) fn refusal_of(id: Option<&RequestId>, status: StatusCode, error: &WireError) -> Response {
    let line = openoxide_mcp_protocol::response::<serde_json::Value>(id, Err(error));
    (status, [(header::CONTENT_TYPE, "application/json")], line).into_response()
}

/// A method that this path does not take.
pub(super) fn not_allowed(method: &Method, why: &str) -> Response {
    let error = WireError::invalid_request(format!("{method} is not for this: {why}"));
    refusal(StatusCode::METHOD_NOT_ALLOWED, &error)
}
