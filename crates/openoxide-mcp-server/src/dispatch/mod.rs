//! From a message to the method it names: the processor of one connection and the table of methods.

pub(crate) mod processor;
mod table;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use openoxide_core::Interruption;
use openoxide_rpc::Outgoing;

use crate::Server;
use crate::connection::Connection;
use crate::principal::Principal;
use crate::server::LINGER;
use crate::service::{Service, Session};
use processor::Processor;

impl Service for Server {
    fn connect(&self, principal: Principal, out: Arc<Outgoing>) -> Box<dyn Session> {
        let this = self.this.upgrade().expect("the caller holds the server");
        Box::new(Processor::new(Connection::new(this, principal, out)))
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.end(&Interruption::ServerStopped, LINGER))
    }
}
