//! Serves the app-server protocol, which Codex's own clients speak, on OpenOxide's threads: JSON-RPC without its header, over
//! standard streams, WebSocket and unix sockets.
//!
//! ```text
//! message --Processor--> methods --> core's threads
//! client <-- Connection <-- Follower <-- core's events
//! ```
//!
//! | module | what it owns |
//! |---|---|
//! | `transport` | bytes to messages, and the end |
//! | `processor` | from a message to its method |
//! | `methods` | the one table of methods; parse and answer together |
//! | `connection` | one client: the threads it follows, the questions put to it |
//! | `follower` | core's events as notifications, in their order |
//! | `server` | what all clients share |
//! | `convert` | core's types to wire types and back, and nothing else |
//! | `types` | the messages |
//!
//! A thread, turn or item has the same id here as in every other protocol. What the protocol has and this does not is refused by
//! name; `docs/app-server.md` lists what there is.

mod caller;
mod connection;
mod convert;
mod errors;
mod follower;
mod methods;
mod processor;
mod server;
mod transport;
mod types;

pub use openoxide_rpc::listeners::{Authority, GuardConfig, Hints, Origin, Socket, Token, UnixSocket, callers};
pub use server::{AppServer, AppServerConfig, ApprovalFallback};
pub use transport::{serve, serve_ws};
