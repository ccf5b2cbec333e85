//! How a call may name a thread, beside its id: by the word "last", and by the id of a task.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use openoxide_core::{ThreadId, ThreadManager};

use super::submit::SubmitOutcome;
use super::turn;
use crate::backend::{Call, RecentName, Slot};
use crate::convert::result::CallResult;
use crate::random;

/// Names the thread that a connection's calls got to last.
pub(super) const LAST: &str = "last";

/// The id of a thread that a call names.
pub(super) type Found = Result<String, SubmitOutcome>;

/// What a name of a thread needs.
pub(super) enum Named {
    Now(Found),
    /// It waits for the calls that came before, or for the disk. The slot is to be held until the call has got somewhere,
    /// so that those behind it keep their order.
    Later(BoxFuture<'static, (Found, Option<Slot>)>),
}

fn refused(message: String) -> Found {
    Err(SubmitOutcome::Result(CallResult::BadThreadId(message)))
}

/// Finds the thread that `name` means in a call. `writes` says that the call is not for the thread of a query, which can
/// only read, where there is another.
pub(super) fn find(call: &Arc<Call>, manager: &Arc<ThreadManager>, name: &str, writes: bool) -> Named {
    if name == LAST {
        let Some(recent) = &call.recent else {
            let message = "thread_id is \"last\", which is known on a connection with initialize or in an HTTP session, and a \
                           request of 2026-07-28 belongs to none; use the threadId of an earlier result, or the id of a task";
            return Named::Now(refused(message.to_owned()));
        };
        if recent.is_settled() {
            return Named::Now(last(manager, &recent.names(), writes));
        }
        let (slot, manager) = (recent.reserve(), Arc::clone(manager));
        return Named::Later(Box::pin(async move {
            slot.first().await;
            (last(&manager, &slot.names(), writes), Some(slot))
        }));
    }
    let is_task = name.len() == random::ID_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_task {
        return Named::Now(Ok(name.to_owned()));
    }
    let (call, name) = (Arc::clone(call), name.to_owned());
    Named::Later(Box::pin(async move {
        let told =
            format!("thread_id is {name:?}, which names no thread and no task of yours; use a threadId or a taskId");
        let work = tokio::task::spawn_blocking(move || call.tasks.work_of_task(&name, &call.principal)).await;
        let found = match work.ok().flatten().and_then(|work| turn::ids(&work)) {
            Some((thread, _)) => Ok(thread.to_string()),
            None => refused(told),
        };
        (found, None)
    }))
}

fn last(manager: &ThreadManager, names: &[RecentName], writes: bool) -> Found {
    let has_others = names.iter().any(|known| !known.is_query);
    let known: Vec<_> = names.iter().filter(|known| !(writes && has_others && known.is_query)).collect();
    let Some(newest) = known.last() else {
        let message = "thread_id is \"last\", but no call of this connection has started or continued a thread yet; use the \
                       threadId of an earlier result, or start a thread with openoxide";
        return refused(message.to_owned());
    };
    let runs = |known: &&&RecentName| {
        let thread = known.name.parse::<ThreadId>().ok().and_then(|id| manager.in_memory(id));
        thread.is_some_and(|thread| {
            let now = thread.snapshot();
            now.running.is_some() || !now.queued.is_empty()
        })
    };
    let running: Vec<_> = known.iter().filter(runs).map(|known| known.name.as_str()).collect();
    if running.len() > 1 {
        let (count, ids) = (running.len(), running.join(", "));
        return refused(format!(
            "thread_id is \"last\", but turns of {count} threads of this connection run; use the id of one: {ids}"
        ));
    }
    Ok(newest.name.clone())
}

/// Notes the thread that a call has got to.
pub(super) fn note(call: &Call, outcome: &SubmitOutcome) {
    if let (Some(recent), Some(name)) = (&call.recent, name_of(outcome)) {
        recent.note(name);
    }
}

/// The same, for a call that has taken its place before.
pub(super) fn note_in(slot: Option<Slot>, outcome: &SubmitOutcome) {
    if let (Some(slot), Some(name)) = (slot, name_of(outcome)) {
        slot.fill(name);
    }
}

fn name_of(outcome: &SubmitOutcome) -> Option<RecentName> {
    let thread = match outcome {
        SubmitOutcome::Turn(handle) => &handle.thread,
        SubmitOutcome::Ended(thread, _) => thread,
        SubmitOutcome::Result(_) | SubmitOutcome::Cancelled => return None,
    };
    Some(RecentName { name: thread.id().to_string(), is_query: thread.config().read_only_tools })
}
