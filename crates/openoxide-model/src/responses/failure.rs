//! What went wrong with an attempt, and whether another may help. Decides nothing about counts; `stream` does.
//!
//! | what | another attempt |
//! |---|---|
//! | refused or reset connection, 408, 429, 5xx | yes, out of `request_max_retries` |
//! | broken or silent stream, `response.failed`, `error`, `response.incomplete` without a reason | yes, out of `stream_max_retries` |
//! | any other status; quota, context length, invalid prompt; `response.incomplete` with a reason; no head in time | no |

use std::time::Duration;

use reqwest::{StatusCode, header::HeaderMap};
use serde_json::Value;

use super::decode::End;
use crate::ModelError;

/// First pause; each further one is twice as long.
const FIRST_DELAY: Duration = Duration::from_millis(200);
/// Longest pause of our own choosing.
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// Longest pause a provider can ask for. One that asks for more is taken at its word that it cannot answer now.
const LONGEST_ASKED: Duration = Duration::from_secs(60);
/// Longest part of an error page that is shown.
const SHOWN: usize = 500;
/// Codes that stay true however often the request is sent.
const FATAL_CODES: [&str; 8] = [
    "insufficient_quota",
    "usage_not_included",
    "context_length_exceeded",
    "invalid_prompt",
    "invalid_request_error",
    "invalid_api_key",
    "model_not_found",
    "cyber_policy",
];

/// Which of the two retry counts an attempt is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Budget {
    Request,
    Stream,
}

/// A failed attempt.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: ModelError,
    /// `None`: the same request would fail again.
    pub(super) retry: Option<Budget>,
    /// How long the provider asks to wait.
    pub(super) after: Option<Duration>,
}

impl Failure {
    pub(super) fn fatal(error: ModelError) -> Self {
        Self { error, retry: None, after: None }
    }

    pub(super) fn retry(budget: Budget, error: ModelError) -> Self {
        Self { error, retry: Some(budget), after: None }
    }

    /// An HTTP error with as much of its body as was read.
    pub(super) fn from_status(provider: &str, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let (code, message) = read_body(body);
        let message = message.unwrap_or_else(|| match headers.get("location").and_then(|to| to.to_str().ok()) {
            Some(to) => format!("redirected to {to}, which is not followed; put the final address into base_url"),
            None => status.canonical_reason().unwrap_or("no reason given").to_lowercase(),
        });
        let is_fatal = code.as_deref().is_some_and(|code| FATAL_CODES.contains(&code));
        let may_pass = matches!(status.as_u16(), 408 | 429 | 500..=599);
        let after = asked_delay(headers).or_else(|| delay_in(&message));
        let error = ModelError::Status { provider: provider.to_owned(), status: status.as_u16(), code, message };
        if is_fatal || !may_pass {
            return Self::fatal(error);
        }
        Self { error, retry: Some(Budget::Request), after }.unless_too_long()
    }

    /// A stream that ended by its own word; `None` for the good end.
    pub(super) fn from_end(provider: &str, url: &str, end: &End) -> Option<Self> {
        match end {
            End::Completed => None,
            End::Incomplete(Some(reason)) => {
                Some(Self::fatal(ModelError::Incomplete { provider: provider.to_owned(), reason: reason.clone() }))
            }
            End::Incomplete(None) => Some(Self::retry(
                Budget::Stream,
                ModelError::Dropped { url: url.to_owned(), reason: "the provider called it incomplete".into() },
            )),
            End::Failed { code, message } => {
                let error =
                    ModelError::Failed { provider: provider.to_owned(), code: code.clone(), message: message.clone() };
                if code.as_deref().is_some_and(|code| FATAL_CODES.contains(&code)) {
                    return Some(Self::fatal(error));
                }
                Some(Self { error, retry: Some(Budget::Stream), after: delay_in(message) }.unless_too_long())
            }
        }
    }

    fn unless_too_long(mut self) -> Self {
        if self.after.is_some_and(|after| after > LONGEST_ASKED) {
            self.retry = None;
        }
        self
    }
}

/// The pause before retry number `n` (from 0): 200 ms x 2^n, a tenth more or less so that many clients do not come
/// back at once.
pub(super) fn backoff(n: u32) -> Duration {
    let delay = FIRST_DELAY.saturating_mul(2u32.saturating_pow(n)).min(LONGEST_DELAY);
    delay.mul_f64(0.9 + 0.2 * fastrand::f64())
}

/// `retry-after-ms`, or `retry-after` in seconds. The form with a date is not read.
fn asked_delay(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The delay in a message like `Please try again in 1.5s`, in `s` or `ms`.
fn delay_in(message: &str) -> Option<Duration> {
    let (_, rest) = message.split_once("try again in ")?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number: f64 = rest[..end].parse().ok()?;
    let unit = rest[end..].trim_start();
    let seconds = if unit.starts_with("ms") {
        number / 1000.0
    } else if unit.starts_with('s') {
        number
    } else {
        return None;
    };
    Duration::try_from_secs_f64(seconds).ok()
}

/// The code and the message of an error body in any of the forms providers use.
fn read_body(body: &[u8]) -> (Option<String>, Option<String>) {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    if let Ok(json) = serde_json::from_slice::<Value>(body) {
        let error = json.get("error").filter(|error| error.is_object()).unwrap_or(&json);
        let code = text(&error["code"]).or_else(|| text(&error["type"]));
        let message = text(&error["message"]).or_else(|| text(&json["error"])).or_else(|| text(&json["detail"]));
        return (code, message.or_else(|| shown(body)));
    }
    (None, shown(body))
}

/// The beginning of a body that says nothing we know, unless it is a page for a browser.
fn shown(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if text.is_empty() || text.starts_with('<') {
        return None;
    }
    let cut = text.char_indices().nth(SHOWN).map_or(text.len(), |(at, _)| at);
    Some(if cut < text.len() { format!("{}...", &text[..cut]) } else { text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Failure {
        let headers = headers
            .iter()
            .map(|(name, value)| (reqwest::header::HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        Failure::from_status("p", StatusCode::from_u16(status).unwrap(), &headers, body.as_bytes())
    }

    #[test]
    fn statuses_are_told_apart() {
        for (code, retried) in [(400, false), (401, false), (403, false), (404, false), (307, false)] {
            assert_eq!(status(code, &[], "").retry.is_some(), retried, "{code}");
        }
        for code in [408, 429, 500, 502, 503, 529] {
            assert_eq!(status(code, &[], "").retry, Some(Budget::Request), "{code}");
        }
        assert!(status(429, &[], r#"{"error":{"type":"insufficient_quota","message":"m"}}"#).retry.is_none());
    }

    #[test]
    fn the_providers_own_words_are_kept() {
        for (body, message) in [
            (r#"{"error":{"message":"bad model","code":null}}"#, "p answered 500: bad model"),
            (r#"{"error":"plain"}"#, "p answered 500: plain"),
            (r#"{"detail":"django"}"#, "p answered 500: django"),
            ("some text", "p answered 500: some text"),
            ("<html></html>", "p answered 500: internal server error"),
            ("", "p answered 500: internal server error"),
        ] {
            assert_eq!(status(500, &[], body).error.to_string(), message);
        }
        let redirect = status(307, &[("location", "https://elsewhere/")], "").error.to_string();
        assert!(redirect.contains("https://elsewhere/"), "{redirect}");
    }

    #[test]
    fn asked_delays_are_honoured_up_to_a_minute() {
        assert_eq!(status(429, &[("retry-after", "7")], "").after, Some(Duration::from_secs(7)));
        assert_eq!(
            status(429, &[("retry-after-ms", "70"), ("retry-after", "7")], "").after,
            Some(Duration::from_millis(70))
        );
        assert_eq!(status(429, &[], "try again in 1.5s please").after, Some(Duration::from_millis(1500)));
        assert_eq!(status(503, &[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")], "").after, None);
        assert!(status(429, &[("retry-after", "61")], "").retry.is_none());
    }

    #[test]
    fn ends_are_told_apart() {
        let end = |code: &str| {
            let end = End::Failed { code: Some(code.into()), message: "try again in 20ms".into() };
            Failure::from_end("p", "u", &end).unwrap()
        };
        assert!(end("context_length_exceeded").retry.is_none());
        let limited = end("rate_limit_exceeded");
        assert_eq!((limited.retry, limited.after), (Some(Budget::Stream), Some(Duration::from_millis(20))));
        assert!(Failure::from_end("p", "u", &End::Completed).is_none());
        assert!(
            Failure::from_end("p", "u", &End::Incomplete(Some("max_output_tokens".into()))).unwrap().retry.is_none()
        );
        assert!(Failure::from_end("p", "u", &End::Incomplete(None)).unwrap().retry.is_some());
    }

    #[test]
    fn pauses_double_within_a_tenth() {
        for (n, ms) in [(0, 200.0), (1, 400.0), (4, 3200.0), (60, 30_000.0)] {
            let ratio = backoff(n).as_secs_f64() * 1000.0 / ms;
            assert!((0.9..=1.1).contains(&ratio), "{n}: {ratio}");
        }
    }
}
