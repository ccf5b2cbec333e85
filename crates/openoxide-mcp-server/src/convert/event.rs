//! Core's events in the words of the wire: the data of a log message, and the phase that progress names.

use openoxide_core::{ApprovalAction, ApprovalRequest, Event, TurnItem, TurnItemKind};
use openoxide_mcp_protocol::{CallStatus, UsageReport};
use serde::Serialize;

use super::data::{self, ApprovalData, ItemData, ItemKindData, StepData};
use super::output;

/// Bytes of a command's output in a log message; the whole is in the model's history and the rollout.
const OUTPUT_SHOWN: usize = 4 * 1024;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum EventData<'a> {
    ThreadStarted { model: &'a str, cwd: String, sandbox: &'a str, approval_policy: &'a str, message: String },
    TurnStarted,
    ItemStarted { item: ItemData<'a> },
    ItemDelta { item_id: u64, delta: &'a str },
    ItemCompleted { item: ItemData<'a> },
    ApprovalRequested { approval: ApprovalData<'a> },
    ApprovalSettled { id: String },
    Usage { usage: UsageReport },
    Plan { plan: Vec<StepData<'a>> },
    Warning { message: &'a str },
    TurnEnded { status: CallStatus, duration_ms: u64 },
}

pub(crate) fn data_of(event: &Event) -> Option<EventData<'_>> {
    Some(match event {
        Event::TurnStarted { .. } => EventData::TurnStarted,
        Event::ItemStarted { item, .. } => EventData::ItemStarted { item: shortened(item) },
        Event::ItemDelta { item_id, delta, .. } => EventData::ItemDelta { item_id: *item_id, delta },
        Event::ItemCompleted { item, .. } => EventData::ItemCompleted { item: shortened(item) },
        Event::ApprovalRequested { request, .. } => EventData::ApprovalRequested { approval: data::approval(request) },
        Event::ApprovalSettled { id, .. } => EventData::ApprovalSettled { id: id.to_string() },
        Event::Usage { usage, .. } => EventData::Usage { usage: data::usage(usage) },
        Event::Plan { steps, .. } => EventData::Plan { plan: data::plan(steps) },
        Event::Warning { message, .. } => EventData::Warning { message },
        Event::TurnEnded { result, .. } => {
            EventData::TurnEnded { status: output::status(result.status), duration_ms: result.duration_ms }
        }
    })
}

/// An item with a long command output cut to its last part, and long diffs cut at their end.
fn shortened(item: &TurnItem) -> ItemData<'_> {
    let mut item = data::item(item, |changes| output::with_cut_diffs(changes, output::CHANGES_SHOWN));
    if let ItemKindData::Command { output, .. } = &mut item.kind
        && output.len() > OUTPUT_SHOWN
    {
        let mut start = output.len() - OUTPUT_SHOWN;
        while !output.is_char_boundary(start) {
            start += 1;
        }
        *output = format!("[{start} bytes before this are left out]\n{}", &output[start..]).into();
    }
    item
}

/// The human sentence of the phase that an event begins.
pub(crate) fn phase_of(event: &Event) -> Option<String> {
    Some(match event {
        Event::TurnStarted { .. } => "thinking".to_owned(),
        Event::ItemStarted { item, .. } => doing(item),
        Event::ItemCompleted { item, .. } => match &item.kind {
            TurnItemKind::Message { .. } | TurnItemKind::Reasoning { .. } => return None,
            TurnItemKind::Command { .. } | TurnItemKind::Patch { .. } | TurnItemKind::Tool { .. } => {
                "thinking".to_owned()
            }
        },
        Event::ApprovalRequested { request, .. } => asking(request),
        Event::Warning { message, .. } => brief(message),
        Event::ItemDelta { .. }
        | Event::ApprovalSettled { .. }
        | Event::Usage { .. }
        | Event::Plan { .. }
        | Event::TurnEnded { .. } => return None,
    })
}

/// The phase while an item is open.
pub(crate) fn doing(item: &TurnItem) -> String {
    match &item.kind {
        TurnItemKind::Message { .. } => "writing".to_owned(),
        TurnItemKind::Reasoning { .. } => "thinking".to_owned(),
        TurnItemKind::Command { argv, .. } => format!("running {}", brief(&openoxide_core::command_line(argv))),
        TurnItemKind::Patch { changes, .. } => match changes.as_slice() {
            [one] => format!("changing {}", brief(&one.path.to_string_lossy())),
            many => format!("changing {} files", many.len()),
        },
        TurnItemKind::Tool { summary, .. } => brief(summary),
    }
}

/// The phase while a question waits.
pub(crate) fn asking(request: &ApprovalRequest) -> String {
    match &request.action {
        ApprovalAction::Command { argv, .. } => {
            format!("waiting for approval of {}", brief(&openoxide_core::command_line(argv)))
        }
        ApprovalAction::UserInput { .. } => "waiting for an answer".to_owned(),
        ApprovalAction::Input { text, .. } => format!("waiting for approval to type {}", brief(text)),
        ApprovalAction::Patch { .. } => "waiting for approval of a patch".to_owned(),
    }
}

/// One line of at most 80 characters.
fn brief(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(80) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use openoxide_core::{ItemStatus, TurnId};

    use super::*;

    fn command(argv: &[&str], output: &str) -> TurnItem {
        let kind = TurnItemKind::Command {
            call_id: "c".to_owned(),
            argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
            cwd: "/w".into(),
            exit_code: None,
            output: output.to_owned(),
            duration_ms: 0,
            status: ItemStatus::InProgress,
        };
        TurnItem { id: 1, kind }
    }

    #[test]
    fn a_phase_names_the_command_behind_the_shell() {
        let item = Arc::new(command(&["bash", "-c", "cargo test"], ""));
        let event = Event::ItemStarted { turn_id: TurnId::new(), item };
        assert_eq!(phase_of(&event).unwrap(), "running cargo test");
    }

    #[test]
    fn a_long_output_keeps_its_end() {
        let item = command(&["x"], &("é".repeat(OUTPUT_SHOWN) + "last line"));
        let ItemKindData::Command { output, .. } = shortened(&item).kind else { panic!("a command") };
        assert!(output.len() < OUTPUT_SHOWN + 100 && output.ends_with("last line") && output.starts_with('['));
    }
}
