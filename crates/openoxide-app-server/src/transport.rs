//! Clients and what carries their messages: one on a pair of byte streams, or any number on a WebSocket listener.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use openoxide_core::Interruption;
use openoxide_rpc::listeners::{Caller, GuardConfig, ListenConfig, Socket, serve_websockets};
use openoxide_rpc::{AsyncRead, AsyncWrite, Header, Outgoing, Responders, dispatch, lines, serve_over, write_lines};
use tokio::sync::mpsc;

use crate::connection::Connection;
use crate::processor::Processor;
use crate::server::AppServer;

/// How long the last messages may take to be made and written once everything has ended.
const FLUSH: Duration = Duration::from_millis(200);

/// Serves one client until its input ends, its output is closed, or `stop` is ready with the reason; then ends every turn and
/// every process, and tells the client so where it still listens.
pub async fn serve<R, W>(reader: R, writer: W, server: Arc<AppServer>, stop: impl Future<Output = Interruption>)
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let out = Arc::new(Outgoing::new(Header::Absent));
    let connection = Connection::new(Arc::clone(&server), Caller::Local, Arc::clone(&out));
    let (lines, input) = lines::channel();
    let hurried = Arc::clone(&out);
    let reader = tokio::spawn(async move {
        lines::read_lines(reader, lines).await;
        // Whoever waits for room would not see the end before the client reads.
        hurried.hurry();
    });
    let mut writer = tokio::spawn(write_lines(writer, Arc::clone(&out), server.config.write_timeout));
    // Every responder holds the sender; nothing is ever sent.
    let (open, mut all_answered) = mpsc::channel::<Infallible>(1);
    let mut processor = Processor::new(Arc::clone(&connection));
    let responders = Responders::line(Arc::clone(&out)).counted(open);
    // All are polled by reference and none is polled again once it is ready, so nothing is lost.
    let why = tokio::select! {
        () = dispatch(input, &responders, &mut processor) => Interruption::InputEnded,
        _ = &mut writer => Interruption::ConnectionLost,
        why = stop => why,
    };
    tracing::info!(%why, "the app-server ends");
    reader.abort();
    drop(responders);
    server.shut_down(&why).await;
    let last_words = async {
        // Nothing is ever sent, so this is the end of the last responder.
        let _ = all_answered.recv().await;
        connection.followed_to_the_end().await;
    };
    drop(tokio::time::timeout(FLUSH, last_words).await);
    drop(processor);
    out.close();
    if !writer.is_finished() {
        drop(tokio::time::timeout(FLUSH, writer).await);
    }
}

/// Serves any number of clients by WebSocket, on a TCP address or a unix socket, until `stop` is ready; then ends every turn and
/// tells them so. Each sees the threads of its token, and without tokens all are the local user's.
///
/// # Errors
/// The address can be reached by others and there is no token.
pub async fn serve_ws(
    socket: impl Into<Socket>,
    server: Arc<AppServer>,
    guard: GuardConfig,
    stop: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let config = ListenConfig { header: Header::Absent, guard, ..ListenConfig::default() };
    let serving = Arc::clone(&server);
    let serve = move |caller, transport| {
        let server = Arc::clone(&serving);
        let patience = server.config.write_timeout;
        serve_over(transport, Header::Absent, patience, move |out| Processor::new(Connection::new(server, caller, out)))
    };
    let stop = async {
        stop.await;
        server.shut_down(&Interruption::ServerStopped).await;
    };
    serve_websockets(socket, config, serve, stop).await
}
