//! How a request is answered: alone on a line, or as its part of a batch. Each request is answered once at most.

use std::sync::{Arc, Mutex};

use openoxide_mcp_protocol::{RequestId, WireError, response};
use serde::Serialize;

use crate::mutex::lock;
use crate::outgoing::{Gate, Outgoing};

/// The answers of a batch (MCP 2025-03-26), sent together when the last is there.
pub(crate) struct Batch {
    out: Arc<Outgoing>,
    state: Mutex<BatchState>,
}

struct BatchState {
    missing: usize,
    answers: Vec<u8>,
}

impl Batch {
    /// A batch with `missing` answers to come.
    pub(crate) fn new(out: Arc<Outgoing>, missing: usize) -> Arc<Self> {
        Arc::new(Self { out, state: Mutex::new(BatchState { missing, answers: Vec::new() }) })
    }

    /// Adds an answer, or the knowledge that there will be none.
    pub(crate) fn add(&self, answer: Option<Vec<u8>>) {
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

/// Where the answer to a request goes, and what else belongs to it.
#[derive(Clone)]
pub struct Route(Way);

#[derive(Clone)]
enum Way {
    /// A line of its own.
    Line(Arc<Outgoing>),
    /// Part of a batch.
    Batch(Arc<Batch>),
}

impl Route {
    /// A line of its own.
    pub(crate) fn line(out: Arc<Outgoing>) -> Self {
        Self(Way::Line(out))
    }

    /// Part of a batch.
    pub(crate) fn batch(batch: Arc<Batch>) -> Self {
        Self(Way::Batch(batch))
    }

    /// The queue that takes what belongs to the request.
    pub fn out(&self) -> &Arc<Outgoing> {
        match &self.0 {
            Way::Line(out) => out,
            Way::Batch(batch) => &batch.out,
        }
    }
}

impl Route {
    /// Answers what is no request, under its id where that could be read.
    pub fn refuse(&self, id: Option<&RequestId>, error: &WireError) {
        let line = response::<serde_json::Value>(id, Err(error));
        match &self.0 {
            Way::Line(out) => out.answer(line, None),
            Way::Batch(batch) => batch.add(Some(line)),
        }
    }
}

/// The right to answer one request, once. Dropped unused, it says nothing, which is what a cancelled request wants.
pub struct Responder {
    id: RequestId,
    route: Route,
    is_answered: bool,
}

impl Responder {
    /// For the request `id`.
    pub fn new(id: RequestId, route: Route) -> Self {
        Self { id, route, is_answered: false }
    }

    /// The queue that takes what belongs to the request.
    pub fn out(&self) -> &Arc<Outgoing> {
        self.route.out()
    }

    /// The request.
    pub fn id(&self) -> &RequestId {
        &self.id
    }

    /// Answers with a result or an error.
    pub fn answer<T: Serialize>(mut self, outcome: Result<&T, &WireError>) {
        self.send(outcome, None);
    }

    /// The same where the responder is part of something that lives on; a second answer is none.
    pub(crate) fn answer_once<T: Serialize>(&mut self, outcome: Result<&T, &WireError>) {
        self.send(outcome, None);
    }

    /// The same for a call; nothing is said once its gate is closed.
    pub(crate) fn answer_call<T: Serialize>(mut self, outcome: Result<&T, &WireError>, gate: &Gate) {
        self.send(outcome, Some(gate));
    }

    fn send<T: Serialize>(&mut self, outcome: Result<&T, &WireError>, gate: Option<&Gate>) {
        let line = response(Some(&self.id), outcome);
        if std::mem::replace(&mut self.is_answered, true) {
            return;
        }
        match &self.route.0 {
            Way::Line(out) => out.answer(line, gate),
            Way::Batch(batch) => batch.add(gate.is_none_or(Gate::is_open).then_some(line)),
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        match &self.route.0 {
            Way::Batch(batch) => batch.add(None),
            Way::Line(out) => out.answered(),
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
        let responder = |id| Responder::new(RequestId::Number(id), Route::batch(Arc::clone(&batch)));
        let (one, two, three) = (responder(1), responder(2), responder(3));
        three.answer(Ok(&json!({})));
        drop(two);
        one.answer::<Value>(Err(&WireError::method_not_found("x")));
        out.close();
        let line: Value = serde_json::from_slice(&out.next_batch().await.unwrap()).unwrap();
        let ids: Vec<_> = line.as_array().unwrap().iter().map(|answer| answer["id"].as_i64().unwrap()).collect();
        assert_eq!(ids, [3, 1]);
    }
}
