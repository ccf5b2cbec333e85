//! The one place where failures become errors of the wire.

use std::io;

use openoxide_rpc::{RpcError, code};
use openoxide_sandbox::{ErrorKind, OpenError, SandboxError};

use crate::protocol::code::NOT_FOUND;
use crate::relay::Answer;

/// -32004.
pub(super) fn not_found(message: impl Into<String>) -> RpcError {
    RpcError::new(NOT_FOUND, message)
}

/// -32600: what is asked is not allowed, or not possible now.
pub(super) fn refused(message: impl Into<String>) -> RpcError {
    RpcError::invalid_request(message)
}

/// What the sandbox crate says of a command.
pub(super) fn of_sandbox(error: &SandboxError) -> RpcError {
    let message = error.to_string();
    match error.kind() {
        ErrorKind::Input => RpcError::invalid_params(message),
        ErrorKind::Denied => refused(message),
        _ => RpcError::internal(message),
    }
}

/// Why a file is not opened, with its path.
pub(super) fn of_open(path: &str, error: &OpenError) -> RpcError {
    let message = format!("{path}: {error}");
    match error {
        OpenError::NotFound => not_found(message),
        OpenError::Io(error) => of_io(path, error),
        _ => refused(message),
    }
}

/// What the system says of a path.
pub(super) fn of_io(path: &str, error: &io::Error) -> RpcError {
    let message = format!("{path}: {error}");
    match error.kind() {
        io::ErrorKind::NotFound => not_found(message),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::InvalidInput => {
            refused(message)
        }
        _ => RpcError::new(code::INTERNAL_ERROR, message),
    }
}

/// What a worker says of a path.
pub(super) fn of_answer(path: &str, answer: Answer) -> Result<(), RpcError> {
    match answer {
        Answer::Done => Ok(()),
        Answer::NotFound { why } => Err(not_found(format!("{path}: {why}"))),
        Answer::Denied { why } => Err(refused(format!(
            "{path}: denied: {why}; the sandbox lets callers write beneath the directories that the operator allows, and \
             not in .git, .openoxide, .codex and .agents"
        ))),
        Answer::Invalid { why } => Err(refused(why)),
        Answer::Failed { why } => Err(RpcError::internal(format!("{path}: {why}"))),
    }
}
