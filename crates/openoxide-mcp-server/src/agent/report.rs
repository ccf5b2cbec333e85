//! What a call is told of its turn: progress and log messages, made from core's events.

use std::sync::Arc;

use openoxide_core::{Event, Thread, TurnId};
use openoxide_mcp_protocol::{CallMeta, LogLevel, LogMessage};

use crate::backend::Call;
use crate::compat::codex::Events;
use crate::convert::event::{EventData, data_of, phase_of};

/// Reports on one turn to one call.
pub(super) struct Reporter {
    meta: CallMeta,
    thread: Arc<Thread>,
    /// Whether the call is one of Codex's tools, and told as such.
    is_codex: bool,
    codex: Events,
}

impl Reporter {
    /// For `call`, which follows `turn`.
    pub(super) fn new(call: &Call, thread: &Arc<Thread>, turn: TurnId, is_codex: bool) -> Self {
        let meta =
            CallMeta { request_id: call.id.clone(), thread_id: thread.id().to_string(), turn_id: turn.to_string() };
        Self { meta, thread: Arc::clone(thread), is_codex, codex: Events::default() }
    }

    /// Says what a thread begins with: the model, the sandbox and the policy in force, and which settings are `ignored`.
    pub(super) fn thread_started(&self, call: &Call, ignored: &[String]) {
        if self.is_codex {
            return self.tell_codex(call, "", Events::configured(&self.thread, ignored));
        }
        if !call.wants(LogLevel::Info) {
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
        self.log(call, LogLevel::Info, &data);
    }

    fn log(&self, call: &Call, level: LogLevel, data: &EventData<'_>) {
        call.push("notifications/message", &LogMessage { level, logger: "openoxide", data, meta: Some(&self.meta) });
    }

    fn tell_codex(&self, call: &Call, id: &str, messages: Vec<serde_json::Value>) {
        let meta = serde_json::json!({ "requestId": self.meta.request_id, "threadId": self.meta.thread_id });
        for message in messages {
            call.push("codex/event", &serde_json::json!({ "_meta": meta, "id": id, "msg": message }));
        }
    }

    /// Tells an event as progress and as a log message. Waits while the client is behind; core merges what comes
    /// meanwhile.
    pub(super) async fn event(&mut self, call: &Call, event: &Event) {
        if let Some(phase) = phase_of(event) {
            call.phase(phase);
        }
        if self.is_codex {
            let _room = call.out.room_to_tell().await;
            let messages = self.codex.of(event, &self.thread);
            return self.tell_codex(call, &self.meta.turn_id, messages);
        }
        let level = match event {
            Event::ItemDelta { .. } | Event::Usage { .. } => LogLevel::Debug,
            Event::Warning { .. } => LogLevel::Warning,
            Event::TurnStarted { .. }
            | Event::ItemStarted { .. }
            | Event::ItemCompleted { .. }
            | Event::ApprovalRequested { .. }
            | Event::ApprovalSettled { .. }
            | Event::Plan { .. }
            | Event::TurnEnded { .. } => LogLevel::Info,
        };
        if !call.wants(level) {
            return;
        }
        let _room = call.out.room_to_tell().await;
        if let Some(data) = data_of(event) {
            self.log(call, level, &data);
        }
    }
}
