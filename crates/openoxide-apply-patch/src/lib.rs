//! The patch language: from the text a model writes to files changed on disk.
//!
//! What lives here: the parser, the matcher that finds each chunk's place, the check of the whole patch against a
//! tree, the writer, and the unified diff that people are shown. What must not: policy. Whether a path may be written
//! is the caller's decision, taken between [`Patch::verify`], which writes nothing, and [`VerifiedPatch::apply`].
//!
//! The road of one patch: [`extract_from_shell`] (only when it came as a command) -> [`parse`] -> [`Patch::verify`] ->
//! the caller asks whoever must be asked, showing [`VerifiedPatch::unified_diff`] -> [`VerifiedPatch::apply`] ->
//! [`Applied::summary`] for the model. A caller who has a place for a [`Ledger`] takes [`VerifiedPatch::commit`] instead of
//! `apply`, and [`Leftover::recover`] after its process was killed.
//!
//! Rules that hold throughout:
//!
//! - Every change is verified before one is written, and a failed write takes back what was done before it.
//! - A line the patch does not remove keeps the file's bytes, however loosely it was matched.
//! - A chunk whose place is not certain is refused; it is never put at a guess.

mod anchors;
mod diff;
mod edit;
mod error;
mod find;
mod grammar;
mod habits;
mod headers;
mod indent;
mod journal;
mod ledger;
mod lines;
mod matcher;
mod names;
mod nearest;
mod parse;
mod patch;
mod place;
mod recover;
mod resolve;
mod shell;
mod solve;
mod unified;
mod unwrap;
mod verify;
mod write;

#[cfg(test)]
mod kills;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod races;
#[cfg(test)]
mod weak_spots;

pub use diff::unified_diff;
pub use error::{ErrorKind, PatchError};
pub use grammar::GRAMMAR;
pub use ledger::Ledger;
pub use parse::parse;
pub use patch::{Chunk, ChunkLine, FileOp, LineTag, Patch};
pub use recover::{Leftover, Recovered};
pub use resolve::Base;
pub use shell::{ShellPatch, extract_from_shell};
pub use verify::{Change, ChangeKind, VerifiedPatch};
pub use write::{Applied, Committed};

/// Largest file, in bytes, that a patch may read or produce.
pub const MAX_FILE_BYTES: u64 = 10 * 1024 * 1024;

/// Largest sum, in bytes, of all old and new contents that one patch may hold in memory.
pub const MAX_TOTAL_BYTES: u64 = 64 * 1024 * 1024;
