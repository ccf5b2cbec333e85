//! Turn results of core to tool results of the wire.

use std::time::Instant;

use openoxide_core::{CoreError, FileChange, Thread, TurnId, TurnResult, TurnStatus, quote_path};
use openoxide_mcp_protocol::{
    CallStatus, DenialReport, Era, FileDiff, ToolOutput, TurnReport, cut_diff, cut_to, room_beside, tool_result,
};
use serde_json::Value;

use super::data::{self, ChangeData};

/// Bytes of diffs that the changes of one patch are shown with.
pub(crate) const CHANGES_SHOWN: usize = 32 * 1024;

/// What a call says whose turn goes on: first what to do, because a model may read no further. "last" is known of a
/// connection, which a modern request has none of.
pub(super) fn running_text(era: Era, thread: &Thread, turn: TurnId) -> String {
    let last = match era {
        Era::Legacy => " (or \"last\")",
        Era::Modern => "",
    };
    let question = match thread.pending_approvals().iter().any(|request| request.turn_id == turn) {
        true => " It waits for an answer of the person to a question, which that call puts again.",
        false => "",
    };
    format!(
        "The turn is not finished; it goes on. To wait for its result call openoxide-reply with thread_id \"{}\"{last} and no \
         prompt.{question}",
        thread.id()
    )
}

/// What a call says that has closed its thread.
pub(super) const CLOSED: &str = "The thread is closed.";

/// How a turn that has ended stands, in the wire's words.
pub(crate) fn status(status: TurnStatus) -> CallStatus {
    match status {
        TurnStatus::Completed => CallStatus::Completed,
        TurnStatus::Interrupted => CallStatus::Interrupted,
        _ => CallStatus::Failed,
    }
}

/// Whether a turn that has ended is an error to its client.
pub(crate) fn is_failure(result: &TurnResult) -> bool {
    status(result.status) == CallStatus::Failed
}

/// The result of a turn that has ended.
pub(crate) fn ended(era: Era, thread: &Thread, result: &TurnResult) -> Value {
    let status = status(result.status);
    let file_diffs = file_diffs(result);
    let beside = file_diffs.iter().map(|file| file.diff.len()).sum();
    let output = ToolOutput {
        content: result.content.clone(),
        status: Some(status),
        files_changed: result.shown_files().map(quote_path).collect(),
        binary_files: result.files_without_diff().map(quote_path).collect(),
        diff: result.diff.as_deref().map(|diff| cut_diff(diff, beside)),
        file_diffs,
        denials: result
            .denials
            .iter()
            .map(|denial| DenialReport {
                what: denial.what.clone(),
                reason: denial.reason.as_str().to_owned(),
                note: denial.note.clone(),
            })
            .collect(),
        warnings: result.warnings.clone(),
        turn: Some(TurnReport {
            usage: Some(data::usage(&result.usage)),
            thread_usage: Some(data::usage(&result.thread_usage)),
            ..of_turn(thread, result.turn_id, result.duration_ms)
        }),
        ..of_thread(thread)
    };
    tool_result(era, &output, is_failure(result))
}

/// The diff of each file by itself: the short ones first, for as long as there is room.
fn file_diffs(result: &TurnResult) -> Vec<FileDiff> {
    let mut room = room_beside(result.diff.as_deref().unwrap_or_default());
    let diffs = result.file_diffs();
    let mut by_length: Vec<usize> = (0..diffs.len()).collect();
    by_length.sort_by_key(|at| diffs[*at].1.len());
    let mut fitting: Vec<usize> = by_length
        .into_iter()
        .map_while(|at| {
            room = room.checked_sub(diffs[at].1.len())?;
            Some(at)
        })
        .collect();
    fitting.sort_unstable();
    let told = fitting.into_iter().map(|at| diffs[at]);
    told.map(|(path, diff)| FileDiff { path: quote_path(path), diff: diff.to_owned() }).collect()
}

/// Changes as the wire has them, with the diff of each cut where it is long, all of them together to about `room` bytes. Short ones are whole and
/// long ones get an equal part, so that none can be hidden behind another.
pub(crate) fn with_cut_diffs(changes: &[FileChange], room: usize) -> Vec<ChangeData<'_>> {
    let parts = parts_of(&changes.iter().map(|change| change.diff.len()).collect::<Vec<_>>(), room);
    let changes = changes.iter().zip(parts);
    changes
        .map(|(change, part)| match change.diff.len() > part {
            true => data::change(change, cut_to(&change.diff, part)),
            false => data::change(change, &*change.diff),
        })
        .collect()
}

/// How much of each of several texts is shown where they have `room` together.
fn parts_of(lengths: &[usize], mut room: usize) -> Vec<usize> {
    let mut by_length: Vec<usize> = (0..lengths.len()).collect();
    by_length.sort_by_key(|at| lengths[*at]);
    let mut parts = vec![0; lengths.len()];
    for (done, at) in by_length.into_iter().enumerate() {
        parts[at] = lengths[at].min(room / (lengths.len() - done));
        room -= parts[at];
    }
    parts
}

/// The answer of a call that stops waiting while its turn goes on.
pub(crate) fn running(era: Era, thread: &Thread, turn: TurnId, started: Option<Instant>) -> Value {
    let milliseconds = started.map_or(0, |at| u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX));
    let output = ToolOutput {
        content: running_text(era, thread, turn),
        status: Some(CallStatus::Running),
        turn: Some(of_turn(thread, turn, milliseconds)),
        ..of_thread(thread)
    };
    tool_result(era, &output, false)
}

/// A failure with the thread it concerns.
pub(crate) fn failed_on(era: Era, thread_id: String, status: CallStatus, message: &str) -> Value {
    let output = ToolOutput { content: message.to_owned(), status: Some(status), ..blank(thread_id) };
    tool_result(era, &output, true)
}

/// An error of core with its hint.
pub(crate) fn sentence(error: &CoreError) -> String {
    match error.hint() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}

fn of_turn(thread: &Thread, turn: TurnId, duration_ms: u64) -> TurnReport {
    let model = thread.config().model.clone();
    TurnReport { turn_id: turn.to_string(), model, usage: None, thread_usage: None, duration_ms }
}

fn of_thread(thread: &Thread) -> ToolOutput {
    let config = thread.config();
    ToolOutput {
        cwd: Some(quote_path(&config.cwd)),
        sandbox: Some(config.sandbox.as_str().to_owned()),
        approval_policy: Some(config.approval_policy.as_str().to_owned()),
        ..blank(thread.id().to_string())
    }
}

fn blank(thread_id: String) -> ToolOutput {
    ToolOutput {
        thread_id,
        content: String::new(),
        status: None,
        cwd: None,
        sandbox: None,
        approval_policy: None,
        files_changed: Vec::new(),
        binary_files: Vec::new(),
        file_diffs: Vec::new(),
        diff: None,
        denials: Vec::new(),
        warnings: Vec::new(),
        turn: None,
    }
}

/// The answer of a call that closes its thread.
pub(crate) fn closed(era: Era, thread: &Thread) -> Value {
    let output = ToolOutput { content: CLOSED.to_owned(), ..of_thread(thread) };
    tool_result(era, &output, false)
}
