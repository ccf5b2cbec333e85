//! A scripted HTTP server on loopback for the tests of this module. Each request gets the next reply of the script.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

/// What happens after the bytes of a reply are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// The connection takes the next request.
    Keep,
    /// The connection is closed.
    Close,
    /// Comments are sent until the client closes; then [`Server::closed`] hears of it.
    Comments,
    /// Nothing is sent until the client closes; then [`Server::closed`] hears of it.
    Hold,
}

/// Bytes of an HTTP response and what follows.
#[derive(Debug, Clone)]
pub(super) struct Reply(pub(super) String, pub(super) After);

impl Reply {
    /// A response with a status line, extra header lines and a whole body.
    pub(super) fn status(status: &str, headers: &str, body: &str) -> Self {
        let length = body.len();
        Self(format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}"), After::Keep)
    }

    /// A chunked event stream of these events that ends well.
    pub(super) fn events(events: &[Value]) -> Self {
        let Self(mut text, _) = Self::cut(events, After::Keep);
        text.push_str("0\r\n\r\n");
        Self(text, After::Keep)
    }

    /// A chunked event stream that lacks its end.
    pub(super) fn cut(events: &[Value], after: After) -> Self {
        let mut text =
            String::from("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
        for event in events {
            let event = format!("event: x\ndata: {event}\n\n");
            text.push_str(&format!("{:x}\r\n{event}\r\n", event.len()));
        }
        Self(text, after)
    }
}

/// A request as it came: its head and its body.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) head: String,
    pub(super) body: Value,
    /// Which connection it came on, from 0.
    pub(super) connection: usize,
}

/// The server. Its tasks end with the test's runtime.
pub(super) struct Server {
    pub(super) base_url: String,
    pub(super) requests: Arc<Mutex<Vec<Request>>>,
    /// Hears of each held connection that the client closed.
    pub(super) closed: mpsc::Receiver<()>,
}

impl Server {
    pub(super) async fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let script = Arc::new(Mutex::new(script.into_iter().collect::<VecDeque<_>>()));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (close, closed) = mpsc::channel(8);
        let seen = requests.clone();
        tokio::spawn(async move {
            for connection in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                tokio::spawn(serve(stream, connection, script.clone(), seen.clone(), close.clone()));
            }
        });
        Self { base_url, requests, closed }
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    connection: usize,
    script: Arc<Mutex<VecDeque<Reply>>>,
    seen: Arc<Mutex<Vec<Request>>>,
    close: mpsc::Sender<()>,
) {
    while let Some((head, body)) = read_request(&mut stream).await {
        seen.lock().unwrap().push(Request { head, body, connection });
        let Some(Reply(text, after)) = script.lock().unwrap().pop_front() else { return };
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
        match after {
            After::Keep => {}
            After::Close => return,
            After::Comments => {
                while stream.write_all(b"3\r\n:\n\n\r\n").await.is_ok() {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
                let _ = close.send(()).await;
                return;
            }
            After::Hold => {
                // A read of nothing is the client's close; an error is its reset.
                while stream.read(&mut [0; 64]).await.is_ok_and(|count| count > 0) {}
                let _ = close.send(()).await;
                return;
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let length: usize = length.map_or(Ok(0), str::parse).ok()?;
    while bytes.len() < end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = match length {
        0 => Value::Null,
        _ => serde_json::from_slice(&bytes[end..end + length]).ok()?,
    };
    Some((head, body))
}
