//! Core's errors as those of the wire.

use openoxide_core::{CoreError, ErrorKind};
use openoxide_rpc::{RpcError, code};

/// As many of something as there may be: clients try again.
pub(crate) const OVERLOADED: i32 = -32001;

/// The error that a client is told.
pub(crate) fn to_wire(error: &CoreError) -> RpcError {
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    match error {
        CoreError::ThreadNotFound { id } => thread_not_found(&id.to_string()),
        CoreError::ThreadBusy { .. } => RpcError::invalid_request(error.to_string()),
        CoreError::ThreadArchived { id } => {
            RpcError::invalid_request(format!("thread {id} is archived; take it back with thread/unarchive"))
        }
        CoreError::TooManyTurns { .. }
        | CoreError::TooManyThreads { .. }
        | CoreError::TooManyPromptBytes { .. }
        | CoreError::QueueFull { .. } => {
            RpcError::new(OVERLOADED, format!("Server overloaded; retry later. {error}{hint}"))
        }
        _ => match error.kind() {
            ErrorKind::Input | ErrorKind::Denied | ErrorKind::Unavailable => {
                RpcError::new(code::INVALID_REQUEST, format!("{error}{hint}"))
            }
            ErrorKind::Internal => RpcError::internal(format!("{error}{hint}")),
        },
    }
}

/// There is no such thread, or it is not the caller's.
pub(crate) fn thread_not_found(id: &str) -> RpcError {
    RpcError::invalid_request(format!("thread not found: {id}"))
}
