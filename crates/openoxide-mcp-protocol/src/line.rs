//! MCP's messages as lines: JSON-RPC with its header.

use openoxide_rpc::{Envelope, EnvelopeError, Header, RequestId, RpcError};
use serde::Serialize;

/// Parses one line (without its newline).
///
/// # Errors
/// Those of [`Header::parse`].
pub fn parse_line(line: &[u8]) -> Result<Envelope, EnvelopeError> {
    Header::Present.parse(line)
}

/// A request of ours as one line with its newline.
pub fn request<T: Serialize>(id: &RequestId, method: &str, params: &T) -> Vec<u8> {
    Header::Present.request(id, method, params)
}

/// A notification as one line with its newline.
pub fn notification<T: Serialize>(method: &str, params: &T) -> Vec<u8> {
    Header::Present.notification(method, params)
}

/// An answer as one line with its newline. Without an id (it could not be read) the field is left out, as the MCP
/// schema has it.
pub fn response<T: Serialize>(id: Option<&RequestId>, outcome: Result<&T, &RpcError>) -> Vec<u8> {
    Header::Present.response(id, outcome)
}
