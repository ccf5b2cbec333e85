//! From the parameters of a call to its runner: what is refused at once, what the call carries with it, how long it waits,
//! and in which order calls get to their work.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use openoxide_mcp_protocol::request_state::ParkedCall;
use openoxide_mcp_protocol::{CallToolParams, Era, WireError};
use openoxide_rpc::Gate;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::CallBinding;
use super::runner::{self, CallSpec, Limit};
use crate::backend::{Backend, Begun, Call, CallKind, Refusal, Settlement, TaskNames, WantedLevel};
use crate::compat::hosts;
use crate::connection::{Connection, Request};

/// Calls that may be open at once.
const MAX_OPEN_CALLS: usize = 4096;

/// Begins a call: answers it at once, or has a runner answer it.
pub(crate) fn begin(request: Request<'_>, kind: CallKind, params: CallToolParams) {
    let connection = Arc::clone(request.connection);
    let (era, server) = (request.era, &connection.server);
    if connection.has_open(request.responder.id()) {
        let message = format!("id {} belongs to a call that is still open; use a new id", request.responder.id());
        return request.refuse(&WireError::invalid_request(message));
    }
    let CallToolParams { name, arguments, input_responses, request_state } = params;
    let prepared = match server.backend.prepare(kind, &name, arguments.as_deref()) {
        Ok(prepared) => prepared,
        Err(Refusal::Error(error)) => return request.refuse(&error),
        Err(Refusal::Result(message)) => return request.answer(kind.failed(era, &message)),
    };
    if connection.calls.len() >= MAX_OPEN_CALLS {
        let message = format!("{MAX_OPEN_CALLS} calls are open, which is the most there may be; wait for one to end");
        return request.answer(kind.failed(era, &message));
    }
    let Some((open_request, submitting)) = server.lifecycle.begin_call() else {
        return request.answer(prepared.too_late(era));
    };
    // A state of a tool is none of a prompt of its name.
    let bound = match kind {
        CallKind::Tool => name.clone(),
        CallKind::Prompt => format!("prompts/get {name}"),
    };
    let binding = CallBinding { tool: bound, arguments };
    let (parked, answers) = match (era, request_state, input_responses) {
        (Era::Legacy, _, _) | (Era::Modern, None, None) => (None, Map::new()),
        (Era::Modern, None, Some(answers)) if prepared.may_begin_anew() => (None, answers),
        (Era::Modern, None, Some(_)) => {
            let message = "inputResponses came without the requestState that its questions came with";
            return request.refuse(&WireError::invalid_params(message));
        }
        (Era::Modern, Some(state), answers) => {
            match binding.with(&connection.principal, |bound| server.open_state(&state, bound)) {
                Ok(parked) => (Some(parked), answers.unwrap_or_default()),
                Err(error) => return request.refuse(&error),
            }
        }
    };
    let client = request.client();
    let Request { meta, responder, .. } = request;
    let log_level = match meta.modern {
        Some(modern) => WantedLevel::OfRequest(modern.log_level),
        None => WantedLevel::OfConnection(Arc::clone(&connection.log_level)),
    };
    let open = connection.calls.open(Call {
        id: responder.id().clone(),
        era,
        name,
        principal: connection.principal.clone(),
        client,
        progress_token: meta.progress_token,
        log_level,
        out: Arc::clone(responder.out()),
        gate: Gate::new(),
        cancelled: Notify::new(),
        has_timed_out: Default::default(),
        progress: Default::default(),
        recent: (era == Era::Legacy).then(|| Arc::clone(&connection.recent)),
        tasks: Arc::clone(&connection.server) as Arc<dyn TaskNames>,
    });
    let limit = match (prepared.wait().or(server.max_wait), era) {
        (Some(after), _) => Some(Limit::Asked(after)),
        (None, Era::Legacy) => {
            let otherwise = server.answer_within.filter(|_| prepared.may_answer_early());
            let (name, gets_progress) = (open.call.client.name.as_deref(), open.call.wants_progress());
            hosts::wait(name, gets_progress, otherwise).map(|within| Limit::Patience { within, since: Instant::now() })
        }
        (None, Era::Modern) => None,
    };
    let trace = meta.trace.as_ref().map(|trace| trace.parent.as_str());
    let span = match kind {
        CallKind::Tool => tracing::info_span!("tools/call", tool = open.call.name, request = %open.call.id, trace),
        CallKind::Prompt => tracing::info_span!("prompts/get", prompt = open.call.name, request = %open.call.id, trace),
    };
    if let (Some(on_trace), Some(trace)) = (server.on_trace, &meta.trace) {
        on_trace(&span, trace);
    }
    // Here and not in the runner, so that calls begin in the order they came.
    let (begun, answers): (BoxFuture<'static, Begun>, _) = span.in_scope(|| match parked {
        // The answers are for what was put to the call that comes back, and for nothing that is asked later.
        Some(parked) => {
            let begun = come_back(&connection, &open.call, &parked, &answers);
            (Box::pin(std::future::ready(begun)) as _, Map::new())
        }
        None => (prepared.begin(&open.call), answers),
    });
    let spec = CallSpec { connection, open, responder, kind, limit, binding, answers, open_request, submitting };
    tokio::spawn(runner::run(spec, begun).instrument(span));
}

/// Brings a parked call back to its work with the answers it collected. Never begins anything, and settles nothing that is
/// settled already.
fn come_back(connection: &Connection, call: &Arc<Call>, parked: &ParkedCall, answers: &Map<String, Value>) -> Begun {
    let backend: &dyn Backend = &*connection.server.backend;
    let Some(work) = backend.work(&parked.work) else { return Begun::Answer(backend.gone(call, &parked.work)) };
    let waiting = work.questions();
    // Attached first, so that nothing is missed that comes of the answers.
    let begun = Arc::clone(&work).attach(call);
    for question in waiting.iter().filter(|question| parked.approvals.contains(&question.id)) {
        if let Some(answer) = answers.get(&question.id) {
            work.settle(&question.id, Settlement::Answer(answer), call.client.name.as_deref());
        }
    }
    begun
}
