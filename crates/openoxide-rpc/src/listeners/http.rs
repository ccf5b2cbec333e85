//! HTTP connections: each is read by a task of its own, which hands its requests to a router and goes on with what a request
//! has handed over (a WebSocket).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, header};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;
use tower_service::Service as _;

use super::accept::{Socket, accept, stop_of};
use super::connections::{Accepted, Connections};
use super::peer::PeerUsers;
use super::stream::{Counted, Stream};

/// Bytes of a request's head, and of what is read or written at once.
const BUFFER: usize = 64 << 10;

/// Serves the requests of any number of HTTP connections.
pub struct HttpListener {
    /// What is listened on.
    pub socket: Socket,
    /// Answers requests. Each has its [`Accepted`] connection in an `Arc` among its extensions.
    pub router: Router,
    /// Counts the connections.
    pub connections: Arc<Connections>,
    /// How long a request's head may take, from the connection or the end of the answer before.
    pub head_timeout: Duration,
    /// Tells who is at the other end; none where that is not asked.
    pub users: Option<PeerUsers>,
    /// True once the server ends.
    pub stopping: watch::Receiver<bool>,
}

impl HttpListener {
    /// Serves until the server ends and every connection has. Dropping it cuts them.
    pub async fn serve(self) {
        let Self { socket, router, connections, head_timeout, users, stopping } = self;
        let is_stopping = stopping.clone();
        let serve = |connection| {
            let (router, stopping) = (router.clone(), stopping.clone());
            move |stream| serve_connection(stream, connection, router, head_timeout, stopping)
        };
        accept(socket, &connections, users, is_stopping, serve).await;
    }
}

async fn serve_connection(
    stream: Stream,
    connection: Arc<Accepted>,
    router: Router,
    head_timeout: Duration,
    mut stopping: watch::Receiver<bool>,
) {
    let requests = {
        let connection = Arc::clone(&connection);
        hyper::service::service_fn(move |request| answer(router.clone(), Arc::clone(&connection), request))
    };
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(head_timeout).max_buf_size(BUFFER);
    let stream = TokioIo::new(Counted::new(stream, connection.traffic()));
    let mut serving = Box::pin(builder.serve_connection(stream, requests).with_upgrades());
    let source = connection.source();
    let ended = tokio::select! {
        // Cancel-safe: what is lost when one is ready is meant to be lost, but for the stop, after which the
        // connection goes on.
        ended = serving.as_mut() => ended,
        () = connection.cut() => {
            tracing::debug!("the connection of {source} is closed: it was silent longest, or read nothing for too long");
            return;
        }
        () = stop_of(&mut stopping) => {
            serving.as_mut().graceful_shutdown();
            serving.as_mut().await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("the connection of {source} ended: {error}");
        return;
    }
    // The buffers of HTTP are not needed any more.
    drop(serving);
    if let Some(next) = connection.handed_over() {
        tokio::select! {
            () = next => {}
            () = connection.cut() => {}
        }
    }
}

/// Answers a request. A connection that shows nothing ends with its answer, so that it cannot be kept by asking again.
async fn answer(
    mut router: Router,
    connection: Arc<Accepted>,
    request: Request<Incoming>,
) -> Result<Response, Infallible> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(Arc::clone(&connection));
    let mut response = router.call(request).await?;
    if !connection.is_authenticated() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}
