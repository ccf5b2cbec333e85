//! How a request is answered: alone on a line, or as its part of a batch. Each request is answered once at most.
//!
//! A [`Responder`] is the right to answer one request; [`Responders`] makes responders and says where they answer. Both hold the queue that
//! the answer goes to, and nothing of any method.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use serde::Serialize;
use tokio::sync::mpsc;

use crate::mutex::lock;
use crate::outgoing::{Gate, Outgoing};
use crate::{RequestId, RpcError};

/// The answers of a batch (JSON-RPC 2.0 section 6), sent together when the last is there.
pub struct Batch {
    out: Arc<Outgoing>,
    state: Mutex<BatchState>,
}

struct BatchState {
    missing: usize,
    answers: Vec<u8>,
}

impl Batch {
    /// A batch with `missing` answers to come.
    pub fn new(out: Arc<Outgoing>, missing: usize) -> Arc<Self> {
        Arc::new(Self { out, state: Mutex::new(BatchState { missing, answers: Vec::new() }) })
    }

    /// Adds an answer, or the knowledge that there will be none.
    pub fn add(&self, answer: Option<Vec<u8>>) {
        let mut state = lock(&self.state);
        if let Some(answer) = answer {
            let before = if state.answers.is_empty() { b'[' } else { b',' };
            state.answers.push(before);
            state.answers.extend_from_slice(answer.strip_suffix(b"\n").unwrap_or(&answer));
        }
        state.missing -= 1;
        if state.missing == 0 && !state.answers.is_empty() {
            let mut line = std::mem::take(&mut state.answers);
            line.extend_from_slice(b"]\n");
            self.out.answer(line, None);
        } else if state.missing == 0 {
            self.out.answered();
        }
    }
}

/// Makes responders that answer alike: each on a line of its own, or as its part of a batch.
#[derive(Clone)]
pub struct Responders {
    form: AnswerForm,
    /// Held by every clone; the receiver learns that nothing is open when the last is dropped.
    _open: Option<mpsc::Sender<Infallible>>,
}

#[derive(Clone)]
enum AnswerForm {
    /// A line of its own.
    Line(Arc<Outgoing>),
    /// Part of a batch.
    Batch(Arc<Batch>),
}

impl Responders {
    /// A line of its own.
    pub fn line(out: Arc<Outgoing>) -> Self {
        Self { form: AnswerForm::Line(out), _open: None }
    }

    /// Part of a batch.
    pub fn batch(batch: Arc<Batch>) -> Self {
        Self { form: AnswerForm::Batch(batch), _open: None }
    }

    /// The same, and the receiver of `open` learns when this and every responder on it is gone.
    #[must_use]
    pub fn counted(self, open: mpsc::Sender<Infallible>) -> Self {
        Self { _open: Some(open), ..self }
    }

    /// The queue that takes what belongs to the request.
    pub fn out(&self) -> &Arc<Outgoing> {
        match &self.form {
            AnswerForm::Line(out) => out,
            AnswerForm::Batch(batch) => &batch.out,
        }
    }

    /// Answers what is no request, under its id where that could be read.
    pub fn refuse(&self, id: Option<&RequestId>, error: &RpcError) {
        let line = self.out().header().response::<serde_json::Value>(id, Err(error));
        match &self.form {
            AnswerForm::Line(out) => out.answer(line, None),
            AnswerForm::Batch(batch) => batch.add(Some(line)),
        }
    }
}

/// The right to answer one request, once. Dropped unused, it says nothing, which is what a cancelled request wants.
pub struct Responder {
    id: RequestId,
    responders: Responders,
    is_answered: bool,
}

impl Responder {
    /// For the request `id`.
    pub fn new(id: RequestId, responders: Responders) -> Self {
        Self { id, responders, is_answered: false }
    }

    /// The queue that takes what belongs to the request.
    pub fn out(&self) -> &Arc<Outgoing> {
        self.responders.out()
    }

    /// The request.
    pub fn id(&self) -> &RequestId {
        &self.id
    }

    /// Answers with a result or an error.
    pub fn answer<T: Serialize>(mut self, outcome: Result<&T, &RpcError>) {
        self.send(outcome, None);
    }

    /// The same where the responder is part of something that lives on; a second answer is none.
    pub fn answer_once<T: Serialize>(&mut self, outcome: Result<&T, &RpcError>) {
        self.send(outcome, None);
    }

    /// The same for a call; nothing is said once its gate is closed.
    pub fn answer_call<T: Serialize>(mut self, outcome: Result<&T, &RpcError>, gate: &Gate) {
        self.send(outcome, Some(gate));
    }

    fn send<T: Serialize>(&mut self, outcome: Result<&T, &RpcError>, gate: Option<&Gate>) {
        let line = self.out().header().response(Some(&self.id), outcome);
        if std::mem::replace(&mut self.is_answered, true) {
            return;
        }
        match &self.responders.form {
            AnswerForm::Line(out) => out.answer(line, gate),
            AnswerForm::Batch(batch) => batch.add(gate.is_none_or(Gate::is_open).then_some(line)),
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        match &self.responders.form {
            AnswerForm::Batch(batch) => batch.add(None),
            AnswerForm::Line(out) => out.answered(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[tokio::test]
    async fn a_batch_is_sent_whole_without_what_was_cancelled() {
        let out = Arc::new(Outgoing::default());
        let batch = Batch::new(Arc::clone(&out), 3);
        let responder = |id| Responder::new(RequestId::Number(id), Responders::batch(Arc::clone(&batch)));
        let (one, two, three) = (responder(1), responder(2), responder(3));
        three.answer(Ok(&json!({})));
        drop(two);
        one.answer::<Value>(Err(&RpcError::method_not_found("x")));
        out.close();
        let line: Value = serde_json::from_slice(&out.next_batch().await.unwrap()).unwrap();
        let ids: Vec<_> = line.as_array().unwrap().iter().map(|answer| answer["id"].as_i64().unwrap()).collect();
        assert_eq!(ids, [3, 1]);
    }
}
