//! WebSocket (RFC 6455): the handshake, and a connection whose text frames are messages.
//!
//! Each text message holds one envelope. What may not come is refused by a close code: 1003 for binary messages, 1009 for one
//! that is longer than the longest line, 1007 for text that is not UTF-8, 1002 for what is no WebSocket. The frames
//! themselves are tungstenite's.
//!
//! **Who is still there.** A client that has sent nothing for a while gets a ping, and is lost when nothing comes for as long
//! again. Bytes count, not messages, so that a long message on a slow line is a sign of life. While the client takes nothing,
//! no ping gets to it; then the queue's own bound says when it is lost, as on every other transport.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, Utf8Bytes};

use super::accept::stop_of;
use super::guard::Refusal;
use super::stream::Traffic;
use crate::lines::{Feeder, Input, Line, MAX_LINE};
use crate::outgoing::Outgoing;
use crate::transport::{Carrying, Transport};

/// How long a client may take to take the last words, and to end its side.
const CLOSE: Duration = Duration::from_secs(1);
/// Bytes of a message that is not wanted which are read so that its sender sees why.
const DRAINED: u64 = 64 << 20;
/// Bytes of the buffer of each direction.
const BUFFER: usize = 16 << 10;

type Io = TokioIo<Upgraded>;
type Socket = WebSocketStream<Io>;

/// A handshake that was accepted: the response, and the bytes that follow it.
pub(super) struct Handshake {
    pub(super) response: Response,
    pub(super) upgrade: OnUpgrade,
}

/// Answers the opening handshake (RFC 6455 section 4.2).
///
/// # Errors
/// 426 where the request is none, 400 where it is a broken one.
pub(super) fn shake_hands(mut request: Request) -> Result<Handshake, Box<Refusal>> {
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let (parts, _) = request.into_parts();
    let key = check_handshake(&parts)?;
    let upgrade = upgrade.ok_or_else(|| Refusal::new(StatusCode::BAD_REQUEST, "this connection cannot be upgraded"))?;
    let headers = [
        (header::CONNECTION, HeaderValue::from_static("upgrade")),
        (header::UPGRADE, HeaderValue::from_static("websocket")),
        (header::SEC_WEBSOCKET_ACCEPT, accept_of(key)),
    ];
    let response = (StatusCode::SWITCHING_PROTOCOLS, headers, Body::empty()).into_response();
    Ok(Handshake { response, upgrade })
}

fn check_handshake(parts: &Parts) -> Result<&HeaderValue, Box<Refusal>> {
    let headers = &parts.headers;
    let is_upgrade = parts.method == Method::GET
        && has_word(headers, &header::CONNECTION, "upgrade")
        && has_word(headers, &header::UPGRADE, "websocket");
    if !is_upgrade {
        let message = "this address serves WebSocket; open it with a WebSocket client (ws://)";
        return Err(upgrade_required(message, header::UPGRADE, "websocket"));
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        let message = "Sec-WebSocket-Version must be 13";
        return Err(upgrade_required(message, header::SEC_WEBSOCKET_VERSION, "13"));
    }
    // 16 bytes in base64.
    let key = headers.get(header::SEC_WEBSOCKET_KEY).filter(|key| key.len() == 24);
    key.ok_or_else(|| Refusal::new(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key must be 16 bytes in base64"))
}

fn upgrade_required(message: &str, name: HeaderName, value: &'static str) -> Box<Refusal> {
    let mut refusal = Refusal::new(StatusCode::UPGRADE_REQUIRED, message);
    refusal.header = Some((name, HeaderValue::from_static(value)));
    refusal
}

fn accept_of(key: &HeaderValue) -> HeaderValue {
    HeaderValue::try_from(derive_accept_key(key.as_bytes())).expect("base64 is visible ASCII")
}

fn has_word(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(word))
}

/// One WebSocket.
pub(super) struct WebSocket {
    socket: Socket,
    traffic: Arc<Traffic>,
    keep_alive: Duration,
    stopping: watch::Receiver<bool>,
}

/// Why a WebSocket ends.
enum End {
    /// All that was queued has been written.
    Done,
    /// The client has closed it.
    Closed,
    /// The client sent what may not come.
    Refused(CloseCode, String),
    /// Nobody is there, or nobody reads.
    Lost(String),
}

impl WebSocket {
    /// A WebSocket on these bytes, which `traffic` counts. A client that has sent nothing for `keep_alive` gets a ping.
    pub(super) async fn new(
        upgraded: Upgraded,
        traffic: Arc<Traffic>,
        keep_alive: Duration,
        stopping: watch::Receiver<bool>,
    ) -> Box<Self> {
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER)
            .write_buffer_size(BUFFER)
            .max_message_size(Some(MAX_LINE))
            .max_frame_size(Some(MAX_LINE));
        let socket = Socket::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
        Box::new(Self { socket, traffic, keep_alive, stopping })
    }

    async fn run(self, lines: mpsc::Sender<Input>, out: Arc<Outgoing>, patience: Duration) {
        let Self { socket, traffic, keep_alive, stopping } = self;
        let (mut sink, mut stream) = socket.split();
        let held = AtomicBool::new(false);
        let end = {
            let reading = read(&mut stream, lines, &held, &out, stopping.clone());
            let mut writer =
                Writer { sink: &mut sink, out: &out, traffic: &traffic, held: &held, keep_alive, patience };
            // Whichever ends first ends both. What the other gives up is part of a connection that has ended.
            tokio::select! {
                biased;
                end = reading => end,
                end = writer.run() => end,
            }
        };
        // Whoever waits for room is let go.
        out.close();
        // Both are of one socket.
        let Ok(socket) = sink.reunite(stream) else { return };
        let code = if *stopping.borrow() { CloseCode::Away } else { CloseCode::Normal };
        finish(socket, end, code).await;
    }
}

impl Transport for WebSocket {
    fn carry(self: Box<Self>, lines: mpsc::Sender<Input>, out: Arc<Outgoing>, patience: Duration) -> Carrying {
        Box::pin(self.run(lines, out, patience))
    }
}

/// Sends messages to the processor. When the server ends the input ends, and what comes later is dropped.
async fn read(
    stream: &mut SplitStream<Socket>,
    lines: mpsc::Sender<Input>,
    held: &AtomicBool,
    out: &Outgoing,
    mut stopping: watch::Receiver<bool>,
) -> End {
    let mut feeder = Some(Feeder::new(lines));
    loop {
        // Cancel-safe: the stream keeps what it has read of a message.
        let message = tokio::select! {
            () = stop_of(&mut stopping), if feeder.is_some() => {
                feeder = None;
                continue;
            }
            message = stream.next() => message,
        };
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Binary(_))) => {
                let reason = "binary messages are not served; send each message as text";
                return End::Refused(CloseCode::Unsupported, reason.to_owned());
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
            Some(Ok(Message::Close(_))) => {
                out.say_goodbye();
                return End::Closed;
            }
            None => return End::Closed,
            Some(Err(error)) => return end_of(error),
        };
        if let Some(feeder) = &feeder {
            held.store(true, Ordering::Release);
            // False is the end of the processor, which closes the queue.
            feeder.feed(Line::Whole(text.as_bytes().to_vec())).await;
            held.store(false, Ordering::Release);
        }
    }
}

fn end_of(error: Error) -> End {
    match error {
        Error::Capacity(_) => {
            let reason = format!("a message is longer than {MAX_LINE} bytes; put long material in a file");
            End::Refused(CloseCode::Size, reason)
        }
        Error::Utf8(_) => End::Refused(CloseCode::Invalid, "a text message is not UTF-8".to_owned()),
        Error::Protocol(error) => {
            use tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake;
            match error {
                // As the end of input on other transports.
                ResetWithoutClosingHandshake => End::Closed,
                error => End::Refused(CloseCode::Protocol, error.to_string()),
            }
        }
        error => End::Lost(error.to_string()),
    }
}

/// Writes what the queue holds, and looks whether the client is there.
struct Writer<'a> {
    sink: &'a mut SplitSink<Socket, Message>,
    out: &'a Outgoing,
    traffic: &'a Traffic,
    /// Whether a message of the client waits for the processor: it is not the client who is silent then.
    held: &'a AtomicBool,
    keep_alive: Duration,
    patience: Duration,
}

impl Writer<'_> {
    async fn run(&mut self) -> End {
        let mut looks = tokio::time::interval(self.keep_alive);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // The first is ready at once.
        looks.tick().await;
        let (mut read, mut is_asked) = (self.traffic.read(), false);
        loop {
            // Cancel-safe: lines stay queued until they are taken, and a tick that is lost comes again.
            let batch = tokio::select! {
                biased;
                batch = self.out.next_batch() => match batch {
                    Some(batch) => Some(batch),
                    None => return End::Done,
                },
                _ = looks.tick() => None,
            };
            let began = Instant::now();
            let sent = match batch {
                Some(batch) => self.send_lines(batch).await,
                None => {
                    let now = self.traffic.read();
                    let is_silent = now == read && !self.held.load(Ordering::Acquire);
                    read = now;
                    if is_silent && is_asked {
                        return End::Lost(format!(
                            "nothing has come for {} s after a ping",
                            self.keep_alive.as_secs_f64()
                        ));
                    }
                    is_asked = is_silent;
                    match is_silent {
                        true => self.send(vec![Message::Ping(Bytes::new())]).await,
                        false => Ok(()),
                    }
                }
            };
            if let Err(end) = sent {
                return end;
            }
            // A client that is behind with reading has not seen the ping yet.
            if began.elapsed() >= self.keep_alive / 4 {
                looks.reset();
            }
        }
    }

    /// Lines as one text message each.
    async fn send_lines(&mut self, batch: Vec<u8>) -> Result<(), End> {
        let batch = Bytes::from(batch);
        let mut messages = Vec::new();
        let mut start = 0;
        while let Some(at) = memchr::memchr(b'\n', &batch[start..]) {
            let line = batch.slice(start..start + at);
            // Envelopes are written as UTF-8.
            messages.extend(Utf8Bytes::try_from(line).ok().map(Message::Text));
            start += at + 1;
        }
        self.send(messages).await
    }

    /// Sends all of it. Each part that the client takes begins its time anew.
    async fn send(&mut self, messages: Vec<Message>) -> Result<(), End> {
        let (out, traffic, patience) = (self.out, self.traffic, self.patience);
        let sending = async {
            for message in messages {
                self.sink.feed(message).await?;
            }
            self.sink.flush().await
        };
        let mut sending = std::pin::pin!(sending);
        loop {
            let written = traffic.written();
            // The sending is polled by reference; where it is dropped the connection ends.
            tokio::select! {
                biased;
                sent = &mut sending => return sent.map_err(|error| End::Lost(error.to_string())),
                () = out.stays_full(patience) => {
                    if traffic.written() == written {
                        let seconds = patience.as_secs();
                        let why = format!("the client has read nothing for {seconds} s while the queue was full");
                        return Err(End::Lost(why));
                    }
                }
            }
        }
    }
}

/// The closing handshake (RFC 6455 section 7), as far as the other side takes part in it.
async fn finish(mut socket: Socket, end: End, code: CloseCode) {
    match end {
        End::Lost(why) => tracing::info!("a WebSocket is lost: {why}"),
        // The answer to its close is queued in the socket.
        End::Closed => drop(tokio::time::timeout(CLOSE, socket.flush()).await),
        End::Done => {
            let closing = async {
                socket.close(Some(CloseFrame { code, reason: Utf8Bytes::default() })).await?;
                while socket.next().await.is_some_and(|message| message.is_ok()) {}
                Ok::<_, Error>(())
            };
            drop(tokio::time::timeout(CLOSE, closing).await);
        }
        End::Refused(code, reason) => {
            tracing::info!("a WebSocket is closed: {reason}");
            let frame = CloseFrame { code, reason: reason.into() };
            drop(tokio::time::timeout(CLOSE, socket.close(Some(frame))).await);
            // A system that is left with bytes it was sent tells the sender so instead of the reason.
            let mut rest = socket.into_inner();
            let draining = async {
                rest.shutdown().await?;
                tokio::io::copy(&mut rest.take(DRAINED), &mut tokio::io::sink()).await
            };
            drop(tokio::time::timeout(CLOSE, draining).await);
        }
    }
}
