//! Approval questions: the table of those put to legacy clients, and how each is settled. How they are worded and what an
//! answer means is in [`crate::convert::question`].
//!
//! An answer counts once: it is taken out of the table, and core refuses a second decision for the same approval.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use openoxide_core::{ApprovalId, ApprovalRequest, Decider, Decision, DenialReason, Op, Thread};
use openoxide_mcp_protocol::{Outcome, RequestId, parse_unique};
use openoxide_rpc::lock;
use serde_json::Value;

use super::calls::Call;
use crate::convert::question::{self, deny};
use crate::server::ApprovalStrategy;

/// The questions put to this connection with `elicitation/create` and not answered yet, by their unguessable id.
#[derive(Default)]
pub(crate) struct Questions(Mutex<HashMap<RequestId, Question>>);

struct Question {
    thread: Arc<Thread>,
    approval: ApprovalId,
    /// The call that asked.
    call: u64,
    /// Who is asked, by name.
    client: Option<String>,
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Question>> {
        lock(&self.0)
    }

    /// Enters a question of `call` and returns the id to ask it under: a random UUID of its own.
    pub(crate) fn enter(&self, thread: &Arc<Thread>, approval: ApprovalId, call: &Call) -> RequestId {
        let id = RequestId::String(ApprovalId::new().to_string().into());
        self.lock().insert(
            id.clone(),
            Question { thread: Arc::clone(thread), approval, call: call.gate.key(), client: call.client.name.clone() },
        );
        id
    }

    /// Settles the question that `id` names. An id that names none (answered, withdrawn, made up) is ignored.
    pub(crate) fn answered(&self, id: &RequestId, outcome: Outcome) {
        let Some(question) = self.lock().remove(id) else {
            tracing::debug!(?id, "an answer to no open question is ignored");
            return;
        };
        let by = Decider::Client(question.client);
        match outcome {
            // What is no JSON after all is no answer either.
            Outcome::Result(result) => {
                let answer = parse_unique(result.get()).unwrap_or(Value::Null);
                settle_by_answer(&question.thread, question.approval, &answer, by);
            }
            Outcome::Error(error) => {
                tracing::info!(error = error.get(), "the client answered a question with an error");
                settle(&question.thread, question.approval, deny(DenialReason::Error), by);
            }
        }
    }

    /// Settles every question as denied: the client that was asked went away.
    pub(crate) fn disconnect(&self) {
        let open: Vec<Question> = self.lock().drain().map(|(_, question)| question).collect();
        for Question { thread, approval, client, .. } in open {
            settle_disconnected(&thread, approval, client);
        }
    }

    /// Takes back the question about `approval`, wherever it was settled; returns its id so that the client can be told.
    pub(crate) fn withdraw(&self, approval: ApprovalId) -> Option<RequestId> {
        let mut questions = self.lock();
        let id = questions.iter().find(|(_, question)| question.approval == approval)?.0.clone();
        questions.remove(&id);
        Some(id)
    }

    /// Takes back every question of a call.
    pub(crate) fn withdraw_call(&self, call: u64) -> Vec<RequestId> {
        let mut withdrawn = Vec::new();
        self.lock().retain(|id, question| {
            if question.call == call {
                withdrawn.push(id.clone());
            }
            question.call != call
        });
        withdrawn
    }
}

/// Gives what a client answered to core. An answer to what is not asked, or not any more, changes nothing.
pub(crate) fn settle_by_answer(thread: &Arc<Thread>, approval: ApprovalId, answer: &Value, by: Decider) {
    let Some(request) = thread.pending_approvals().into_iter().find(|request| request.id == approval) else { return };
    let decision = question::from_wire(&request.action, answer);
    settle(thread, approval, decision, by);
}

/// Gives a decision to core. One that comes too late changes nothing.
fn settle(thread: &Arc<Thread>, approval: ApprovalId, decision: Decision, by: Decider) {
    if let Err(error) = thread.submit(Op::Approval { id: approval, decision, by }) {
        tracing::debug!(%error, "a late decision is ignored");
    }
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
