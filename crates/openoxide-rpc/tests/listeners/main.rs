//! The listeners over real sockets: who is let in, what ends a connection, and that it ends for nobody else.

mod support;
mod unix;
mod websocket;
mod websocket_guard;
