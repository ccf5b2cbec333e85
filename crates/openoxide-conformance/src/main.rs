//! A server with the fixtures that the official MCP conformance suite calls for: tools, resources and prompts that no
//! product has. It speaks through the product's own doors and wire types, so that what the suite finds in them is found in
//! the product. `tests/conformance/run` starts it. For tests alone: whoever reaches it may ask it anything.
//!
//! A message comes from the HTTP door to its [`connection`], which answers it by itself ([`methods`]) or has a task answer
//! it ([`tools`]); [`tasks`] and [`listeners`] outlive their requests and belong to the [`fixture`].

mod asking;
mod call;
mod connection;
mod content;
mod fixture;
mod input;
mod listeners;
mod methods;
mod offer;
mod prompts;
mod resources;
mod schemas;
mod tasks;
mod tools;

use std::net::Ipv4Addr;
use std::sync::Arc;

use openoxide_mcp_server::{HttpConfig, serve_http};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use fixture::{Fixture, FixtureService};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    eprintln!("openoxide-conformance: listening on http://{}/mcp", listener.local_addr()?);
    let mut terminated = signal(SignalKind::terminate())?;
    let stop = async move {
        terminated.recv().await;
    };
    serve_http(listener, Arc::new(FixtureService(Arc::new(Fixture::new()))), HttpConfig::default(), stop).await
}
