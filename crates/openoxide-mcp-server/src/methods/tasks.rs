//! `tasks/get`, `tasks/update` and `tasks/cancel` of the extension `io.modelcontextprotocol/tasks` (SEP-2663). A task may
//! have to be read from the disk, so each is answered on a thread for it.

use std::sync::Arc;

use openoxide_mcp_protocol::WireError;
use openoxide_mcp_protocol::tasks::{TaskParams, UpdateTaskParams, tasks_not_declared};
use serde_json::Value;

use super::{Eras, Method};
use crate::Server;
use crate::connection::Request;
use crate::principal::Principal;
use crate::server::tasks;

fn answer(request: Request<'_>, work: impl FnOnce(&Server, &Principal) -> Result<Value, WireError> + Send + 'static) {
    if !request.client().takes_tasks {
        return request.refuse(&tasks_not_declared());
    }
    let (server, principal) = (Arc::clone(&request.connection.server), request.connection.principal.clone());
    request.answer_in_background(move || work(&server, &principal));
}

pub(crate) struct Get;

impl Method for Get {
    const NAME: &'static str = "tasks/get";
    const ERAS: Eras = Eras::Modern;
    type Params = TaskParams;

    fn answer(request: Request<'_>, params: TaskParams) {
        answer(request, move |server, principal| tasks::get(server, principal, &params.task_id));
    }
}

pub(crate) struct Update;

impl Method for Update {
    const NAME: &'static str = "tasks/update";
    const ERAS: Eras = Eras::Modern;
    type Params = UpdateTaskParams;

    fn answer(request: Request<'_>, params: UpdateTaskParams) {
        let client = request.client();
        answer(request, move |server, principal| tasks::update(server, principal, &client, &params));
    }
}

pub(crate) struct Cancel;

impl Method for Cancel {
    const NAME: &'static str = "tasks/cancel";
    const ERAS: Eras = Eras::Modern;
    type Params = TaskParams;

    fn answer(request: Request<'_>, params: TaskParams) {
        answer(request, move |server, principal| tasks::cancel(server, principal, &params.task_id));
    }
}
