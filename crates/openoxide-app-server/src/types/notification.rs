//! Everything that is told unasked. One enum, so that nothing of core's gets onto the wire by itself.

use openoxide_rpc::RequestId;
use serde::Serialize;
use serde_json::Value;

use super::thread::{PlanStep, Thread, ThreadItem, ThreadStatus, TokenUsage, Turn, TurnError};

macro_rules! notifications {
    ($($name:ident = $method:literal { $($field:ident: $type:ty),* $(,)? })*) => {
        /// A notification; serialized it is the whole message.
        #[derive(Debug, Serialize)]
        #[serde(tag = "method", content = "params", rename_all_fields = "camelCase")]
        pub(crate) enum Notification {
            $(#[serde(rename = $method)] $name { $($field: $type),* },)*
        }

        impl Notification {
            /// Its name on the wire.
            pub(crate) fn method(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => $method,)*
                }
            }
        }
    };
}

notifications! {
    ThreadStarted = "thread/started" { thread: Thread }
    ThreadStatusChanged = "thread/status/changed" { thread_id: String, status: ThreadStatus }
    ThreadArchived = "thread/archived" { thread_id: String }
    ThreadUnarchived = "thread/unarchived" { thread_id: String }
    ThreadClosed = "thread/closed" { thread_id: String }
    ThreadTokenUsageUpdated = "thread/tokenUsage/updated" { thread_id: String, turn_id: String, token_usage: TokenUsage }
    TurnStarted = "turn/started" { thread_id: String, turn: Turn }
    TurnCompleted = "turn/completed" { thread_id: String, turn: Turn }
    TurnDiffUpdated = "turn/diff/updated" { thread_id: String, turn_id: String, diff: String }
    TurnPlanUpdated = "turn/plan/updated" { thread_id: String, turn_id: String, explanation: Value, plan: Vec<PlanStep> }
    ItemStarted = "item/started" { thread_id: String, turn_id: String, item: ThreadItem, started_at_ms: u64 }
    ItemCompleted = "item/completed" { thread_id: String, turn_id: String, item: ThreadItem, completed_at_ms: u64 }
    AgentMessageDelta = "item/agentMessage/delta" { thread_id: String, turn_id: String, item_id: String, delta: String }
    ReasoningSummaryPartAdded = "item/reasoning/summaryPartAdded" {
        thread_id: String, turn_id: String, item_id: String, summary_index: u32,
    }
    ReasoningSummaryTextDelta = "item/reasoning/summaryTextDelta" {
        thread_id: String, turn_id: String, item_id: String, delta: String, summary_index: u32,
    }
    CommandOutputDelta = "item/commandExecution/outputDelta" {
        thread_id: String, turn_id: String, item_id: String, delta: String,
    }
    ServerRequestResolved = "serverRequest/resolved" { thread_id: String, request_id: RequestId }
    Error = "error" { thread_id: String, turn_id: String, error: TurnError, will_retry: bool }
    Warning = "warning" { thread_id: Option<String>, message: String }
}

impl Notification {
    /// As one line with its newline.
    pub(crate) fn to_line(&self) -> Vec<u8> {
        // String keys and finite numbers always serialize.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}
