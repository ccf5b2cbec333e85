//! Threads: started, taken up again, copied, read, listed, put aside.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use openoxide_core::{
    CoreError, JsonlStore, PageCursor, Snapshot, Thread as CoreThread, ThreadId, ThreadStore as _, ThreadSummary,
    Transcript, fork_rollout, quote_path, summaries,
};
use openoxide_rpc::{Responder, RpcError};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Answer, as_told, check_owner, thread_id, value};
use crate::caller::{may_use, owner};
use crate::connection::Connection;
use crate::convert::settings::{Asked, asked, policy_word, sandbox_policy};
use crate::convert::thread;
use crate::errors;
use crate::types::notification::Notification;
use crate::types::params::{
    self, OneOrMany, ThreadListParams, ThreadParams, ThreadReadParams, ThreadResumeParams, ThreadStartParams,
};
use crate::types::thread::{OpenedThread, Thread, ThreadStatus};

/// Threads of a page where the client does not say, and at most.
const PAGE: (usize, usize) = (25, 100);

/// `thread/start`.
pub(super) fn start(connection: &Arc<Connection>, params: Option<&RawValue>, responder: Responder) {
    let begin = || {
        let params: ThreadStartParams = params::read(params)?;
        let manager = connection.server.manager();
        let config = manager.config();
        let mut asked = asked(params.settings, config)?;
        if params.ephemeral == Some(true) && config.home.is_some() {
            let message = "Invalid request: ephemeral is true, and this server keeps its threads; leave it out, or start the \
                           server with --ephemeral";
            return Err(RpcError::invalid_request(message));
        }
        if config.limits.owners > 1 && !asked.names_directory() {
            let message = "Invalid request: cwd is missing or relative, and this server has several callers, so that its own \
                           directory is not yours; send cwd, the absolute path of the directory to work in";
            return Err(RpcError::invalid_request(message));
        }
        let ignored = std::mem::take(&mut asked.ignored);
        let mut wanted = asked.over(config.thread_defaults());
        wanted.owner = owner(&connection.caller);
        let thread = manager.start_thread(wanted).map_err(|error| errors::to_wire(&error))?;
        Ok((thread, ignored))
    };
    match begin() {
        Err(error) => responder.answer::<Value>(Err(&error)),
        Ok((thread, ignored)) => connection.follow(&thread, |now| {
            let opened = opened(connection, &thread, now, &Transcript::default(), false);
            responder.answer(Ok(&opened));
            connection.notify(&Notification::ThreadStarted { thread: opened.thread });
            warn(connection, &thread, ignored);
        }),
    }
}

/// `thread/resume`: from then on the client is told what happens on it, beginning with what is under way.
pub(super) fn resume(connection: &Arc<Connection>, params: Option<&RawValue>, responder: Responder) {
    let load = || {
        let params: ThreadResumeParams = params::read(params)?;
        if params.history.is_some() || params.path.is_some() {
            let message =
                "Invalid request: history and path are not supported by OpenOxide; name the thread by threadId";
            return Err(RpcError::invalid_request(message));
        }
        let asked = asked(params.settings, connection.server.manager().config())?;
        let id = thread_id(&params.thread_id)?;
        load(connection, id, asked, !params.exclude_turns.unwrap_or_default())
    };
    match load() {
        Ok(loaded) => loaded.answer(connection, responder, None),
        Err(error) => responder.answer::<Value>(Err(&error)),
    }
}

/// `thread/fork`: a copy of all that was said and done, or up to the end of a turn.
pub(super) fn fork(connection: &Arc<Connection>, params: Option<&RawValue>, responder: Responder) {
    let copy = || {
        let all: Value = params::read(params)?;
        let params: ThreadResumeParams = params::read(params)?;
        let refused = ["beforeTurnId", "path", "history"].into_iter().find(|field| !all[field].is_null());
        if let Some(field) = refused.or_else(|| (all["ephemeral"] == json!(true)).then_some("ephemeral")) {
            return Err(RpcError::invalid_request(format!("Invalid request: {field} is not supported by OpenOxide")));
        }
        let last = all["lastTurnId"].as_str().map(str::parse).transpose();
        let last = last.map_err(|_| RpcError::invalid_request("Invalid request: lastTurnId is no id of a turn"))?;
        let asked = asked(params.settings, connection.server.manager().config())?;
        let id = thread_id(&params.thread_id)?;
        check_owner(connection, id)?;
        let store = JsonlStore::new(home(connection)?);
        check_directory(connection, &store, id)?;
        let fork = fork_rollout(&store, id, last, None).map_err(|error| as_told(connection, id, &error))?;
        load(connection, fork, asked, !params.exclude_turns.unwrap_or_default()).map(|loaded| (id, loaded))
    };
    match copy() {
        Ok((id, loaded)) => loaded.answer(connection, responder, Some(id)),
        Err(error) => responder.answer::<Value>(Err(&error)),
    }
}

/// A thread that is about to be followed.
struct Loaded {
    thread: Arc<CoreThread>,
    transcript: Transcript,
    has_turns: bool,
    ignored: Vec<String>,
}

fn load(connection: &Connection, id: ThreadId, mut asked: Asked, has_turns: bool) -> Result<Loaded, RpcError> {
    check_owner(connection, id)?;
    let manager = connection.server.manager();
    let thread = manager.get_or_load(id).map_err(|error| as_told(connection, id, &error))?;
    asked.check(thread.config())?;
    let transcript = transcript(connection, id)?;
    Ok(Loaded { thread, transcript, has_turns, ignored: asked.ignored })
}

impl Loaded {
    fn answer(self, connection: &Arc<Connection>, responder: Responder, source: Option<ThreadId>) {
        let Self { thread, transcript, has_turns, ignored } = self;
        connection.follow(&thread, |now| {
            let mut opened = opened(connection, &thread, now, &transcript, has_turns);
            opened.thread.forked_from_id = source.map(|id| id.to_string());
            responder.answer(Ok(&opened));
            if source.is_some() {
                connection
                    .notify(&Notification::ThreadStarted { thread: Thread { turns: Vec::new(), ..opened.thread } });
            }
            warn(connection, &thread, ignored);
        });
    }
}

/// What is written of a thread; nothing of one that has had no turn, or is in memory alone.
fn transcript(connection: &Connection, id: ThreadId) -> Result<Transcript, RpcError> {
    let manager = connection.server.manager();
    match manager.transcript(id) {
        Ok(transcript) => Ok(transcript),
        Err(CoreError::ThreadNotFound { .. }) if manager.in_memory(id).is_some() => Ok(Transcript::default()),
        Err(error) => Err(errors::to_wire(&error)),
    }
}

fn opened(
    connection: &Connection,
    thread: &CoreThread,
    now: &Snapshot,
    transcript: &Transcript,
    has_turns: bool,
) -> OpenedThread {
    let (config, own) = (connection.server.manager().config(), thread.config());
    let cwd = quote_path(&own.cwd);
    let told = thread::loaded(thread, config, now);
    let turns = if has_turns { thread::turns(transcript, now.running) } else { Vec::new() };
    OpenedThread {
        thread: Thread { preview: thread::preview(transcript), turns, ..told },
        model: own.model.clone(),
        model_provider: config.provider.id().to_owned(),
        service_tier: None,
        runtime_workspace_roots: vec![cwd.clone()],
        cwd,
        instruction_sources: Vec::new(),
        approval_policy: policy_word(own.approval_policy),
        approvals_reviewer: "user",
        sandbox: sandbox_policy(own.sandbox, &config.workspace_write),
        reasoning_effort: own.reasoning_effort.clone(),
    }
}

fn warn(connection: &Connection, thread: &CoreThread, ignored: Vec<String>) {
    for message in ignored {
        connection.notify(&Notification::Warning { thread_id: Some(thread.id().to_string()), message });
    }
}

/// `thread/read`.
pub(super) fn read(connection: &Arc<Connection>, params: Option<&RawValue>) -> Answer {
    let params: ThreadReadParams = params::read(params)?;
    let id = thread_id(&params.thread_id)?;
    check_owner(connection, id)?;
    let manager = connection.server.manager();
    let transcript = transcript(connection, id)?;
    let (mut told, running) = match manager.in_memory(id) {
        Some(thread) => {
            let now = thread.snapshot();
            let told = thread::loaded(&thread, manager.config(), &now);
            (Thread { preview: thread::preview(&transcript), ..told }, now.running)
        }
        None => (thread::recorded(id, &transcript, manager.config(), ThreadStatus::NotLoaded), None),
    };
    if params.include_turns.unwrap_or_default() {
        told.turns = thread::turns(&transcript, running);
    }
    Ok(json!({ "thread": value(&told)? }))
}

/// `thread/list`: the one used last first.
pub(super) fn list(connection: &Arc<Connection>, params: Option<&RawValue>) -> Answer {
    let ThreadListParams { cursor, limit, archived, cwd, search_term } = params::read(params)?;
    let manager = connection.server.manager();
    let limit = limit.unwrap_or(PAGE.0).clamp(1, PAGE.1);
    let directories: Option<Vec<PathBuf>> = cwd.map(|cwd| match cwd {
        OneOrMany::One(cwd) => vec![cwd.into()],
        OneOrMany::Many(all) => all.into_iter().map(PathBuf::from).collect(),
    });
    let term = search_term.unwrap_or_default().to_lowercase();
    let wanted = |thread: &ThreadSummary| {
        may_use(&connection.caller, thread.owner.as_deref())
            && directories.as_ref().is_none_or(|all| all.contains(&thread.cwd))
            && (term.is_empty() || thread.prompt.to_lowercase().contains(&term))
    };
    if archived.unwrap_or_default() {
        let store = JsonlStore::archived(home(connection)?);
        let failed = |source| errors::to_wire(&CoreError::Listing { source });
        let mut found = summaries(&store, usize::MAX).map_err(failed)?;
        let ceiling = &manager.config().ceiling;
        found.retain(|thread| wanted(thread) && ceiling.check_directory(&thread.cwd).is_ok());
        found.truncate(limit);
        let one = |found: &ThreadSummary| {
            thread::listed(found, manager.config(), ThreadStatus::NotLoaded, store.path_of(found.id).ok())
        };
        let data: Vec<_> = found.iter().map(one).collect();
        return Ok(json!({ "data": value(&data)?, "nextCursor": null, "backwardsCursor": null }));
    }
    let cursor = cursor.map(|cursor| cursor.parse::<PageCursor>()).transpose();
    let cursor = cursor.map_err(|()| RpcError::invalid_request("Invalid request: cursor is none of a thread/list"))?;
    let (found, next) = manager.page(cursor, limit, wanted).map_err(|error| errors::to_wire(&error))?;
    let one = |found: &ThreadSummary| {
        let status = manager.in_memory(found.id).map(|thread| thread::status_of(&thread.snapshot()));
        thread::listed(found, manager.config(), status.unwrap_or(ThreadStatus::NotLoaded), None)
    };
    let data: Vec<_> = found.iter().map(one).collect();
    let next = next.map(|next| next.to_string());
    Ok(json!({ "data": value(&data)?, "nextCursor": next, "backwardsCursor": null }))
}

/// Where threads are kept.
fn home(connection: &Connection) -> Result<&Path, RpcError> {
    connection.server.manager().config().home.as_deref().ok_or_else(|| {
        RpcError::invalid_request(
            "Invalid request: this server keeps no threads (--ephemeral), so that there is none to move",
        )
    })
}

/// Refuses a thread that works where none may. Where it works stands in its lines.
fn check_directory(connection: &Connection, store: &JsonlStore, id: ThreadId) -> Result<(), RpcError> {
    let lines = store.load(id).map_err(|_| errors::thread_not_found(&id.to_string()))?;
    let cwd = openoxide_core::unquote_path(&Transcript::of(lines).cwd);
    let ceiling = &connection.server.manager().config().ceiling;
    ceiling.check_directory(&cwd).map_err(|error| errors::to_wire(&error))
}

fn moved(id: ThreadId, moving: std::io::Result<()>) -> Result<(), RpcError> {
    moving.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => errors::thread_not_found(&id.to_string()),
        std::io::ErrorKind::WouldBlock => {
            RpcError::invalid_request(format!("thread {id} is in use; wait for its turn to end, or interrupt it"))
        }
        _ => errors::to_wire(&CoreError::Rollout { id, source: error }),
    })
}

/// `thread/archive`: neither listed nor continued until it is taken back.
pub(super) fn archive(connection: &Arc<Connection>, params: Option<&RawValue>) -> Answer {
    let params: ThreadParams = params::read(params)?;
    let id = thread_id(&params.thread_id)?;
    check_owner(connection, id)?;
    let home = home(connection)?;
    check_directory(connection, &JsonlStore::new(home), id)?;
    moved(id, JsonlStore::new(home).move_to(id, &JsonlStore::archived(home)))?;
    connection.unfollow(id);
    connection.notify(&Notification::ThreadArchived { thread_id: id.to_string() });
    Ok(json!({}))
}

/// `thread/unarchive`.
pub(super) fn unarchive(connection: &Arc<Connection>, params: Option<&RawValue>) -> Answer {
    let params: ThreadParams = params::read(params)?;
    let id = thread_id(&params.thread_id)?;
    let home = home(connection)?;
    let (store, aside) = (JsonlStore::new(home), JsonlStore::archived(home));
    let owner = aside.owner(id).map_err(|_| errors::thread_not_found(&id.to_string()))?;
    if !may_use(&connection.caller, owner.as_deref()) {
        return Err(errors::thread_not_found(&id.to_string()));
    }
    check_directory(connection, &aside, id)?;
    moved(id, aside.move_to(id, &store))?;
    connection.notify(&Notification::ThreadUnarchived { thread_id: id.to_string() });
    let transcript = transcript(connection, id)?;
    let config = connection.server.manager().config();
    Ok(json!({ "thread": value(&thread::recorded(id, &transcript, config, ThreadStatus::NotLoaded))? }))
}

/// `thread/unsubscribe`: the client is told no more of it.
pub(super) fn unsubscribe(connection: &Arc<Connection>, params: Option<&RawValue>) -> Answer {
    let params: ThreadParams = params::read(params)?;
    let id = thread_id(&params.thread_id)?;
    let status = match (connection.unfollow(id), connection.server.manager().in_memory(id)) {
        (true, _) => "unsubscribed",
        (false, Some(_)) => "notSubscribed",
        (false, None) => "notLoaded",
    };
    Ok(json!({ "status": status }))
}
