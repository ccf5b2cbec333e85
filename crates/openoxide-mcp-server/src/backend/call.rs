//! One open `tools/call` or `prompts/get`, as its runner and its backend see it: who sent it, and what is told for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use openoxide_mcp_protocol::request_state::WorkName;
use openoxide_mcp_protocol::{
    ClientFacts, Era, LogLevel, LogMessage, ProgressMessage, ProgressToken, RequestId, notification,
};
use openoxide_rpc::{Gate, Outgoing, lock};
use serde::Serialize;
use tokio::sync::Notify;

use super::log_level::ConnectionLogLevel;
use super::recent::Recent;
use crate::principal::Principal;

/// See the module.
pub struct Call {
    /// The request.
    pub(crate) id: RequestId,
    /// How it is served.
    pub(crate) era: Era,
    /// The tool or the prompt.
    pub(crate) name: String,
    /// Whose it is.
    pub(crate) principal: Principal,
    /// Who sent it.
    pub(crate) client: ClientFacts,
    /// Wants progress under this token.
    pub(crate) progress_token: Option<ProgressToken>,
    pub(crate) log_level: WantedLevel,
    /// Takes what is said for it.
    pub(crate) out: Arc<Outgoing>,
    /// What may still be said for it.
    pub(crate) gate: Arc<Gate>,
    /// Told once when the client cancels; the runner is the only one who waits, and a stored permit counts.
    pub(crate) cancelled: Notify,
    /// Set before `cancelled` is told where the client has only waited too long: it still wants the work.
    pub(crate) has_timed_out: AtomicBool,
    pub(crate) progress: Mutex<Progress>,
    /// What the calls of its connection have got to; none for a modern request, which belongs to no connection.
    pub(crate) recent: Option<Arc<Recent>>,
    pub(crate) tasks: Arc<dyn TaskNames>,
}

/// Knows which work a task is about.
pub(crate) trait TaskNames: Send + Sync {
    /// The work of the task of this id, if it is this principal's. Blocks on the disk.
    fn work_of_task(&self, id: &str, principal: &Principal) -> Option<WorkName>;
}

/// The least severe log message that is wanted.
pub(crate) enum WantedLevel {
    /// What a modern request says.
    OfRequest(Option<LogLevel>),
    /// What a legacy connection has set.
    OfConnection(Arc<ConnectionLogLevel>),
}

/// How far a call has got.
#[derive(Default)]
pub(crate) struct Progress {
    told: u64,
    phase: String,
    began: Option<Instant>,
}

impl Call {
    /// The era of the request.
    #[must_use]
    pub fn era(&self) -> Era {
        self.era
    }

    /// The tool or the prompt.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is known of its sender.
    #[must_use]
    pub fn client(&self) -> &ClientFacts {
        &self.client
    }

    /// Whether the client is sent messages of this level.
    #[must_use]
    pub fn wants(&self, level: LogLevel) -> bool {
        let wanted = match &self.log_level {
            WantedLevel::OfRequest(wanted) => *wanted,
            WantedLevel::OfConnection(level) => Some(level.get()),
        };
        wanted.is_some_and(|wanted| level >= wanted)
    }

    /// Tells a log message where it is wanted. Waits while the client is behind.
    pub async fn log(&self, level: LogLevel, data: &impl Serialize) {
        if self.wants(level) {
            let _room = self.out.room_to_tell().await;
            self.push("notifications/message", &LogMessage { level, logger: "openoxide", data, meta: None });
        }
    }

    /// Begins a phase and tells it.
    pub fn phase(&self, phase: impl Into<String>) {
        let mut progress = lock(&self.progress);
        (progress.phase, progress.began) = (phase.into(), Some(Instant::now()));
        let Progress { told, phase, .. } = &mut *progress;
        self.tell_progress(told, phase);
    }

    /// Says that the phase goes on.
    pub(crate) fn heartbeat(&self) {
        let mut progress = lock(&self.progress);
        let seconds = progress.began.map_or(0, |began| began.elapsed().as_secs());
        let message = format!("{}, {seconds} s", progress.phase);
        self.tell_progress(&mut progress.told, &message);
    }

    fn tell_progress(&self, told: &mut u64, message: &str) {
        if let Some(token) = &self.progress_token {
            *told += 1;
            let params = ProgressMessage { progress_token: token, progress: *told, message };
            self.out.offer_for(&self.gate, notification("notifications/progress", &params));
        }
    }

    /// Whether it is cancelled because its client has waited too long.
    pub(crate) fn has_timed_out(&self) -> bool {
        self.has_timed_out.load(Ordering::Acquire)
    }

    /// Whether the client asked for progress.
    pub(crate) fn wants_progress(&self) -> bool {
        self.progress_token.is_some()
    }

    /// Sends a notification that belongs to the call.
    pub(crate) fn push(&self, method: &str, params: &impl Serialize) {
        self.out.push_for(&self.gate, notification(method, params));
    }
}
