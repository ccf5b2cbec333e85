//! A protocol of one method on a unix socket and a WebSocket:
//! `cargo run --features listeners --example echo -- ./echo.sock 127.0.0.1:9000`.

use std::io::{Error, Result};
use std::time::Duration;

use openoxide_rpc::listeners::{ListenConfig, UnixSocket, serve_lines, serve_websockets};
use openoxide_rpc::{Envelope, Handler, Header, Responder, Responders, RpcError, serve_over};

struct Echo;

impl Handler for Echo {
    fn handle(&mut self, message: Envelope, responders: &Responders) {
        let Envelope::Request { id, method, params } = message else { return };
        let responder = Responder::new(id, responders.clone());
        match method.as_str() {
            "echo" => responder.answer(Ok(&params)),
            other => responder.answer::<()>(Err(&RpcError::method_not_found(other))),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what| arguments.next().ok_or_else(|| Error::other(format!("usage: echo PATH ADDRESS; no {what}")));
    let (path, address) = (next("PATH")?, next("ADDRESS")?);
    let config = ListenConfig { header: Header::Absent, ..ListenConfig::default() };
    let serve = |_, transport| serve_over(transport, Header::Absent, Duration::from_secs(300), |_| Echo);
    let stop = async || drop(tokio::signal::ctrl_c().await);
    let socket = UnixSocket::bind(path.as_ref()).await?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    let lines = serve_lines(socket, config.clone(), serve, stop());
    tokio::join!(lines, serve_websockets(listener, config, serve, stop())).1
}
