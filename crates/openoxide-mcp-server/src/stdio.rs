//! The door of a pair of byte streams: one connection for as long as its input lasts.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::connection::Connection;
use crate::outgoing::Outgoing;
use crate::principal::Principal;
use crate::processor::Processor;
use crate::{Server, reader, writer};

/// How long the last answers may take to be written once everything has ended.
const FLUSH: Duration = Duration::from_millis(200);

/// Serves one connection until its input ends, its output is closed, or `stop` is ready; then ends every turn and
/// every process, answers what is still open, and returns.
pub async fn serve<R, W>(reader: R, writer: W, server: Arc<Server>, stop: impl Future<Output = ()>)
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let out = Arc::new(Outgoing::default());
    let connection = Connection::new(Arc::clone(&server), Principal::Local, Arc::clone(&out));
    let (lines, input) = reader::channel();
    let reader = tokio::spawn(reader::read_lines(reader, lines, Arc::clone(&out)));
    let mut writer = tokio::spawn(writer::write_lines(writer, Arc::clone(&out)));
    // Nothing is ever sent here: the processor and each runner hold an end, and the last one dropped is the news.
    let (alive, mut last_runner) = mpsc::channel(1);
    let subscriptions = Arc::clone(&connection.subscriptions);
    let processor = Processor::new(connection, alive).run(input);
    // Nothing is lost by dropping the losers: the end of any of them ends the connection.
    tokio::select! {
        () = processor => tracing::info!("stdin has ended"),
        _ = &mut writer => {}
        () = stop => tracing::info!("asked to stop"),
    }
    reader.abort();
    subscriptions.close();
    server.manager.shutdown().await;
    // The turns have ended, so their runners answer and drop their ends. An elapsed time-out means one that cannot; what
    // is queued is still written.
    drop(tokio::time::timeout(FLUSH, last_runner.recv()).await);
    out.close();
    if !writer.is_finished() {
        drop(tokio::time::timeout(FLUSH, writer).await);
    }
}
