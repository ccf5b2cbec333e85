//! A protocol of four methods on a listener, and clients for it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use openoxide_rpc::listeners::{Caller, ListenConfig, UnixSocket, serve_lines, serve_websockets};
use openoxide_rpc::{Envelope, Handler, Header, Responder, Responders, RpcError, Transport, serve_over};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::{Error, Message};

/// A client that reads nothing for so long is lost.
pub(crate) const PATIENCE: Duration = Duration::from_millis(300);
/// Nothing here takes so long unless it hangs.
const HANG: Duration = Duration::from_secs(60);

/// Ends the test where it would hang.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, future).await.unwrap_or_else(|_| panic!("{what}: not in {} s", HANG.as_secs()))
}

/// What happens to connections.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Opened(Caller),
    InputEnded,
    Closed,
}

/// `echo` answers with its parameters, `big` with a string of so many bytes, `hold` when the input has ended, `never` not.
struct Toy {
    events: mpsc::Sender<Event>,
    held: Vec<Responder>,
    for_ever: Vec<Responder>,
}

impl Handler for Toy {
    fn handle(&mut self, message: Envelope, responders: &Responders) {
        let Envelope::Request { id, method, params } = message else { return };
        let responder = Responder::new(id, responders.clone());
        let params: Value = params.map_or(Value::Null, |params| serde_json::from_str(params.get()).unwrap());
        match method.as_str() {
            "echo" => responder.answer(Ok(&params)),
            "big" => responder.answer(Ok(&"x".repeat(params[0].as_u64().unwrap() as usize))),
            "hold" => self.held.push(responder),
            "never" => self.for_ever.push(responder),
            other => responder.answer::<()>(Err(&RpcError::method_not_found(other))),
        }
    }

    fn input_ended(&mut self) {
        for responder in self.held.drain(..) {
            responder.answer(Ok(&"over"));
        }
        let _ = self.events.try_send(Event::InputEnded);
    }
}

impl Drop for Toy {
    fn drop(&mut self) {
        let _ = self.events.try_send(Event::Closed);
    }
}

/// A server that runs until it is told to stop or dropped.
pub(crate) struct Running {
    pub(crate) events: mpsc::Receiver<Event>,
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn event(&mut self) -> Event {
        within("an event", self.events.recv()).await.expect("the server runs")
    }

    /// Waits for this event, whatever comes before.
    pub(crate) async fn until(&mut self, wanted: &Event) {
        while self.event().await != *wanted {}
    }

    /// Tells it to stop; it may still have something to say.
    pub(crate) fn tell_to_stop(&self) {
        self.stop.notify_one();
    }

    pub(crate) async fn ended(&mut self) {
        within("the end of the server", &mut self.task).await.unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Serving = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

fn run(
    start: impl FnOnce(Box<dyn Fn(Caller, Box<dyn Transport>) -> Serving + Send + Sync>, Serving) -> Serving,
) -> Running {
    let (events, taken) = mpsc::channel(1000);
    let serve = move |caller, transport| -> Serving {
        let _ = events.try_send(Event::Opened(caller));
        let toy = Toy { events: events.clone(), held: Vec::new(), for_ever: Vec::new() };
        Box::pin(serve_over(transport, Header::Absent, PATIENCE, |_| toy))
    };
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let task = tokio::spawn(start(Box::new(serve), Box::pin(async move { stopped.notified().await })));
    Running { events: taken, stop, task }
}

pub(crate) fn config() -> ListenConfig {
    ListenConfig { header: Header::Absent, ..ListenConfig::default() }
}

pub(crate) async fn unix_server(path: &Path, config: ListenConfig) -> Running {
    let socket = UnixSocket::bind(path).await.unwrap();
    run(|serve, stop| Box::pin(serve_lines(socket, config, serve, stop)))
}

pub(crate) async fn websocket_server_at(path: &Path, config: ListenConfig) -> Running {
    let socket = UnixSocket::bind(path).await.unwrap();
    run(|serve, stop| Box::pin(async move { serve_websockets(socket, config, serve, stop).await.unwrap() }))
}

pub(crate) async fn websocket_server(config: ListenConfig) -> (Running, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (
        run(|serve, stop| Box::pin(async move { serve_websockets(listener, config, serve, stop).await.unwrap() })),
        address,
    )
}

pub(crate) type Client<S> = WebSocketStream<S>;

/// Opens a WebSocket to `target` with these headers instead of the usual ones.
pub(crate) async fn open(
    address: SocketAddr,
    target: &str,
    headers: &[(&'static str, &str)],
) -> Result<Client<TcpStream>, Error> {
    let mut request = format!("ws://{address}{target}").into_client_request()?;
    for (name, value) in headers {
        request.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    let stream = TcpStream::connect(address).await.unwrap();
    Ok(within("the handshake", tokio_tungstenite::client_async(request, stream)).await?.0)
}

pub(crate) async fn connect(address: SocketAddr) -> Client<TcpStream> {
    open(address, "/", &[]).await.unwrap()
}

pub(crate) async fn connect_at(path: &Path) -> Client<UnixStream> {
    let stream = UnixStream::connect(path).await.unwrap();
    tokio_tungstenite::client_async("ws://localhost/", stream).await.unwrap().0
}

/// The status that a handshake was refused with.
pub(crate) fn status<S>(opened: &Result<S, Error>) -> u16 {
    match opened {
        Ok(_) => 101,
        Err(Error::Http(response)) => response.status().as_u16(),
        Err(error) => panic!("no answer: {error}"),
    }
}

pub(crate) fn request(id: u64, method: &str, params: &Value) -> String {
    json!({ "id": id, "method": method, "params": params }).to_string()
}

/// Sends a request and returns the answer to it.
pub(crate) async fn ask<S>(client: &mut Client<S>, id: u64, method: &str, params: Value) -> Value
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    client.send(Message::text(request(id, method, &params))).await.unwrap();
    next(client).await
}

/// The next text message.
pub(crate) async fn next<S>(client: &mut Client<S>) -> Value
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    loop {
        match within("an answer", client.next()).await {
            Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            other => panic!("an answer, not {other:?}"),
        }
    }
}

/// The code that the server closes with.
pub(crate) async fn close_code<S>(client: &mut Client<S>) -> u16
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    loop {
        match within("a close", client.next()).await {
            Some(Ok(Message::Close(Some(frame)))) => return frame.code.into(),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Text(_))) => {}
            other => panic!("a close, not {other:?}"),
        }
    }
}
