//! One connection whose messages are pulled, one by one, by the task that serves it. [`crate::serve`] pushes them to a handler.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::handler::next_message;
use crate::lines::{self, Input, read_lines};
use crate::outgoing::Outgoing;
use crate::responder::Responders;
use crate::writer::write_lines;
use crate::{Envelope, Header};

/// A pair of byte streams with its reader and its writer task. Dropping it ends both; [`Connection::close`] lets the
/// writer finish first.
pub struct Connection {
    /// The reader task sends; it drops its end at the end of input.
    input: mpsc::Receiver<Input>,
    /// A line that was read and waits for room in the queue.
    waiting: Option<Input>,
    responders: Responders,
    reader: JoinHandle<()>,
    writer: JoinHandle<()>,
}

impl Connection {
    /// Starts to read and to write. A client that takes nothing for `patience` while the queue is full counts as lost.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn open<R, W>(reader: R, writer: W, header: Header, patience: Duration) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let out = Arc::new(Outgoing::new(header));
        let (lines, input) = lines::channel();
        let reader = tokio::spawn(read_lines(reader, lines));
        let writer = tokio::spawn(write_lines(writer, Arc::clone(&out), patience));
        Self { input, waiting: None, responders: Responders::line(out), reader, writer }
    }

    /// The queue to the writer.
    pub fn out(&self) -> &Arc<Outgoing> {
        self.responders.out()
    }

    /// Where answers go, each on a line of its own.
    pub fn responders(&self) -> &Responders {
        &self.responders
    }

    /// The next message; `None` at the end of input. What is no message is answered here and is never fatal. Cancel-safe.
    ///
    /// # Errors
    /// Where the output is closed, or takes nothing any more: whatever is answered then is lost.
    pub async fn next(&mut self) -> io::Result<Option<Envelope>> {
        let lost = || io::Error::new(io::ErrorKind::BrokenPipe, "the output takes no more");
        if self.writer.is_finished() {
            return Err(lost());
        }
        // A message that is given up with the first branch stays in `waiting` or in the channel. The writer is polled by
        // reference, and not again once it has ended.
        tokio::select! {
            biased;
            _ = &mut self.writer => Err(lost()),
            message = next_message(&mut self.input, &mut self.waiting, &self.responders) => Ok(message),
        }
    }

    /// Lets the writer finish what is queued; what is queued later is dropped.
    pub async fn close(&mut self) {
        self.out().close();
        if !self.writer.is_finished() {
            // An error is a panic of the writer, which leaves nothing to wait for.
            let _ = (&mut self.writer).await;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reader.abort();
        self.out().close();
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::RequestId;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn open() -> (Connection, tokio::io::DuplexStream) {
        let (client, server) = tokio::io::duplex(4096);
        let (reader, writer) = tokio::io::split(server);
        (Connection::open(reader, writer, Header::Present, PATIENCE), client)
    }

    #[tokio::test]
    async fn messages_are_pulled_and_what_is_none_is_answered() {
        let (mut connection, mut client) = open();
        client.write_all(b"\nnonsense\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}").await.unwrap();
        client.shutdown().await.unwrap();
        let Ok(Some(Envelope::Request { id, .. })) = connection.next().await else { panic!("a request") };
        assert_eq!(id, RequestId::Number(1));
        assert!(matches!(connection.next().await, Ok(None)));
        connection.close().await;
        drop(connection);
        let mut said = String::new();
        client.read_to_string(&mut said).await.unwrap();
        assert!(said.contains("-32700") && said.lines().count() == 1, "{said}");
    }

    #[tokio::test]
    async fn a_pull_that_is_given_up_loses_nothing() {
        let (mut connection, mut client) = open();
        client.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"one\"}\n").await.unwrap();
        // The writer holds one, and the other fills the queue: the line is read and waits for room.
        for _ in 0..2 {
            connection.out().push(vec![b'x'; 9 << 20]);
        }
        while connection.waiting.is_none() {
            assert!(futures_util::poll!(std::pin::pin!(connection.next())).is_pending());
            tokio::task::yield_now().await;
        }
        let reading = tokio::spawn(async move {
            let mut taken = vec![0; 18 << 20];
            client.read_exact(&mut taken).await.unwrap();
            client
        });
        assert!(matches!(connection.next().await, Ok(Some(Envelope::Notification { .. }))));
        drop(reading.await.unwrap());
    }

    #[tokio::test]
    async fn a_closed_output_is_told() {
        let (input, from) = tokio::io::duplex(64);
        let (to, output) = tokio::io::duplex(64);
        let mut connection = Connection::open(from, to, Header::Present, PATIENCE);
        drop(output);
        connection.out().push(b"{}\n".to_vec());
        assert_eq!(connection.next().await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(connection.next().await.is_err(), "and told again");
        drop(input);
    }
}
