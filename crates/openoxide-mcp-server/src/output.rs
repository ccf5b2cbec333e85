//! Turn results of core to tool results of the wire.

use std::sync::Arc;
use std::time::Instant;

use openoxide_core::{CoreError, Thread, TurnId, TurnResult, TurnStatus};
use openoxide_mcp_protocol::{
    CallStatus, DenialReport, Era, ToolOutput, UsageReport, cut_diff, tool_error, tool_result,
};
use serde_json::Value;

/// How a turn that has ended stands, in the wire's words.
pub(crate) fn status(result: &TurnResult) -> CallStatus {
    match result.status {
        TurnStatus::Completed => CallStatus::Completed,
        TurnStatus::Interrupted => CallStatus::Interrupted,
        _ => CallStatus::Failed,
    }
}

/// The result of a turn that has ended.
pub(crate) fn ended(era: Era, thread: &Thread, result: &TurnResult) -> Value {
    let status = status(result);
    let report = |usage: &openoxide_core::Usage| UsageReport {
        input_tokens: usage.input_tokens,
        cached_input_tokens: usage.cached_input_tokens,
        output_tokens: usage.output_tokens,
        reasoning_output_tokens: usage.reasoning_output_tokens,
    };
    let output = ToolOutput {
        content: result.content.clone(),
        status: Some(status),
        turn_id: Some(result.turn_id.to_string()),
        files_changed: result.files_changed.clone(),
        diff: result.diff.as_deref().map(cut_diff),
        usage: Some(report(&result.usage)),
        thread_usage: Some(report(&result.thread_usage)),
        duration_ms: Some(result.duration_ms),
        denials: result
            .denials
            .iter()
            .map(|denial| DenialReport { what: denial.what.clone(), reason: denial.reason.as_str().to_owned() })
            .collect(),
        warnings: result.warnings.clone(),
        ..of_thread(thread)
    };
    tool_result(era, &output, status == CallStatus::Failed)
}

/// The result of a turn whose thread was closed under it.
pub(crate) fn cut_short(era: Era, thread: &Thread, turn: TurnId) -> Value {
    match thread.result_of(turn) {
        Some(result) => ended(era, thread, &result),
        None => {
            let why = "the thread was closed before the turn ended";
            failed_on(era, thread.id().to_string(), CallStatus::Interrupted, why)
        }
    }
}

/// The answer of a call that stops waiting while its turn goes on.
pub(crate) fn running(era: Era, thread: &Thread, turn: TurnId, started: Option<Instant>) -> Value {
    let output = ToolOutput {
        content: "The turn is still running. Call openoxide-reply with this thread_id and no prompt to wait for its \
                  result."
            .to_owned(),
        status: Some(CallStatus::Running),
        turn_id: Some(turn.to_string()),
        duration_ms: Some(started.map_or(0, |at| u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX))),
        ..of_thread(thread)
    };
    tool_result(era, &output, false)
}

/// A failure with the thread it concerns.
pub(crate) fn failed_on(era: Era, thread_id: String, status: CallStatus, message: &str) -> Value {
    let output = ToolOutput { content: message.to_owned(), status: Some(status), ..blank(thread_id) };
    tool_result(era, &output, true)
}

/// An error of core that no thread stands behind.
pub(crate) fn refused(era: Era, error: &CoreError) -> Value {
    tool_error(era, &sentence(error))
}

/// An error of core with its hint.
pub(crate) fn sentence(error: &CoreError) -> String {
    match error.hint() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}

fn of_thread(thread: &Thread) -> ToolOutput {
    let config = thread.config();
    ToolOutput { model: Some(config.model.clone()), cwd: Some(config.cwd.clone()), ..blank(thread.id().to_string()) }
}

fn blank(thread_id: String) -> ToolOutput {
    ToolOutput {
        thread_id,
        content: String::new(),
        status: None,
        turn_id: None,
        model: None,
        cwd: None,
        files_changed: Vec::new(),
        diff: None,
        usage: None,
        thread_usage: None,
        duration_ms: None,
        denials: Vec::new(),
        warnings: Vec::new(),
    }
}

/// The answer of a call that closes its thread.
pub(crate) fn closed(era: Era, thread: &Thread) -> Value {
    let output = ToolOutput { content: "The thread is closed.".to_owned(), ..of_thread(thread) };
    tool_result(era, &output, false)
}

/// The last result of a thread on which no turn runs.
pub(crate) fn last(era: Era, thread: &Arc<Thread>, last: Option<&TurnResult>) -> Value {
    match last {
        Some(result) => ended(era, thread, result),
        None => tool_error(era, "no turn has run on this thread yet; send a prompt"),
    }
}
