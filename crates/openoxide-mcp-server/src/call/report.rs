//! What a call tells its client while it is open: progress and log messages, made from core's events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openoxide_core::{Event, Thread, TurnId};
use openoxide_mcp_protocol::{CallMeta, LogLevel, LogMessage, ProgressMessage, notification};

use crate::compat::codex::Events;
use crate::connection::ConnectionLogLevel;
use crate::connection::calls::Call;
use crate::convert::event::{EventData, data_of, phase_of};

/// Progress is sent at least this often while a call is open.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(5);

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
        self.call.wants(level, &self.connection_level)
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
            Event::TurnStarted { .. }
            | Event::ItemStarted { .. }
            | Event::ItemCompleted { .. }
            | Event::ApprovalRequested { .. }
            | Event::ApprovalSettled { .. }
            | Event::Plan { .. }
            | Event::TurnEnded { .. } => LogLevel::Info,
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
