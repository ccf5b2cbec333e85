//! Reads the body of a request: up to the longest line, with a bound on how long it stands still and on how much of all
//! bodies a principal has in memory at once.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use http_body_util::BodyExt as _;
use openoxide_core::{Exceeded, Shares};
use openoxide_mcp_protocol::WireError;

use super::refusal;
use crate::principal::Principal;
use openoxide_rpc::lines::MAX_LINE;

/// How bodies are read.
pub(super) struct Bodies {
    /// How long one may stand still.
    pub(super) patience: Duration,
    /// Bytes of bodies that are not read to their end.
    pub(super) held: Arc<Shares<Principal>>,
}

impl Bodies {
    /// The body of a request of `principal`.
    ///
    /// # Errors
    /// 413 where it is too long, 408 where it stands still, 503 where the principal has too much in memory, 400 where it
    /// breaks off. What was read is dropped.
    pub(super) async fn read(&self, principal: &Principal, headers: &HeaderMap, body: Body) -> Result<Bytes, Response> {
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|length| length > MAX_LINE) {
            return Err(too_long());
        }
        let mut held = self.held.take(principal, 0).map_err(too_much)?;
        let (mut body, mut read) = (body, Vec::new());
        loop {
            // A frame that is dropped with its time-out is part of a body that nobody reads any more.
            let frame = match tokio::time::timeout(self.patience, body.frame()).await {
                Err(_) => return Err(stands_still(self.patience, read.len())),
                Ok(None) => return Ok(read.into()),
                Ok(Some(frame)) => frame.map_err(|error| broke_off(&error))?,
            };
            // Trailers say nothing that is asked for.
            let Ok(data) = frame.into_data() else { continue };
            if read.len() + data.len() > MAX_LINE {
                return Err(too_long());
            }
            held.grow(data.len()).map_err(too_much)?;
            read.extend_from_slice(&data);
        }
    }
}

fn too_long() -> Response {
    let message = format!("the body is longer than {MAX_LINE} bytes; put long material in a file");
    closing(StatusCode::PAYLOAD_TOO_LARGE, message)
}

fn stands_still(patience: Duration, bytes: usize) -> Response {
    let message = format!(
        "the body stood still for {} s after {bytes} bytes; send it without a pause \
         (mcp_server.http.body_timeout_sec sets how long)",
        patience.as_secs_f64()
    );
    closing(StatusCode::REQUEST_TIMEOUT, message)
}

fn too_much(exceeded: Exceeded) -> Response {
    let message = format!("requests that are not complete hold as many bytes as {exceeded}; send fewer at once");
    let mut response = closing(StatusCode::SERVICE_UNAVAILABLE, message);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn broke_off(error: &axum::Error) -> Response {
    closing(StatusCode::BAD_REQUEST, format!("the body broke off: {error}"))
}

/// A refusal after which the connection ends: the rest of the body is not read.
fn closing(status: StatusCode, message: String) -> Response {
    let mut response = refusal(status, &WireError::invalid_request(message));
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;

    use super::*;

    fn bodies(limit: usize, each: usize) -> Bodies {
        Bodies { patience: Duration::from_secs(30), held: Shares::new(limit, each, 2) }
    }

    async fn status(bodies: &Bodies, who: &str, body: Body) -> u16 {
        let read = bodies.read(&Principal::Token(who.into()), &HeaderMap::new(), body).await;
        read.map_or_else(|refused| refused.status().as_u16(), |_| 200)
    }

    /// Some bytes, and then nothing for ever.
    fn halting(bytes: usize) -> Body {
        let first = stream::iter([Ok::<_, Infallible>(vec![b'x'; bytes])]);
        Body::from_stream(futures_util::StreamExt::chain(first, stream::pending()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stands_still_ends_its_request_and_frees_its_bytes() {
        let bodies = bodies(100, 60);
        assert_eq!(status(&bodies, "ada", halting(50)).await, 408);
        assert_eq!(status(&bodies, "ada", Body::from("x".repeat(60))).await, 200);
        assert_eq!(status(&bodies, "ada", Body::from("x".repeat(61))).await, 503);
    }

    #[tokio::test(start_paused = true)]
    async fn what_one_has_sent_by_halves_does_not_keep_others_out() {
        let bodies = bodies(100, 60);
        let held = bodies.held.take(&Principal::Token("ada".into()), 60).unwrap();
        assert_eq!(status(&bodies, "ada", Body::from("x")).await, 503);
        assert_eq!(status(&bodies, "bob", Body::from("x".repeat(40))).await, 200);
        drop(held);
        assert_eq!(status(&bodies, "ada", Body::from("x")).await, 200);
    }
}
