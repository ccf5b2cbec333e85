//! OpenAI Chat Completions as nearly every server speaks it: `body` writes a request, `decode` reads the chunks that
//! come back. Sending and trying again is `remote`'s.
//!
//! Reasoning has no place in this API, and servers put it where they like: `reasoning_content`, `reasoning`,
//! `reasoning_details`. It is shown and kept, and goes back in the field in which it came.

mod body;
mod decode;
mod details;

pub(crate) use body::encode;
pub(crate) use decode::ChatReader;

/// The `type` of the raw form in which reasoning of this dialect is kept: `{type, field?, text?, details?}`.
const RAW_TYPE: &str = "chat_reasoning";

/// The `type` of what a call of this dialect carries: `{type, arguments?, extra_content?}`.
const CALL_TYPE: &str = "chat_call";
