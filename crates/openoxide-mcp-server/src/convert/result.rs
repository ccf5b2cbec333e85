//! How a call ended, in core's words, and the result that this makes for a client of our own tools. The results of Codex's
//! tools are made of the same in [`crate::compat::codex`].

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use openoxide_core::{CoreError, Thread, TurnId, TurnResult, TurnStatus};
use openoxide_mcp_protocol::{Era, tool_error};
use serde_json::Value;

use super::output;

/// How a call ended. It has no wire shape before it is answered.
pub(crate) enum CallResult {
    /// Its turn is over.
    Ended(Arc<Thread>, Arc<TurnResult>),
    /// It waits no longer, and its turn goes on.
    Running {
        thread: Arc<Thread>,
        turn: TurnId,
        /// When the turn began; none while it waits for another.
        started: Option<Instant>,
    },
    /// It has closed its thread.
    Closed(Arc<Thread>),
    /// Something went wrong that concerns a thread.
    Failed {
        thread: String,
        /// Interrupted or failed.
        status: TurnStatus,
        message: String,
    },
    /// Core has refused it before there was a turn.
    Refused(CoreError),
    /// It names a thread by what is no thread id.
    BadThreadId(String),
    /// It cannot be done, in a sentence that says why.
    Invalid(String),
}

impl CallResult {
    /// Core refused the call before there was a turn. What the end of the server has cut off concerns the thread that was
    /// asked for.
    pub(crate) fn refused(thread: Option<&str>, error: CoreError) -> Self {
        match (&error, thread) {
            (CoreError::Ending, Some(id)) => Self::failed(id.to_owned(), &error),
            _ => Self::Refused(error),
        }
    }

    /// The call has come to this error on a thread.
    pub(crate) fn failed(thread: String, error: &CoreError) -> Self {
        let status = match error {
            CoreError::Ending => TurnStatus::Interrupted,
            _ => TurnStatus::Failed,
        };
        Self::Failed { thread, status, message: output::sentence(error) }
    }

    /// The turn was interrupted, for a reason that its thread does not know.
    pub(crate) fn interrupted(thread: String, message: &str) -> Self {
        Self::Failed { thread, status: TurnStatus::Interrupted, message: message.to_owned() }
    }

    /// The thread it concerns.
    pub(crate) fn thread_id(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Ended(thread, _) | Self::Running { thread, .. } | Self::Closed(thread) => {
                Some(thread.id().to_string().into())
            }
            Self::Failed { thread, .. } => Some(thread.into()),
            Self::Refused(_) | Self::BadThreadId(_) | Self::Invalid(_) => None,
        }
    }

    /// What it says.
    pub(crate) fn content(&self) -> Cow<'_, str> {
        match self {
            Self::Ended(_, result) => result.content.as_str().into(),
            Self::Running { thread, turn, .. } => output::running_text(Era::Legacy, thread, *turn).into(),
            Self::Closed(_) => output::CLOSED.into(),
            Self::Failed { message, .. } | Self::BadThreadId(message) | Self::Invalid(message) => message.into(),
            Self::Refused(error) => output::sentence(error).into(),
        }
    }

    /// Whether it is an error to its client.
    pub(crate) fn is_error(&self) -> bool {
        match self {
            Self::Ended(_, result) => output::is_failure(result),
            Self::Running { .. } | Self::Closed(_) => false,
            Self::Failed { .. } | Self::Refused(_) | Self::BadThreadId(_) | Self::Invalid(_) => true,
        }
    }

    /// The result of one of our own tools.
    pub(crate) fn to_wire(&self, era: Era) -> Value {
        match self {
            Self::Ended(thread, result) => output::ended(era, thread, result),
            Self::Running { thread, turn, started } => output::running(era, thread, *turn, *started),
            Self::Closed(thread) => output::closed(era, thread),
            Self::Failed { thread, status, message } => {
                output::failed_on(era, thread.clone(), output::status(*status), message)
            }
            Self::Refused(_) | Self::BadThreadId(_) | Self::Invalid(_) => tool_error(era, &self.content()),
        }
    }
}
