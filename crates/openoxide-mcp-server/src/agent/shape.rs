//! Where the wire shape of a call is chosen: that of our own tools, or that of Codex's.

use openoxide_core::{ApprovalRequest, Thread};
use openoxide_mcp_protocol::tools::ToolCall;
use openoxide_mcp_protocol::tools::codex::is_codex;
use openoxide_mcp_protocol::{Era, RequestId};
use serde_json::Value;

use crate::compat::codex;
use crate::convert::question;
use crate::convert::result::CallResult;

/// What the results and questions of a call look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    /// Those of our own tools.
    Native,
    /// Those of Codex's tools.
    Codex {
        /// The thread that the call names.
        asked: Option<String>,
        /// Keys of its `config` that are not read.
        ignored: Vec<String>,
    },
}

impl Shape {
    /// The shape for a call of a tool that is on its way already.
    pub(super) fn of_tool(tool: &str) -> Self {
        match is_codex(tool) {
            true => Self::Codex { asked: None, ignored: Vec::new() },
            false => Self::Native,
        }
    }

    /// The shape for a call of a tool.
    pub(super) fn of(tool: &str, call: &ToolCall) -> Self {
        match Self::of_tool(tool) {
            Self::Native => Self::Native,
            Self::Codex { .. } => {
                Self::Codex { asked: call.thread_id().map(str::to_owned), ignored: call.ignored().to_vec() }
            }
        }
    }

    /// Keys of `config` that are not read.
    pub(super) fn ignored(&self) -> &[String] {
        match self {
            Self::Native => &[],
            Self::Codex { ignored, .. } => ignored,
        }
    }

    /// The result of a call.
    pub(super) fn result(&self, era: Era, result: &CallResult) -> Value {
        match self {
            Self::Native => result.to_wire(era),
            Self::Codex { asked, .. } => codex::result(era, result, asked.as_deref()),
        }
    }

    /// The parameters of `elicitation/create` for a question of core that `call` asks.
    pub(super) fn question(&self, request: &ApprovalRequest, thread: &Thread, call: &RequestId) -> Value {
        let as_codex = match self {
            Self::Native => None,
            Self::Codex { .. } => codex::question(request, &thread.config().cwd, call),
        };
        as_codex.unwrap_or_else(|| question::to_wire(request))
    }
}
