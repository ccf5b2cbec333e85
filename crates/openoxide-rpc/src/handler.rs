//! One way for a message: a line is parsed once, here, and handed to the handler of the protocol.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::lines::{self, Input, Line, MAX_LINE, read_lines};
use crate::outgoing::Outgoing;
use crate::responder::Responders;
use crate::writer::write_lines;
use crate::{Envelope, Header, RpcError, salvage_id};

/// Serves the messages of one connection: what a protocol puts on this floor.
pub trait Handler {
    /// Takes a message. Never blocks and never waits: what takes time is spawned, and answers its request in its time by a
    /// [`crate::Responder`] of `responders`.
    fn handle(&mut self, message: Envelope, responders: &Responders);
}

/// Hands every line to `handler` until the reader drops its end of `input`. What is no message is answered by `responders`, and
/// is never fatal. A client that does not read its answers is not served any further until it does.
pub async fn dispatch(mut input: mpsc::Receiver<Input>, responders: &Responders, handler: &mut impl Handler) {
    let mut waiting = None;
    while let Some(message) = next_message(&mut input, &mut waiting, responders).await {
        handler.handle(message, responders);
    }
}

/// The next message, once there is room for its answer; `None` at the end of input. What is no message is answered by
/// `responders`. Cancel-safe: a line that waits for room is in `waiting`, from where the next call takes it.
pub(crate) async fn next_message(
    input: &mut mpsc::Receiver<Input>,
    waiting: &mut Option<Input>,
    responders: &Responders,
) -> Option<Envelope> {
    loop {
        if waiting.is_none() {
            *waiting = Some(input.recv().await?);
        }
        drop(responders.out().room_for_input().await);
        let Some(input) = waiting.take() else { continue };
        let line = match &input.line {
            Line::Whole(line) if line.trim_ascii().is_empty() => continue,
            Line::Whole(line) => line,
            Line::TooLong(head) => {
                let message = format!("the line is longer than {MAX_LINE} bytes; put long material in a file");
                responders.refuse(salvage_id(head).as_ref(), &RpcError::invalid_request(message));
                continue;
            }
        };
        match responders.out().header().parse(line) {
            Ok(message) => return Some(message),
            Err(error) => responders.refuse(error.id.as_ref(), &error.error),
        }
    }
}

/// Serves one connection over a pair of byte streams. Returns when the input has ended and every request is answered, or
/// when the output is closed or takes nothing for `patience` while its queue is full.
///
/// `connect` makes the handler; it is given the queue for what the handler says unasked.
pub async fn serve<R, W, H>(
    reader: R,
    writer: W,
    header: Header,
    patience: Duration,
    connect: impl FnOnce(Arc<Outgoing>) -> H,
) where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
    H: Handler,
{
    let out = Arc::new(Outgoing::new(header));
    let (lines, input) = lines::channel();
    let reader = tokio::spawn(read_lines(reader, lines));
    let mut writer = tokio::spawn(write_lines(writer, Arc::clone(&out), patience));
    // Every responder holds the sender; nothing is ever sent.
    let (open, mut all_answered) = mpsc::channel::<Infallible>(1);
    let mut handler = connect(Arc::clone(&out));
    let serving = async {
        let responders = Responders::line(Arc::clone(&out)).counted(open);
        dispatch(input, &responders, &mut handler).await;
        drop(responders);
        // Nothing is ever sent, so this is the end of the last sender.
        let _ = all_answered.recv().await;
        out.close();
    };
    // The writer is polled by reference and awaited below only where it has not ended here.
    let is_lost = tokio::select! {
        () = serving => false,
        _ = &mut writer => true,
    };
    reader.abort();
    if !is_lost {
        drop(writer.await);
    }
}
