//! Whether a command may run unasked: one pure function ([`decide`]) over the approval policy, the sandbox, the configured
//! rules and the command. Nothing here runs or reads anything, and nothing here confines: what is allowed still runs in the
//! sandbox of its thread.
//!
//! ```text
//! line ── lexer (strict) ──> commands ── safe list ──────────────┐
//!      └─ scan (lenient) ──> whatever a shell might run ── destructive ──┼──> decide ──> allow | ask | forbid
//! configured rules ─────────────────────────────────────────────────┘
//! ```
//!
//! Invariant: what the strict lexer does not understand is never called safe. What the lenient scan finds is only ever used
//! to be stricter.

mod decide;
mod destructive;
mod git;
mod git_line;
mod lexer;
mod options;
mod program;
mod readers;
mod safe;
mod scan;
#[cfg(test)]
mod tests;

pub use self::decide::{PatchReach, Request, decide};
pub use self::git_line::git_starts;

/// The commands of a shell line by their words, where the line holds nothing but plain ones: for showing what it does.
pub fn plain_commands(line: &str) -> Option<Vec<Vec<String>>> {
    let commands = lexer::read(line).ok()?;
    let has_pattern = commands.iter().flatten().any(|word| word.is_pattern);
    let words = |command: lexer::Command| command.into_iter().map(|word| word.text).collect();
    (!has_pattern).then(|| commands.into_iter().map(words).collect())
}
