//! What may be done unasked: the rules for commands, and the approvals of a thread. Pure: nothing here reads, runs or waits.

pub(crate) mod approvals;
mod command;
mod remembered;
pub(crate) mod told;

pub use self::command::{
    CommandPlace, PatchReach, Request, decide, git_starts, plain_commands, runs_what_others_wrote,
};
