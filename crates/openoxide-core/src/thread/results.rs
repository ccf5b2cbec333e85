//! The results of the turns that ended last, for those who ask later. Their diffs are read back from the disk where they are
//! there.

use std::sync::Arc;

use super::handle::Thread;
use super::state::{KeptResult, State};
use crate::mutex::lock;
use crate::tools::turn_diff::DIFF_LOST;
use crate::{TurnId, TurnResult};

impl Thread {
    /// The result of a turn that ended, without its diff; kept for the last few turns of the thread.
    pub fn kept_result(&self, turn_id: TurnId) -> Option<Arc<TurnResult>> {
        lock(&self.state).kept_result(turn_id).map(|kept| Arc::clone(&kept.result))
    }

    /// The same with its diff, which is read back from the disk where the thread is kept there: it blocks for as long as
    /// that takes. Where the diff cannot be had any more the result's warnings say so.
    pub fn result_of(&self, turn_id: TurnId) -> Option<Arc<TurnResult>> {
        let kept = lock(&self.state).kept_result(turn_id)?.clone();
        if kept.diff_bytes == 0 {
            return Some(kept.result);
        }
        if let Some(whole) = self.core.kept_diffs.find(turn_id) {
            return Some(whole);
        }
        let elsewhere = lock(&self.rollout).elsewhere();
        let mut result = (*kept.result).clone();
        let why = match elsewhere.map(|(store, _)| store.diff_of(self.id(), turn_id, kept.at)) {
            Some(Ok(Some(diff))) => {
                result.diff = Some(diff);
                return Some(Arc::new(result));
            }
            Some(Ok(None)) => "the thread's file has lost it".to_owned(),
            Some(Err(error)) => format!("the thread's file cannot be read: {error}"),
            None => format!(
                "the diffs of all threads in memory may have {} bytes together (mcp_server.max_diff_bytes)",
                self.core.kept_diffs.max_bytes()
            ),
        };
        result.warnings.push(format!("{DIFF_LOST}{} bytes, is not there any more: {why}", kept.diff_bytes));
        Some(Arc::new(result))
    }

    /// Keeps a result for those who ask later, and its diff where the disk does not have it. `at` is where its line begins
    /// in the rollout.
    pub(super) fn keep_result(&self, state: &mut State, result: &Arc<TurnResult>, at: u64, is_written: bool) {
        let is_on_disk = is_written && lock(&self.rollout).is_begun();
        if result.diff.is_some() && !is_on_disk {
            self.core.kept_diffs.keep(self.config().owner.clone(), Arc::clone(result));
        }
        let kept = KeptResult::of(result, Some(at), Some(state.next_item_id));
        if let Some(oldest) = state.keep_result(kept) {
            self.core.kept_diffs.forget(oldest.result.turn_id);
        }
    }
}
