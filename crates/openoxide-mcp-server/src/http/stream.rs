//! From lines to a response: one JSON object where the answer is all there is, an event stream otherwise.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use openoxide_mcp_protocol::code;
use tokio::sync::watch;

use openoxide_rpc::Outgoing;
use openoxide_rpc::lock;

/// How long an answer may take and still come as plain JSON.
const PATIENCE: Duration = Duration::from_millis(500);
/// A comment is sent after so long without an event, so that nobody between takes the stream for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const COMMENT: &[u8] = b":\n\n";

/// The lines of one queue as numbered events, of which the last can be read again.
pub(super) struct EventStream {
    /// Names it among the streams of its session.
    name: String,
    out: Arc<Outgoing>,
    /// Bytes of read events that are kept.
    kept: usize,
    log: Mutex<Log>,
    /// Held by whoever waits for the next lines.
    pump: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Log {
    /// Oldest first; numbers count from 1.
    events: VecDeque<(u64, Bytes)>,
    last: u64,
    bytes: usize,
    /// The latest that was sent to anybody.
    sent: u64,
    is_over: bool,
}

impl EventStream {
    /// The events of `out`, of which so many bytes can be read again.
    pub(super) fn new(name: String, out: Arc<Outgoing>, kept: usize) -> Arc<Self> {
        Arc::new(Self { name, out, kept, log: Mutex::default(), pump: tokio::sync::Mutex::default() })
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
    async fn after(&self, number: u64) -> Option<(u64, Bytes)> {
        loop {
            {
                let log = self.log();
                if let Some(event) = log.events.iter().find(|(at, _)| *at > number) {
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
            let batch = self.out.next_batch().await;
            let mut log = self.log();
            match batch {
                Some(batch) => batch.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).for_each(|line| {
                    log.last += 1;
                    log.bytes += line.len();
                    let number = log.last;
                    log.events.push_back((number, Bytes::copy_from_slice(line)));
                }),
                None => log.is_over = true,
            }
            drop(pump);
        }
    }

    /// Notes that an event was sent, and forgets those before it that are more than is kept.
    fn sent(&self, number: u64) {
        let mut log = self.log();
        log.sent = log.sent.max(number);
        while log.bytes > self.kept
            && let Some((at, line)) = log.events.front()
            && *at <= log.sent
        {
            log.bytes -= line.len();
            log.events.pop_front();
        }
    }

    /// Whether nothing follows this event.
    fn is_last(&self, number: u64) -> bool {
        self.log().last == number && self.out.is_done()
    }

    /// The answer where it comes soon and alone.
    async fn sole_answer(&self) -> Option<Bytes> {
        let (number, line) = tokio::time::timeout(PATIENCE, self.after(0)).await.ok()??;
        if !self.is_last(number) {
            return None;
        }
        self.sent(number);
        Some(line)
    }
}

/// What a response stream holds on to.
pub(super) struct Sending {
    pub(super) events: Arc<EventStream>,
    /// The event that was received last.
    pub(super) from: u64,
    /// Whether events carry ids, by which they can be asked for again.
    pub(super) numbered: bool,
    /// Whether an empty event comes first, to be resumed from.
    pub(super) primed: bool,
    /// Ends the response when it changes.
    pub(super) until: Option<watch::Receiver<u64>>,
    /// Told when the server ends, so that what listens for news is answered.
    pub(super) on_stop: Option<OnStop>,
    /// Dropped with the response.
    pub(super) _guard: Option<Box<dyn std::any::Any + Send>>,
}

impl Sending {
    /// What follows event `from`, with ids, until its stream ends.
    pub(super) fn resumable(events: Arc<EventStream>, from: u64) -> Self {
        Self { events, from, numbered: true, primed: false, until: None, on_stop: None, _guard: None }
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
        Some(line) => {
            let status = status_of(&line);
            (status, [(header::CONTENT_TYPE, "application/json")], line).into_response()
        }
        None => event_stream(sending),
    }
}

/// The status of an answer that is an error of the protocol (MCP 2026-07-28 "Protocol Version Header" and on).
fn status_of(line: &[u8]) -> StatusCode {
    #[derive(serde::Deserialize)]
    struct Answer {
        error: Option<Error>,
    }
    #[derive(serde::Deserialize)]
    struct Error {
        code: i32,
    }
    let error = serde_json::from_slice::<Answer>(line).ok().and_then(|answer| answer.error);
    match error.map(|error| error.code) {
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
    let frames = stream::unfold(sending, |mut sending| async move {
        let frame = next_frame(&mut sending).await?;
        Some((Ok::<_, std::convert::Infallible>(frame), sending))
    });
    let mut response = Body::from_stream(frames).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

async fn next_frame(sending: &mut Sending) -> Option<Bytes> {
    let Sending { events, from, numbered, primed, until, on_stop, .. } = sending;
    if std::mem::take(primed) {
        return Some(Bytes::from(format!("id: {}-{from}\ndata:\n\n", events.name())));
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
            let (number, line) = event?;
            *from = number;
            events.sent(number);
            let mut frame = Vec::with_capacity(line.len() + 64);
            if *numbered {
                frame.extend_from_slice(format!("id: {}-{number}\n", events.name()).as_bytes());
            }
            frame.extend_from_slice(b"event: message\ndata: ");
            frame.extend_from_slice(&line);
            frame.extend_from_slice(b"\n\n");
            Some(frame.into())
        }
        () = replaced => None,
        () = OnStop::due(on_stop) => {
            if let Some(on_stop) = on_stop.take() {
                (on_stop.act)();
            }
            Some(Bytes::from_static(COMMENT))
        }
        () = tokio::time::sleep(KEEP_ALIVE) => Some(Bytes::from_static(COMMENT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sending(events: &Arc<EventStream>, from: u64) -> Sending {
        Sending::resumable(Arc::clone(events), from)
    }

    async fn text(response: Response) -> String {
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn an_answer_alone_is_json_and_its_error_a_status() {
        for (line, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, 200),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":""}}"#, 404),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":""}}"#, 400),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":""}}"#, 200),
        ] {
            let out = Outgoing::for_one_answer();
            let events = EventStream::new("s".into(), Arc::clone(&out), 0);
            out.answer(format!("{line}\n").into_bytes(), None);
            let response = respond(sending(&events, 0)).await;
            assert_eq!(response.status().as_u16(), expected);
            assert_eq!(text(response).await, line);
        }
    }

    #[tokio::test]
    async fn what_comes_before_the_answer_makes_a_stream_that_can_be_read_again() {
        let out = Outgoing::for_one_answer();
        let events = EventStream::new("s".into(), Arc::clone(&out), 1024);
        out.push(b"{\"a\":1}\n".to_vec());
        out.answer(b"{\"b\":2}\n".to_vec(), None);
        let first = text(respond(sending(&events, 0)).await).await;
        let frame = |number: u32, line: &str| format!("id: s-{number}\nevent: message\ndata: {line}\n\n");
        assert_eq!(first, frame(1, "{\"a\":1}") + &frame(2, "{\"b\":2}"));
        assert!(events.is_ended() && events.latest_sent() == 2);
        assert_eq!(text(event_stream(sending(&events, 1))).await, frame(2, "{\"b\":2}"));
        assert_eq!(text(event_stream(sending(&events, 2))).await, "");
    }

    #[tokio::test]
    async fn no_more_than_its_share_is_kept_and_nothing_unread_is_lost() {
        let out = Outgoing::for_one_answer();
        let events = EventStream::new("s".into(), Arc::clone(&out), 10);
        for number in 0..100 {
            out.push(format!("{{\"n\":{number}}}\n").into_bytes());
        }
        out.answer(b"{}\n".to_vec(), None);
        let all = text(event_stream(sending(&events, 0))).await;
        assert_eq!(all.matches("data: ").count(), 101);
        assert!(events.log().events.len() <= 2 && events.log().bytes <= 10);
    }
}
