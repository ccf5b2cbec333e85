//! The message processor: one loop over the lines of input. It never blocks and never waits for core; what takes time is
//! a runner's.

use std::sync::Arc;
use std::time::Duration;

use openoxide_core::CoreError;
use openoxide_mcp_protocol::request_state::Binding;
use openoxide_mcp_protocol::tasks::tasks_not_declared;
use openoxide_mcp_protocol::tools::{ToolCall, ToolCallError, codex};
use openoxide_mcp_protocol::{
    Cacheable, CallToolParams, CancelledParams, ClientFacts, Envelope, EnvelopeError, Era, InitializeParams, LogLevel,
    RequestId, RequestMeta, ToolsPage, WireError, code, complete, discover_result, initialize_result, negotiate_legacy,
    parse_line, parse_params, response, salvage_id, tool_error,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use crate::admission::{self, Reply};
use crate::answers::{Batch, Responder, Route};
use crate::calls::Call;
use crate::connection::Connection;
use crate::door::Session;
use crate::hosts;
use crate::outgoing::{Gate, Outgoing};
use crate::output;
use crate::reader::{Input, Line, MAX_LINE};
use crate::resources;
use crate::runner::{self, Task};
use crate::tasks;

/// Calls that may be open at once.
const MAX_OPEN_CALLS: usize = 4096;
/// What a request that waits for its answer counts beside its parameters, in bytes.
const WAITING_OVERHEAD: usize = 4 * 1024;
/// Messages of one batch: each may be answered at length, and the answers go out together.
const MAX_BATCH: usize = 256;
/// The one legacy revision with batches.
const BATCH_VERSION: &str = "2025-03-26";

/// What `initialize` agreed on.
struct Legacy {
    version: &'static str,
    client: ClientFacts,
}

/// One connection's processor.
pub(crate) struct Processor {
    connection: Arc<Connection>,
    legacy: Option<Legacy>,
}

impl Processor {
    /// A connection that has said nothing yet.
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        Self { connection, legacy: None }
    }

    /// Serves lines until the reader drops its end.
    pub(crate) async fn run(mut self, mut lines: mpsc::Receiver<Input>) {
        let route = Route::line(Arc::clone(&self.connection.out));
        while let Some(input) = lines.recv().await {
            // A client that does not read its answers is not served any further.
            drop(self.connection.out.room_for_input().await);
            self.handle_line(&input.line, &route);
        }
    }

    fn handle_line(&mut self, line: &Line, route: &Route) {
        let line = match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => return,
            Line::Whole(line) => line,
            Line::TooLong(head) => {
                let message = format!("the line is longer than {MAX_LINE} bytes; put long material in a file");
                let error = WireError::invalid_request(message);
                return route.refuse(salvage_id(head).as_ref(), &error);
            }
        };
        match parse_line(line) {
            Ok(message) => self.handle(message, route),
            Err(error) => route.refuse(error.id.as_ref(), &error.error),
        }
    }

    fn handle_batch(&mut self, entries: Vec<Result<Envelope, EnvelopeError>>, out: &Arc<Outgoing>) {
        if self.legacy.as_ref().is_none_or(|legacy| legacy.version != BATCH_VERSION) {
            let message = format!("batches exist in protocol version {BATCH_VERSION} alone; send one message a line");
            return Route::line(Arc::clone(out)).refuse(None, &WireError::invalid_request(message));
        }
        if entries.len() > MAX_BATCH {
            let message = format!("the batch has {} messages; at most {MAX_BATCH} are served", entries.len());
            return Route::line(Arc::clone(out)).refuse(None, &WireError::invalid_request(message));
        }
        let wants_answer =
            |entry: &Result<Envelope, _>| matches!(entry, Err(_) | Ok(Envelope::Request { .. } | Envelope::Batch(_)));
        let count = entries.iter().filter(|entry| wants_answer(entry)).count();
        if count == 0 {
            for entry in entries.into_iter().flatten() {
                self.handle_message(entry, &Route::line(Arc::clone(out)));
            }
            return;
        }
        let batch = Batch::new(Arc::clone(out), count);
        for entry in entries {
            match entry {
                Ok(message) => self.handle_message(message, &Route::batch(Arc::clone(&batch))),
                Err(error) => batch.add(Some(response::<Value>(error.id.as_ref(), Err(&error.error)))),
            }
        }
    }

    fn handle_message(&mut self, message: Envelope, route: &Route) {
        match message {
            Envelope::Request { id, method, params } => {
                let responder = Responder::new(id, route.clone());
                self.handle_request(responder, &method, params.as_deref());
            }
            Envelope::Notification { method, params } => self.handle_notification(&method, params.as_deref()),
            Envelope::Response { id, outcome } => self.connection.questions.answered(&id, outcome),
            Envelope::Batch(_) => {
                let error = WireError::invalid_request("a batch inside a batch");
                route.refuse(None, &error);
            }
        }
    }

    fn handle_notification(&self, method: &str, params: Option<&RawValue>) {
        match method {
            "notifications/cancelled" => match parse_params::<CancelledParams>(method, params) {
                Ok(cancelled) => self.connection.cancel(&cancelled.request_id),
                Err(error) => tracing::debug!(%error, "a malformed cancellation is ignored"),
            },
            "notifications/initialized" | "notifications/roots/list_changed" | "notifications/progress" => {}
            other => tracing::debug!(method = other, "an unknown notification is ignored"),
        }
    }

    fn handle_request(&mut self, responder: Responder, method: &str, params: Option<&RawValue>) {
        let meta = match RequestMeta::parse(params) {
            Ok(meta) => meta,
            Err(error) => return responder.answer::<Value>(Err(&error)),
        };
        let era = if meta.modern.is_some() { Era::Modern } else { Era::Legacy };
        if era == Era::Legacy && method == "initialize" {
            let outcome = self.initialize(params);
            return responder.answer(outcome.as_ref());
        }
        if era == Era::Legacy && self.legacy.is_none() && method != "ping" {
            let message = "the request carries no _meta of protocol version 2026-07-28, and initialize has not been \
                           sent; do either";
            return responder.answer::<Value>(Err(&WireError::invalid_params(message)));
        }
        if method == "tools/call" {
            return self.call_tool(responder, params, meta);
        }
        if method == "subscriptions/listen" && era == Era::Modern {
            let client = meta.modern.map(|modern| modern.client).unwrap_or_default();
            return self.listen(responder, &client, params);
        }
        if let Some(modern) = &meta.modern
            && tasks::answers(method)
        {
            return self.ask_task(responder, method, params, &modern.client);
        }
        if resources::answers(method) {
            return self.read_resources(responder, method, params, era);
        }
        let outcome = self.simple(method, params, era).map(|result| complete(era, result));
        responder.answer(outcome.as_ref());
    }

    /// Answers what concerns a task, on a thread that may block on the disk.
    fn ask_task(&self, responder: Responder, method: &str, params: Option<&RawValue>, client: &ClientFacts) {
        if !client.takes_tasks {
            return responder.answer::<Value>(Err(&tasks_not_declared()));
        }
        let Connection { server, principal, .. } = &*self.connection;
        let (server, principal) = (Arc::clone(server), principal.clone());
        let (method, params, client) = (method.to_owned(), params.map(ToOwned::to_owned), client.clone());
        let bytes = params.as_ref().map_or(0, |params| params.get().len());
        self.answer_in_background(responder, bytes, move || {
            tasks::answer(&server, &principal, &client, &method, params.as_deref())
        });
    }

    /// Answers with what `work` finds on the disk, when there is room for the answer. `bytes` is what the work holds until
    /// then.
    fn answer_in_background(
        &self,
        responder: Responder,
        bytes: usize,
        work: impl FnOnce() -> Result<Value, WireError> + Send + 'static,
    ) {
        let connection = Arc::clone(&self.connection);
        let cost = u32::try_from(bytes + WAITING_OVERHEAD).unwrap_or(u32::MAX);
        let Ok(waiting) = Arc::clone(&connection.waiting).try_acquire_many_owned(cost) else {
            let message = "as many requests wait for their answers as may; read the answers, and send it again";
            return responder.answer::<Value>(Err(&WireError::invalid_request(message)));
        };
        let (open, out) = (connection.server.lifecycle.open(), Arc::clone(responder.out()));
        tokio::spawn(async move {
            // A closed semaphore would be an error, and this one is never closed.
            let reading = connection.reading.acquire().await.ok();
            let room = out.room_for_input().await;
            // Nobody is left to read it.
            if out.is_closed() {
                return;
            }
            match tokio::task::spawn_blocking(work).await {
                Ok(outcome) => responder.answer(outcome.as_ref()),
                Err(error) => {
                    tracing::error!(%error, "a request could not be answered");
                    responder.answer::<Value>(Err(&WireError::new(
                        code::INTERNAL_ERROR,
                        "the request could not be answered; send it again",
                    )));
                }
            }
            drop((reading, waiting, open, room));
        });
    }

    /// Keeps a request open for news.
    fn listen(&self, responder: Responder, client: &ClientFacts, params: Option<&RawValue>) {
        let Connection { subscriptions, server, principal, .. } = &*self.connection;
        if self.connection.has_open(responder.id()) {
            let message = format!("id {} belongs to a request that is still open; use a new id", responder.id());
            return responder.answer::<Value>(Err(&WireError::invalid_request(message)));
        }
        self.watch();
        subscriptions.listen(server, principal, client, responder, params);
    }

    /// Has news of threads told from now on.
    fn watch(&self) {
        let Connection { subscriptions, out, principal, server, .. } = &*self.connection;
        subscriptions.run(out, principal, || server.manager.changes());
    }

    /// Answers what has to be read from the disk, on a thread for it.
    fn read_resources(&self, responder: Responder, method: &str, params: Option<&RawValue>, era: Era) {
        if era == Era::Legacy && method == "resources/list" {
            self.watch();
            self.connection.subscriptions.listed();
        }
        let Connection { server, principal, .. } = &*self.connection;
        let (manager, principal, method) = (Arc::clone(&server.manager), principal.clone(), method.to_owned());
        let params = params.map(ToOwned::to_owned);
        let bytes = params.as_ref().map_or(0, |params| params.get().len());
        self.answer_in_background(responder, bytes, move || {
            let outcome = resources::answer(&manager, &principal, &method, params.as_deref(), era == Era::Modern);
            outcome.map(|result| complete(era, result))
        });
    }

    fn initialize(&mut self, params: Option<&RawValue>) -> Result<Value, WireError> {
        if self.legacy.is_some() {
            return Err(WireError::invalid_request("initialize was sent before; it is sent once on a connection"));
        }
        let params = InitializeParams::parse(params)?;
        let version = negotiate_legacy(&params.protocol_version);
        let client = ClientFacts::new(&params.capabilities, Some(&params.client_info));
        tracing::info!(client = client.name, version, "initialized");
        self.legacy = Some(Legacy { version, client });
        Ok(serde_json::to_value(initialize_result(version)).expect("wire types serialize"))
    }

    /// Every method that is answered at once.
    fn simple(&self, method: &str, params: Option<&RawValue>, era: Era) -> Result<Value, WireError> {
        let modern = era == Era::Modern;
        match method {
            "ping" if !modern => Ok(json!({})),
            "server/discover" if modern => Ok(serde_json::to_value(discover_result()).expect("wire types serialize")),
            "tools/list" => {
                no_cursor(method, params)?;
                let page =
                    ToolsPage { tools: self.connection.server.tools.list(), cache: modern.then_some(Cacheable::FIXED) };
                Ok(serde_json::to_value(page).expect("wire types serialize"))
            }
            "logging/setLevel" if !modern => {
                #[derive(serde::Deserialize)]
                struct Params {
                    level: LogLevel,
                }
                self.connection.log_level.set(parse_params::<Params>(method, params)?.level);
                Ok(json!({}))
            }
            "resources/templates/list" => {
                let mut page = list(method, params, "resourceTemplates", modern)?;
                page["resourceTemplates"] = resources::templates();
                Ok(page)
            }
            "prompts/list" => list(method, params, "prompts", modern),
            "resources/subscribe" if !modern => {
                self.watch();
                self.connection.subscriptions.subscribe(params)
            }
            "resources/unsubscribe" if !modern => self.connection.subscriptions.unsubscribe(params),
            "prompts/get" => {
                #[derive(serde::Deserialize)]
                struct Params {
                    name: String,
                }
                let name = parse_params::<Params>(method, params)?.name;
                Err(WireError::invalid_params(format!("unknown prompt {name:?}; this server has no prompts")))
            }
            "completion/complete" => {
                #[derive(serde::Deserialize)]
                struct Params {
                    #[serde(rename = "ref")]
                    _reference: Value,
                    #[serde(rename = "argument")]
                    _argument: Value,
                }
                parse_params::<Params>(method, params)?;
                Ok(json!({ "completion": { "values": [], "total": 0, "hasMore": false } }))
            }
            other => Err(WireError::method_not_found(other)),
        }
    }

    fn call_tool(&self, responder: Responder, params: Option<&RawValue>, meta: RequestMeta) {
        let connection = &self.connection;
        if connection.has_open(responder.id()) {
            let message = format!("id {} belongs to a call that is still open; use a new id", responder.id());
            return responder.answer::<Value>(Err(&WireError::invalid_request(message)));
        }
        let params = match CallToolParams::parse(params) {
            Ok(params) => params,
            Err(error) => return responder.answer::<Value>(Err(&error)),
        };
        let era = if meta.modern.is_some() { Era::Modern } else { Era::Legacy };
        let tool_call = match connection.server.tools.parse(&params.name, params.arguments.as_deref()) {
            Ok(call) => call,
            Err(ToolCallError::UnknownTool(message)) => {
                return responder.answer::<Value>(Err(&WireError::invalid_params(message)));
            }
            Err(ToolCallError::BadArguments(message)) => return responder.answer(Ok(&tool_error(era, &message))),
        };
        if connection.calls.len() >= MAX_OPEN_CALLS {
            let message =
                format!("{MAX_OPEN_CALLS} calls are open, which is the most there may be; wait for one to end");
            return responder.answer(Ok(&tool_error(era, &message)));
        }
        let Some((open_request, admitting)) = connection.server.lifecycle.admit() else {
            return responder.answer(Ok(&output::refused(era, tool_call.thread_id(), &CoreError::Ending)));
        };
        let binding = (params.name, canonical(params.arguments.as_deref()));
        let parked = match (era, params.request_state, params.input_responses) {
            (Era::Modern, Some(state), answers) => {
                match connection.server.open_state(
                    &state,
                    &Binding { principal: &connection.principal.to_string(), tool: &binding.0, arguments: &binding.1 },
                ) {
                    Ok(parked) => Some((parked, answers.unwrap_or_default())),
                    Err(error) => return responder.answer::<Value>(Err(&error)),
                }
            }
            (Era::Modern, None, Some(_)) => {
                let message = "inputResponses came without the requestState that its questions came with";
                return responder.answer::<Value>(Err(&WireError::invalid_params(message)));
            }
            _ => None,
        };
        let (client, log_level) = match (meta.modern, &self.legacy) {
            (Some(modern), _) => (modern.client, modern.log_level),
            (None, Some(legacy)) => (legacy.client.clone(), None),
            (None, None) => (ClientFacts::default(), None),
        };
        let open = connection.calls.open(Call {
            id: responder.id().clone(),
            era,
            client,
            progress_token: meta.progress_token,
            log_level,
            is_codex: codex::is_codex(&binding.0),
            out: Arc::clone(responder.out()),
            gate: Gate::new(),
            cancelled: tokio::sync::Notify::new(),
        });
        let asked = tool_call.wait_seconds().map(wait_of);
        let limit = asked.or(connection.server.max_wait).or_else(|| {
            let (name, gets_progress) = (open.call.client.name.as_deref(), open.call.progress_token.is_some());
            (era == Era::Legacy).then(|| hosts::wait(name, gets_progress)).flatten()
        });
        let task =
            Task { connection: Arc::clone(connection), open, responder, limit, binding, open_request, admitting };
        let manager = Arc::clone(&connection.server.manager);
        let principal = connection.principal.clone();
        let trace = meta.trace.as_ref().map(|trace| trace.parent.as_str());
        let span = tracing::info_span!("tools/call", tool = task.binding.0, request = %task.open.call.id, trace);
        if let (Some(on_trace), Some(trace)) = (connection.server.on_trace, &meta.trace) {
            on_trace(&span, trace);
        }
        match (parked, tool_call) {
            (Some((parked, answers)), _) => {
                let admission = admission::retry(&manager, &parked, &answers, task.open.call.client.name.clone());
                tokio::spawn(runner::run(task, std::future::ready(admission)).instrument(span));
            }
            (None, ToolCall::Reply(params)) => {
                // Here and not in the runner: prompts of one thread queue in the order they came.
                match span.in_scope(|| admission::reply(&manager, &principal, era, params)) {
                    Reply::Now(admission) => {
                        tokio::spawn(runner::run(task, std::future::ready(admission)).instrument(span))
                    }
                    Reply::Later(admission) => {
                        let admission = admission::unless_cancelled(Arc::clone(&task.open.call), admission);
                        tokio::spawn(runner::run(task, admission).instrument(span))
                    }
                };
            }
            (None, ToolCall::Start(params)) => {
                let admission = async move { admission::start(&manager, &principal, era, params) };
                tokio::spawn(runner::run(task, admission).instrument(span));
            }
            (None, ToolCall::Query(params)) => {
                let admission = admission::query_in_background(manager, principal, era, params);
                tokio::spawn(runner::run(task, admission).instrument(span));
            }
        }
    }
}

impl Session for Processor {
    fn handle(&mut self, message: Envelope, route: &Route) {
        match message {
            Envelope::Batch(entries) => self.handle_batch(entries, route.out()),
            message => self.handle_message(message, route),
        }
    }

    fn agreed_version(&self) -> Option<&'static str> {
        self.legacy.as_ref().map(|legacy| legacy.version)
    }

    fn cancel(&self, id: &RequestId) {
        self.connection.cancel(id);
    }

    fn is_busy(&self) -> bool {
        self.connection.is_busy()
    }

    fn end_subscriptions(&self) {
        self.connection.subscriptions.close();
    }

    fn close(&self) {
        self.connection.close();
    }
}

/// The time a call says it waits; more than can be told is more than anybody lives.
fn wait_of(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Arguments in one form, however their sender ordered and spaced them.
fn canonical(arguments: Option<&RawValue>) -> String {
    let mut value: Value = arguments.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    value.sort_all_objects();
    value.to_string()
}

#[derive(serde::Deserialize)]
struct Page {
    cursor: Option<String>,
}

/// Every list fits one page, so no cursor is ever ours.
fn no_cursor(method: &str, params: Option<&RawValue>) -> Result<(), WireError> {
    match parse_params::<Page>(method, params)?.cursor {
        Some(cursor) => Err(WireError::invalid_params(format!("unknown cursor {cursor:?}; this list has one page"))),
        None => Ok(()),
    }
}

fn list(method: &str, params: Option<&RawValue>, field: &str, modern: bool) -> Result<Value, WireError> {
    no_cursor(method, params)?;
    let mut result = json!({ field: [] });
    if modern {
        result["ttlMs"] = json!(0);
        result["cacheScope"] = json!("private");
    }
    Ok(result)
}
