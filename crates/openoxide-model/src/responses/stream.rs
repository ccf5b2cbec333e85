//! Performs one response: sends the body, reads the stream, and starts again where `failure` says it may help.
//!
//! Everything runs in whoever polls the stream, so that dropping it drops the connection. Two counts bound the attempts:
//! `request_max_retries` for requests that got no stream, `stream_max_retries` for streams that broke; neither is
//! reset, so there are never more than the sum of both plus one. An attempt that has completed an item is not
//! repeated: the item is already in the caller's hands, and a second attempt would not say the same again. The caller can
//! go on from there with a new request. Reasoning alone does not count: without the item it leads to it is void.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt;
use reqwest::{Response, header::CONTENT_TYPE};

use super::{
    Target,
    decode::{Decoder, End},
    failure::{Budget, Failure, backoff},
};
use crate::{ModelError, ModelEvent, ModelStream, http::root_cause};

/// Bytes taken in before events are handed out, so that a server that never pauses cannot hold them back.
const BATCH: usize = 16 * 1024;
/// Longest part of an error body that is read.
const ERROR_BODY: usize = 64 * 1024;
/// Longest time for the rest of an error body.
const ERROR_BODY_TIME: Duration = Duration::from_secs(10);
/// Longest time a finished body may take to end, so that its connection can be used again.
const DRAIN_TIME: Duration = Duration::from_secs(1);
/// How much of that the last event is held back for, so that a request that follows at once finds the connection.
const DRAIN_AT_ONCE: Duration = Duration::from_millis(20);

/// The events of one response. Nothing is sent before the first poll.
pub(super) fn start(target: Arc<Target>, body: Bytes) -> ModelStream {
    let run = Run { target, body, phase: Phase::Send, request_retries: 0, stream_retries: 0 };
    Box::pin(futures_util::stream::unfold(run, async |mut run| run.next().await.map(|item| (item, run))))
}

/// One response under way.
struct Run {
    target: Arc<Target>,
    body: Bytes,
    phase: Phase,
    request_retries: u32,
    stream_retries: u32,
}

enum Phase {
    Send,
    Pause(Duration),
    Read(Box<Attempt>),
    Done,
}

/// A stream that is being read.
struct Attempt {
    response: Response,
    decoder: Decoder,
    /// Nothing more comes from the network; the decoder may still hold events.
    over: Option<Failure>,
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
                        let attempt = Attempt { response, decoder: Decoder::new(), over: None };
                        self.phase = Phase::Read(Box::new(attempt));
                    }
                    Err(failure) => return Some(self.fail(failure)),
                },
                Phase::Read(mut attempt) => {
                    if let Some(event) = attempt.decoder.next_event() {
                        // The good end is the last event: nothing is left to hand out after it.
                        if matches!(event, ModelEvent::Completed { .. }) {
                            drain(attempt.response).await;
                        } else {
                            self.phase = Phase::Read(attempt);
                        }
                        return Some(Ok(event));
                    }
                    let ended = attempt.over.take().or_else(|| self.ended(attempt.decoder.end()?));
                    if let Some(mut failure) = ended {
                        if attempt.decoder.is_committed() {
                            failure.retry = None;
                        }
                        return Some(self.fail(failure));
                    }
                    attempt.over = self.read(&mut attempt).await;
                    self.phase = Phase::Read(attempt);
                }
            }
        }
    }

    fn ended(&self, end: &End) -> Option<Failure> {
        Failure::from_end(&self.target.config.id, self.shown_url(), end)
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
            Ok(Err(error)) => {
                let reason = root_cause(&error);
                let url = endpoint.shown.clone();
                let is_ours = error.is_builder();
                let error = ModelError::Unreachable { url, reason, source: error.without_url() };
                return Err(if is_ours { Failure::fatal(error) } else { Failure::retry(Budget::Request, error) });
            }
            Err(_) => {
                let url = endpoint.shown.clone();
                return Err(Failure::fatal(ModelError::HeaderTimeout { url, limit: config.header_timeout }));
            }
        };
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let headers = response.headers().clone();
        let body = read_error_body(response).await;
        Err(Failure::from_status(&config.id, status, &headers, &body))
    }

    /// Reads what has come into the decoder, waiting for the first of it. `Some` says that there will be no more, and why.
    ///
    /// Servers send each event in an HTTP chunk of its own. Taking all that have come before handing out any lets the
    /// decoder merge their deltas, which saves everything further on a step per delta.
    async fn read(&self, attempt: &mut Attempt) -> Option<Failure> {
        let limit = self.target.config.stream_idle_timeout;
        let Attempt { response, decoder, .. } = attempt;
        let Ok(mut next) = tokio::time::timeout(limit, response.chunk()).await else {
            let url = self.shown_url().to_owned();
            return Some(Failure::retry(Budget::Stream, ModelError::IdleTimeout { url, limit }));
        };
        let mut taken = 0;
        loop {
            let fed = match next {
                Ok(Some(chunk)) => {
                    taken += chunk.len();
                    decoder.feed(&chunk)
                }
                Ok(None) => match decoder.finish() {
                    Ok(()) if decoder.end().is_some() => return None,
                    Ok(()) => return Some(self.dropped(no_end(response))),
                    Err(error) => Err(error),
                },
                Err(error) => return Some(self.dropped(root_cause(&error))),
            };
            if let Err(source) = fed {
                return Some(Failure::fatal(ModelError::Sse { url: self.shown_url().to_owned(), source }));
            }
            if decoder.end().is_some() || taken >= BATCH {
                return None;
            }
            // The connection's own task hands over one chunk at a time, and needs a turn to bring the next.
            tokio::task::yield_now().await;
            next = response.chunk().now_or_never()?;
        }
    }

    fn dropped(&self, reason: String) -> Failure {
        Failure::retry(Budget::Stream, ModelError::Dropped { url: self.shown_url().to_owned(), reason })
    }

    /// Another attempt if the failure and the counts allow one, the error otherwise.
    fn fail(&mut self, failure: Failure) -> Result<ModelEvent, ModelError> {
        let config = &self.target.config;
        let (used, max) = match failure.retry {
            None => return Err(failure.error),
            Some(Budget::Request) => (&mut self.request_retries, config.request_max_retries),
            Some(Budget::Stream) => (&mut self.stream_retries, config.stream_max_retries),
        };
        if *used >= max {
            return Err(failure.error);
        }
        let delay = failure.after.unwrap_or_else(|| backoff(*used));
        *used += 1;
        let attempt = *used + 1;
        self.phase = Phase::Pause(delay);
        Ok(ModelEvent::Retrying {
            attempt,
            max_attempts: max + 1,
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            reason: failure.error.to_string(),
        })
    }

    fn shown_url(&self) -> &str {
        self.target.endpoint.as_ref().map_or("", |endpoint| &endpoint.shown)
    }
}

/// Why a body that ended had no last event.
fn no_end(response: &Response) -> String {
    match response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) {
        Some(kind) if !kind.starts_with("text/event-stream") => format!("the answer is `{kind}` and no event stream"),
        _ => "no last event came".into(),
    }
}

async fn read_error_body(mut response: Response) -> Vec<u8> {
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
