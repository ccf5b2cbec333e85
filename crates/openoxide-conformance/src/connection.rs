//! One connection: a legacy session, or a single modern request.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openoxide_mcp_protocol::{
    CallToolParams, CancelledParams, ClientCapabilities, Era, Incoming, InitializeParams, LogLevel, Message, RequestId,
    RequestMeta, WireError, complete, negotiate_legacy, parse_params,
};
use openoxide_mcp_server::{Principal, Session};
use openoxide_rpc::{Responder, Responders};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use uuid::Uuid;

use crate::asking::Questions;
use crate::call::Call;
use crate::fixture::Fixture;
use crate::methods::answer;
use crate::{offer, prompts, tasks, tools};

/// The requests that a task answers, by id.
type Open = Arc<Mutex<HashMap<RequestId, AbortHandle>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// See the module.
pub(crate) struct Connection {
    /// Tells it from others.
    key: Uuid,
    fixture: Arc<Fixture>,
    principal: Principal,
    /// Dropped by each task as it ends.
    /// The revision that `initialize` agreed on, and what it said that the client can do.
    legacy: Option<(&'static str, ClientCapabilities)>,
    log_level: LogLevel,
    questions: Arc<Questions>,
    open: Open,
}

impl Connection {
    /// A connection that has said nothing yet.
    pub(crate) fn new(fixture: Arc<Fixture>, principal: Principal) -> Self {
        let (questions, open) = (Arc::default(), Arc::default());
        Self { key: Uuid::new_v4(), fixture, principal, legacy: None, log_level: LogLevel::Info, questions, open }
    }

    fn handle_request(&mut self, responder: Responder, method: &str, params: Option<&RawValue>, meta: RequestMeta) {
        let era = if meta.modern.is_some() { Era::Modern } else { Era::Legacy };
        let takes_tasks = meta.modern.as_ref().is_some_and(|modern| modern.client.takes_tasks);
        let outcome = match (method, era) {
            ("initialize", Era::Legacy) => self.initialize(params),
            ("logging/setLevel", Era::Legacy) => self.set_level(params),
            ("tools/call" | "prompts/get", _) => return self.call(responder, method, params, meta),
            ("subscriptions/listen", Era::Modern) => return self.fixture.listeners.listen(self.key, responder, params),
            ("tasks/get" | "tasks/update" | "tasks/cancel", Era::Modern) => {
                tasks::answer(&self.fixture.tasks, takes_tasks, method, params)
            }
            _ => answer(&self.fixture, method, params, era),
        };
        responder.answer(outcome.map(|result| complete(era, result)).as_ref());
    }

    fn initialize(&mut self, params: Option<&RawValue>) -> Result<Value, WireError> {
        let params = InitializeParams::parse(params)?;
        let version = negotiate_legacy(&params.protocol_version);
        self.legacy = Some((version, params.capabilities));
        Ok(offer::initialized(version))
    }

    fn set_level(&mut self, params: Option<&RawValue>) -> Result<Value, WireError> {
        #[derive(Deserialize)]
        struct Params {
            level: LogLevel,
        }
        self.log_level = parse_params::<Params>("logging/setLevel", params)?.level;
        Ok(json!({}))
    }

    fn call(&self, responder: Responder, method: &str, params: Option<&RawValue>, meta: RequestMeta) {
        // Both methods have the same parameters.
        let CallToolParams { name, arguments, input_responses, request_state } = match parse_params(method, params) {
            Ok(params) => params,
            Err(error) => return responder.answer::<Value>(Err(&error)),
        };
        let arguments = arguments.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let era = if meta.modern.is_some() { Era::Modern } else { Era::Legacy };
        let takes_tasks = meta.modern.as_ref().is_some_and(|modern| modern.client.takes_tasks);
        let (capabilities, log_level) = match meta.modern {
            Some(modern) => (modern.capabilities, modern.log_level),
            None => {
                let capabilities = self.legacy.as_ref().map(|(_, capabilities)| capabilities.clone());
                (capabilities.unwrap_or_default(), Some(self.log_level))
            }
        };
        let call = Call {
            fixture: Arc::clone(&self.fixture),
            principal: self.principal.clone(),
            era,
            name,
            arguments,
            input_responses: input_responses.unwrap_or_default(),
            request_state,
            capabilities,
            takes_tasks,
            progress_token: meta.progress_token,
            log_level,
            out: Arc::clone(responder.out()),
            questions: Arc::clone(&self.questions),
        };
        match method {
            "tools/call" => self.spawn(responder, era, async move { tools::run(&call).await }),
            _ => responder.answer(prompts::get(&call).map(|result| complete(era, result)).as_ref()),
        }
    }

    /// Answers with what `work` ends with, unless the request is cancelled before.
    fn spawn(
        &self,
        responder: Responder,
        era: Era,
        work: impl Future<Output = Result<Value, WireError>> + Send + 'static,
    ) {
        let (open, id) = (Arc::clone(&self.open), responder.id().clone());
        // Held until the entry is there, so that it is not taken out before it was put in.
        let mut entries = lock(&self.open);
        let handle = tokio::spawn(async move {
            let outcome = work.await;
            lock(&open).remove(responder.id());
            responder.answer(outcome.map(|result| complete(era, result)).as_ref());
        });
        entries.insert(id, handle.abort_handle());
    }
}

impl Session for Connection {
    fn serve(&mut self, message: Message, responders: &Responders) {
        match message {
            Message::Request(Incoming { id, method, meta, params }) => {
                self.handle_request(Responder::new(id, responders.clone()), &method, params.as_deref(), meta);
            }
            Message::Notification { method, params } => {
                if method == "notifications/cancelled"
                    && let Ok(cancelled) = parse_params::<CancelledParams>(&method, params.as_deref())
                {
                    self.cancel(&cancelled.request_id);
                }
            }
            Message::Response { id, outcome } => self.questions.answered(&id, outcome),
            Message::Batch(_) => responders.refuse(None, &WireError::invalid_request("send one message at a time")),
        }
    }

    fn agreed_version(&self) -> Option<&'static str> {
        self.legacy.as_ref().map(|(version, _)| *version)
    }

    fn cancel(&self, id: &RequestId) {
        self.fixture.listeners.cancel(self.key, id);
        if let Some(task) = lock(&self.open).remove(id) {
            task.abort();
        }
    }

    fn is_busy(&self) -> bool {
        !lock(&self.open).is_empty()
    }

    fn end_subscriptions(&self) {
        self.fixture.listeners.end(self.key);
    }

    fn close(&self) {
        self.end_subscriptions();
        for (_, task) in lock(&self.open).drain() {
            task.abort();
        }
    }
}
