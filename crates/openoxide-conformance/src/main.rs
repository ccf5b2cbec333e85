//! A server with the fixtures that the official MCP conformance suite calls for: tools, resources and prompts that no
//! product has. It is a backend of the product's own server, so that what the suite finds in requests, eras, calls,
//! questions, tasks and subscriptions is found in the product. `tests/conformance/run` starts it. For tests alone: whoever
//! reaches it may ask it anything.
//!
//! The [`fixture`] finds a call's entry in the table of [`tools`] or [`prompts`]. What takes a while or asks is a [`run`].

mod content;
mod fixture;
mod prompts;
mod resources;
mod run;
mod schemas;
mod tools;

use std::net::Ipv4Addr;
use std::time::Duration;

use openoxide_mcp_server::{HttpConfig, Server, ServerOptions, serve_http};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    eprintln!("openoxide-conformance: listening on http://{}/mcp", listener.local_addr()?);
    let mut terminated = signal(SignalKind::terminate())?;
    let stop = async move {
        terminated.recv().await;
    };
    // The suite wants its tasks at once.
    let options = ServerOptions { task_after: Duration::ZERO, ..ServerOptions::default() };
    let server = Server::with_backend(fixture::Fixture::new(), options);
    serve_http(listener, server, HttpConfig::default(), stop).await
}
