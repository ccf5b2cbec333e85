//! The questions put to a legacy client, by requests of our own. A modern client gets them in a result.
//!
//! An answer counts once: it takes the question out of the table, and the work behind it settles a question once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use openoxide_mcp_protocol::{Outcome, RequestId, parse_unique};
use openoxide_rpc::lock;
use serde_json::Value;

use crate::backend::{Call, Settlement, Work};

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
    call: u64,
    /// Who is asked, by name.
    client: Option<String>,
}

impl Question {
    fn settle(&self, how: Settlement<'_>) {
        self.work.settle(&self.key, how, self.client.as_deref());
    }
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Question>> {
        lock(&self.open)
    }

    /// Enters a question of `call` and returns the id to ask it under.
    pub(crate) fn enter(&self, work: &Arc<dyn Work>, key: &str, call: &Call) -> RequestId {
        let id = RequestId::Number(self.next.fetch_add(1, Ordering::Relaxed));
        let (work, key, client) = (Arc::clone(work), key.to_owned(), call.client.name.clone());
        self.lock().insert(id.clone(), Question { work, key, call: call.gate.key(), client });
        id
    }

    /// Settles the question that `id` names. An id that names none (answered, withdrawn, made up) is ignored.
    pub(crate) fn answered(&self, id: &RequestId, outcome: Outcome) {
        let Some(question) = self.lock().remove(id) else {
            tracing::debug!(?id, "an answer to no open question is ignored");
            return;
        };
        match outcome {
            // What is no JSON after all is no answer either.
            Outcome::Result(result) => {
                question.settle(Settlement::Answer(&parse_unique(result.get()).unwrap_or(Value::Null)));
            }
            Outcome::Error(error) => {
                tracing::info!(error = error.get(), "the client answered a question with an error");
                question.settle(Settlement::Error);
            }
        }
    }

    /// Settles every question as denied: whoever was asked went away.
    pub(crate) fn disconnect(&self) {
        let open: Vec<Question> = self.lock().drain().map(|(_, question)| question).collect();
        for question in open {
            question.settle(Settlement::Disconnected);
        }
    }

    /// Takes back a question, wherever it was settled; returns its id so that the client can be told.
    pub(crate) fn withdraw(&self, work: &str, key: &str) -> Option<RequestId> {
        let mut questions = self.lock();
        let is_it = |question: &Question| question.key == key && question.work.id() == work;
        let id = questions.iter().find(|(_, question)| is_it(question))?.0.clone();
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
