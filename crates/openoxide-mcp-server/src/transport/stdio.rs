//! The transport of a pair of byte streams: one connection for as long as its input lasts.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use openoxide_core::Interruption;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::connection::Connection;
use crate::dispatch::processor::Processor;
use crate::principal::Principal;
use crate::server::LINGER;
use crate::{OnEof, Server};
use openoxide_rpc::{Outgoing, Responders, dispatch, lines, write_lines};

/// How long the last answers may take to be written once everything has ended.
const FLUSH: Duration = Duration::from_millis(200);

/// Serves one connection until its input ends, its output is closed, or `stop` is ready with the reason; then ends every
/// turn and every process, answers what is still open, and returns. [`OnEof`] says whether open calls may finish first
/// where the input has ended.
pub async fn serve<R, W>(reader: R, writer: W, server: Arc<Server>, stop: impl Future<Output = Interruption>)
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let out = Arc::new(Outgoing::default());
    let connection = Connection::new(Arc::clone(&server), Principal::Local, Arc::clone(&out));
    let (lines, input) = lines::channel();
    let (hurried, is_hasty) = (Arc::clone(&out), server.on_eof == OnEof::Interrupt);
    let reader = tokio::spawn(async move {
        lines::read_lines(reader, lines).await;
        // The processor may wait for room, and would not see the end before the client reads.
        if is_hasty {
            hurried.hurry();
        }
    });
    let mut writer = tokio::spawn(write_lines(writer, Arc::clone(&out), server.write_timeout));
    let processing = Arc::clone(&connection);
    let mut processor = std::pin::pin!(async move {
        let responders = Responders::line(Arc::clone(&processing.out));
        dispatch(input, &responders, &mut Processor::new(processing)).await;
    });
    let mut stop = std::pin::pin!(stop);
    // The end of any of the three ends the connection. All are polled by reference and none is polled again once it is
    // ready, so nothing is lost.
    let mut why = tokio::select! {
        () = &mut processor => Interruption::InputEnded,
        _ = &mut writer => Interruption::ConnectionLost,
        why = &mut stop => why,
    };
    let is_input_over = why == Interruption::InputEnded;
    if is_input_over && server.on_eof == OnEof::Finish {
        connection.end_input();
        server.lifecycle.stop_asking();
        tokio::select! {
            () = server.lifecycle.answered() => {}
            _ = &mut writer => why = Interruption::ConnectionLost,
            told = &mut stop => why = told,
        }
    }
    tracing::info!(%why, "the server ends");
    connection.subscriptions.close();
    let may_still_come = !is_input_over && why != Interruption::ConnectionLost;
    let ending = server.end(&why, if may_still_come { LINGER } else { Duration::ZERO });
    let reading = async {
        if !is_input_over {
            processor.await;
        }
        std::future::pending::<()>().await;
    };
    // What is read after that is answered, without a turn.
    tokio::select! {
        () = ending => {}
        () = reading => {}
    }
    reader.abort();
    out.close();
    if !writer.is_finished() {
        drop(tokio::time::timeout(FLUSH, writer).await);
    }
}
