//! The result of a turn, with its diff, which may have to be read from the disk.

use std::sync::Arc;

use openoxide_core::{Thread, TurnId, TurnResult};

use crate::convert::result::CallResult;

/// The result of a turn that has ended.
pub(super) async fn whole(thread: &Arc<Thread>, turn: TurnId) -> Option<Arc<TurnResult>> {
    let reading = Arc::clone(thread);
    tokio::task::spawn_blocking(move || reading.result_of(turn)).await.unwrap_or_else(|_| thread.kept_result(turn))
}

/// The result of a turn whose thread was closed under it.
pub(super) async fn cut_short(thread: &Arc<Thread>, turn: TurnId) -> CallResult {
    match whole(thread, turn).await {
        Some(result) => CallResult::Ended(Arc::clone(thread), result),
        None => {
            let why = "The turn was interrupted: its thread was closed before it ended.";
            CallResult::interrupted(thread.id().to_string(), why)
        }
    }
}
