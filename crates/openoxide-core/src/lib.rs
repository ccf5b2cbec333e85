//! Runs threads and turns: what a coding agent remembers, asks, does and reports. Knows no protocol.
//!
//! A [`ThreadManager`] owns [`Thread`]s. Each takes [`Op`]s and tells [`Event`]s; a turn goes between a model provider
//! and the tools until the model is done. What is completed is written to the thread's rollout before it is
//! announced. Environment variables, the home directory and the current directory are never read here: a [`Config`]
//! says all of it.

mod api;
mod instructions;
mod manager;
mod mutex;
mod rules;
mod shares;
mod store;
#[cfg(test)]
mod tests;
mod thread;
mod tools;
mod turn;

pub use api::*;
pub use manager::{
    LoadGuard, LoadTicket, PageCursor, ThreadAccess, ThreadManager, Transcript, TranscriptEntry, Undone, fork_rollout,
    undo_turn,
};
pub use rules::{CommandPlace, PatchReach, Request, decide, git_starts, plain_commands, runs_what_others_wrote};
pub use shares::{Exceeded, Held, Shares, share_of};
pub use store::{
    Damage, EventRecord, FORMAT, Fate, FileRecord, JsonlStore, Opened, Overrides, PatchLedger, PatchNote, Prefix,
    Reading, RolloutItem, RolloutLine, SessionMeta, Stamp, StoredThread, Syncer, ThreadStore, ThreadSummary,
    ThreadWriter, TurnContext, summaries,
};
pub use thread::{
    Attachment, Cursor, EventReceiver, OpenItem, Resumed, Snapshot, Thread, ThreadChange, ThreadChanges,
    remove_temporary,
};
pub use tools::serve_reads;

// The words of the leaves that core's face uses, so that a protocol's crate needs no leaf.
pub use openoxide_display::{command_line, quote_path, unquote_path, visible, visible_lines, visible_text};
pub use openoxide_llm::{HistoryItem, Reasoning, Role, Usage};
pub use openoxide_sandbox::{HostPaths, Launcher, SandboxMode, WorkspaceWrite};
