//! Anthropic Messages: `body` writes a request, `decode` reads the events that come back. Sending and trying again is
//! `remote`'s.

mod body;
mod decode;

pub(crate) use body::{CacheControl, encode};
pub(crate) use decode::MessagesReader;
