//! `subscriptions/listen` (MCP 2026-07-28, basic/patterns/subscriptions): a request that stays open for what changes.

use openoxide_mcp_protocol::WireError;

use super::{Eras, Method};
use crate::connection::Request;
use crate::connection::subscriptions::Filter;

pub(crate) struct Listen;

#[derive(serde::Deserialize)]
pub(crate) struct Params {
    notifications: Filter,
}

impl Method for Listen {
    const NAME: &'static str = "subscriptions/listen";
    const ERAS: Eras = Eras::Modern;
    type Params = Params;

    fn answer(request: Request<'_>, params: Params) {
        let connection = request.connection;
        if connection.has_open(request.responder.id()) {
            let id = request.responder.id();
            let message = format!("id {id} belongs to a request that is still open; use a new id");
            return request.refuse(&WireError::invalid_request(message));
        }
        connection.watch();
        let client = request.client();
        let (server, principal) = (&connection.server, &connection.principal);
        connection.subscriptions.listen(server, principal, &client, request.responder, params.notifications);
    }
}
