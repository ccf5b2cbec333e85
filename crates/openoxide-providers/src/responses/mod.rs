//! The OpenAI Responses API: `body` writes a request, `decode` reads the events that come back. Sending and trying
//! again is `remote`'s.

mod body;
mod decode;

pub(crate) use body::{DataUrl, encode};
pub(crate) use decode::ResponsesReader;
