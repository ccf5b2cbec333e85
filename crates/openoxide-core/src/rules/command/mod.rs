//! Whether a command may run unasked: one pure function ([`decide`]) over the approval policy, the sandbox, the configured
//! rules and the command. Nothing here runs or reads anything, and nothing here confines: what is allowed still runs in the
//! sandbox of its thread.
//!
//! ```text
//! line ── lexer (strict) ──> commands ── safe list, reach ── rules that allow ──────┐
//!      └─ scan (lenient) ──> whatever a shell might run ── destructive ──────────────┼──> decide ──> allow | ask | forbid
//!                                                       └─ rules that ask or forbid ─┘
//! ```
//!
//! Invariant: what the strict lexer does not understand is never called safe. What the lenient scan finds is only ever used
//! to be stricter. A rule that allows speaks of plain commands alone; one that asks or forbids speaks of whatever might run,
//! and of a line of which it cannot be told.

mod decide;
mod destructive;
mod git;
mod git_line;
mod lexer;
#[cfg(test)]
mod model_tests;
mod options;
mod place;
mod program;
mod reach;
mod readers;
mod runners;
mod safe;
mod scan;
#[cfg(test)]
mod spelling_tests;
#[cfg(test)]
mod tests;

pub use self::decide::{PatchReach, Request, decide};
pub use self::git_line::git_starts;
pub use self::place::CommandPlace;
pub use self::runners::runs_what_others_wrote;

/// The commands of a shell line by their words, where the line holds nothing but plain ones: for showing what it does.
pub fn plain_commands(line: &str) -> Option<Vec<Vec<String>>> {
    let commands = lexer::read(line).ok()?;
    let has_pattern = commands.iter().flatten().any(|word| word.is_pattern);
    let words = |command: lexer::Command| command.into_iter().map(|word| word.text).collect();
    (!has_pattern).then(|| commands.into_iter().map(words).collect())
}
