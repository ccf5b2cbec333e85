//! The one error of this crate. Every message can be read by a person as it is; [`ModelError::kind`] is for whoever
//! maps it to a wire.

use std::time::Duration;

/// What sort of failure an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request or the configuration is wrong; the same request fails again.
    Input,
    /// The provider does not allow it (key, account, content policy).
    Denied,
    /// The provider could not be reached or could not answer; later it may.
    Unavailable,
    /// A defect of this crate.
    Internal,
}

/// Why a response could not be had, or not to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The provider needs a key and its variable is not set.
    #[error("no API key: set {variable}")]
    MissingKey {
        /// The environment variable.
        variable: String,
    },
    /// The provider's configuration cannot be used.
    #[error("{reason}")]
    Config {
        /// The value, what was allowed, what to do.
        reason: String,
    },
    /// No connection, or it broke before the response began, as often as it was tried.
    #[error("could not reach {url}: {reason}")]
    Unreachable {
        /// The URL without its query.
        url: String,
        /// The innermost cause.
        reason: String,
        /// The client's error.
        #[source]
        source: reqwest::Error,
    },
    /// No head of a response within [`crate::ProviderConfig::header_timeout`].
    #[error("{url} did not begin to answer within {} s", limit.as_secs_f32())]
    HeaderTimeout {
        /// The URL without its query.
        url: String,
        /// The limit.
        limit: Duration,
    },
    /// The provider answered with an HTTP error.
    #[error("{provider} answered {status}: {message}")]
    Status {
        /// The provider's id.
        provider: String,
        /// HTTP status.
        status: u16,
        /// The provider's own code (`insufficient_quota`), where it gave one.
        code: Option<String>,
        /// The provider's own words.
        message: String,
    },
    /// The provider began a stream and ended it with an error of its own.
    #[error("{provider} failed the response: {message}")]
    Failed {
        /// The provider's id.
        provider: String,
        /// The provider's own code (`context_length_exceeded`), where it gave one.
        code: Option<String>,
        /// The provider's own words.
        message: String,
    },
    /// The provider stopped before the response was whole, on purpose.
    #[error("{provider} stopped the response early: {reason}")]
    Incomplete {
        /// The provider's id.
        provider: String,
        /// The provider's word for it (`max_output_tokens`, `content_filter`).
        reason: String,
    },
    /// The stream ended without its last event.
    #[error("the stream from {url} ended before the response was complete: {reason}")]
    Dropped {
        /// The URL without its query.
        url: String,
        /// How it ended.
        reason: String,
    },
    /// Silence within a stream for longer than [`crate::ProviderConfig::stream_idle_timeout`].
    #[error("{url} sent nothing for {} s", limit.as_secs_f32())]
    IdleTimeout {
        /// The URL without its query.
        url: String,
        /// The limit.
        limit: Duration,
    },
    /// The stream holds an event that is too long to keep.
    #[error("the stream from {url} cannot be read: {source}")]
    Sse {
        /// The URL without its query.
        url: String,
        /// What is wrong with it.
        #[source]
        source: crate::SseError,
    },
    /// The request could not be written as JSON.
    #[error("the request could not be written as JSON: {source}")]
    Encode {
        /// What serde says.
        #[source]
        source: serde_json::Error,
    },
}

impl ModelError {
    /// What sort of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::MissingKey { .. } | Self::Config { .. } => ErrorKind::Input,
            Self::Status { status, code, .. } => match (status, code.as_deref()) {
                (_, Some("insufficient_quota")) | (401..=403, _) => ErrorKind::Denied,
                (408 | 429 | 500..=599, _) => ErrorKind::Unavailable,
                _ => ErrorKind::Input,
            },
            Self::Failed { code, .. } => match code.as_deref() {
                Some("insufficient_quota" | "usage_not_included") => ErrorKind::Denied,
                Some("context_length_exceeded" | "invalid_prompt" | "invalid_request_error" | "model_not_found") => {
                    ErrorKind::Input
                }
                _ => ErrorKind::Unavailable,
            },
            Self::Incomplete { reason, .. } if reason == "content_filter" => ErrorKind::Denied,
            Self::Incomplete { .. } => ErrorKind::Input,
            Self::Unreachable { .. }
            | Self::HeaderTimeout { .. }
            | Self::Dropped { .. }
            | Self::IdleTimeout { .. }
            | Self::Sse { .. } => ErrorKind::Unavailable,
            Self::Encode { .. } => ErrorKind::Internal,
        }
    }

    /// What the reader can do about it, as a sentence apart from the message.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::MissingKey { .. } => Some(
                "set the variable where openoxide is started, or choose a provider without a key: -c model_provider=offline",
            ),
            Self::Unreachable { .. } => {
                Some("check the provider's base_url, that the server runs, and the network or proxy in between")
            }
            Self::HeaderTimeout { .. } | Self::IdleTimeout { .. } => {
                Some("the provider may be overloaded; stream_idle_timeout_ms sets how long silence is borne")
            }
            Self::Status { status, code, .. } => match (status, code.as_deref()) {
                (_, Some("insufficient_quota")) => {
                    Some("the account has no credit left; see the provider's billing page")
                }
                (_, Some("context_length_exceeded")) => Some(CONTEXT_HINT),
                (401, _) => Some("the API key is missing, wrong or expired; check the variable that env_key names"),
                (403, _) => Some("the API key is not allowed to use this model or endpoint"),
                (404, _) => Some("check the model's name and the provider's base_url"),
                (429, _) => Some("the provider's rate limit is reached; wait, or use another model"),
                _ => None,
            },
            Self::Failed { code, .. } => match code.as_deref() {
                Some("insufficient_quota") => Some("the account has no credit left; see the provider's billing page"),
                Some("context_length_exceeded") => Some(CONTEXT_HINT),
                _ => None,
            },
            Self::Incomplete { reason, .. } if reason == "max_output_tokens" => {
                Some("ask for less at once, or for the answer in parts")
            }
            Self::Config { .. }
            | Self::Incomplete { .. }
            | Self::Dropped { .. }
            | Self::Sse { .. }
            | Self::Encode { .. } => None,
        }
    }
}

const CONTEXT_HINT: &str =
    "the thread is longer than the model can read; start a new thread or use a model with a larger window";

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, code: Option<&str>) -> ModelError {
        ModelError::Status { provider: "p".into(), status, code: code.map(Into::into), message: "m".into() }
    }

    #[test]
    fn kinds_follow_status_and_code() {
        assert_eq!(status(401, None).kind(), ErrorKind::Denied);
        assert_eq!(status(400, None).kind(), ErrorKind::Input);
        assert_eq!(status(503, None).kind(), ErrorKind::Unavailable);
        assert_eq!(status(429, None).kind(), ErrorKind::Unavailable);
        assert_eq!(status(429, Some("insufficient_quota")).kind(), ErrorKind::Denied);
        assert_eq!(ModelError::MissingKey { variable: "K".into() }.kind(), ErrorKind::Input);
    }

    #[test]
    fn a_missing_key_names_its_variable() {
        let error = ModelError::MissingKey { variable: "OPENAI_API_KEY".into() };
        assert_eq!(error.to_string(), "no API key: set OPENAI_API_KEY");
        assert!(error.hint().unwrap().contains("offline"));
    }
}
