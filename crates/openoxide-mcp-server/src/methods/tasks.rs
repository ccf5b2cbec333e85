//! `tasks/get`, `tasks/update` and `tasks/cancel` of the extension `io.modelcontextprotocol/tasks` (SEP-2663). A task may
//! have to be read from the disk, so each is answered on a thread for it.

use std::sync::Arc;

use openoxide_core::{ApprovalId, Decider};
use openoxide_mcp_protocol::tasks::{TaskParams, UpdateTaskParams, tasks_not_declared};
use openoxide_mcp_protocol::{ClientFacts, WireError};
use serde_json::{Value, json};

use super::{Eras, Method};
use crate::Server;
use crate::connection::{Request, questions};
use crate::principal::Principal;

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
        answer(request, move |server, principal| {
            Ok(server.tasks.find(&params.task_id, principal)?.state(&server.tasks).detailed())
        });
    }
}

pub(crate) struct Update;

impl Method for Update {
    const NAME: &'static str = "tasks/update";
    const ERAS: Eras = Eras::Modern;
    type Params = UpdateTaskParams;

    fn answer(request: Request<'_>, params: UpdateTaskParams) {
        let client = request.client();
        answer(request, move |server, principal| update(server, principal, &client, &params));
    }
}

pub(crate) struct Cancel;

impl Method for Cancel {
    const NAME: &'static str = "tasks/cancel";
    const ERAS: Eras = Eras::Modern;
    type Params = TaskParams;

    fn answer(request: Request<'_>, params: TaskParams) {
        answer(request, move |server, principal| {
            server.tasks.find(&params.task_id, principal)?.cancel(&server.tasks);
            Ok(json!({}))
        });
    }
}

/// Takes answers to a task's questions.
fn update(
    server: &Server,
    principal: &Principal,
    client: &ClientFacts,
    params: &UpdateTaskParams,
) -> Result<Value, WireError> {
    let task = server.tasks.find(&params.task_id, principal)?;
    // Answers to what is not asked, or not any more, are ignored (SEP-2663).
    if let Some(thread) = task.thread_in_memory(&server.tasks) {
        for (key, answer) in &params.input_responses {
            if let Ok(approval) = key.parse::<ApprovalId>() {
                questions::settle_by_answer(&thread, approval, answer, Decider::Client(client.name.clone()));
            }
        }
    }
    Ok(json!({}))
}
