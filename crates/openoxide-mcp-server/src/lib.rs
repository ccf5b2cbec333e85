//! Turns MCP messages into visits to core threads.
//!
//! Four kinds of task: the reader takes lines from stdin, the processor routes them, a runner serves each `tools/call`,
//! and the writer is the only one that touches stdout. [`serve`] starts them over any pair of byte streams, so that
//! stdio and the in-memory duplex of the tests are the same server. [`serve_http`] brings the same processor the messages of
//! any number of clients.

mod admission;
mod answers;
mod calls;
mod clock;
mod codex;
mod connection;
mod door;
mod hosts;
mod http;
mod lifecycle;
mod mutex;
mod offer;
mod outgoing;
mod output;
mod principal;
mod processor;
mod questions;
mod random;
mod reader;
mod report;
mod resources;
mod runner;
mod server;
mod state_key;
mod stdio;
mod subscriptions;
mod tasks;
mod unread;
mod visits;
mod writer;

pub use answers::{Responder, Route};
pub use door::{Service, Session};
pub use http::{Authority, HttpConfig, Origin, Token, serve_http};
pub use openoxide_mcp_protocol::TraceContext;
pub use outgoing::Outgoing;
pub use principal::Principal;
pub use server::{ApprovalStrategy, OnEof, Server, ServerConfig};
pub use stdio::serve;
