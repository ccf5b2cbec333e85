//! The one table of methods, and what all of them have in common.

mod about;
mod threads;
mod turns;

use std::sync::Arc;

use openoxide_core::{CoreError, ThreadId};
use openoxide_rpc::listeners::Caller;
use openoxide_rpc::{Responder, RpcError};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::caller::may_use;
use crate::connection::Connection;
use crate::errors;

/// What a method is answered with.
pub(crate) type Answer = Result<Value, RpcError>;

/// How a method is served.
#[derive(Clone, Copy)]
pub(crate) enum Method {
    /// At once, from memory.
    Now(fn(&Arc<Connection>, Option<&RawValue>) -> Answer),
    /// On a thread that may wait for the disk.
    Disk(fn(&Arc<Connection>, Option<&RawValue>) -> Answer),
    /// The same, and it answers by itself: what it makes known has to come after.
    Opens(fn(&Arc<Connection>, Option<&RawValue>, Responder)),
    /// In the order in which requests come, and it answers by itself.
    InOrder(fn(&Arc<Connection>, Option<&RawValue>, Responder)),
}

/// Every method but `initialize`. What is not here is refused by its name.
const METHODS: &[(&str, Method)] = &[
    ("thread/start", Method::Opens(threads::start)),
    ("thread/resume", Method::Opens(threads::resume)),
    ("thread/fork", Method::Opens(threads::fork)),
    ("thread/read", Method::Disk(threads::read)),
    ("thread/list", Method::Disk(threads::list)),
    ("thread/archive", Method::Disk(threads::archive)),
    ("thread/unarchive", Method::Disk(threads::unarchive)),
    ("thread/unsubscribe", Method::Now(threads::unsubscribe)),
    ("turn/start", Method::InOrder(turns::start)),
    ("turn/steer", Method::InOrder(turns::steer)),
    ("turn/interrupt", Method::InOrder(turns::interrupt)),
    ("model/list", Method::Now(about::models)),
    ("account/read", Method::Now(about::account)),
    ("getAuthStatus", Method::Now(about::auth_status)),
    ("config/read", Method::Now(about::config)),
    ("configRequirements/read", Method::Now(about::requirements)),
    ("permissionProfile/list", Method::Now(about::permission_profiles)),
    ("skills/list", Method::Now(about::skills)),
    ("mcpServerStatus/list", Method::Now(about::mcp_servers)),
];

/// The method of this name.
///
/// # Errors
/// -32601 with the name.
pub(crate) fn find(name: &str) -> Result<Method, RpcError> {
    let found = METHODS.iter().find(|(known, _)| *known == name).map(|(_, method)| *method);
    found.ok_or_else(|| {
        let message = format!("{} is not supported by OpenOxide", openoxide_core::visible_text(name));
        RpcError { message, ..RpcError::method_not_found(name) }
    })
}

/// The thread of this id.
fn thread_id(text: &str) -> Result<ThreadId, RpcError> {
    text.parse().map_err(|_| errors::thread_not_found(&openoxide_core::visible_text(text)))
}

/// Refuses a thread that is not the caller's like one that does not exist. May block on the disk.
fn check_owner(connection: &Connection, id: ThreadId) -> Result<(), RpcError> {
    let owner = connection.server.manager().owner_of(id);
    match (owner, &connection.caller) {
        (Ok(owner), caller) if may_use(caller, owner.as_deref()) => Ok(()),
        (Err(error), Caller::Local) => Err(errors::to_wire(&error)),
        (Ok(_) | Err(_), _) => Err(errors::thread_not_found(&id.to_string())),
    }
}

/// Why a thread could not be had, as far as it is the caller's business. May block on the disk.
fn as_told(connection: &Connection, id: ThreadId, error: &CoreError) -> RpcError {
    match connection.caller {
        Caller::Local => errors::to_wire(error),
        Caller::Token(_) => check_owner(connection, id).err().unwrap_or_else(|| errors::to_wire(error)),
    }
}

fn value<T: serde::Serialize>(result: &T) -> Answer {
    serde_json::to_value(result).map_err(|error| RpcError::internal(error.to_string()))
}
