//! Performs one response: sends the body, reads the stream, and starts again where `failure` says it may help.
//!
//! Everything runs in whoever polls the stream, so that dropping it drops the connection. A count for each sort of
//! failure bounds the attempts ([`Budget`]); none is reset, so the sum of them bounds the response. An attempt that has
//! handed out an item is not repeated: the second would not say the same again. `events` holds done items back as long
//! as it can, so that this is rare. When it happens and calls are among the items, the response ends there, and the
//! caller goes on with what they come to; otherwise it fails. Reasoning does not count: without the item it leads to it
//! is void.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt;
use reqwest::{Response, header::CONTENT_TYPE};

use super::{
    Target,
    decode::Decoder,
    delay::backoff,
    events::End,
    failure::{Budget, Failure},
    unbound,
};
use crate::{Freeform, HistoryItem, ModelError, ModelEvent, ModelStream, SseError, http::root_cause};

/// Bytes taken in before events are handed out, so that a server that never pauses cannot hold them back.
const BATCH: usize = 16 * 1024;
/// Longest part of an error body that is read.
const ERROR_BODY: usize = 64 * 1024;
/// Longest time for the rest of an error body.
const ERROR_BODY_TIME: Duration = Duration::from_secs(10);
/// Longest wait for what some servers send after a response has said that it is over, and some never do.
const TRAILER_TIME: Duration = Duration::from_secs(5);
/// Longest time a finished body may take to end, so that its connection can be used again.
const DRAIN_TIME: Duration = Duration::from_secs(1);
/// How much of that the last event is held back for, so that a request that follows at once finds the connection.
const DRAIN_AT_ONCE: Duration = Duration::from_millis(20);

/// The events of one response. Nothing is sent before the first poll.
pub(super) fn start(target: Arc<Target>, body: Bytes, freeform: Freeform) -> ModelStream {
    let run = Run { target, body, freeform, phase: Phase::Send, retries: Retries::default(), is_unbound: false };
    Box::pin(futures_util::stream::unfold(run, async |mut run| run.next().await.map(|item| (item, run))))
}

/// One response under way.
struct Run {
    target: Arc<Target>,
    body: Bytes,
    /// The tools whose calls come as a function and are handed out as text.
    freeform: Freeform,
    phase: Phase,
    retries: Retries,
    /// Reasoning was refused and left out. That helps once or never.
    is_unbound: bool,
}

/// The attempts used of each budget.
#[derive(Debug, Default)]
struct Retries {
    connect: u32,
    request: u32,
    stream: u32,
    silence: u32,
}

impl Retries {
    fn of(&mut self, budget: Budget) -> &mut u32 {
        match budget {
            Budget::Connect => &mut self.connect,
            Budget::Request => &mut self.request,
            Budget::Stream => &mut self.stream,
            Budget::Silence => &mut self.silence,
        }
    }

    fn sum(&self) -> u32 {
        self.connect + self.request + self.stream + self.silence
    }
}

enum Phase {
    Send,
    Pause(Duration),
    Read(Box<Attempt>),
    /// What of a failed response is still to be handed out, last first; ends with its error.
    Rest(Vec<Result<ModelEvent, ModelError>>),
    Done,
}

/// A stream that is being read.
struct Attempt {
    response: Response,
    decoder: Decoder,
    /// Nothing more comes from the network; the decoder may still hold events.
    over: Option<Failure>,
    /// How long it was waited for since data last came. Comments come from servers, and from what stands between, also
    /// where nobody works on the answer any more.
    idle: Duration,
}

impl Run {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            match std::mem::replace(&mut self.phase, Phase::Done) {
                Phase::Done => return None,
                Phase::Pause(delay) => {
                    tokio::time::sleep(delay).await;
                    self.phase = Phase::Send;
                }
                Phase::Send => match self.send().await {
                    Ok(response) => {
                        let decoder = Decoder::new(self.target.reader(&self.freeform));
                        self.phase =
                            Phase::Read(Box::new(Attempt { response, decoder, over: None, idle: Duration::ZERO }));
                    }
                    Err(failure) if !self.is_unbound && unbound::is_refused(&failure.error) => {
                        self.is_unbound = true;
                        match unbound::without_reasoning(self.target.config.wire_api, &self.body) {
                            Some(body) => {
                                self.body = Bytes::from(body);
                                self.phase = Phase::Send;
                                return Some(Ok(ModelEvent::Unbound));
                            }
                            None => self.fail(failure, None),
                        }
                    }
                    Err(failure) => self.fail(failure, None),
                },
                Phase::Rest(mut rest) => {
                    let item = rest.pop();
                    if !rest.is_empty() {
                        self.phase = Phase::Rest(rest);
                    }
                    if let Some(Ok(ModelEvent::Retrying { delay_ms, .. })) = item {
                        self.phase = Phase::Pause(Duration::from_millis(delay_ms));
                    }
                    return item;
                }
                Phase::Read(mut attempt) => {
                    if let Some(event) = attempt.decoder.next_event() {
                        // The good end is the last event: nothing is left to hand out after it.
                        if matches!(event, ModelEvent::Completed { .. }) {
                            drain(attempt.response).await;
                        } else {
                            self.phase = Phase::Read(attempt);
                        }
                        return Some(Ok(self.signed(event)));
                    }
                    if let Some(failure) = attempt.over.take().or_else(|| self.ended(attempt.decoder.end()?)) {
                        self.fail(failure, Some(&mut attempt.decoder));
                        continue;
                    }
                    attempt.over = self.read(&mut attempt).await;
                    self.phase = Phase::Read(attempt);
                }
            }
        }
    }

    fn ended(&self, end: &End) -> Option<Failure> {
        Failure::from_end(&self.target.config, self.shown_url(), end)
    }

    /// Writes into reasoning, and into what an item carries, who made it: nobody else can read it.
    fn signed(&self, mut event: ModelEvent) -> ModelEvent {
        let made = match &mut event {
            ModelEvent::ItemDone(HistoryItem::Reasoning { raw, .. }) => Some(raw),
            ModelEvent::ItemDone(
                HistoryItem::Message { carried, .. }
                | HistoryItem::FunctionCall { carried, .. }
                | HistoryItem::CustomToolCall { carried, .. },
            ) => carried.as_deref_mut(),
            _ => None,
        };
        if let Some(serde_json::Value::Object(made)) = made {
            made.insert(super::MADE_BY.to_owned(), self.target.config.id.clone().into());
        }
        event
    }

    /// Sends the request and waits for the head of a good response.
    async fn send(&self) -> Result<Response, Failure> {
        let config = &self.target.config;
        let endpoint = self
            .target
            .endpoint
            .as_ref()
            .map_err(|reason| Failure::fatal(ModelError::Config { reason: reason.clone() }))?;
        let client = self.target.client.get(&endpoint.url, config.connect_timeout).await.map_err(Failure::fatal)?;
        let sent = client.post(endpoint.url.clone()).headers(endpoint.headers.clone()).body(self.body.clone()).send();
        let response = match tokio::time::timeout(config.header_timeout, sent).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(Failure::from_send(&endpoint.shown, error)),
            Err(_) => {
                let url = endpoint.shown.clone();
                return Err(Failure::fatal(ModelError::HeaderTimeout { url, limit: config.header_timeout }));
            }
        };
        let status = response.status();
        if !status.is_success() {
            let headers = response.headers().clone();
            let body = read_body(response).await;
            return Err(Failure::from_status(config, status, &headers, &body));
        }
        // Other types than these two have been seen on true streams.
        match content_type(&response) {
            Some("text/html") => Err(Failure::fatal(ModelError::NotAStream {
                url: endpoint.shown.clone(),
                content_type: "text/html".to_owned(),
            })),
            Some("application/json") => {
                let body = read_body(response).await;
                Err(Failure::from_document(config, &endpoint.shown, &body))
            }
            _ => Ok(response),
        }
    }

    /// Reads what has come into the decoder, waiting for the first of it. `Some` says that there will be no more, and why.
    ///
    /// Servers send each event in an HTTP chunk of its own. Taking all that have come before handing out any lets the
    /// decoder merge their deltas, which saves everything further on a step per delta.
    async fn read(&self, attempt: &mut Attempt) -> Option<Failure> {
        let Attempt { response, decoder, idle, .. } = attempt;
        let patience = self.target.config.stream_idle_timeout;
        let limit = if decoder.is_ending() { patience.min(TRAILER_TIME) } else { patience };
        let (began, before) = (tokio::time::Instant::now(), decoder.data_bytes());
        let Ok(mut next) = tokio::time::timeout(limit.saturating_sub(*idle), response.chunk()).await else {
            let url = self.shown_url().to_owned();
            let silent = Failure::retry(Budget::Silence, ModelError::IdleTimeout { url, limit });
            return self.over(decoder, silent);
        };
        *idle += began.elapsed();
        let mut taken = 0;
        loop {
            let fed = match next {
                Ok(Some(chunk)) => {
                    taken += chunk.len();
                    decoder.feed(&chunk)
                }
                Ok(None) => return self.over(decoder, self.dropped(no_end(response))),
                Err(error) => return self.over(decoder, self.dropped(root_cause(&error))),
            };
            if let Err(source) = fed {
                return Some(self.unreadable(source));
            }
            if decoder.data_bytes() != before {
                *idle = Duration::ZERO;
            }
            if decoder.end().is_some() || taken >= BATCH {
                return None;
            }
            // The connection's own task hands over one chunk at a time, and needs a turn to bring the next.
            tokio::task::yield_now().await;
            next = response.chunk().now_or_never()?;
        }
    }

    /// Nothing more comes. A response that had said it was over is, whatever cut off the rest; otherwise `failure` is why
    /// it is not.
    fn over(&self, decoder: &mut Decoder, failure: Failure) -> Option<Failure> {
        match decoder.finish() {
            Ok(()) if decoder.end().is_some() => None,
            Ok(()) => Some(failure),
            Err(source) => Some(self.unreadable(source)),
        }
    }

    fn unreadable(&self, source: SseError) -> Failure {
        Failure::fatal(ModelError::Sse { url: self.shown_url().to_owned(), source: source.into() })
    }

    fn dropped(&self, reason: String) -> Failure {
        Failure::retry(Budget::Stream, ModelError::Dropped { url: self.shown_url().to_owned(), reason })
    }

    /// Decides what follows a failed attempt, of which `decoder` is what it said.
    fn fail(&mut self, failure: Failure, decoder: Option<&mut Decoder>) {
        let Failure { error, retry, after } = failure;
        let events = decoder.map(Decoder::events);
        let is_committed = events.as_ref().is_some_and(|events| events.is_committed());
        if let Some(budget) = retry.filter(|_| !is_committed) {
            let limit = budget.limit(&self.target.config);
            let used = self.retries.of(budget);
            if *used < limit {
                let delay = after.unwrap_or_else(|| backoff(*used));
                let left = limit - *used;
                *used += 1;
                let attempt = self.retries.sum() + 1;
                let retrying = ModelEvent::Retrying {
                    attempt,
                    max_attempts: attempt + left - 1,
                    delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
                    reason: error.to_string(),
                };
                let shown = events.and_then(|events| events.shown());
                let restarted = shown.map(|(kind, shown_bytes)| ModelEvent::Restarted { kind, shown_bytes });
                self.phase = Phase::Rest([retrying].into_iter().chain(restarted).map(Ok).collect());
                return;
            }
        }
        let mut rest = Vec::new();
        if let Some(events) = events {
            let may_go_on = retry.is_some() && events.has_committed_call();
            if may_go_on {
                events.complete(None);
            } else {
                events.give_up();
            }
            rest.extend(std::iter::from_fn(|| events.next()).map(Ok));
            if may_go_on {
                rest.reverse();
                self.phase = Phase::Rest(rest);
                return;
            }
        }
        rest.push(Err(error));
        rest.reverse();
        self.phase = Phase::Rest(rest);
    }

    fn shown_url(&self) -> &str {
        self.target.endpoint.as_ref().map_or("", |endpoint| &endpoint.shown)
    }
}

/// The media type of a response, without its parameters.
fn content_type(response: &Response) -> Option<&str> {
    let value = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or_default().trim())
}

/// Why a body that ended had no last event.
fn no_end(response: &Response) -> String {
    match content_type(response) {
        Some(kind) if kind != "text/event-stream" => format!("the answer is `{kind}` and no event stream"),
        _ => "no last event came".into(),
    }
}

/// A body that is no stream, as far as it is worth reading.
async fn read_body(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(&chunk[..chunk.len().min(ERROR_BODY - body.len())]);
            if body.len() == ERROR_BODY {
                break;
            }
        }
    };
    // What came in time is shown; an error page that stalls is no second error.
    let _ = tokio::time::timeout(ERROR_BODY_TIME, read).await;
    body
}

/// Reads a finished body to its end, since the pool takes back only a connection whose body was read whole. The end
/// nearly always lies in the bytes already here; where it does not, a task waits for it and ends within [`DRAIN_TIME`].
async fn drain(mut response: Response) {
    let rest = async |response: &mut Response| while let Ok(Some(_)) = response.chunk().await {};
    if tokio::time::timeout(DRAIN_AT_ONCE, rest(&mut response)).await.is_err() {
        tokio::spawn(async move { tokio::time::timeout(DRAIN_TIME, rest(&mut response)).await });
    }
}
