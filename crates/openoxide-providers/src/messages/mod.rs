//! Anthropic Messages: `body` writes a request out of `blocks`, `decode` reads the events that come back. Sending and trying again is
//! `remote`'s.

mod blocks;
mod body;
mod decode;

pub(crate) use blocks::CacheControl;
pub(crate) use body::{BINDING_BETA, encode, thinking};
pub(crate) use decode::MessagesReader;
