//! Reading a [`Cause`] from what a provider said, and which causes pass by themselves.
//!
//! How often and after which pause something is tried again is `remote::failure`'s.

use openoxide_llm::Cause;

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

/// Reads what a provider said. Codes that say more than a status win over it; a general one does not.
pub(crate) fn read(status: Option<u16>, code: Option<&str>, message: &str) -> Cause {
    let code = code.and_then(|code| CODES.iter().find(|(known, _)| *known == code)).map(|(_, cause)| *cause);
    if matches!(code, Some(Cause::Quota | Cause::ContextLength | Cause::ContentPolicy)) {
        return code.unwrap_or(Cause::BadRequest);
    }
    let message = message.to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    // A 401 or a 429 that happens to speak of contexts is still what its status says.
    if matches!(status, None | Some(400 | 413 | 422 | 500)) && says(&TOO_LONG) {
        return Cause::ContextLength;
    }
    if matches!(status, None | Some(400 | 402 | 403 | 429)) && says(&NO_CREDIT) {
        return Cause::Quota;
    }
    match status {
        Some(401) => Cause::Auth,
        Some(402) => Cause::Quota,
        Some(403) => Cause::Forbidden,
        Some(404) => Cause::NotFound,
        Some(413) => Cause::ContextLength,
        Some(429) => Cause::RateLimited,
        Some(408 | 409 | 500..=599) => Cause::Unavailable,
        Some(300..=399) => Cause::WrongServer,
        Some(_) => code.unwrap_or(Cause::BadRequest),
        None => code.unwrap_or(Cause::Unavailable),
    }
}

/// Whether the same request may succeed a little later.
pub(crate) fn passes(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::RateLimited | Cause::Unavailable | Cause::Timeout | Cause::Refused | Cause::Unreachable | Cause::Broken
    )
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
            assert_eq!(read(status, code, message), expected, "{status:?} {code:?} {message}");
        }
    }

    #[test]
    fn nothing_that_a_person_must_mend_is_tried_again() {
        for (_, cause) in CODES {
            assert!(cause.hint().is_some(), "{cause:?}");
        }
        for cause in [Cause::Config, Cause::Auth, Cause::Quota, Cause::ContextLength, Cause::WrongServer] {
            assert!(!passes(cause), "{cause:?}");
        }
    }
}
