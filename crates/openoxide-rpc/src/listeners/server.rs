//! A protocol on a listener: each connection that is let in is given to the protocol as a [`Transport`].

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Extension;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, request::Parts};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use tokio::io::{AsyncRead, AsyncWriteExt as _, ReadBuf};
use tokio::sync::watch;

use super::accept::{Socket, accept, stop_of};
use super::caller::{Caller, callers};
use super::connections::{Accepted, Connections, EvenPlaces, Places};
use super::guard::{Guard, GuardConfig, Refusal};
use super::http::HttpListener;
use super::peer::PeerUsers;
use super::stream::Counted;
use super::unix::UnixSocket;
use super::websocket::{Handshake, WebSocket, shake_hands};
use crate::transport::{Carrying, Streams, Transport};
use crate::{Header, RpcError};

/// How connections are taken and kept.
#[derive(Clone)]
pub struct ListenConfig {
    /// Whether messages carry the member `jsonrpc`.
    pub header: Header,
    /// Whom a WebSocket listener lets in. A unix socket lets in its user, whatever the tokens.
    pub guard: GuardConfig,
    /// How long the head of a request may take.
    pub head_timeout: Duration,
    /// Connections on which nothing was let in so far.
    pub max_unauthenticated: usize,
    /// The same from one source.
    pub max_unauthenticated_per_source: usize,
    /// Connections that were let in. Each caller has the same part of them.
    pub max_connections: usize,
    /// Counts them in another way.
    pub places: Option<Arc<dyn Places>>,
    /// A WebSocket client that has sent nothing for so long gets a ping, and is lost after as long again.
    pub keep_alive: Duration,
    /// From the stop until connections are cut that still have something to say.
    pub grace: Duration,
}

impl Default for ListenConfig {
    fn default() -> Self {
        Self {
            header: Header::default(),
            guard: GuardConfig::default(),
            head_timeout: Duration::from_secs(10),
            max_unauthenticated: 256,
            max_unauthenticated_per_source: 128,
            max_connections: 1024,
            places: None,
            keep_alive: Duration::from_secs(30),
            grace: Duration::from_secs(3),
        }
    }
}

impl ListenConfig {
    fn connections(&self, callers: usize) -> Arc<Connections> {
        let places = self.places.clone().unwrap_or_else(|| EvenPlaces::new(self.max_connections, callers));
        Connections::new(self.max_unauthenticated, self.max_unauthenticated_per_source, places)
    }
}

/// Serves a protocol on a unix socket, one message a line, until `stop` is ready. Then nobody new is let in, the input of
/// every connection ends, and what is still to be answered has the time of [`ListenConfig::grace`].
///
/// `serve` serves one connection, by [`crate::serve_over`] or a [`crate::Connection`].
pub async fn serve_lines<S, F>(socket: UnixSocket, config: ListenConfig, serve: S, stop: impl Future<Output = ()>)
where
    S: Fn(Caller, Box<dyn Transport>) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let connections = config.connections(1);
    let (stopping, is_stopping) = watch::channel(false);
    let serve = Arc::new(serve);
    let header = config.header;
    let one = {
        let is_stopping = is_stopping.clone();
        move |connection: Arc<Accepted>| {
            let (serve, is_stopping) = (Arc::clone(&serve), is_stopping.clone());
            move |stream| async move {
                let mut stream = Counted::new(stream, connection.traffic());
                if let Err(why) = admit_user(&connection) {
                    let line = header.response::<()>(None, Err(&RpcError::invalid_request(why)));
                    // Whoever is not let in may not listen either.
                    drop(tokio::time::timeout(LAST_WORD, stream.write_all(&line)).await);
                    return;
                }
                let (reader, writer) = tokio::io::split(stream);
                let reader = UntilStop { reader, stop: Some(stopped(is_stopping)) };
                tokio::select! {
                    () = serve(Caller::Local, Streams::new(reader, writer)) => {}
                    () = connection.cut() => {}
                }
            }
        }
    };
    let serving = accept(Socket::Unix(socket), &connections, None, is_stopping, one);
    until(stop, stopping, config.grace, serving).await;
}

/// Serves a protocol by WebSocket, at every path of a TCP address or over a unix socket, until `stop` is ready; the end is that of
/// [`serve_lines`]. `/healthz` and `/readyz` say `ok` and `ready`.
///
/// # Errors
/// The address can be reached by others and there is no token.
pub async fn serve_websockets<S, F>(
    socket: impl Into<Socket>,
    config: ListenConfig,
    serve: S,
    stop: impl Future<Output = ()>,
) -> io::Result<()>
where
    S: Fn(Caller, Box<dyn Transport>) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let socket = socket.into();
    let connections = config.connections(callers(&config.guard.tokens));
    let guard = Guard::new(config.guard.clone(), socket.place()?)?;
    let users = guard.asks_for_users().then(PeerUsers::open);
    let (stopping, is_stopping) = watch::channel(false);
    let gate = Gate {
        guard,
        header: config.header,
        keep_alive: config.keep_alive,
        stopping: is_stopping.clone(),
        serve: Box::new(move |caller, transport| Box::pin(serve(caller, transport))),
    };
    let router = Router::new()
        .route("/healthz", get(health))
        .route("/readyz", get(readiness))
        .fallback(upgrade)
        .with_state(Arc::new(gate));
    let head_timeout = config.head_timeout;
    let listener = HttpListener { socket, router, connections, head_timeout, users, stopping: is_stopping };
    until(stop, stopping, config.grace, listener.serve()).await;
    Ok(())
}

/// How long one that is not let in may take to read why.
const LAST_WORD: Duration = Duration::from_secs(1);

async fn until(
    stop: impl Future<Output = ()>,
    stopping: watch::Sender<bool>,
    grace: Duration,
    serving: impl Future<Output = ()>,
) {
    let mut serving = std::pin::pin!(serving);
    // The serving is polled by reference, and goes on after the stop.
    tokio::select! {
        () = stop => {}
        () = &mut serving => return,
    }
    stopping.send_replace(true);
    if tokio::time::timeout(grace, serving).await.is_err() {
        tracing::warn!("connections are cut: they had something to say {} s after the stop", grace.as_secs_f64());
    }
}

fn admit_user(connection: &Accepted) -> Result<(), String> {
    if let Some(why) = connection.user().why_not_served() {
        return Err(why);
    }
    let bounded = connection.authenticate(&Caller::Local);
    bounded.map_err(|bound| Refusal::too_many_connections(&bound).error.message)
}

/// What the requests of a WebSocket listener share.
struct Gate {
    guard: Guard,
    header: Header,
    keep_alive: Duration,
    stopping: watch::Receiver<bool>,
    serve: Box<dyn Fn(Caller, Box<dyn Transport>) -> Carrying + Send + Sync>,
}

async fn health(State(gate): State<Arc<Gate>>, parts: Parts) -> Response {
    match gate.guard.check_place(&parts) {
        Ok(()) => "ok\n".into_response(),
        Err(refused) => refused.to_response(gate.header),
    }
}

async fn readiness(State(gate): State<Arc<Gate>>, parts: Parts) -> Response {
    match gate.guard.check_place(&parts) {
        Ok(()) if *gate.stopping.borrow() => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response(),
        Ok(()) => "ready\n".into_response(),
        Err(refused) => refused.to_response(gate.header),
    }
}

async fn upgrade(
    State(gate): State<Arc<Gate>>,
    Extension(connection): Extension<Arc<Accepted>>,
    request: Request,
) -> Response {
    let header = gate.header;
    begin(&gate, &connection, request).unwrap_or_else(|refused| refused.to_response(header))
}

/// Lets a client in. Its WebSocket is served by the task of its connection.
fn begin(gate: &Arc<Gate>, connection: &Accepted, request: Request) -> Result<Response, Box<Refusal>> {
    let (parts, body) = request.into_parts();
    let caller = gate.guard.admit(&parts, connection.user(), connection.source())?;
    let Handshake { response, upgrade } = shake_hands(Request::from_parts(parts, body))?;
    connection.authenticate(&caller).map_err(|bound| Refusal::too_many_connections(&bound))?;
    let (gate, traffic) = (Arc::clone(gate), Arc::clone(connection.traffic()));
    connection.hand_over(Box::pin(async move {
        // An error is a connection that ended before its handshake did.
        let Ok(upgraded) = upgrade.await else { return };
        let socket = WebSocket::new(upgraded, traffic, gate.keep_alive, gate.stopping.clone()).await;
        (gate.serve)(caller, socket).await;
    }));
    Ok(response)
}

fn stopped(mut stopping: watch::Receiver<bool>) -> Carrying {
    Box::pin(async move { stop_of(&mut stopping).await })
}

/// Bytes that end with the server.
struct UntilStop<R> {
    reader: R,
    /// None once it was ready.
    stop: Option<Carrying>,
}

impl<R: AsyncRead + Unpin> AsyncRead for UntilStop<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.stop.as_mut().is_none_or(|stop| stop.as_mut().poll(cx).is_ready()) {
            self.stop = None;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.reader).poll_read(cx, buffer)
    }
}
