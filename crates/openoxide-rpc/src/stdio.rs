//! The standard streams of this process as byte streams of a connection.

use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;

/// Bytes asked for in one read.
const READ: usize = 32 * 1024;
/// Reads ahead of the task that takes the bytes.
const AHEAD: usize = 2;

/// Standard input. It is read on a thread of its own that a runtime does not wait for when it ends: a program whose
/// output was closed ends although its input is open.
pub fn input() -> impl AsyncRead + Unpin + Send + 'static {
    let (chunks, taken) = mpsc::channel(AHEAD);
    let failed = chunks.clone();
    let started = std::thread::Builder::new().name("stdin".to_owned()).spawn(move || read_chunks(io::stdin(), &chunks));
    if let Err(error) = started {
        // The channel is new and has room.
        let _ = failed.try_send(Err(error));
    }
    Chunks { taken, chunk: Vec::new(), at: 0 }
}

/// Standard output.
pub fn output() -> impl AsyncWrite + Unpin + Send + 'static {
    tokio::io::stdout()
}

/// Sends what is read until the input ends or nobody takes it any more.
fn read_chunks(mut input: impl Read, chunks: &mpsc::Sender<io::Result<Vec<u8>>>) {
    loop {
        let mut chunk = vec![0; READ];
        let sent = match input.read(&mut chunk) {
            Ok(0) => return,
            Ok(length) => {
                chunk.truncate(length);
                chunks.blocking_send(Ok(chunk))
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                let _ = chunks.blocking_send(Err(error));
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

struct Chunks {
    /// The thread sends; it drops its end at the end of input.
    taken: mpsc::Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    /// Up to where `chunk` was handed on.
    at: usize,
}

impl AsyncRead for Chunks {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.at == self.chunk.len() {
            match ready!(self.taken.poll_recv(cx)) {
                Some(Ok(chunk)) => (self.chunk, self.at) = (chunk, 0),
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => return Poll::Ready(Ok(())),
            }
        }
        let end = self.chunk.len().min(self.at + buffer.remaining());
        buffer.put_slice(&self.chunk[self.at..end]);
        self.at = end;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn all_bytes_arrive_in_order_and_then_the_end() {
        let bytes: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
        let (chunks, taken) = mpsc::channel(AHEAD);
        let source = io::Cursor::new(bytes.clone());
        let thread = std::thread::spawn(move || read_chunks(source, &chunks));
        let mut read = Vec::new();
        Chunks { taken, chunk: Vec::new(), at: 0 }.read_to_end(&mut read).await.unwrap();
        assert!(read == bytes);
        thread.join().unwrap();
    }
}
