//! What a thread takes of memory, as it is counted for its owner: its place among the threads, and the bytes of its history.
//! Both go back when the thread is dropped. Which threads leave for it is the manager's to decide.

use super::handle::Thread;
use crate::Held;
use crate::api::Owner;
use crate::mutex::lock;
use crate::turn::{TurnHost as _, bytes_of};

impl Thread {
    /// Keeps its place among the threads in memory for as long as it is there.
    pub(crate) fn take_place(&self, place: Held<Owner>) {
        // It is given one place in its life.
        drop(self.place.set(place));
    }

    /// Counts what its history takes by now. Threads that are idle leave memory where there is no room for it.
    pub(crate) fn count_history(&self) {
        let bytes = self.history().iter().map(|item| bytes_of(item)).sum();
        let Some(registry) = self.registry.upgrade() else { return };
        // What it had goes first, so that it never counts twice.
        *lock(&self.room) = None;
        let room = registry.room_for_history(&self.config().owner, bytes);
        *lock(&self.room) = room;
    }
}
