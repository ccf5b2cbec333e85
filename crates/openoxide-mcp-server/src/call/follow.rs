//! The tokio task behind a task: it is attached to the turn in the creator's place, notes what goes on, and writes the result down.

use std::sync::Arc;
use std::time::Duration;

use openoxide_core::{Event, Interruption, Op, Thread, TurnId};
use openoxide_mcp_protocol::Era;
use tokio::time::{MissedTickBehavior, interval};

use super::turn_result;
use crate::Server;
use crate::call::submit::TurnHandle;
use crate::connection::questions;
use crate::convert::event::phase_of;
use crate::convert::result::CallResult;
use crate::server::attachments::{AskRight, Attachment};
use crate::server::lifecycle::OpenRequest;
use crate::server::tasks::Task;
use openoxide_rpc::Gate;

/// From one look whether anybody still asks to the next.
const LOOK: Duration = Duration::from_secs(30);

/// Follows the turn of a task to its end. `open` is dropped when the result is written.
pub(crate) async fn follow(server: Arc<Server>, task: Arc<Task>, handle: TurnHandle, open: OpenRequest) {
    let TurnHandle { thread, turn, attachment, .. } = handle;
    let mut events = attachment.events;
    let attachment = {
        // Any connection of the task's principal may answer for it, so it is asked beside those that have calls here.
        let (call, connection) = (Gate::new().key(), server.attachments.connection_key());
        server.attachments.attach(thread.id(), turn, call, connection, task.can_be_asked())
    };
    put_questions(&server, &task, &thread, turn, &attachment);
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let abandoned = server.manager.config().limits.abandoned_turn;
    let mut cannot_ask = false;
    let result = loop {
        // Cancel-safe: `next` takes an event only when it returns it, notifications keep their permit.
        tokio::select! {
            biased;
            () = server.lifecycle.asking_stopped(), if !cannot_ask => {
                cannot_ask = true;
                deny_questions(&thread, turn);
            }
            event = events.next() => {
                let Some(event) = event else { break turn_result::cut_short(&thread, turn).await };
                if event.turn_id() != turn {
                    continue;
                }
                match &event {
                    Event::TurnEnded { result, .. } => break CallResult::Ended(Arc::clone(&thread), Arc::clone(result)),
                    Event::ApprovalRequested { .. } if cannot_ask => deny_questions(&thread, turn),
                    Event::ApprovalRequested { .. } => put_questions(&server, &task, &thread, turn, &attachment),
                    Event::ApprovalSettled { id, .. } => server.attachments.settled(thread.id(), turn, *id),
                    Event::TurnStarted { .. }
                    | Event::ItemStarted { .. }
                    | Event::ItemDelta { .. }
                    | Event::ItemCompleted { .. }
                    | Event::Usage { .. }
                    | Event::Plan { .. }
                    | Event::Warning { .. } => {}
                }
                let phase = phase_of(&event);
                if phase.is_some() || matches!(event, Event::ApprovalSettled { .. }) {
                    task.progress(&server.tasks, phase);
                }
            }
            () = attachment.ask_again.notified() => put_questions(&server, &task, &thread, turn, &attachment),
            _ = look.tick() => {
                if let Some(limit) = abandoned.filter(|limit| task.unasked_for() > *limit) {
                    tracing::info!(thread = %thread.id(), "a task that nobody asks for any more is ended");
                    // The end of the turn comes as an event.
                    drop(thread.submit(Op::Interrupt { turn_id: Some(turn), why: Interruption::Abandoned(limit) }));
                }
            }
        }
    };
    task.end(&server.tasks, result.to_wire(Era::Modern));
    drop(open);
}

/// Denies what nobody can answer any more.
fn deny_questions(thread: &Arc<Thread>, turn: TurnId) {
    for request in thread.pending_approvals().iter().filter(|request| request.turn_id == turn) {
        questions::settle_disconnected(thread, request.id, None);
    }
}

/// Has the strategy answer what nobody can be asked. What the creator can be asked is in the task's state.
fn put_questions(server: &Server, task: &Task, thread: &Arc<Thread>, turn: TurnId, attachment: &Attachment) {
    for request in thread.pending_approvals().iter().filter(|request| request.turn_id == turn) {
        match attachment.ask_right(request.id, true) {
            AskRight::NobodyAskable => {
                questions::settle_unasked(server.approval_strategy, thread, request);
            }
            AskRight::Ask => task.progress(&server.tasks, None),
            AskRight::Elsewhere | AskRight::Disconnected => {}
        }
    }
}
