//! What the tasks of one connection share. A connection is one client's: a pair of standard streams, an HTTP session, or a
//! single HTTP request that belongs to no session.

use std::sync::Arc;

use crate::Server;
use crate::calls::Calls;
use crate::outgoing::Outgoing;
use crate::questions::Questions;
use crate::report::ConnectionLogLevel;
use crate::subscriptions::Subscriptions;

/// The principal of stdio: whoever started the process.
pub(crate) const LOCAL: &str = "local";

/// One connection; see the module.
pub(crate) struct Connection {
    pub(crate) server: Arc<Server>,
    /// Who is at the other end.
    pub(crate) principal: Arc<str>,
    /// Takes what belongs to no request.
    pub(crate) out: Arc<Outgoing>,
    pub(crate) calls: Arc<Calls>,
    pub(crate) questions: Questions,
    pub(crate) log_level: Arc<ConnectionLogLevel>,
    pub(crate) subscriptions: Arc<Subscriptions>,
}

impl Connection {
    /// A connection on which nothing was said yet.
    pub(crate) fn new(server: Arc<Server>, principal: Arc<str>, out: Arc<Outgoing>) -> Arc<Self> {
        Arc::new(Self {
            server,
            principal,
            out,
            calls: Arc::default(),
            questions: Questions::default(),
            log_level: Arc::default(),
            subscriptions: Arc::default(),
        })
    }
}
