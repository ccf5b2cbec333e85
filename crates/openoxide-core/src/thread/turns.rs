//! The turns of a thread: one task runs them, one after the other, and ends when none waits. Here a turn is ended, whatever
//! became of it: its commands are gone, its history is one that a provider takes, its changes are noted, its result is told.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use openoxide_display::quote_path;
use openoxide_llm::{HistoryItem, Role};
use tracing::Instrument as _;

use super::disk_side::Claim;
use super::handle::Thread;
use crate::mutex::lock;
use crate::store::{EventRecord, RolloutItem};
use crate::tools::ToolHost as _;
use crate::tools::turn_diff::{TurnDiff, relative};
use crate::turn::{Driver, StartedTurn, TurnHost, TurnOutcome, missing_outputs};
use crate::{CoreError, Interruption, TurnResult, TurnStatus, instructions};

/// Runs a turn and every turn that waits behind it. A turn that panics fails; the thread stays usable.
pub(crate) async fn run_turns(thread: Arc<Thread>, first: StartedTurn) {
    let mut next = Some(first);
    while let Some(turn) = next {
        // A turn that waited behind others is held to what those have written.
        let claimed = match thread.check_disk() {
            Ok(()) => claim(&thread).await,
            Err(error) => Err(error),
        };
        let claimed = match claimed {
            Ok(claim) => claim,
            Err(error) => {
                tracing::info!(thread = %thread.id(), %error, "a turn could not begin");
                next = thread.refuse_turn(&turn, &error);
                continue;
            }
        };
        let start = thread.begin_turn();
        let (turn_id, started) = (turn.turn_id, turn.started);
        let diff = Arc::new(Mutex::new(TurnDiff::new(thread.process_config().workspace_write.guarded_names())));
        let span = tracing::info_span!(parent: &turn.caller, "turn", thread = %thread.id(), turn = %turn_id);
        let driver = Box::pin(
            Driver::new(Arc::clone(&thread) as Arc<dyn TurnHost>, turn, start, Arc::clone(&diff))
                .run()
                .instrument(span),
        );
        let parts = match AssertUnwindSafe(driver).catch_unwind().await {
            Ok(parts) => parts,
            Err(_) => TurnOutcome::after_panic(thread.as_ref()),
        };
        if parts.status != TurnStatus::Completed {
            // What a command does with its last two seconds belongs to the turn, and the next turn finds none of it.
            if let Some(ending) = thread.commands.terminate(Some(turn_id)) {
                ending.await;
            }
            close_history(&thread, parts.interruption.as_ref(), parts.left_over);
        }
        note_changes(&thread, &diff).await;
        thread.end_readers();
        let (files_changed, diff, files) = {
            let diff = lock(&diff);
            (diff.files_changed(), diff.unified(), diff.records())
        };
        if !files.is_empty() {
            thread.record(&RolloutItem::EventMsg(EventRecord::Changes { turn_id, files }));
        }
        let result = TurnResult {
            thread_id: thread.id(),
            turn_id,
            status: parts.status,
            content: parts.content,
            files_changed,
            diff,
            thread_usage: thread.usage_with(parts.usage),
            usage: parts.usage,
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            denials: parts.denials,
            warnings: Vec::new(),
        };
        drop(claimed);
        next = thread.finish_turn(result, parts.carried);
        thread.count_history();
        thread.sync_later();
    }
}

/// Notes what the turn's commands have changed on disk.
async fn note_changes(thread: &Arc<Thread>, diff: &Mutex<TurnDiff>) {
    let root = &thread.config().cwd;
    let (before, obeyed) = {
        let mut diff = lock(diff);
        (diff.take_before(), diff.take_obeyed())
    };
    // A turn without a command ends at once.
    let others = match obeyed {
        Some(obeyed) => tokio::task::spawn_blocking(|| obeyed.others()).await.unwrap_or_default(),
        None => Vec::new(),
    };
    let mut is_recorded = false;
    if let Some((before, touched)) = before
        && let Some(changes) = before.changes(&Arc::clone(thread).read_place()).await
    {
        is_recorded = true;
        for repository in &changes.repositories {
            thread.warn_in_result(format!(
                "a command of this turn made a bare git repository, {}: git takes orders from it, hooks and configuration \
                 included, for whoever runs git in it; `git config --global safe.bareRepository explicit` makes git ask",
                quote_path(&relative(root, repository))
            ));
        }
        lock(diff).add_changes(root, changes.files, touched);
    }
    let mut diff = lock(diff);
    diff.add_obeyed(root, others, is_recorded);
    diff.warning().into_iter().for_each(|warning| thread.warn_in_result(warning));
}

/// Makes the history of a turn that did not complete one that a provider takes: every call has an output, what was
/// said to it is kept, and the model is told that it was stopped.
fn close_history(thread: &Thread, interruption: Option<&Interruption>, left_over: Vec<String>) {
    let mut items = missing_outputs(&thread.history()[thread.turn_begin()..]);
    items.extend(left_over.into_iter().map(|text| HistoryItem::Message { role: Role::User, text, carried: None }));
    if let Some(why) = interruption {
        let text = instructions::interrupted_note(&why.sentence());
        items.push(HistoryItem::Note { text });
    }
    items.into_iter().for_each(|item| thread.append(item));
}

/// Takes the thread into use, off this task where the disk has to be asked.
async fn claim(thread: &Arc<Thread>) -> Result<Claim, CoreError> {
    if thread.is_ephemeral() {
        return Ok(thread.hold());
    }
    let this = Arc::clone(thread);
    match tokio::task::spawn_blocking(move || this.claim()).await {
        Ok(claimed) => claimed,
        Err(error) => Err(CoreError::Rollout { id: thread.id(), source: std::io::Error::other(error) }),
    }
}
