//! Turns: started, given more to do, ended.

use std::sync::Arc;
use std::time::Duration;

use openoxide_core::{Interruption, Op, Submitted, Thread, ThreadAccess, ThreadId, TurnId, visible_text};
use openoxide_rpc::{Responder, RpcError};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{as_told, thread_id};
use crate::caller::may_use;
use crate::connection::Connection;
use crate::convert::settings::{self, Asked};
use crate::convert::{item, thread};
use crate::errors;
use crate::server::Said;
use crate::types::notification::Notification;
use crate::types::params::{self, Input, TurnInterruptParams, TurnStartParams, TurnSteerParams};

/// `turn/start`: a new turn, or more to do for the one that runs.
pub(super) fn start(connection: &Arc<Connection>, params: Option<&RawValue>, responder: Responder) {
    let read = || {
        let params: TurnStartParams = params::read(params)?;
        let said = Said { client_id: params.client_user_message_id, text: text_of(&params.input)? };
        let asked = settings::asked(params.settings, connection.server.manager().config())?;
        Ok((thread_id(&params.thread_id)?, said, asked))
    };
    match read() {
        Err(error) => responder.answer::<Value>(Err(&error)),
        Ok((id, said, asked)) => on_thread(connection, id, responder, move |connection, thread, responder| {
            if let Err((responder, error)) = start_on(connection, thread, responder, said, asked) {
                responder.answer::<Value>(Err(&error));
            }
        }),
    }
}

fn start_on(
    connection: &Arc<Connection>,
    thread: &Arc<Thread>,
    responder: Responder,
    said: Said,
    mut asked: Asked,
) -> Result<(), (Responder, RpcError)> {
    if let Err(error) = asked.check(thread.config()) {
        return Err((responder, error));
    }
    if !connection.follows(thread.id()) {
        connection.follow(thread, |_| ());
    }
    connection.in_order(thread.id(), || {
        let turn = match say(connection, thread, said) {
            Ok(turn) => turn,
            Err(error) => return Err((responder, error)),
        };
        responder.answer(Ok(&json!({ "turn": thread::begun(turn.id) })));
        turn.tell(connection, thread);
        for message in asked.ignored {
            connection.notify(&Notification::Warning { thread_id: Some(thread.id().to_string()), message });
        }
        Ok(())
    })
}

/// A turn that was given something.
struct Given {
    id: TurnId,
    /// What was said to a turn that ran already. Nobody else tells it.
    more: Option<Said>,
}

impl Given {
    fn tell(self, connection: &Connection, thread: &Thread) {
        if let Some(said) = self.more {
            let (turn_id, now) = (self.id.to_string(), thread::now_ms());
            let told = item::user_message(format!("{turn_id}/input-{now}"), said.client_id, &said.text);
            connection.tell_whole(&thread.id().to_string(), &turn_id, told);
        }
    }
}

fn say(connection: &Connection, thread: &Arc<Thread>, said: Said) -> Result<Given, RpcError> {
    let submitted = connection.server.say(thread, said.clone()).map_err(|error| errors::to_wire(&error))?;
    thread.used_by(connection.client.get().map(|client| client.name.as_str()));
    match submitted {
        Submitted::Turn(id) => Ok(Given { id, more: None }),
        Submitted::Steered(id, _) => Ok(Given { id, more: Some(said) }),
        Submitted::Done => Err(RpcError::internal("core began no turn")),
    }
}

/// `turn/steer`: more to do for the turn that the client takes to run.
pub(super) fn steer(connection: &Arc<Connection>, params: Option<&RawValue>, responder: Responder) {
    let read = || {
        let params: TurnSteerParams = params::read(params)?;
        let said = Said { client_id: params.client_user_message_id, text: text_of(&params.input)? };
        Ok((thread_id(&params.thread_id)?, said, params.expected_turn_id))
    };
    match read() {
        Err(error) => responder.answer::<Value>(Err(&error)),
        Ok((id, said, expected)) => on_thread(connection, id, responder, move |connection, thread, responder| {
            connection.in_order(thread.id(), || {
                let given = check_running(thread, &expected).and_then(|()| say(connection, thread, said));
                match given {
                    Err(error) => responder.answer::<Value>(Err(&error)),
                    // It has ended in this very moment, and what was said began a turn that was not wanted.
                    Ok(given) if given.more.is_none() => {
                        let op = Op::Interrupt { turn_id: Some(given.id), why: Interruption::Cancelled };
                        drop(thread.submit(op));
                        responder.answer::<Value>(Err(&not_running(&expected)));
                    }
                    Ok(given) => {
                        responder.answer(Ok(&json!({ "turnId": given.id.to_string() })));
                        given.tell(connection, thread);
                    }
                }
            });
        }),
    }
}

/// `turn/interrupt`: its end is told when everything of it has ended.
pub(super) fn interrupt(connection: &Arc<Connection>, params: Option<&RawValue>, responder: Responder) {
    let read = || {
        let params: TurnInterruptParams = params::read(params)?;
        Ok((thread_id(&params.thread_id)?, params.turn_id))
    };
    match read() {
        Err(error) => responder.answer::<Value>(Err(&error)),
        Ok((id, turn)) => on_thread(connection, id, responder, move |connection, thread, responder| {
            connection.in_order(thread.id(), || {
                let interrupted = check_running(thread, &turn).and_then(|()| {
                    let op = Op::Interrupt { turn_id: turn.parse().ok(), why: Interruption::Asked };
                    thread.submit(op).map_err(|error| errors::to_wire(&error))
                });
                match interrupted {
                    Ok(_) => responder.answer(Ok(&json!({}))),
                    Err(error) => responder.answer::<Value>(Err(&error)),
                }
            });
        }),
    }
}

fn not_running(turn: &str) -> RpcError {
    RpcError::invalid_request(format!("turn {} does not run any more", visible_text(turn)))
}

/// Clients read the id of the turn that runs from the words of the second error.
fn check_running(thread: &Thread, expected: &str) -> Result<(), RpcError> {
    let now = thread.snapshot();
    match now.running.or_else(|| now.queued.first().copied()).map(|turn| turn.to_string()) {
        Some(running) if running == expected => Ok(()),
        Some(running) => Err(RpcError::invalid_request(format!(
            "expected active turn id `{}` but found `{running}`",
            visible_text(expected)
        ))),
        None => Err(not_running(expected)),
    }
}

/// Does something on a thread, loaded where it has to be; requests of one thread in the order in which they come.
fn on_thread(
    connection: &Arc<Connection>,
    id: ThreadId,
    responder: Responder,
    act: impl FnOnce(&Arc<Connection>, &Arc<Thread>, Responder) + Send + 'static,
) {
    let act = move |connection: &Arc<Connection>, thread: &Arc<Thread>, responder: Responder| match may_use(
        &connection.caller,
        thread.config().owner.as_deref(),
    ) {
        true => act(connection, thread, responder),
        false => responder.answer::<Value>(Err(&errors::thread_not_found(&thread.id().to_string()))),
    };
    match connection.server.manager().enter(id) {
        ThreadAccess::Open(thread) => act(connection, &thread, responder),
        ThreadAccess::Queued(ticket) => {
            let connection = Arc::clone(connection);
            tokio::spawn(async move {
                let (thread, _guard) = ticket.open(Duration::ZERO).await;
                match thread {
                    Ok(thread) => act(&connection, &thread, responder),
                    Err(error) => {
                        // It reads the disk.
                        let told = tokio::task::spawn_blocking(move || as_told(&connection, id, &error)).await;
                        let told = told.unwrap_or_else(|_| errors::thread_not_found(&id.to_string()));
                        responder.answer::<Value>(Err(&told));
                    }
                }
            });
        }
    }
}

/// What a person says, as one text.
fn text_of(input: &[Input]) -> Result<String, RpcError> {
    let mut text = String::new();
    for (at, part) in input.iter().enumerate() {
        let words = match (part.kind.as_str(), &part.text, &part.path) {
            ("text", Some(words), _) => words.clone(),
            ("mention" | "skill", _, Some(path)) => {
                format!("[{}]({path})", part.name.as_deref().unwrap_or(path))
            }
            (kind, ..) => {
                return Err(RpcError::invalid_request(format!(
                    "Invalid request: input[{at}] is of the type {kind:?}, which OpenOxide does not take or which lacks its \
                     text; send text, and name files in it"
                )));
            }
        };
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&words);
    }
    Ok(text)
}
