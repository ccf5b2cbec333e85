//! Why a request failed, in one word, whatever dialect said so. The table of `docs/providers.md` is this file in prose.
//!
//! Here: reading a cause from a status, a code and a message; which causes pass by themselves; what a person can do.
//! Not here: how often and after which pause something is tried again (`remote::failure`).

use crate::ErrorKind;

/// Why a response could not be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The provider's configuration cannot be used, its key included.
    Config,
    /// The key is missing, wrong or expired (401).
    Auth,
    /// The key is good and not allowed to do this (403).
    Forbidden,
    /// The account has no credit or its spending limit is reached.
    Quota,
    /// No such model or no such address (404).
    NotFound,
    /// The provider does not understand or accept the request (400 and its like).
    BadRequest,
    /// The history is longer than the model can read. A shorter one can succeed.
    ContextLength,
    /// The model wrote as much as it may in one response.
    OutputLimit,
    /// The provider's content policy, or the model by way of it, refused.
    ContentPolicy,
    /// Too many requests or tokens at once (429).
    RateLimited,
    /// The provider has trouble of its own (408, 409, 5xx, 529).
    Unavailable,
    /// Nothing came for longer than the configured limit.
    Timeout,
    /// Nothing listens at the address.
    Refused,
    /// The host has no address, no route, or cannot be trusted (TLS).
    Unreachable,
    /// The stream broke off or cannot be read.
    Broken,
    /// What answers is no model provider: a login page, a proxy, another service.
    WrongServer,
    /// A defect of this crate.
    Internal,
}

/// Codes and types of error objects, as OpenAI, Anthropic and the servers compatible with them use them.
const CODES: [(&str, Cause); 36] = [
    ("insufficient_quota", Cause::Quota),
    ("billing_hard_limit_reached", Cause::Quota),
    ("billing_not_active", Cause::Quota),
    ("billing_error", Cause::Quota),
    ("usage_not_included", Cause::Quota),
    ("usage_limit_reached", Cause::Quota),
    ("context_length_exceeded", Cause::ContextLength),
    ("exceed_context_size_error", Cause::ContextLength),
    ("request_too_large", Cause::ContextLength),
    ("string_above_max_length", Cause::ContextLength),
    ("invalid_prompt", Cause::ContentPolicy),
    ("content_filter", Cause::ContentPolicy),
    ("content_policy_violation", Cause::ContentPolicy),
    ("image_content_policy_violation", Cause::ContentPolicy),
    ("cyber_policy", Cause::ContentPolicy),
    ("bio_policy", Cause::ContentPolicy),
    ("invalid_api_key", Cause::Auth),
    ("authentication_error", Cause::Auth),
    ("permission_error", Cause::Forbidden),
    ("permission_denied", Cause::Forbidden),
    ("model_not_found", Cause::NotFound),
    ("not_found_error", Cause::NotFound),
    ("DeploymentNotFound", Cause::NotFound),
    ("rate_limit_exceeded", Cause::RateLimited),
    ("rate_limit_error", Cause::RateLimited),
    ("too_many_requests", Cause::RateLimited),
    ("slow_down", Cause::RateLimited),
    ("server_is_overloaded", Cause::Unavailable),
    ("overloaded_error", Cause::Unavailable),
    ("timeout_error", Cause::Unavailable),
    ("api_error", Cause::Unavailable),
    ("server_error", Cause::Unavailable),
    ("invalid_request_error", Cause::BadRequest),
    ("invalid_image", Cause::BadRequest),
    ("unsupported_parameter", Cause::BadRequest),
    ("invalid_encrypted_content", Cause::BadRequest),
];

/// How servers say that a history is too long when they have no code for it; lower case.
const TOO_LONG: [&str; 11] = [
    "context length",
    "context window",
    "context size",
    "context_length",
    "prompt is too long",
    "input is too long",
    "input length and `max_tokens` exceed",
    "input tokens exceed",
    "too many input tokens",
    "maximum prompt length",
    "reduce the length of the messages",
];

/// How servers say that there is no money left when they have no code for it; lower case.
const NO_CREDIT: [&str; 4] =
    ["credit balance is too low", "insufficient credits", "insufficient balance", "requires more credits"];

impl Cause {
    /// Reads what a provider said. Codes that say more than a status win over it; a general one does not.
    pub(crate) fn read(status: Option<u16>, code: Option<&str>, message: &str) -> Self {
        let code = code.and_then(|code| CODES.iter().find(|(known, _)| *known == code)).map(|(_, cause)| *cause);
        if matches!(code, Some(Self::Quota | Self::ContextLength | Self::ContentPolicy)) {
            return code.unwrap_or(Self::BadRequest);
        }
        let message = message.to_lowercase();
        let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
        // A 401 or a 429 that happens to speak of contexts is still what its status says.
        if matches!(status, None | Some(400 | 413 | 422 | 500)) && says(&TOO_LONG) {
            return Self::ContextLength;
        }
        if matches!(status, None | Some(400 | 402 | 403 | 429)) && says(&NO_CREDIT) {
            return Self::Quota;
        }
        match status {
            Some(401) => Self::Auth,
            Some(402) => Self::Quota,
            Some(403) => Self::Forbidden,
            Some(404) => Self::NotFound,
            Some(413) => Self::ContextLength,
            Some(429) => Self::RateLimited,
            Some(408 | 409 | 500..=599) => Self::Unavailable,
            Some(300..=399) => Self::WrongServer,
            Some(_) => code.unwrap_or(Self::BadRequest),
            None => code.unwrap_or(Self::Unavailable),
        }
    }

    /// Whether the same request may succeed a little later.
    pub(crate) fn passes(self) -> bool {
        matches!(
            self,
            Self::RateLimited | Self::Unavailable | Self::Timeout | Self::Refused | Self::Unreachable | Self::Broken
        )
    }

    /// The sort of failure, for whoever maps it to a wire.
    pub fn kind(self) -> ErrorKind {
        match self {
            Self::Config
            | Self::NotFound
            | Self::BadRequest
            | Self::ContextLength
            | Self::OutputLimit
            | Self::WrongServer => ErrorKind::Input,
            Self::Auth | Self::Forbidden | Self::Quota | Self::ContentPolicy => ErrorKind::Denied,
            Self::RateLimited
            | Self::Unavailable
            | Self::Timeout
            | Self::Refused
            | Self::Unreachable
            | Self::Broken => ErrorKind::Unavailable,
            Self::Internal => ErrorKind::Internal,
        }
    }

    /// What a person can do about it.
    pub fn hint(self) -> Option<&'static str> {
        Some(match self {
            Self::Auth => "the API key is missing, wrong or expired; check the variable that env_key names",
            Self::Forbidden => "the API key is not allowed to use this model or endpoint",
            Self::Quota => "the account has no credit left; see the provider's billing page",
            Self::NotFound => "check the model's name and the provider's base_url",
            Self::BadRequest => {
                "the provider does not accept the request; check that wire_api is what it speaks and that the model takes tools"
            }
            Self::ContextLength => {
                "the thread is longer than the model can read; start a new thread or use a model with a larger window"
            }
            Self::OutputLimit => "ask for less at once, or for the answer in parts",
            Self::ContentPolicy => "put the task in other words, or use another model",
            Self::RateLimited => "the provider's rate limit is reached; wait, or use another model",
            Self::Unavailable => "the provider has trouble; wait, or use another one",
            Self::Timeout => "the provider may be overloaded; stream_idle_timeout_ms sets how long silence is borne",
            Self::Refused => "check that the server runs and that base_url has its host and port",
            Self::Unreachable => "check the host in base_url, and the network or proxy in between",
            Self::Broken => "the connection broke off as often as it was tried; check the network or proxy in between",
            Self::WrongServer => "check base_url; a login page, a proxy or another service answers there",
            Self::Config | Self::Internal => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_read_from_what_providers_say() {
        for (status, code, message, expected) in [
            (Some(429), Some("insufficient_quota"), "", Cause::Quota),
            (Some(429), None, "slow down", Cause::RateLimited),
            (
                Some(400),
                Some("invalid_request_error"),
                "prompt is too long: 210000 tokens > 200000",
                Cause::ContextLength,
            ),
            (Some(400), Some("invalid_request_error"), "Your credit balance is too low", Cause::Quota),
            (Some(400), Some("invalid_request_error"), "messages.0: bad", Cause::BadRequest),
            (Some(400), None, "This model's maximum context length is 4096 tokens", Cause::ContextLength),
            (Some(400), None, "the request exceeds the available context size", Cause::ContextLength),
            (Some(402), None, "pay", Cause::Quota),
            (Some(401), Some("authentication_error"), "bad context length", Cause::Auth),
            (Some(409), None, "", Cause::Unavailable),
            (Some(529), Some("overloaded_error"), "Overloaded", Cause::Unavailable),
            (Some(503), Some("invalid_request_error"), "", Cause::Unavailable),
            (Some(418), None, "", Cause::BadRequest),
            (Some(307), None, "", Cause::WrongServer),
            (Some(404), Some("model_not_found"), "", Cause::NotFound),
            (None, Some("overloaded_error"), "", Cause::Unavailable),
            (None, Some("invalid_request_error"), "", Cause::BadRequest),
            (None, Some("never heard of"), "", Cause::Unavailable),
            (None, Some("context_length_exceeded"), "", Cause::ContextLength),
        ] {
            assert_eq!(Cause::read(status, code, message), expected, "{status:?} {code:?} {message}");
        }
    }

    #[test]
    fn nothing_that_a_person_must_mend_is_tried_again() {
        for (_, cause) in CODES {
            assert!(cause.hint().is_some(), "{cause:?}");
            assert!(!cause.passes() || cause.kind() == ErrorKind::Unavailable, "{cause:?}");
        }
        assert!(!Cause::Quota.passes() && !Cause::ContextLength.passes() && !Cause::WrongServer.passes());
    }
}
