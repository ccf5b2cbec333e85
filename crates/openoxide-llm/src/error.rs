//! Why a provider failed. Every message can be read by a person as it is; [`ModelError::cause`]
//! says why in one word.

use std::time::Duration;

use crate::Cause;

/// The error of whatever library a provider speaks through.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

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
        /// [`Cause::Refused`], [`Cause::Timeout`], [`Cause::Broken`] or [`Cause::Unreachable`].
        cause: Cause,
        /// The innermost cause.
        reason: String,
        /// The client's error.
        #[source]
        source: BoxError,
    },
    /// The answer is a success and no event stream.
    #[error("{url} answered with `{content_type}` and no event stream")]
    NotAStream {
        /// The URL without its query.
        url: String,
        /// What it says it is.
        content_type: String,
    },
    /// No head of a response within the provider's limit.
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
        /// What that comes down to.
        cause: Cause,
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
        /// What that comes down to.
        cause: Cause,
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
        /// What that comes down to.
        cause: Cause,
        /// The provider's word for it (`max_output_tokens`, `content_filter`, `refusal`), with its explanation.
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
    /// Silence within a stream for longer than the provider's limit.
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
        source: BoxError,
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
    /// Why, in one word.
    pub fn cause(&self) -> Cause {
        match self {
            Self::MissingKey { .. } | Self::Config { .. } => Cause::Config,
            Self::Unreachable { cause, .. }
            | Self::Status { cause, .. }
            | Self::Failed { cause, .. }
            | Self::Incomplete { cause, .. } => *cause,
            Self::NotAStream { .. } => Cause::WrongServer,
            Self::HeaderTimeout { .. } | Self::IdleTimeout { .. } => Cause::Timeout,
            Self::Dropped { .. } | Self::Sse { .. } => Cause::Broken,
            Self::Encode { .. } => Cause::Internal,
        }
    }

    /// What the reader can do about it, as a sentence apart from the message.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::MissingKey { .. } => Some(
                "set the variable where openoxide is started, or choose a provider without a key: -c model_provider=offline",
            ),
            other => other.cause().hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_key_names_its_variable() {
        let error = ModelError::MissingKey { variable: "OPENAI_API_KEY".into() };
        assert_eq!(error.to_string(), "no API key: set OPENAI_API_KEY");
        assert!(error.hint().unwrap().contains("offline"));
        assert_eq!(error.cause(), Cause::Config);
    }
}
