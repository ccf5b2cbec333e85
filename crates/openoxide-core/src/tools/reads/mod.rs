//! Reads done elsewhere: what a tool asks of the disk is one value ([`ReadWork`]), what comes back is another, with a bound.
//!
//! ```text
//! a tool ── work ──> ReadPlace::Server ──────────────────────────────> FileView ──> disk
//!                    ReadPlace::Box ── frame ──> helper in the box ──> FileView ──> disk
//!                                  <── frame, of so many bytes at most ──
//! ```
//!
//! A helper is killed with the call that it works for, and at the latest with the turn. Nothing that it sends is believed before it was measured and
//! judged; a helper that sends something else, or nothing, is killed too, and the call says so in a sentence. What the
//! helper runs is `serve`, above the tools.

mod frame;
mod helper;
mod place;
mod pool;
mod view;
pub(crate) mod wire;
mod work;

pub(crate) use self::frame::{Ask, MAX_ASK, MAX_SENTENCE, read_frame, write_frame};
pub(crate) use self::helper::{HelperProcess, Helpers, ReadHelper};
pub(crate) use self::place::ReadPlace;
pub(crate) use self::pool::ReadPool;
pub(crate) use self::work::{ReadKind, ReadWork};

#[cfg(test)]
pub(crate) mod tests;
