//! What all connections share: the tools, the tasks, who listens for news, and the seal of what calls come back with.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use openoxide_mcp_protocol::Tool;
use openoxide_mcp_protocol::request_state::StateSeal;
use openoxide_mcp_protocol::tools::Mirrored;
use openoxide_mcp_server::{Principal, Service, Session};
use openoxide_rpc::Outgoing;

use crate::connection::Connection;
use crate::listeners::Listeners;
use crate::offer;
use crate::tasks::Tasks;

/// The state of the server.
pub(crate) struct Fixture {
    pub(crate) tools: Vec<Tool>,
    pub(crate) tasks: Tasks,
    pub(crate) listeners: Listeners,
    pub(crate) seal: StateSeal,
}

impl Fixture {
    /// A server that nobody has asked anything yet.
    pub(crate) fn new() -> Self {
        let halves = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()];
        let mut key = [0; 32];
        for (part, half) in key.chunks_exact_mut(16).zip(halves) {
            part.copy_from_slice(half.as_bytes());
        }
        Self {
            tools: offer::tools(),
            tasks: Tasks::default(),
            listeners: Listeners::default(),
            seal: StateSeal::new(key),
        }
    }
}

/// The fixture behind a door.
pub(crate) struct FixtureService(pub(crate) Arc<Fixture>);

impl Service for FixtureService {
    fn connect(&self, principal: Principal, _out: Arc<Outgoing>) -> Box<dyn Session> {
        Box::new(Connection::new(Arc::clone(&self.0), principal))
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        self.0.tasks.end();
        Box::pin(std::future::ready(()))
    }

    fn mirrored(&self, tool: &str) -> Vec<Mirrored> {
        let tool = self.0.tools.iter().find(|listed| listed.name == tool);
        tool.map(|tool| Mirrored::of_schema(&tool.input_schema)).unwrap_or_default()
    }
}
