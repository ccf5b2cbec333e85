//! One stream of bytes, TCP or unix, that counts what goes over it: who looks after a connection sees whether its other end
//! still takes and sends, also in the middle of a long message.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Bytes that have gone over a connection.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    read: AtomicU64,
    written: AtomicU64,
}

impl Traffic {
    /// Bytes that the other end has sent.
    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Acquire)
    }

    /// Bytes that the system has taken for the other end.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }
}

/// A stream of either kind.
pub(super) enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a unix socket.
    Unix(UnixStream),
}

/// A stream whose bytes are counted.
pub(super) struct Counted {
    stream: Stream,
    traffic: Arc<Traffic>,
}

impl Counted {
    pub(super) fn new(stream: Stream, traffic: &Arc<Traffic>) -> Self {
        Self { stream, traffic: Arc::clone(traffic) }
    }

    fn wrote(&self, written: io::Result<usize>) -> io::Result<usize> {
        let written = written?;
        self.traffic.written.fetch_add(written as u64, Ordering::AcqRel);
        Ok(written)
    }
}

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        };
        let bytes = buffer.filled().len() - before;
        self.traffic.read.fetch_add(bytes as u64, Ordering::AcqRel);
        read
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        };
        let written = ready!(written);
        Poll::Ready(self.wrote(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        };
        let written = ready!(written);
        Poll::Ready(self.wrote(written))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Tcp(stream) => stream.is_write_vectored(),
            Stream::Unix(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
