//! How bytes become messages and answers become bytes: the standard streams, or any pair of byte streams, and Streamable
//! HTTP. A transport parses a message once and hands it to a [`crate::Session`]; it knows no method.

pub(crate) mod http;
pub(crate) mod stdio;
