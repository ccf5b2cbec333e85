//! The questions put to a legacy client, by requests of our own. A modern client gets them in a result.
//!
//! An answer counts once: it takes the question out of the table, and the work behind it settles a question once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use openoxide_mcp_protocol::{CancelledParams, Outcome, RequestId, notification, parse_unique};
use openoxide_rpc::lock;
use serde_json::Value;

use crate::backend::{Call, Settlement, Work};

/// Why a question is taken back that is settled.
pub(crate) const SETTLED: &str = "the question is settled";

/// The questions put to this connection with `elicitation/create` and not answered yet, by the ids of those requests.
///
/// The ids count from 0: there are clients that take nothing but a number. They mean something on this connection alone, so
/// that nobody else can answer by guessing one.
#[derive(Default)]
pub(crate) struct Questions {
    open: Mutex<HashMap<RequestId, Question>>,
    next: AtomicI64,
}

struct Question {
    work: Arc<dyn Work>,
    /// Its key there.
    key: String,
    /// The call that asked.
    call: Arc<Call>,
}

impl Question {
    fn settle(&self, how: Settlement<'_>) -> bool {
        self.work.settle(&self.key, how, self.call.client.name.as_deref())
    }
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Question>> {
        lock(&self.open)
    }

    /// Enters a question of `call` and returns the id to ask it under.
    pub(crate) fn enter(&self, work: &Arc<dyn Work>, key: &str, call: &Arc<Call>) -> RequestId {
        let id = RequestId::Number(self.next.fetch_add(1, Ordering::Relaxed));
        let question = Question { work: Arc::clone(work), key: key.to_owned(), call: Arc::clone(call) };
        self.lock().insert(id.clone(), question);
        id
    }

    /// Settles the question that `id` names. An id that names none (answered, withdrawn, made up) is ignored. A client
    /// whose answer comes too late is told so: another has decided in the same instant.
    pub(crate) fn answered(&self, id: &RequestId, outcome: Outcome) {
        let Some(question) = self.lock().remove(id) else {
            tracing::debug!(?id, "an answer to no open question is ignored");
            return;
        };
        let is_settled = match outcome {
            // What is no JSON after all is no answer either.
            Outcome::Result(result) => {
                question.settle(Settlement::Answer(&parse_unique(result.get()).unwrap_or(Value::Null)))
            }
            Outcome::Error(error) => {
                tracing::info!(error = error.get(), "the client answered a question with an error");
                question.settle(Settlement::Error)
            }
        };
        if !is_settled {
            question.work.tell_late(&question.call);
        }
    }

    /// Takes back every question, for a client that is not told any more.
    pub(crate) fn forget_all(&self) {
        self.lock().clear();
    }

    /// Takes back a question that was settled elsewhere, and tells the client.
    pub(crate) fn withdraw(&self, work: &str, key: &str) {
        self.withdraw_where(SETTLED, |question| question.key == key && question.work.id() == work);
    }

    /// Takes back every question of a call, and tells the client why.
    pub(crate) fn withdraw_call(&self, call: &Arc<Call>, why: &str) {
        self.withdraw_where(why, |question| Arc::ptr_eq(&question.call, call));
    }

    fn withdraw_where(&self, why: &str, goes: impl Fn(&Question) -> bool) {
        let withdrawn: Vec<_> = self.lock().extract_if(|_, question| goes(question)).collect();
        for (id, question) in withdrawn {
            let params = CancelledParams { request_id: id, reason: Some(why.to_owned()) };
            // Where it was asked: messages of one call stay in order.
            question.call.out.push(notification("notifications/cancelled", &params));
        }
    }
}
