//! A call on its way to its work: what it is of, and how it begins.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use openoxide_mcp_protocol::{Era, WireError, tool_error};

use super::call::Call;
use super::work::{Begun, Outcome};

/// A call that was read, or why it is not begun.
pub type Prepared = Result<Box<dyn PreparedCall>, Refusal>;

/// A call whose tool or prompt is there and whose arguments are right.
pub trait PreparedCall: Send {
    /// How long its caller says it waits.
    fn wait(&self) -> Option<Duration> {
        None
    }

    /// Whether it may be answered before its work is over although its caller has not said so, because the client has a way
    /// to come back for the result.
    fn may_answer_early(&self) -> bool {
        false
    }

    /// Whether it may begin where it comes with answers and without the state of the call that asked: nothing must be done
    /// twice then. The answers are those to the questions of their keys.
    fn may_begin_anew(&self) -> bool {
        false
    }

    /// The answer where the server ends before it has begun.
    fn too_late(&self, _era: Era) -> Outcome {
        Err(WireError::internal("the server ends"))
    }

    /// Begins it. Calls are begun in the order in which they came, so that what must keep that order happens here, and what
    /// takes time in the future.
    fn begin(self: Box<Self>, call: &Arc<Call>) -> BoxFuture<'static, Begun>;
}

/// What a call is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// `tools/call`.
    Tool,
    /// `prompts/get`.
    Prompt,
}

impl CallKind {
    /// A failure, in a result where there are results for it.
    pub(crate) fn failed(self, era: Era, message: &str) -> Outcome {
        match self {
            Self::Tool => Ok(tool_error(era, message)),
            Self::Prompt => Err(WireError::internal(message)),
        }
    }
}

/// Why a call is not begun.
#[derive(Debug)]
pub enum Refusal {
    /// The request is wrong.
    Error(WireError),
    /// The arguments are wrong, which a model is told in a result.
    Result(String),
}
