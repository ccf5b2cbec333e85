//! Takes connections and gives each to a task of its own. Ends them when the server ends.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::connections::{Accepted, Connections, Source};
use super::guard::Place;
use super::peer::{PeerUser, PeerUsers};
use super::stream::Stream;
use super::unix::UnixSocket;

/// After the system could not give a connection: until the one that gave way for it is closed.
const BRIEFLY: Duration = Duration::from_millis(2);
/// The same where none could give way. Others may end meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// What is listened on.
pub enum Socket {
    /// A TCP address.
    Tcp(TcpListener),
    /// A path.
    Unix(UnixSocket),
}

impl From<TcpListener> for Socket {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<UnixSocket> for Socket {
    fn from(socket: UnixSocket) -> Self {
        Self::Unix(socket)
    }
}

impl Socket {
    /// Where that is.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn place(&self) -> io::Result<Place> {
        match self {
            Self::Tcp(listener) => Ok(Place::Address(listener.local_addr()?)),
            Self::Unix(_) => Ok(Place::Unix),
        }
    }

    async fn accept(&self) -> io::Result<(Stream, Option<SocketAddr>)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Messages are small and somebody waits for each. Without it they are only slower.
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Some(peer)))
            }
            Self::Unix(socket) => socket.accept().await.map(|stream| (Stream::Unix(stream), None)),
        }
    }
}

/// Serves until `stopping` is true and every connection has ended. Dropping it cuts them. A connection also ends when it is
/// the one that gives way.
pub(super) async fn accept<S, C, F>(
    socket: Socket,
    connections: &Arc<Connections>,
    users: Option<PeerUsers>,
    mut stopping: watch::Receiver<bool>,
    serve: S,
) where
    S: Fn(Arc<Accepted>) -> C,
    C: FnOnce(Stream) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let users = users.map(Arc::new);
    let mut tasks = JoinSet::new();
    loop {
        // Cancel-safe: a connection stays with the system until it is taken, a stop that is ready stays so, and a
        // task that has ended is only swept away later.
        let accepted = tokio::select! {
            () = stop_of(&mut stopping) => break,
            Some(_) = tasks.join_next() => continue,
            accepted = socket.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let source = peer.map_or(Source::Unix, |peer| Source::Address(peer.ip()));
                let connection = Arc::new(connections.enter(source));
                let (users, serving) = (users.clone(), serve(Arc::clone(&connection)));
                tasks.spawn(async move {
                    // Cancel-safe: a connection that is cut needs no answer.
                    let user = tokio::select! {
                        user = user_of(users.as_deref(), &stream, peer) => user,
                        () = connection.cut() => return,
                    };
                    connection.found(user);
                    serving(stream).await;
                });
            }
            // Whoever it was has gone already.
            Err(error) if is_of_peer(&error) => {}
            Err(error) => {
                tracing::warn!("no connection can be taken: {error}");
                let pause = if connections.make_room() { BRIEFLY } else { PAUSE };
                tokio::time::sleep(pause).await;
            }
        }
    }
    // Nobody new finds the path.
    drop(socket);
    while tasks.join_next().await.is_some() {}
}

/// Who is at the other end; unasked where tokens tell.
async fn user_of(users: Option<&PeerUsers>, stream: &Stream, peer: Option<SocketAddr>) -> PeerUser {
    match (stream, peer, users) {
        (Stream::Unix(stream), ..) => PeerUser::of_unix(stream),
        (Stream::Tcp(stream), Some(peer), Some(users)) => {
            let Ok(local) = stream.local_addr() else { return PeerUser::Unknown };
            match users.user_of(peer, local).await {
                // Where the connection is gone, its addresses may be another's by now.
                _ if stream.peer_addr().is_err() => PeerUser::Unknown,
                user => user,
            }
        }
        (Stream::Tcp(_), ..) => PeerUser::Unasked,
    }
}

/// Ready once the server ends.
pub(super) async fn stop_of(stopping: &mut watch::Receiver<bool>) {
    // A sender that is gone is an end as well.
    drop(stopping.wait_for(|stopping| *stopping).await);
}

/// Whether it says something of one connection only.
fn is_of_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
