//! Runs commands and file operations for a client elsewhere: `openoxide exec-server`.
//!
//! ```text
//! client ── WebSocket or streams ──> connection ──> Session ──> Process ──Launcher──> relay ──> the command
//!                                    (methods)        │                     (in the sandbox)
//!                                                     ├──> FileView          what is read
//!                                                     └──> file worker       what is written (in the sandbox)
//! ```
//!
//! - [`protocol`]: the messages as types, for server and client.
//! - `server`: connections, sessions, processes, files, and what the operator allows. The one table of methods is
//!   `server/methods.rs`.
//! - `relay`: this program again, inside of the sandbox, between the server and one command or file operation.
//!
//! The crate reads no environment and no current directory, and prints nothing but to the streams it is given.
//!
//! Every command and every file operation is held by the sandbox crate. Files are opened by its `FileView` or by a worker in
//! the sandbox, and by nothing else here.

pub mod protocol;
#[cfg(feature = "server")]
mod relay;
#[cfg(feature = "server")]
mod server;

#[cfg(feature = "server")]
pub use openoxide_rpc::listeners::{GuardConfig, Hints, Token};
#[cfg(feature = "server")]
pub use relay::dispatch_relay;
#[cfg(feature = "server")]
pub use server::{ExecServer, ExecServerConfig, ListenUrl, Shell};

/// Where [`ListenUrl`] listens when nothing is said: a free port of the loopback.
pub const DEFAULT_LISTEN_URL: &str = "ws://127.0.0.1:0";

/// What is no address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no address to listen on; allowed: ws://IP:PORT, stdio, stdio://")]
pub struct ExecServerListenUrlParseError {
    /// What was given.
    pub given: String,
}
