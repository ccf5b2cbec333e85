//! From lines to a response: one JSON object where the answer is all there is, an event stream otherwise.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::{StreamExt as _, stream};
use openoxide_mcp_protocol::code;
use tokio::sync::watch;

use openoxide_rpc::listeners::Accepted;
use openoxide_rpc::{Charge, Outgoing, Reader, Taken, lock};

/// How long a client that has lost a stream waits before it asks for the rest.
const RECONNECT: Duration = Duration::from_secs(1);

/// How long an answer may take and still come as plain JSON.
const PATIENCE: Duration = Duration::from_millis(500);
/// A comment is sent after this time without an event, so that nobody between takes the stream for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Bytes given to the connection at once. As long as it takes one after the other, somebody reads.
const PIECE: usize = 64 << 10;

const COMMENT: &[u8] = b":\n\n";

/// The lines of one queue as numbered events, of which the last can be read again.
pub(super) struct EventStream {
    /// Names it among the streams of its session.
    name: String,
    out: Arc<Outgoing>,
    /// Bytes of read events that are kept.
    kept: usize,
    log: Mutex<Log>,
    /// Held by the task that waits for the next lines.
    pump: tokio::sync::Mutex<()>,
    /// Where the latest response with its events goes.
    over: Mutex<Weak<Accepted>>,
}

/// One line, and its number.
#[derive(Clone)]
struct Event {
    number: u64,
    line: Bytes,
    /// The code of the error that it answers with.
    error: Option<i32>,
    /// Until it was sent.
    charge: Option<Arc<Charge>>,
}

/// A part of a line on its way. Dropped when the connection has it.
struct Piece {
    bytes: Bytes,
    charge: Option<Arc<Charge>>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some(charge) = &self.charge {
            charge.moves();
        }
    }
}

#[derive(Default)]
struct Log {
    /// Oldest first; numbers count from 1.
    events: VecDeque<Event>,
    last: u64,
    bytes: usize,
    /// The latest that was sent to anybody.
    sent: u64,
    is_over: bool,
}

impl EventStream {
    /// The events of `out`, of which `kept` bytes can be read again.
    pub(super) fn new(name: String, out: Arc<Outgoing>, kept: usize) -> Arc<Self> {
        let meter = out.meter().cloned();
        let this = Self {
            name,
            out,
            kept,
            log: Mutex::default(),
            pump: tokio::sync::Mutex::default(),
            over: Mutex::default(),
        };
        let this = Arc::new(this);
        if let Some(meter) = meter {
            let reader: Weak<Self> = Arc::downgrade(&this);
            meter.all().watch(reader);
        }
        this
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        lock(&self.log)
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether nothing will be added.
    pub(super) fn is_ended(&self) -> bool {
        self.out.is_closed()
    }

    /// The event that was sent last.
    pub(super) fn latest_sent(&self) -> u64 {
        self.log().sent
    }

    /// The first event behind `number` that is still there; `None` when there will be none. Cancel-safe: an event stays
    /// until it is sent.
    async fn after(&self, number: u64) -> Option<Event> {
        loop {
            {
                let log = self.log();
                if let Some(event) = log.events.iter().find(|event| event.number > number) {
                    return Some(event.clone());
                }
                if log.is_over {
                    return None;
                }
            }
            let pump = self.pump.lock().await;
            if self.log().last > number {
                continue;
            }
            let next = self.out.next_line().await;
            let mut log = self.log();
            match next {
                Some(Taken { bytes: mut line, error, charge }) => {
                    line.truncate(line.trim_ascii_end().len());
                    log.last += 1;
                    log.bytes += line.len();
                    let (number, charge) = (log.last, charge.map(Arc::new));
                    log.events.push_back(Event { number, line: line.into(), error, charge });
                }
                None => log.is_over = true,
            }
            drop(pump);
        }
    }

    /// Notes that an event was sent, and forgets those before it that are more than is kept.
    fn sent(&self, number: u64) {
        let mut log = self.log();
        log.sent = log.sent.max(number);
        let first = log.events.front().map_or(0, |event| event.number);
        let at = number.checked_sub(first).and_then(|at| usize::try_from(at).ok());
        if let Some(event) = at.and_then(|at| log.events.get_mut(at)) {
            event.charge = None;
        }
        while log.bytes > self.kept
            && let Some(event) = log.events.front()
            && event.number <= log.sent
        {
            log.bytes -= event.line.len();
            log.events.pop_front();
        }
    }

    /// Whether nothing follows this event.
    fn is_last(&self, number: u64) -> bool {
        self.log().last == number && self.out.is_done()
    }

    /// The answer where it comes soon and alone.
    async fn sole_answer(&self) -> Option<Event> {
        let event = tokio::time::timeout(PATIENCE, self.after(0)).await.ok()??;
        if !self.is_last(event.number) {
            return None;
        }
        self.sent(event.number);
        Some(event)
    }
}

impl Reader for EventStream {
    fn stands_still(&self) -> Option<Duration> {
        self.out.meter()?.stands_still()
    }

    /// Closes the connection as well: half an answer is not one. A request whose connection ends is cancelled where its
    /// revision says so.
    fn lose(&self) {
        self.out.lose();
        {
            let mut log = self.log();
            log.events.clear();
            log.bytes = 0;
            log.is_over |= self.out.is_closed();
        }
        if let Some(connection) = lock(&self.over).upgrade() {
            connection.close();
        }
    }
}

/// What a response stream holds on to.
pub(super) struct Sending {
    pub(super) events: Arc<EventStream>,
    /// The connection it goes over.
    pub(super) over: Weak<Accepted>,
    /// The event that was received last.
    pub(super) from: u64,
    /// Whether events carry ids, by which they can be asked for again.
    pub(super) numbered: bool,
    /// Whether an empty event comes first, to be resumed from.
    pub(super) primed: bool,
    /// Ends the response when it changes.
    pub(super) until: Option<watch::Receiver<u64>>,
    /// Told when the server ends, so that open subscriptions are answered.
    pub(super) on_stop: Option<OnStop>,
    /// Dropped with the response.
    pub(super) _guard: Option<Box<dyn std::any::Any + Send>>,
}

impl Sending {
    /// What follows event `from`, with ids, until its stream ends.
    pub(super) fn resumable(events: Arc<EventStream>, from: u64, over: &Arc<Accepted>) -> Self {
        Self { over: Arc::downgrade(over), ..Self::anywhere(events, from) }
    }

    fn anywhere(events: Arc<EventStream>, from: u64) -> Self {
        Self {
            over: Weak::new(),
            events,
            from,
            numbered: true,
            primed: false,
            until: None,
            on_stop: None,
            _guard: None,
        }
    }
}

/// Something to do once, when the server ends.
pub(super) struct OnStop {
    pub(super) stopping: watch::Receiver<bool>,
    pub(super) act: Box<dyn FnOnce() + Send>,
}

impl OnStop {
    /// Ready when it is to be done. Cancel-safe: the word stays.
    async fn due(this: &mut Option<Self>) {
        match this {
            // A sender that is gone is an end as well.
            Some(on_stop) => drop(on_stop.stopping.wait_for(|stopping| *stopping).await),
            None => std::future::pending().await,
        }
    }
}

/// Answers a request with what its stream brings.
pub(super) async fn respond(sending: Sending) -> Response {
    match sending.events.sole_answer().await {
        Some(Event { line, error, charge, .. }) => {
            lock(&sending.events.over).clone_from(&sending.over);
            let headers = [
                (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
                (header::CONTENT_LENGTH, line.len().into()),
            ];
            let status = status_of(error);
            // The events are there until the last piece has gone, so that the answer can be given up.
            let pieces = stream::iter(pieces(&line, charge.as_ref())).map(move |piece| {
                let _events = &sending.events;
                Ok::<_, Infallible>(piece)
            });
            (status, headers, Body::from_stream(pieces)).into_response()
        }
        None => event_stream(sending),
    }
}

/// A line in parts that are counted until the connection has the last.
fn pieces(line: &Bytes, charge: Option<&Arc<Charge>>) -> VecDeque<Bytes> {
    let count = line.len().div_ceil(PIECE);
    let piece = |at: usize| {
        let bytes = line.slice(at * PIECE..line.len().min((at + 1) * PIECE));
        Bytes::from_owner(Piece { bytes, charge: charge.cloned() })
    };
    (0..count).map(piece).collect()
}

/// The status of an answer that is an error of the protocol, by its code (MCP 2026-07-28 "Protocol Version Header" and on).
fn status_of(error: Option<i32>) -> StatusCode {
    match error {
        Some(code::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(
            code::PARSE_ERROR
            | code::INVALID_REQUEST
            | code::MISSING_CLIENT_CAPABILITY
            | code::HEADER_MISMATCH
            | code::UNSUPPORTED_PROTOCOL_VERSION,
        ) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// A response that goes on until its stream ends.
pub(super) fn event_stream(sending: Sending) -> Response {
    lock(&sending.events.over).clone_from(&sending.over);
    let frames = stream::unfold((sending, VecDeque::new()), |(mut sending, mut pieces)| async move {
        if pieces.is_empty() {
            pieces = next_frame(&mut sending).await?;
        }
        let piece = pieces.pop_front()?;
        Some((Ok::<_, Infallible>(piece), (sending, pieces)))
    });
    let mut response = Body::from_stream(frames).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// The next event, or what shows that there will be one; never empty. `None` at the end.
async fn next_frame(sending: &mut Sending) -> Option<VecDeque<Bytes>> {
    let Sending { events, from, numbered, primed, until, on_stop, .. } = sending;
    if std::mem::take(primed) {
        // With how long a client that loses the stream waits before it comes back.
        let retry = RECONNECT.as_millis();
        return Some([Bytes::from(format!("retry: {retry}\nid: {}-{from}\ndata:\n\n", events.name()))].into());
    }
    let replaced = async {
        match until {
            // A sender that is gone is an end as well.
            Some(until) => drop(until.changed().await),
            None => std::future::pending().await,
        }
    };
    // Cancel-safe: an event stays until it is sent.
    tokio::select! {
        biased;
        event = events.after(*from) => {
            let Event { number, line, charge, .. } = event?;
            *from = number;
            events.sent(number);
            let id = if *numbered { format!("id: {}-{number}\n", events.name()) } else { String::new() };
            Some(frame(&id, &line, charge.as_ref()))
        }
        () = replaced => None,
        () = OnStop::due(on_stop) => {
            if let Some(on_stop) = on_stop.take() {
                (on_stop.act)();
            }
            Some([Bytes::from_static(COMMENT)].into())
        }
        () = tokio::time::sleep(KEEP_ALIVE) => Some([Bytes::from_static(COMMENT)].into()),
    }
}

/// An event as it is sent: in one piece where it is short.
fn frame(id: &str, line: &Bytes, charge: Option<&Arc<Charge>>) -> VecDeque<Bytes> {
    let head = format!("{id}event: message\ndata: ");
    if line.len() < PIECE {
        let bytes = [head.as_bytes(), line, b"\n\n"].concat().into();
        return [Bytes::from_owner(Piece { bytes, charge: charge.cloned() })].into();
    }
    let mut pieces = pieces(line, charge);
    pieces.push_front(head.into());
    pieces.push_back(Bytes::from_static(b"\n\n"));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use openoxide_rpc::{RequestId, Responder, Responders, RpcError, Unread};

    fn sending(events: &Arc<EventStream>, from: u64) -> Sending {
        Sending::anywhere(Arc::clone(events), from)
    }

    fn unread() -> Arc<Unread> {
        Unread::new(1 << 20, Duration::from_secs(3600))
    }

    async fn text(response: Response) -> String {
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn an_answer_alone_is_json_and_its_error_a_status() {
        for (error, line, expected) in [
            (None, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, 200),
            (Some(-32601), r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":""}}"#, 404),
            (Some(-32021), r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":""}}"#, 400),
            (Some(-32602), r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":""}}"#, 200),
        ] {
            let out = Outgoing::for_one_answer(&unread());
            let events = EventStream::new("s".into(), Arc::clone(&out), 0);
            let responder = Responder::new(RequestId::Number(1), Responders::line(Arc::clone(&out)));
            match error {
                Some(code) => responder.answer::<()>(Err(&RpcError::new(code, ""))),
                None => responder.answer(Ok(&serde_json::json!({}))),
            }
            let response = respond(sending(&events, 0)).await;
            assert_eq!(response.status().as_u16(), expected);
            assert_eq!(text(response).await, line);
        }
    }

    #[tokio::test]
    async fn what_comes_before_the_answer_makes_a_stream_that_can_be_read_again() {
        let out = Outgoing::for_one_answer(&unread());
        let events = EventStream::new("s".into(), Arc::clone(&out), 1024);
        out.push(b"{\"a\":1}\n".to_vec());
        out.answer(b"{\"b\":2}\n".to_vec(), None, None);
        let first = text(respond(sending(&events, 0)).await).await;
        let frame = |number: u32, line: &str| format!("id: s-{number}\nevent: message\ndata: {line}\n\n");
        assert_eq!(first, frame(1, "{\"a\":1}") + &frame(2, "{\"b\":2}"));
        assert!(events.is_ended() && events.latest_sent() == 2);
        assert_eq!(text(event_stream(sending(&events, 1))).await, frame(2, "{\"b\":2}"));
        assert_eq!(text(event_stream(sending(&events, 2))).await, "");
    }

    #[tokio::test]
    async fn no_more_than_its_share_is_kept_and_nothing_unread_is_lost() {
        let out = Outgoing::for_one_answer(&unread());
        let events = EventStream::new("s".into(), Arc::clone(&out), 10);
        for number in 0..100 {
            out.push(format!("{{\"n\":{number}}}\n").into_bytes());
        }
        out.answer(b"{}\n".to_vec(), None, None);
        let all = text(event_stream(sending(&events, 0))).await;
        assert_eq!(all.matches("data: ").count(), 101);
        assert!(events.log().events.len() <= 2 && events.log().bytes <= 10);
    }
}
