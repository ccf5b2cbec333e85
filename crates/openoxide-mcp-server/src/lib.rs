//! Serves MCP: its methods in both eras, Streamable HTTP, tasks, and the tools that Codex had.
//!
//! Four kinds of task: the reader takes lines from stdin, the processor routes them, a runner serves each `tools/call`,
//! and the writer is the only one that touches stdout. [`serve`] starts them over any pair of byte streams, so that
//! stdio and the in-memory duplex of the tests are the same server. [`serve_http`] brings the same processor the messages of
//! any number of clients.
//!
//! # Floors
//!
//! A module uses those below it and none above it.
//!
//! | module | what it owns |
//! |---|---|
//! | `transport` | bytes to messages: the standard streams, Streamable HTTP |
//! | `dispatch` | the processor and the one table of methods |
//! | `methods` | one file per family of methods: parse and answer together |
//! | `call` | a `tools/call` or `prompts/get`: it begins, gets to its work, and its runner reports, asks and answers |
//! | `connection` | one client: what was agreed, its open calls, the questions put to it, its subscriptions |
//! | `server` | what every connection shares: what is served, who is attached to it, tasks, the end |
//! | `agent` | what is served by the product: turns on core's threads |
//! | `compat` | the shapes of Codex, made from what core says, and what is known of hosts |
//! | `convert` | core's types to wire types and back, and nothing else |
//! | `backend` | the traits of what stands behind the methods, and what a call is to it |
//!
//! The processor is not in `connection` because methods and calls use their connection, and the processor uses them. At the
//! root is what belongs to no floor because all may use it: `service`, which is how a transport sees what it serves,
//! `principal`, `clock` and `random`.

mod agent;
mod backend;
mod call;
mod clock;
mod compat;
mod connection;
mod convert;
mod dispatch;
mod methods;
mod principal;
mod random;
mod server;
mod service;
mod transport;

pub use agent::ApprovalStrategy;
pub use backend::{
    Backend, Begun, Call, CallKind, Change, Changed, Happening, List, OpenQuestion, Outcome, Prepared, PreparedCall,
    Refusal, Settlement, Standing, TaskRule, Work, WorkEvents,
};
pub use openoxide_core::Interruption;
pub use openoxide_mcp_protocol::TraceContext;
pub use openoxide_mcp_protocol::tools::ToolFamilies;
pub use principal::Principal;
pub use server::{ANSWER_WITHIN, OnEof, Server, ServerConfig, ServerOptions, TASK_AFTER};
pub use service::{Service, Session};
pub use transport::http::{Authority, HttpConfig, Origin, Token, serve_http};
pub use transport::stdio::serve;
