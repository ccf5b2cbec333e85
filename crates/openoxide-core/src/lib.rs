//! Runs threads and turns: what a coding agent remembers, asks, does and reports. Knows no protocol.
//!
//! A [`ThreadManager`] owns [`Thread`]s. Each takes [`Op`]s and tells [`Event`]s; a turn goes between a model provider
//! and the tools until the model is done. What is completed is written to the thread's rollout before it is
//! announced. Environment variables, the home directory and the current directory are never read here: a [`Config`]
//! says all of it.

mod approval;
mod approvals;
mod ceiling;
mod changes;
mod command_rules;
mod config;
mod context;
mod diff;
mod directory;
mod error;
mod events;
mod files;
mod ids;
mod instructions;
mod interruption;
mod kept_diffs;
mod path_text;
mod protocol;
mod rollout;
mod runner;
mod sessions;
mod shares;
mod temporary;
#[cfg(test)]
mod tests;
mod thread;
mod thread_manager;
mod thread_state;
mod tools;
mod transcript;
mod turn;
mod undo;

pub use approval::*;
pub use approvals::RememberedApproval;
pub use ceiling::Ceiling;
pub use changes::{ThreadChange, ThreadChanges};
pub use command_rules::{CommandRule, PatchReach, Request, RuleDecision, Verdict, decide};
pub use config::{ApprovalPolicy, Config, DEFAULT_SHARE_PERCENT, Limits, ThreadConfig};
pub use error::{CoreError, ErrorKind};
pub use events::EventReceiver;
pub use ids::{ApprovalId, SteerId, ThreadId, TurnId};
pub use interruption::Interruption;
pub use protocol::*;
pub use rollout::{
    Damage, EventRecord, FORMAT, Fate, Holder, JsonlStore, Opened, Overrides, PatchLedger, PatchNote, Reading,
    RolloutItem, RolloutLine, SessionMeta, Stamp, StoredThread, Syncer, ThreadStore, ThreadSummary, ThreadWriter,
    TurnContext, TurnStatusRecord, summaries,
};
pub use shares::{Exceeded, Held, Shares, share_of};
pub use temporary::remove_temporary;
pub use thread::{Attachment, Snapshot, Thread};
pub use thread_manager::{Entrance, PageCursor, Pass, ThreadManager, Ticket, fork_rollout};
pub use transcript::{Transcript, TranscriptEntry};
pub use undo::{FileRecord, Undone, undo_turn};

// The words of the leaves that core's face uses, so that a door needs no leaf.
pub use openoxide_display::{command_line, quote_path, unquote_path, visible, visible_lines, visible_text};
pub use openoxide_llm::{HistoryItem, Role, Usage};
pub use openoxide_sandbox::{Launcher, SandboxMode, Surroundings, WorkspaceWrite};
