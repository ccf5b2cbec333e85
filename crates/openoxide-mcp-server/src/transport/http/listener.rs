//! Takes connections and gives each to a task of its own, which reads requests from it. Ends them when the server ends.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, header};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower_service::Service as _;

use super::connections::{Connection, Connections};
use super::peer::{PeerUser, PeerUsers};

/// Bytes of a request's head, and of what is read or written at once.
const BUFFER: usize = 64 << 10;
/// After the system could not give a connection: until the one that gave way for it is closed.
const BRIEFLY: Duration = Duration::from_millis(2);
/// The same where none could give way. Others may end meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// Takes connections.
pub(super) struct Listener {
    pub(super) socket: TcpListener,
    pub(super) router: Router,
    pub(super) connections: Arc<Connections>,
    /// How long a request's head may take, from the connection or the end of the answer before.
    pub(super) head_timeout: Duration,
    /// Tells who is at the other end; none where that is not asked.
    pub(super) users: Option<PeerUsers>,
    /// True once the server ends.
    pub(super) stopping: watch::Receiver<bool>,
}

impl Listener {
    /// Serves until the server ends and every connection has. Dropping it cuts them.
    pub(super) async fn serve(self) {
        let this = Arc::new(self);
        let mut tasks = JoinSet::new();
        let mut stopping = this.stopping.clone();
        loop {
            // Cancel-safe: a connection stays with the system until it is taken, a stop that is ready stays so, and a
            // task that has ended is only swept away later.
            let accepted = tokio::select! {
                () = stop_of(&mut stopping) => break,
                Some(_) = tasks.join_next() => continue,
                accepted = this.socket.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let connection = Arc::new(this.connections.enter(peer.ip()));
                    tasks.spawn(Arc::clone(&this).serve_connection(stream, peer, connection));
                }
                // Whoever it was has gone already.
                Err(error) if is_of_peer(&error) => {}
                Err(error) => {
                    tracing::warn!("no connection can be taken: {error}");
                    let pause = if this.connections.make_room() { BRIEFLY } else { PAUSE };
                    tokio::time::sleep(pause).await;
                }
            }
        }
        while tasks.join_next().await.is_some() {}
    }

    async fn serve_connection(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, connection: Arc<Connection>) {
        if let Some(users) = &self.users {
            // Cancel-safe: whoever is cut needs no answer.
            tokio::select! {
                user = user_of(users, &stream, peer) => connection.found(user),
                () = connection.cut() => return,
            }
        }
        let requests = {
            let (router, connection) = (self.router.clone(), Arc::clone(&connection));
            hyper::service::service_fn(move |request| answer(router.clone(), Arc::clone(&connection), request))
        };
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(self.head_timeout).max_buf_size(BUFFER);
        let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), requests));
        let mut stopping = self.stopping.clone();
        let ended = tokio::select! {
            // Cancel-safe: what is lost when one is ready is meant to be lost, but for the stop, after which the
            // connection goes on.
            ended = serving.as_mut() => ended,
            () = connection.cut() => {
                tracing::debug!("the connection of {peer} is closed: it was silent longest, or read nothing for too long");
                return;
            }
            () = stop_of(&mut stopping) => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!("the connection of {peer} ended: {error}");
        }
    }
}

/// Ready once the server ends.
async fn stop_of(stopping: &mut watch::Receiver<bool>) {
    // A sender that is gone is an end as well.
    drop(stopping.wait_for(|stopping| *stopping).await);
}

/// Who is at the other end.
async fn user_of(users: &PeerUsers, stream: &TcpStream, peer: SocketAddr) -> PeerUser {
    let Ok(local) = stream.local_addr() else { return PeerUser::Unknown };
    match users.user_of(peer, local).await {
        // Where the connection is gone, its addresses may be another's by now.
        _ if stream.peer_addr().is_err() => PeerUser::Unknown,
        user => user,
    }
}

/// Whether it says something of one connection only.
fn is_of_peer(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Answers a request. A connection that shows nothing ends with its answer, so that it cannot be kept by asking again.
async fn answer(
    mut router: Router,
    connection: Arc<Connection>,
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
