//! The tokio task behind a task: it follows the work in the creator's place, notes what goes on, and writes the result down.

use std::sync::Arc;
use std::time::Duration;

use openoxide_core::Interruption;
use openoxide_mcp_protocol::{ClientFacts, Era};
use openoxide_rpc::Gate;
use tokio::time::{MissedTickBehavior, interval};

use crate::Server;
use crate::backend::{Happening, Settlement, Work, WorkEvents};
use crate::server::attachments::{AskRight, Attachment};
use crate::server::lifecycle::OpenRequest;
use crate::server::tasks::Task;

/// From one look whether anybody still asks to the next.
const LOOK: Duration = Duration::from_secs(30);

/// Attaches the task of `client` to its work.
pub(super) fn attach(server: &Server, work: &dyn Work, client: ClientFacts) -> Attachment {
    // Any connection of the task's principal may answer for it, so it is asked beside those that have calls here.
    let connection = server.attachments.connection_key();
    server.attachments.attach(work.id(), Gate::new().key(), connection, client)
}

/// Follows the work of a task to its end. `open` is dropped when the result is written.
pub(super) async fn follow(
    server: Arc<Server>,
    task: Arc<Task>,
    attachment: Attachment,
    mut events: Box<dyn WorkEvents>,
    open: OpenRequest,
) {
    let work = events.work();
    put_questions(&server, &task, &*work, &attachment);
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let abandoned = server.backend.abandoned_after();
    let mut cannot_ask = false;
    loop {
        // Cancel-safe: `next` takes an event only when it returns it, notifications keep their permit.
        tokio::select! {
            biased;
            () = server.lifecycle.asking_stopped(), if !cannot_ask => {
                cannot_ask = true;
                deny_questions(&*work);
            }
            happening = events.next() => {
                let is_settled = match happening {
                    None | Some(Happening::Ended) => break,
                    Some(Happening::Asked) if cannot_ask => {
                        deny_questions(&*work);
                        false
                    }
                    Some(Happening::Asked) => {
                        put_questions(&server, &task, &*work, &attachment);
                        false
                    }
                    Some(Happening::Settled(question)) => {
                        attachment.settled(&question);
                        true
                    }
                    Some(Happening::Other) => false,
                };
                let phase = events.phase();
                if phase.is_some() || is_settled {
                    task.progress(&server.tasks, phase);
                }
            }
            () = attachment.ask_again.notified() => put_questions(&server, &task, &*work, &attachment),
            _ = look.tick() => {
                if let Some(limit) = abandoned.filter(|limit| task.unasked_for() > *limit) {
                    tracing::info!(work = work.id(), "a task that nobody asks for any more is ended");
                    work.interrupt(Interruption::Abandoned(limit));
                }
            }
        }
    }
    task.end(&server.tasks, events.outcome(Era::Modern).await);
    drop(open);
}

/// Denies what nobody can answer any more.
fn deny_questions(work: &dyn Work) {
    for question in work.questions() {
        work.settle(&question.id, Settlement::Disconnected, None);
    }
}

/// Has settled what nobody can be asked. What the creator can be asked is in the task's state.
fn put_questions(server: &Server, task: &Task, work: &dyn Work, attachment: &Attachment) {
    for question in work.questions() {
        match attachment.ask_right(&question.id, question.kind, true) {
            AskRight::NobodyAskable => {
                work.settle(&question.id, Settlement::NobodyAskable, None);
            }
            AskRight::Ask => task.progress(&server.tasks, None),
            AskRight::Elsewhere | AskRight::Disconnected => {}
        }
    }
}
