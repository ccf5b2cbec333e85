//! Why a request failed, in one word, whatever dialect said so. The table of `docs/providers.md` is this file in prose.
//!
//! How a cause is read from a provider's answer, and which causes pass by themselves, is with the providers.

/// Why a response could not be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// A defect of this program.
    Internal,
}

impl Cause {
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
