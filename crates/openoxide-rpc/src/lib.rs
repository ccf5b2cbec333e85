//! JSON-RPC 2.0 over byte streams, for any number of protocols. It knows no method name.
//!
//! ```text
//! bytes --lines--> Line --Header::parse--> Envelope --Handler::handle--> the protocol
//! bytes <--writer-- Outgoing <-- Responder (answers once) <-- the protocol
//! ```
//!
//! - [`lines`]: no line is longer than its bound, and a bad one is answered, never fatal.
//! - [`Header`] and [`Envelope`]: messages with the member `jsonrpc` and without; parameters stay raw until the method that
//!   wants them parses them.
//! - [`Responder`]: the right to answer one request, once, alone or as its part of a batch.
//! - [`Outgoing`]: the queue to the one task that writes, counted in bytes: answers always get in, progress is dropped where
//!   there is no room, and a client that never reads costs a bound.
//! - [`serve`]: all of it over standard streams (`stdio`, a feature), sockets or an in-memory duplex.
//! - [`Connection`]: the same where messages are pulled and not pushed.
//!
//! # A protocol on this floor
//!
//! A protocol is a [`Handler`]: it matches the method, parses the parameters into its own type, and answers.
//!
//! ```
//! use openoxide_rpc::{Envelope, Handler, Header, Responder, Responders, RpcError, serve};
//! use serde_json::{Value, json};
//!
//! struct Echo;
//!
//! impl Handler for Echo {
//!     fn handle(&mut self, message: Envelope, responders: &Responders) {
//!         let Envelope::Request { id, method, params } = message else { return };
//!         let responder = Responder::new(id, responders.clone());
//!         match method.as_str() {
//!             // What takes time is spawned; the responder goes with it.
//!             "echo" => drop(tokio::spawn(async move { responder.answer(Ok(&json!({ "said": params }))) })),
//!             other => responder.answer::<Value>(Err(&RpcError::method_not_found(other))),
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let (client, server) = tokio::io::duplex(4096);
//! let (reader, writer) = tokio::io::split(server);
//! let patience = std::time::Duration::from_secs(30);
//! let serving = tokio::spawn(serve(reader, writer, Header::Present, patience, |_| Echo));
//! # use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! # let (mut from, mut to) = tokio::io::split(client);
//! to.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[7]}\n").await.unwrap();
//! to.shutdown().await.unwrap();
//! let mut answer = String::new();
//! from.read_to_string(&mut answer).await.unwrap();
//! assert_eq!(answer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"said\":[7]}}\n");
//! serving.await.unwrap();
//! # }
//! ```

mod connection;
mod envelope;
mod error;
mod handler;
pub mod lines;
mod mutex;
mod outgoing;
mod responder;
#[cfg(feature = "stdio")]
pub mod stdio;
mod unread;
mod writer;

pub use connection::Connection;
pub use envelope::{Envelope, EnvelopeError, Header, MAX_NESTING, Outcome, RequestId, salvage_id};
pub use error::{RpcError, code};
pub use handler::{Handler, dispatch, serve};
pub use mutex::lock;
pub use outgoing::{Gate, Outgoing, Room};
pub use responder::{Batch, Responder, Responders};
/// The byte streams of a connection, so that a protocol needs no other crate to name them.
pub use tokio::io::{AsyncRead, AsyncWrite};
pub use unread::{Charge, Meter, Reader, Turn, Unread};
pub use writer::write_lines;
