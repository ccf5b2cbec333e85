//! What may be done unasked: the rules for commands, and the approvals of a thread. Pure: nothing here reads, runs or waits.

pub(crate) mod approvals;
mod command;

pub use self::command::{PatchReach, Request, decide, git_starts, plain_commands};
