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
mod lexer;
mod options;
mod program;
mod readers;
mod safe;
mod scan;
#[cfg(test)]
mod tests;

pub use self::decide::{PatchReach, Request, decide};
