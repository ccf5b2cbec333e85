//! What tests of the doors share: a model that says what its script says, an MCP client over a pair of byte streams,
//! a strict model server, and a way to make wire traces comparable. A dev-dependency only.

mod client;
mod redact;
mod script;
pub mod strict;

pub use client::{Client, Reply};
pub use redact::Redactor;
pub use script::{Say, ScriptedModel};
