//! Connections that others open: unix sockets, WebSocket, and HTTP below it, with the guard in front of them.
//!
//! ```text
//! accept --PeerUser--> Accepted --Guard--> Caller --Transport--> crate::serve_over
//!             silent ones give way     places per caller
//! ```
//!
//! - [`serve_lines`]: a unix socket, one message a line. [`UnixSocket`] says who may take its path and who may connect.
//! - [`serve_websockets`]: a TCP address or a unix socket, one message a text frame.
//! - [`HttpListener`]: requests to a router of a protocol's own, on the same connections.
//! - [`Guard`]: bearer tokens, `Host`, `Origin`, the user at the other end, the rate of requests and of wrong tokens.
//! - [`Connections`]: how many there are, and whose. Silent ones are few and give way; the others have [`Places`] per caller.
//!
//! What is bounded: connections that are silent and those of each caller, the time of a request's head, the bytes of a line or
//! frame ([`crate::lines::MAX_LINE`]), what waits for the processor, what a client has not read ([`crate::Outgoing`]), the time
//! that a client may be silent (WebSocket), and the time from the stop until connections are cut.

mod accept;
mod authority;
mod caller;
mod connections;
mod guard;
mod http;
mod peer;
mod rate;
mod server;
mod stream;
mod unix;
mod websocket;

pub use accept::Socket;
pub use authority::{Authority, Origin};
pub use caller::{Caller, Token, callers};
pub use connections::{Accepted, Connections, EvenPlaces, Held, Places, Source};
pub use guard::{Guard, GuardConfig, Hints, Place, Refusal, error_response};
pub use http::HttpListener;
pub use peer::{PeerUser, PeerUsers};
pub use server::{ListenConfig, serve_lines, serve_websockets};
pub use unix::UnixSocket;
