//! From the parameters of a `tools/call` to its runner: what is refused at once, what the call carries with it, how long
//! it waits, and in which order calls of one thread get in.

use std::sync::Arc;
use std::time::Duration;

use openoxide_core::CoreError;
use openoxide_mcp_protocol::request_state::ParkedCall;
use openoxide_mcp_protocol::tools::{ToolCall, ToolCallError};
use openoxide_mcp_protocol::{CallToolParams, Era, WireError, tool_error};
use openoxide_rpc::Gate;
use serde_json::{Map, Value};
use tracing::Instrument as _;

use super::runner::{self, CallSpec};
use super::submit::{self, Reply};
use super::{CallBinding, Shape};
use crate::compat::hosts;
use crate::connection::Connection;
use crate::connection::Request;
use crate::connection::calls::Call;
use crate::convert::result::CallResult;

/// Calls that may be open at once.
const MAX_OPEN_CALLS: usize = 4096;

/// Begins a call: answers it at once, or has a runner answer it.
pub(crate) fn begin(request: Request<'_>, params: CallToolParams) {
    let connection = Arc::clone(request.connection);
    let era = request.era;
    if connection.has_open(request.responder.id()) {
        let message = format!("id {} belongs to a call that is still open; use a new id", request.responder.id());
        return request.refuse(&WireError::invalid_request(message));
    }
    let CallToolParams { name, arguments, input_responses, request_state } = params;
    let tool_call = match connection.server.tools.parse(&name, arguments.as_deref()) {
        Ok(call) => call,
        Err(ToolCallError::UnknownTool(message)) => return request.refuse(&WireError::invalid_params(message)),
        Err(ToolCallError::BadArguments(message)) => return request.responder.answer(Ok(&tool_error(era, &message))),
    };
    if connection.calls.len() >= MAX_OPEN_CALLS {
        let message = format!("{MAX_OPEN_CALLS} calls are open, which is the most there may be; wait for one to end");
        return request.responder.answer(Ok(&tool_error(era, &message)));
    }
    let shape = Shape::of(&name, tool_call.thread_id());
    let Some((open_request, submitting)) = connection.server.lifecycle.begin_call() else {
        let result = CallResult::refused(tool_call.thread_id(), CoreError::Ending);
        return request.responder.answer(Ok(&shape.result(era, &result)));
    };
    let binding = CallBinding { tool: name, arguments };
    let retry = match retry(&connection, era, &binding, request_state, input_responses) {
        Ok(retry) => retry,
        Err(error) => return request.refuse(&error),
    };
    let client = request.client();
    let Request { meta, responder, .. } = request;
    let open = connection.calls.open(Call {
        id: responder.id().clone(),
        era,
        client,
        progress_token: meta.progress_token,
        log_level: meta.modern.and_then(|modern| modern.log_level),
        is_codex: shape != Shape::Native,
        out: Arc::clone(responder.out()),
        gate: Gate::new(),
        cancelled: tokio::sync::Notify::new(),
    });
    let asked = tool_call.wait_seconds().map(wait_of);
    let limit = asked.or(connection.server.max_wait).or_else(|| {
        let (name, gets_progress) = (open.call.client.name.as_deref(), open.call.progress_token.is_some());
        (era == Era::Legacy).then(|| hosts::wait(name, gets_progress)).flatten()
    });
    let manager = Arc::clone(&connection.server.manager);
    let principal = connection.principal.clone();
    let trace = meta.trace.as_ref().map(|trace| trace.parent.as_str());
    let span = tracing::info_span!("tools/call", tool = binding.tool, request = %open.call.id, trace);
    if let (Some(on_trace), Some(trace)) = (connection.server.on_trace, &meta.trace) {
        on_trace(&span, trace);
    }
    let spec = CallSpec { connection, open, responder, limit, binding, shape, open_request, submitting };
    match (retry, tool_call) {
        (Some(Retry { parked, answers }), _) => {
            let outcome = submit::retry(&manager, &parked, &answers, spec.open.call.client.name.clone());
            tokio::spawn(runner::run(spec, std::future::ready(outcome)).instrument(span));
        }
        (None, ToolCall::Reply(params)) => {
            // Here and not in the runner: prompts of one thread queue in the order they came.
            match span.in_scope(|| submit::reply(&manager, &principal, params)) {
                Reply::Now(outcome) => tokio::spawn(runner::run(spec, std::future::ready(outcome)).instrument(span)),
                Reply::Later(outcome) => {
                    let outcome = submit::unless_cancelled(Arc::clone(&spec.open.call), outcome);
                    tokio::spawn(runner::run(spec, outcome).instrument(span))
                }
            };
        }
        (None, ToolCall::Start(params)) => {
            let outcome = async move { submit::start(&manager, &principal, params) };
            tokio::spawn(runner::run(spec, outcome).instrument(span));
        }
        (None, ToolCall::Query(params)) => {
            let outcome = submit::query_in_background(manager, principal, params);
            tokio::spawn(runner::run(spec, outcome).instrument(span));
        }
    }
}

/// A modern call that has come back: the call it was, and the answers to its questions.
struct Retry {
    parked: ParkedCall,
    answers: Map<String, Value>,
}

fn retry(
    connection: &Connection,
    era: Era,
    binding: &CallBinding,
    state: Option<String>,
    answers: Option<Map<String, Value>>,
) -> Result<Option<Retry>, WireError> {
    match (era, state, answers) {
        (Era::Modern, Some(state), answers) => {
            let parked = binding.with(&connection.principal, |bound| connection.server.open_state(&state, bound))?;
            Ok(Some(Retry { parked, answers: answers.unwrap_or_default() }))
        }
        (Era::Modern, None, Some(_)) => {
            let message = "inputResponses came without the requestState that its questions came with";
            Err(WireError::invalid_params(message))
        }
        (Era::Modern, None, None) | (Era::Legacy, _, _) => Ok(None),
    }
}

/// The time a call says it waits; more than can be told is more than anybody lives.
fn wait_of(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
