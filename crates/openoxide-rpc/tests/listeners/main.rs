//! The listeners over real sockets: who is let in, what ends a connection, and that it ends for nobody else.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped has failed the test")]

mod support;
mod unix;
mod websocket;
mod websocket_guard;
