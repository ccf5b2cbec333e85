//! What the tasks of one connection share. A connection is one client's: a pair of standard streams, an HTTP session, or a
//! single HTTP request that belongs to no session.

mod agreed;
pub(crate) mod calls;
pub(crate) mod questions;
mod request;
pub(crate) mod subscriptions;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use openoxide_mcp_protocol::RequestId;
use tokio::sync::Semaphore;

pub(crate) use agreed::Agreed;
pub(crate) use request::Request;

use crate::Server;
use crate::backend::{ConnectionLogLevel, List, Recent};
use crate::principal::Principal;
use crate::server::attachments::ConnectionKey;
use calls::Calls;
use openoxide_rpc::Outgoing;
use questions::Questions;
use subscriptions::Subscriptions;

/// Bytes of requests that wait for their answers, about: more than two lines of the greatest length.
const WAITING: usize = 48 << 20;

/// Answers that are read from the disk at once.
const READING: usize = 4;

/// One connection; see the module.
pub(crate) struct Connection {
    pub(crate) server: Arc<Server>,
    /// Tells it apart where calls are asked.
    pub(crate) key: ConnectionKey,
    /// Who is at the other end.
    pub(crate) principal: Principal,
    /// Takes what belongs to no request.
    pub(crate) out: Arc<Outgoing>,
    pub(crate) calls: Arc<Calls>,
    pub(crate) questions: Questions,
    pub(crate) log_level: Arc<ConnectionLogLevel>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    /// What its legacy calls have got to.
    pub(crate) recent: Arc<Recent>,
    /// Bytes that requests may hold which wait for room for their answers.
    pub(crate) waiting: Arc<Semaphore>,
    /// The right to read an answer from the disk; a few are read at once.
    pub(crate) reading: Semaphore,
    /// Whether its client has ended its input, so that no question is answered any more.
    is_input_over: AtomicBool,
}

impl Connection {
    /// A connection on which nothing was said yet.
    pub(crate) fn new(server: Arc<Server>, principal: Principal, out: Arc<Outgoing>) -> Arc<Self> {
        Arc::new(Self {
            key: server.attachments.connection_key(),
            server,
            principal,
            out,
            calls: Arc::default(),
            questions: Questions::default(),
            log_level: Arc::default(),
            subscriptions: Arc::default(),
            recent: Arc::default(),
            waiting: Arc::new(Semaphore::new(WAITING)),
            reading: Semaphore::new(READING),
            is_input_over: AtomicBool::new(false),
        })
    }

    /// Notes that nothing more comes from the client: its open questions, and those to come, are for others to answer, or
    /// count as denied.
    pub(crate) fn end_input(&self) {
        self.is_input_over.store(true, Ordering::Release);
        self.questions.forget_all();
        self.server.attachments.lose(self.key);
    }

    /// Whether the client can still answer.
    pub(crate) fn can_answer(&self) -> bool {
        !self.is_input_over.load(Ordering::Acquire)
    }

    /// Has changes told from now on.
    pub(crate) fn watch(&self) {
        self.subscriptions.run(&self.out, || self.server.backend.changes(&self.principal));
    }

    /// Notes that a legacy client has read a list: it is told when there is another one.
    pub(crate) fn listed(&self, list: List) {
        if self.server.tells_changes_of(list) {
            self.watch();
            self.subscriptions.listed(list);
        }
    }

    /// Ends a request for its client: nothing more is said for it, and its runner decides what becomes of the work. A client
    /// that has timed out still wants the work.
    pub(crate) fn cancel(&self, id: &RequestId, has_timed_out: bool) {
        self.subscriptions.cancel(id);
        if let Some(call) = self.calls.take(id) {
            call.out.silence(&call.gate);
            call.has_timed_out.store(has_timed_out, Ordering::Release);
            call.cancelled.notify_one();
        }
    }

    /// Whether the request of this id is open.
    pub(crate) fn has_open(&self, id: &RequestId) -> bool {
        self.calls.contains(id) || self.subscriptions.contains(id)
    }

    /// Whether a request is open.
    pub(crate) fn is_busy(&self) -> bool {
        self.calls.len() > 0 || self.subscriptions.is_listened_to()
    }

    /// Cancels every request.
    pub(crate) fn close(&self) {
        self.subscriptions.close();
        for id in self.calls.ids() {
            self.cancel(&id, false);
        }
    }
}
