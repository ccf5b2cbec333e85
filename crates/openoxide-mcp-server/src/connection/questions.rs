//! Approval questions: the table of those put to legacy clients, and how each is settled. How they are worded and what an
//! answer means is in [`crate::convert::question`].
//!
//! An answer counts once: it is taken out of the table, and core refuses a second decision for the same approval.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use openoxide_core::{ApprovalId, ApprovalRequest, Decider, Decision, DenialReason, Op, Thread};
use openoxide_mcp_protocol::{
    CallMeta, CancelledParams, LogLevel, LogMessage, Outcome, RequestId, notification, parse_unique,
};
use openoxide_rpc::lock;
use serde_json::Value;

use super::ConnectionLogLevel;
use super::calls::Call;
use crate::convert::event::EventData;
use crate::convert::question::{self, deny};
use crate::server::ApprovalStrategy;

/// The questions put to this connection with `elicitation/create` and not answered yet, by their unguessable id.
#[derive(Default)]
pub(crate) struct Questions(Mutex<HashMap<RequestId, Question>>);

struct Question {
    thread: Arc<Thread>,
    request: Arc<ApprovalRequest>,
    /// The call that asked.
    call: Arc<Call>,
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Question>> {
        lock(&self.0)
    }

    /// Enters a question of `call` and returns the id to ask it under: a random UUID of its own.
    pub(crate) fn enter(&self, thread: &Arc<Thread>, request: &Arc<ApprovalRequest>, call: &Arc<Call>) -> RequestId {
        let id = RequestId::String(ApprovalId::new().to_string().into());
        let question = Question { thread: Arc::clone(thread), request: Arc::clone(request), call: Arc::clone(call) };
        self.lock().insert(id.clone(), question);
        id
    }

    /// Settles the question that `id` names. An id that names none (answered, withdrawn, made up) is ignored. A client
    /// whose answer comes too late is told so at `level`: another has decided in the same instant.
    pub(crate) fn answered(&self, id: &RequestId, outcome: Outcome, level: &ConnectionLogLevel) {
        let Some(question) = self.lock().remove(id) else {
            tracing::debug!(?id, "an answer to no open question is ignored");
            return;
        };
        let Question { thread, request, call } = &question;
        let by = Decider::Client(call.client.name.clone());
        let is_settled = match outcome {
            // What is no JSON after all is no answer either.
            Outcome::Result(result) => {
                let answer = parse_unique(result.get()).unwrap_or(Value::Null);
                settle_by_answer(thread, request.id, &answer, by)
            }
            Outcome::Error(error) => {
                tracing::info!(error = error.get(), "the client answered a question with an error");
                settle(thread, request.id, deny(DenialReason::Error), by)
            }
        };
        if !is_settled && !call.is_codex && call.wants(LogLevel::Warning, level) {
            question.tell_late();
        }
    }

    /// Takes back every question, for a client that is not told any more.
    pub(crate) fn forget_all(&self) {
        self.lock().clear();
    }

    /// Takes back the question about `approval`, which was settled elsewhere, and tells the client.
    pub(crate) fn withdraw(&self, approval: ApprovalId) {
        self.withdraw_where(|question| question.request.id == approval);
    }

    /// Takes back every question of a call, and tells the client.
    pub(crate) fn withdraw_call(&self, call: &Arc<Call>) {
        self.withdraw_where(|question| Arc::ptr_eq(&question.call, call));
    }

    fn withdraw_where(&self, goes: impl Fn(&Question) -> bool) {
        let withdrawn: Vec<_> = self.lock().extract_if(|_, question| goes(question)).collect();
        for (id, question) in withdrawn {
            let params = CancelledParams { request_id: id, reason: Some("the question is settled".to_owned()) };
            // Where it was asked: messages of one call stay in order.
            question.call.out.push(notification("notifications/cancelled", &params));
        }
    }
}

impl Question {
    /// Tells the client that its answer came too late.
    fn tell_late(&self) {
        let Self { thread, request, call } = self;
        let message = "a question was settled by somebody else before your answer came, which changed nothing";
        let meta = CallMeta {
            request_id: call.id.clone(),
            thread_id: thread.id().to_string(),
            turn_id: request.turn_id.to_string(),
        };
        let data = EventData::Warning { message };
        let message = LogMessage { level: LogLevel::Warning, logger: "openoxide", data: &data, meta: &meta };
        call.out.push_for(&call.gate, notification("notifications/message", &message));
    }
}

/// Gives what a client answered to core. An answer to what is not asked, or not any more, changes nothing.
/// Returns whether it has settled the question.
pub(crate) fn settle_by_answer(thread: &Arc<Thread>, approval: ApprovalId, answer: &Value, by: Decider) -> bool {
    let Some(request) = thread.pending_approvals().into_iter().find(|request| request.id == approval) else {
        return false;
    };
    let decision = question::from_wire(&request.action, answer);
    settle(thread, approval, decision, by)
}

/// Gives a decision to core. One that comes too late changes nothing. Returns whether it has settled the question.
fn settle(thread: &Arc<Thread>, approval: ApprovalId, decision: Decision, by: Decider) -> bool {
    let settled = thread.submit(Op::Approval { id: approval, decision, by });
    if let Err(error) = &settled {
        tracing::debug!(%error, "a late decision is ignored");
    }
    settled.is_ok()
}

/// Has the operator's strategy answer a question that nobody can be asked.
pub(crate) fn settle_unasked(strategy: ApprovalStrategy, thread: &Arc<Thread>, request: &ApprovalRequest) {
    let decision = match strategy {
        ApprovalStrategy::AutoWithinPolicy if request.confined => Decision::Approve,
        _ => deny(DenialReason::NotAskable),
    };
    settle(thread, request.id, decision, Decider::Strategy(strategy.name()));
}

/// Denies a question because the client that was asked, or would be, has gone away.
pub(crate) fn settle_disconnected(thread: &Arc<Thread>, approval: ApprovalId, client: Option<String>) {
    settle(thread, approval, deny(DenialReason::Disconnected), Decider::Client(client));
}
