//! How a call of `codex` or `codex-reply` is spoken to: results, events and questions in the shapes of Codex 0.153.4, made
//! from what core says.
//!
//! Only calls of those tools get them, so that no other client meets a method that is none of MCP's.

mod changes;
mod events;
mod question;
mod result;

pub(crate) use events::Events;
pub(crate) use question::question;
pub(crate) use result::result;
