//! What went wrong with an attempt, and whether another may help. Decides nothing about counts; `stream` does.
//!
//! | what | another attempt |
//! |---|---|
//! | refused connection, unknown host, no connection in time | at most two more |
//! | connection reset before the head, 408, 409, 429, 5xx | out of `request_max_retries` |
//! | broken stream, an error event that may pass, an end without a reason | out of `stream_max_retries` |
//! | a stream that fell silent | at most one more |
//! | any other status; quota, context length, policy; an end with a reason; no head in time; no event stream | no |

use reqwest::{StatusCode, header::HeaderMap};
use serde_json::Value;

use std::time::Duration;

use super::{
    delay::{LONGEST_ASKED, asked_delay, delay_in},
    events::End,
};
use crate::{Cause, ModelError, ProviderConfig, http};

/// Longest part of an error page that is shown.
const SHOWN: usize = 500;
/// Attempts more at an address where nothing listens: a server that is being restarted comes back in such a time.
const CONNECT_RETRIES: u32 = 2;
/// Attempts more after a silence, each of which may cost the whole limit again.
const SILENCE_RETRIES: u32 = 1;

/// Which count an attempt is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Budget {
    Connect,
    Request,
    Stream,
    Silence,
}

impl Budget {
    /// How many more attempts it allows.
    pub(super) fn limit(self, config: &ProviderConfig) -> u32 {
        match self {
            Self::Connect => config.request_max_retries.min(CONNECT_RETRIES),
            Self::Request => config.request_max_retries,
            Self::Stream => config.stream_max_retries,
            Self::Silence => config.stream_max_retries.min(SILENCE_RETRIES),
        }
    }
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

    /// The client got no response.
    pub(super) fn from_send(url: &str, error: reqwest::Error) -> Self {
        let reason = http::root_cause(&error);
        let (cause, retry) = match http::trouble(&error) {
            http::Trouble::Ours | http::Trouble::Untrusted => (Cause::Unreachable, None),
            http::Trouble::Refused => (Cause::Refused, Some(Budget::Connect)),
            http::Trouble::ConnectTimeout => (Cause::Timeout, Some(Budget::Connect)),
            http::Trouble::NoRoute => (Cause::Unreachable, Some(Budget::Connect)),
            http::Trouble::Reset => (Cause::Broken, Some(Budget::Request)),
        };
        let error = ModelError::Unreachable { url: url.to_owned(), cause, reason, source: error.without_url().into() };
        Self { error, retry, after: None }
    }

    /// An HTTP error with as much of its body as was read.
    pub(super) fn from_status(config: &ProviderConfig, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let (code, message) = read_body(body);
        let message = message.unwrap_or_else(|| match headers.get("location").and_then(|to| to.to_str().ok()) {
            Some(to) => format!("redirected to {to}, which is not followed; put the final address into base_url"),
            None => status.canonical_reason().unwrap_or("no reason given").to_lowercase(),
        });
        let message = without_secrets(config, &message);
        let code = code.map(|code| without_secrets(config, &code));
        let cause = crate::cause::read(Some(status.as_u16()), code.as_deref(), &message);
        let after = asked_delay(status, headers).or_else(|| delay_in(&message));
        let wait = Wait::new(cause, after);
        let error = ModelError::Status {
            provider: config.id.clone(),
            status: status.as_u16(),
            cause,
            code,
            message: wait.told(message),
        };
        Self { error, retry: wait.is_worth_it().then_some(Budget::Request), after }
    }

    /// A body that should have been a stream and is a JSON document: an error that came with a good status.
    pub(super) fn from_document(config: &ProviderConfig, url: &str, body: &[u8]) -> Self {
        let is_error = serde_json::from_slice::<Value>(body).is_ok_and(|json| !json["error"].is_null());
        if !is_error {
            return Self::fatal(ModelError::NotAStream {
                url: url.to_owned(),
                content_type: "application/json".to_owned(),
            });
        }
        let (code, message) = read_body(body);
        Self::from_error(config, code, message.unwrap_or_else(|| "no reason given".to_owned()))
    }

    /// A stream that ended by its own word; `None` for the good end.
    pub(super) fn from_end(config: &ProviderConfig, url: &str, end: &End) -> Option<Self> {
        match end {
            End::Completed => None,
            End::Incomplete { cause, reason: Some(reason) } => Some(Self::fatal(ModelError::Incomplete {
                provider: config.id.clone(),
                cause: *cause,
                reason: without_secrets(config, reason),
            })),
            End::Incomplete { reason: None, .. } => Some(Self::retry(
                Budget::Stream,
                ModelError::Dropped { url: url.to_owned(), reason: "the provider called it incomplete".into() },
            )),
            End::Failed { code, message } => Some(Self::from_error(config, code.clone(), message.clone())),
        }
    }

    /// An error object within a good response.
    fn from_error(config: &ProviderConfig, code: Option<String>, message: String) -> Self {
        let message = without_secrets(config, &message);
        let code = code.map(|code| without_secrets(config, &code));
        // Gateways put the status they got themselves there.
        let status = code.as_deref().and_then(|code| code.parse().ok()).filter(|status| (400..600).contains(status));
        let cause = crate::cause::read(status, code.as_deref(), &message);
        let after = delay_in(&message);
        let wait = Wait::new(cause, after);
        let error = ModelError::Failed { provider: config.id.clone(), cause, code, message: wait.told(message) };
        Self { error, retry: wait.is_worth_it().then_some(Budget::Stream), after }
    }
}

/// Whether a provider's error is worth another attempt, given the pause it asks for.
enum Wait {
    No,
    Yes,
    /// It asks for more than is waited.
    TooLong(Duration),
}

impl Wait {
    fn new(cause: Cause, after: Option<Duration>) -> Self {
        match after {
            _ if !crate::cause::passes(cause) => Self::No,
            Some(after) if after > LONGEST_ASKED => Self::TooLong(after),
            _ => Self::Yes,
        }
    }

    fn is_worth_it(&self) -> bool {
        matches!(self, Self::Yes)
    }

    fn told(&self, message: String) -> String {
        match self {
            Self::TooLong(after) => format!("{message} (it asks to wait {} s)", after.as_secs()),
            _ => message,
        }
    }
}

/// Some servers repeat what they were given, whole, encoded or masked.
fn without_secrets(config: &ProviderConfig, message: &str) -> String {
    config.redactor().redact(message)
}

/// The code and the message of an error body in any of the forms providers use.
fn read_body(body: &[u8]) -> (Option<String>, Option<String>) {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    if let Ok(json) = serde_json::from_slice::<Value>(body) {
        // Some gateways answer with a list of one error.
        let json = json.as_array().and_then(|list| list.first()).unwrap_or(&json);
        let error = json.get("error").filter(|error| error.is_object()).unwrap_or(json);
        let number = |value: &Value| value.as_u64().map(|code| code.to_string());
        let code = text(&error["code"]).or_else(|| text(&error["type"])).or_else(|| number(&error["code"]));
        let message = text(&error["message"]).or_else(|| text(&json["error"])).or_else(|| text(&json["detail"]));
        // A gateway's own message may be empty of content; the one it was given lies deeper.
        let inner = text(&error["metadata"]["raw"]).map(|raw| shorten(raw.trim()));
        let message = match (message, inner) {
            (Some(message), Some(inner)) if !message.contains(&inner) => Some(format!("{message}: {inner}")),
            (message, inner) => message.or(inner),
        };
        return (code, message.or_else(|| shown(body)));
    }
    (None, shown(body))
}

/// The beginning of a body that says nothing we know, unless it is a page for a browser.
fn shown(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    (!text.is_empty() && !text.starts_with('<')).then(|| shorten(text))
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    fn config() -> ProviderConfig {
        let mut config = ProviderConfig::new("p", "http://x/v1");
        config.api_key = Some(Secret::new("sk-12345678"));
        config
    }

    fn status(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Failure {
        let headers = headers
            .iter()
            .map(|(name, value)| (reqwest::header::HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        Failure::from_status(&config(), StatusCode::from_u16(status).unwrap(), &headers, body.as_bytes())
    }

    #[test]
    fn statuses_are_told_apart() {
        for (code, retried) in [(400, false), (401, false), (403, false), (404, false), (413, false), (307, false)] {
            assert_eq!(status(code, &[], "").retry.is_some(), retried, "{code}");
        }
        for code in [408, 409, 429, 500, 502, 503, 504, 529] {
            assert_eq!(status(code, &[], "").retry, Some(Budget::Request), "{code}");
        }
        assert!(status(429, &[], r#"{"error":{"type":"insufficient_quota","message":"m"}}"#).retry.is_none());
    }

    #[test]
    fn the_providers_own_words_are_kept() {
        for (body, message) in [
            (r#"{"error":{"message":"bad model","code":null}}"#, "p answered 500: bad model"),
            (r#"{"type":"error","error":{"type":"api_error","message":"anthropic"}}"#, "p answered 500: anthropic"),
            (r#"[{"error":{"code":500,"message":"google"}}]"#, "p answered 500: google"),
            (
                r#"{"error":{"code":500,"message":"Provider returned error","metadata":{"raw":"deep"}}}"#,
                "p answered 500: Provider returned error: deep",
            ),
            (r#"{"error":"plain"}"#, "p answered 500: plain"),
            (r#"{"detail":"django"}"#, "p answered 500: django"),
            ("some text", "p answered 500: some text"),
            ("no such key sk-12345678!", "p answered 500: no such key [redacted]!"),
            ("<html></html>", "p answered 500: internal server error"),
            ("", "p answered 500: internal server error"),
        ] {
            assert_eq!(status(500, &[], body).error.to_string(), message);
        }
        let redirect = status(307, &[("location", "https://elsewhere/")], "").error.to_string();
        assert!(redirect.contains("https://elsewhere/"), "{redirect}");
    }

    #[test]
    fn what_was_sent_is_not_repeated_in_any_form() {
        let mut config = config();
        config.base_url = "http://user:pass-of-url@x/v1".into();
        config.http_headers.insert("x-upstream".into(), "Bearer upstream-of-header".into());
        config.query_params.insert("sig".into(), "signature-of-query".into());
        for body in [
            "sk-12345678",
            "Incorrect key: sk-1****5678",
            "Incorrect key: sk-SECRET-KEY****cdef",
            "c2stMTIzNDU2Nzg= and dTpzay0xMjM0NTY3OA==",
            "pass-of-url, upstream-of-header, signature-of-query",
            "see https://user:pw@elsewhere/?key=upstream",
        ] {
            let failure = Failure::from_status(&config, StatusCode::BAD_REQUEST, &HeaderMap::new(), body.as_bytes());
            let ended = End::Failed { code: Some(body.into()), message: body.into() };
            let ended = Failure::from_end(&config, "u", &ended).unwrap();
            for told in [format!("{} {:?}", failure.error, failure.error), format!("{} {:?}", ended.error, ended.error)]
            {
                assert!(told.contains("[redacted]"), "{body}: {told}");
                for part in ["1234", "5678", "cdef", "c2st", "MTIz", "pass-of", "upstream", "signature", "pw@"] {
                    assert!(!told.contains(part), "{body}: {told}");
                }
            }
        }
    }

    #[test]
    fn a_pause_beyond_the_bound_is_told_and_not_waited() {
        let failure = status(429, &[("retry-after", "90")], "slow down");
        assert!(failure.retry.is_none());
        assert_eq!(failure.error.to_string(), "p answered 429: slow down (it asks to wait 90 s)");
        assert_eq!(status(429, &[("retry-after", "7")], "").after, Some(Duration::from_secs(7)));
    }

    #[test]
    fn ends_are_told_apart() {
        let end = |code: &str| {
            let end = End::Failed { code: Some(code.into()), message: "try again in 20ms".into() };
            Failure::from_end(&config(), "u", &end).unwrap()
        };
        assert!(end("context_length_exceeded").retry.is_none());
        assert!(end("404").retry.is_none());
        assert_eq!(end("502").retry, Some(Budget::Stream));
        let limited = end("rate_limit_exceeded");
        assert_eq!((limited.retry, limited.after), (Some(Budget::Stream), Some(Duration::from_millis(20))));
        assert!(Failure::from_end(&config(), "u", &End::Completed).is_none());
        let cut = |reason: Option<&str>| {
            let end = End::Incomplete { cause: Cause::OutputLimit, reason: reason.map(Into::into) };
            Failure::from_end(&config(), "u", &end).unwrap()
        };
        assert!(cut(Some("max_output_tokens")).retry.is_none());
        assert!(cut(None).retry.is_some());
    }

    #[test]
    fn a_document_instead_of_a_stream_is_an_error_of_its_own() {
        let error = Failure::from_document(&config(), "u", br#"{"error":{"code":503,"message":"busy"}}"#);
        assert_eq!((error.error.cause(), error.retry), (Cause::Unavailable, Some(Budget::Stream)));
        let other = Failure::from_document(&config(), "u", b"{}");
        assert_eq!((other.error.cause(), other.retry), (Cause::WrongServer, None));
    }

    #[test]
    fn a_budget_never_exceeds_what_is_configured() {
        let mut config = config();
        for budget in [Budget::Connect, Budget::Request, Budget::Stream, Budget::Silence] {
            assert!(budget.limit(&config) >= 1);
        }
        (config.request_max_retries, config.stream_max_retries) = (0, 0);
        for budget in [Budget::Connect, Budget::Request, Budget::Stream, Budget::Silence] {
            assert_eq!(budget.limit(&config), 0);
        }
    }
}
