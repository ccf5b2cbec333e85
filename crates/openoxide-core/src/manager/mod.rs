//! Every thread of a process: started, found, loaded, forked, listed, and let go. Changes of a turn are taken back here as
//! well, and transcripts are made.

mod expired;
mod fork;
mod history;
mod listing;
mod load_queue;
mod opening;
mod page;
mod threads;
mod transcript;
mod undo;

pub use self::fork::fork_rollout;
pub use self::load_queue::LoadGuard;
pub use self::opening::{LoadTicket, ThreadAccess};
pub use self::page::PageCursor;
pub use self::threads::ThreadManager;
pub use self::transcript::{Transcript, TranscriptEntry};
pub use self::undo::{Undone, undo_turn};
