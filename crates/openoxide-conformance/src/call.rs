//! One `tools/call` or `prompts/get` as the fixtures see it.

use std::sync::Arc;
use std::time::Duration;

use openoxide_mcp_protocol::request_state::Binding;
use openoxide_mcp_protocol::{
    ClientCapabilities, Era, LogLevel, ProgressMessage, ProgressToken, WireError, notification,
};
use openoxide_mcp_server::Principal;
use openoxide_rpc::Outgoing;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::asking::Questions;
use crate::fixture::Fixture;

/// How long a call that was sent back to its client may take to return.
const STATE_TTL: Duration = Duration::from_secs(600);

/// A request that a fixture answers.
pub(crate) struct Call {
    pub(crate) fixture: Arc<Fixture>,
    pub(crate) principal: Principal,
    pub(crate) era: Era,
    /// The tool or the prompt.
    pub(crate) name: String,
    pub(crate) arguments: Value,
    pub(crate) input_responses: Map<String, Value>,
    pub(crate) request_state: Option<String>,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) takes_tasks: bool,
    pub(crate) progress_token: Option<ProgressToken>,
    /// The least severe message that is wanted.
    pub(crate) log_level: Option<LogLevel>,
    /// Takes what belongs to the request.
    pub(crate) out: Arc<Outgoing>,
    pub(crate) questions: Arc<Questions>,
}

/// What a call that was sent back carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Parked {
    /// How often it was sent back before.
    pub(crate) round: u32,
    /// What its client has said so far.
    pub(crate) name: Option<String>,
    /// Makes each state another one.
    nonce: uuid::Uuid,
}

impl Parked {
    /// A state of this round.
    pub(crate) fn new(round: u32, name: Option<String>) -> Self {
        Self { round, name, nonce: uuid::Uuid::new_v4() }
    }
}

impl Call {
    /// A string among the arguments; empty where there is none.
    pub(crate) fn text(&self, argument: &str) -> &str {
        self.arguments.get(argument).and_then(Value::as_str).unwrap_or_default()
    }

    /// Says something to clients that want to hear it.
    pub(crate) fn log(&self, level: LogLevel, data: &str) {
        if self.log_level.is_some_and(|least| level >= least) {
            let params = json!({ "level": level, "logger": "openoxide-conformance", "data": data });
            self.out.push(notification("notifications/message", &params));
        }
    }

    /// Says how far it is.
    pub(crate) fn progress(&self, progress: u64, message: &str) {
        if let Some(progress_token) = &self.progress_token {
            let params = ProgressMessage { progress_token, progress, message };
            self.out.push(notification("notifications/progress", &params));
        }
    }

    fn with_binding<T>(&self, act: impl FnOnce(&Binding<'_>) -> T) -> T {
        let (principal, arguments) = (self.principal.to_string(), self.arguments.to_string());
        act(&Binding { principal: &principal, tool: &self.name, arguments: &arguments })
    }

    /// Seals what the call is to come back with.
    pub(crate) fn seal(&self, parked: &Parked) -> String {
        self.with_binding(|binding| self.fixture.seal.seal(parked, binding, STATE_TTL))
    }

    /// What it came back with, if anything.
    pub(crate) fn parked(&self) -> Result<Option<Parked>, WireError> {
        let Some(state) = &self.request_state else { return Ok(None) };
        self.with_binding(|binding| self.fixture.seal.open(state, binding)).map(Some)
    }
}
