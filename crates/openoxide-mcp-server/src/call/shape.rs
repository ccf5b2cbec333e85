//! Where the wire shape of a call is chosen: that of our own tools, or that of Codex's.

use openoxide_core::{ApprovalRequest, Thread};
use openoxide_mcp_protocol::tools::codex::is_codex;
use openoxide_mcp_protocol::{Era, RequestId};
use serde_json::Value;

use crate::compat::codex;
use crate::convert::question;
use crate::convert::result::CallResult;

/// What the results and questions of a call look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Those of our own tools.
    Native,
    /// Those of Codex's tools.
    Codex {
        /// The thread that the call names.
        asked: Option<String>,
    },
}

impl Shape {
    /// The shape for calls of a tool. `asked` is the thread that the call names.
    pub(crate) fn of(tool: &str, asked: Option<&str>) -> Self {
        match is_codex(tool) {
            true => Self::Codex { asked: asked.map(str::to_owned) },
            false => Self::Native,
        }
    }

    /// The result of a call.
    pub(crate) fn result(&self, era: Era, result: &CallResult) -> Value {
        match self {
            Self::Native => result.to_wire(era),
            Self::Codex { asked } => codex::result(era, result, asked.as_deref()),
        }
    }

    /// The parameters of `elicitation/create` for a question of core that `call` asks.
    pub(crate) fn question(&self, request: &ApprovalRequest, thread: &Thread, call: &RequestId) -> Value {
        let as_codex = match self {
            Self::Native => None,
            Self::Codex { .. } => codex::question(request, &thread.config().cwd, call),
        };
        as_codex.unwrap_or_else(|| question::to_wire(request))
    }
}
