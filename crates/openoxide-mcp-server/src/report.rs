//! What a call tells its client while it is open: progress and log messages, made from core's events.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use openoxide_core::{ApprovalAction, ApprovalRequest, Event, PlanStep, Thread, TurnId, TurnItem, TurnItemKind};
use openoxide_mcp_protocol::{CallMeta, CallStatus, LogLevel, LogMessage, ProgressMessage, notification};
use serde::Serialize;

use crate::calls::Call;
use crate::codex::Events;
use crate::output;

/// Progress is sent at least this often while a call is open.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(5);
/// Bytes of a command's output in a log message; the whole is in the model's history and the rollout.
const OUTPUT_SHOWN: usize = 4 * 1024;

/// The log level of a connection (`logging/setLevel`), for its legacy requests.
pub(crate) struct ConnectionLogLevel(AtomicU8);

const LEVELS: [LogLevel; 8] = [
    LogLevel::Debug,
    LogLevel::Info,
    LogLevel::Notice,
    LogLevel::Warning,
    LogLevel::Error,
    LogLevel::Critical,
    LogLevel::Alert,
    LogLevel::Emergency,
];

impl Default for ConnectionLogLevel {
    fn default() -> Self {
        Self(AtomicU8::new(LogLevel::Info as u8))
    }
}

impl ConnectionLogLevel {
    /// Sets the least severe level sent.
    pub(crate) fn set(&self, level: LogLevel) {
        self.0.store(level as u8, Ordering::Relaxed);
    }

    /// The least severe level sent.
    pub(crate) fn get(&self) -> LogLevel {
        LEVELS[usize::from(self.0.load(Ordering::Relaxed))]
    }
}

/// Reports on one turn to one call.
pub(crate) struct Reporter {
    call: Arc<Call>,
    connection_level: Arc<ConnectionLogLevel>,
    meta: CallMeta,
    thread: Arc<Thread>,
    codex: Events,
    progress: u64,
    phase: String,
    phase_began: Instant,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
enum EventData<'a> {
    ThreadStarted { model: &'a str, cwd: String, sandbox: &'a str, approval_policy: &'a str, message: String },
    TurnStarted,
    ItemStarted { item: Cow<'a, TurnItem> },
    ItemDelta { item_id: u64, delta: &'a str },
    ItemCompleted { item: Cow<'a, TurnItem> },
    ApprovalRequested { approval: &'a ApprovalRequest },
    ApprovalSettled { id: String },
    Usage { usage: openoxide_core::Usage },
    Plan { plan: &'a [PlanStep] },
    Warning { message: &'a str },
    TurnEnded { status: CallStatus, duration_ms: u64 },
}

impl Reporter {
    /// For `call`, which is attached to `turn`.
    pub(crate) fn new(
        call: Arc<Call>,
        connection_level: Arc<ConnectionLogLevel>,
        thread: &Arc<Thread>,
        turn: TurnId,
    ) -> Self {
        let meta =
            CallMeta { request_id: call.id.clone(), thread_id: thread.id().to_string(), turn_id: turn.to_string() };
        Self {
            call,
            connection_level,
            meta,
            thread: Arc::clone(thread),
            codex: Events::default(),
            progress: 0,
            phase: String::new(),
            phase_began: Instant::now(),
        }
    }

    /// Says what a thread begins with: the model, the sandbox and the policy in force.
    pub(crate) fn thread_started(&self) {
        if self.call.is_codex {
            return self.tell_codex("", Events::configured(&self.thread));
        }
        if !self.wants(LogLevel::Info) {
            return;
        }
        let config = self.thread.config();
        let (sandbox, approval_policy) = (config.sandbox.as_str(), config.approval_policy.as_str());
        let message = format!(
            "{} works in {}, sandbox {sandbox}, approvals {approval_policy}",
            openoxide_core::visible_text(&config.model),
            openoxide_core::quote_path(&config.cwd)
        );
        let cwd = openoxide_core::quote_path(&config.cwd);
        let data = EventData::ThreadStarted { model: &config.model, cwd, sandbox, approval_policy, message };
        let message = LogMessage { level: LogLevel::Info, logger: "openoxide", data: &data, meta: &self.meta };
        self.call.out.push_for(&self.call.gate, notification("notifications/message", &message));
    }

    /// Whether the client is sent messages of this level.
    fn wants(&self, level: LogLevel) -> bool {
        let wanted = match self.call.era {
            openoxide_mcp_protocol::Era::Modern => self.call.log_level,
            openoxide_mcp_protocol::Era::Legacy => Some(self.connection_level.get()),
        };
        wanted.is_some_and(|wanted| level >= wanted)
    }

    fn tell_codex(&self, id: &str, messages: Vec<serde_json::Value>) {
        let meta = serde_json::json!({ "requestId": self.meta.request_id, "threadId": self.meta.thread_id });
        for message in messages {
            let params = serde_json::json!({ "_meta": meta, "id": id, "msg": message });
            self.call.out.push_for(&self.call.gate, notification("codex/event", &params));
        }
    }

    /// Whether the client asked for progress.
    pub(crate) fn wants_progress(&self) -> bool {
        self.call.progress_token.is_some()
    }

    /// Begins a phase and tells it.
    pub(crate) fn phase(&mut self, phase: impl Into<String>) {
        self.phase = phase.into();
        self.phase_began = Instant::now();
        if let Some(token) = &self.call.progress_token {
            self.progress += 1;
            let params = ProgressMessage { progress_token: token, progress: self.progress, message: &self.phase };
            self.call.out.offer_for(&self.call.gate, notification("notifications/progress", &params));
        }
    }

    /// Says that the phase goes on.
    pub(crate) fn heartbeat(&mut self) {
        if let Some(token) = &self.call.progress_token {
            self.progress += 1;
            let message = format!("{}, {} s", self.phase, self.phase_began.elapsed().as_secs());
            let params = ProgressMessage { progress_token: token, progress: self.progress, message: &message };
            self.call.out.offer_for(&self.call.gate, notification("notifications/progress", &params));
        }
    }

    /// Tells an event as progress and as a log message. Waits while the client is behind; core merges what comes
    /// meanwhile.
    pub(crate) async fn event(&mut self, event: &Event) {
        if let Some(phase) = phase_of(event) {
            self.phase(phase);
        }
        if self.call.is_codex {
            let _room = self.call.out.room_to_tell().await;
            let messages = self.codex.of(event, &self.thread);
            return self.tell_codex(&self.meta.turn_id, messages);
        }
        let level = match event {
            Event::ItemDelta { .. } | Event::Usage { .. } => LogLevel::Debug,
            Event::Warning { .. } => LogLevel::Warning,
            _ => LogLevel::Info,
        };
        if !self.wants(level) {
            return;
        }
        let _room = self.call.out.room_to_tell().await;
        let Some(data) = data_of(event) else { return };
        let message = LogMessage { level, logger: "openoxide", data: &data, meta: &self.meta };
        let line = notification("notifications/message", &message);
        self.call.out.push_for(&self.call.gate, line);
    }
}

fn data_of(event: &Event) -> Option<EventData<'_>> {
    Some(match event {
        Event::TurnStarted { .. } => EventData::TurnStarted,
        Event::ItemStarted { item, .. } => EventData::ItemStarted { item: shortened(item) },
        Event::ItemDelta { item_id, delta, .. } => EventData::ItemDelta { item_id: *item_id, delta },
        Event::ItemCompleted { item, .. } => EventData::ItemCompleted { item: shortened(item) },
        Event::ApprovalRequested { request, .. } => EventData::ApprovalRequested { approval: request },
        Event::ApprovalSettled { id, .. } => EventData::ApprovalSettled { id: id.to_string() },
        Event::Usage { usage, .. } => EventData::Usage { usage: *usage },
        Event::Plan { steps, .. } => EventData::Plan { plan: steps },
        Event::Warning { message, .. } => EventData::Warning { message },
        Event::TurnEnded { result, .. } => {
            EventData::TurnEnded { status: output::status(result), duration_ms: result.duration_ms }
        }
    })
}

/// An item with a long command output cut to its last part, and long diffs cut at their end.
fn shortened(item: &TurnItem) -> Cow<'_, TurnItem> {
    let output = match &item.kind {
        TurnItemKind::Command { output, .. } if output.len() > OUTPUT_SHOWN => output,
        TurnItemKind::Patch { call_id, changes, status } => {
            let (call_id, changes) = (call_id.clone(), output::with_cut_diffs(changes, output::CHANGES_SHOWN));
            return Cow::Owned(TurnItem {
                id: item.id,
                kind: TurnItemKind::Patch { call_id, changes, status: *status },
            });
        }
        _ => return Cow::Borrowed(item),
    };
    let mut start = output.len() - OUTPUT_SHOWN;
    while !output.is_char_boundary(start) {
        start += 1;
    }
    let tail = format!("[{start} bytes before this are left out]\n{}", &output[start..]);
    let mut item = item.clone();
    if let TurnItemKind::Command { output, .. } = &mut item.kind {
        *output = tail;
    }
    Cow::Owned(item)
}

/// The human sentence of the phase that an event begins.
pub(crate) fn phase_of(event: &Event) -> Option<String> {
    Some(match event {
        Event::TurnStarted { .. } => "thinking".to_owned(),
        Event::ItemStarted { item, .. } => match &item.kind {
            TurnItemKind::Message { .. } => "writing".to_owned(),
            TurnItemKind::Reasoning { .. } => "thinking".to_owned(),
            TurnItemKind::Command { argv, .. } => format!("running {}", brief(&openoxide_core::command_line(argv))),
            TurnItemKind::Patch { changes, .. } => match changes.as_slice() {
                [one] => format!("changing {}", brief(&one.path.to_string_lossy())),
                many => format!("changing {} files", many.len()),
            },
            TurnItemKind::Tool { summary, .. } => brief(summary),
        },
        Event::ItemCompleted { item, .. } => match &item.kind {
            TurnItemKind::Message { .. } | TurnItemKind::Reasoning { .. } => return None,
            _ => "thinking".to_owned(),
        },
        Event::ApprovalRequested { request, .. } => match &request.action {
            ApprovalAction::Command { argv, .. } => {
                format!("waiting for approval of {}", brief(&openoxide_core::command_line(argv)))
            }
            ApprovalAction::UserInput { .. } => "waiting for an answer".to_owned(),
            ApprovalAction::Input { text, .. } => format!("waiting for approval to type {}", brief(text)),
            ApprovalAction::Patch { .. } => "waiting for approval of a patch".to_owned(),
        },
        Event::Warning { message, .. } => brief(message),
        _ => return None,
    })
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
    use openoxide_core::ItemStatus;

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
        let TurnItemKind::Command { output, .. } = &shortened(&item).kind else { panic!("a command") };
        assert!(output.len() < OUTPUT_SHOWN + 100 && output.ends_with("last line") && output.starts_with('['));
    }

    #[test]
    fn the_levels_are_in_order() {
        let level = ConnectionLogLevel::default();
        for wanted in LEVELS {
            level.set(wanted);
            assert_eq!(level.get(), wanted);
        }
    }
}
