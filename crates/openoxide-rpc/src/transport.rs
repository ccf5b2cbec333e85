//! What carries the lines of one connection: a pair of byte streams, a unix socket, a WebSocket.
//!
//! [`crate::serve_over`] and [`crate::Connection`] take any of them, so that a protocol is the same over all. Reading and
//! parsing lines is not done here: a transport turns what arrives into [`Input`]s, and takes lines from the queue.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::lines::{Input, read_lines};
use crate::outgoing::Outgoing;
use crate::writer::write_lines;

/// What carries a connection until it ends.
pub type Carrying = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Carries the lines of one connection.
pub trait Transport: Send {
    /// Sends what arrives to `lines` and drops it at the end of input; writes what `out` holds. Ready when `out` is closed
    /// and written, or when the connection is lost: no answer arrives any more then. Counts as lost too is a client that takes
    /// nothing for `patience` while `out` is full.
    fn carry(self: Box<Self>, lines: mpsc::Sender<Input>, out: Arc<Outgoing>, patience: Duration) -> Carrying;
}

/// A pair of byte streams, one message a line.
pub struct Streams<R, W> {
    reader: R,
    writer: W,
}

impl<R, W> Streams<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    /// Lines come from `reader` and go to `writer`.
    pub fn new(reader: R, writer: W) -> Box<Self> {
        Box::new(Self { reader, writer })
    }
}

impl<R, W> Transport for Streams<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    fn carry(self: Box<Self>, lines: mpsc::Sender<Input>, out: Arc<Outgoing>, patience: Duration) -> Carrying {
        Box::pin(async move {
            // A long line is cut and a long answer is written at the same time.
            let Self { reader, writer } = *self;
            let noted = Arc::clone(&out);
            let _reader = AbortOnDrop(tokio::spawn(async move {
                let until_noted = lines.clone();
                read_lines(reader, lines).await;
                noted.say_goodbye();
                drop(until_noted);
            }));
            write_lines(writer, out, patience).await;
        })
    }
}

/// A task that ends with whoever started it.
pub(crate) struct AbortOnDrop(pub(crate) JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
