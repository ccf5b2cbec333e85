//! What the headers of a request must say (MCP 2026-07-28 "Request Metadata", 2025-11-25 "Sending Messages").

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use openoxide_mcp_protocol::{Incoming, MODERN, Message, RequestId, SUPPORTED_VERSIONS, WireError, code};

use super::{refusal, refusal_of};

/// Names the revision of a message.
const PROTOCOL_VERSION: &str = "mcp-protocol-version";

/// How a message is served.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// By itself.
    Modern,
    /// In a session.
    Legacy,
}

/// 400 where a header that has one value comes more than once: who stands in between may have read another of them.
pub(super) fn check_once(headers: &HeaderMap) -> Result<(), Box<Response>> {
    let is_single = |name: &str| {
        name.starts_with("mcp-")
            || matches!(name, "authorization" | "last-event-id" | "content-type" | "origin" | "host")
    };
    let twice = headers.keys().find(|name| is_single(name.as_str()) && headers.get_all(*name).iter().count() > 1);
    match twice {
        None => Ok(()),
        Some(name) => {
            let message = format!("the header {name} comes more than once; send it once");
            Err(Box::new(refusal(StatusCode::BAD_REQUEST, &WireError::invalid_request(message))))
        }
    }
}

/// 415 and 406: a POST is JSON, and takes JSON and event streams.
pub(super) fn check_post(headers: &HeaderMap) -> Result<(), Box<Response>> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !media_type(kind).eq_ignore_ascii_case("application/json") {
        let message = format!("Content-Type is {kind:?}; allowed: application/json");
        return Err(Box::new(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, &WireError::invalid_request(message))));
    }
    check_accept(headers, &["application/json", "text/event-stream"])
}

/// 406 where one of `kinds` is not accepted.
pub(super) fn check_accept(headers: &HeaderMap, kinds: &[&str]) -> Result<(), Box<Response>> {
    let given: Vec<&str> = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let accepted: Vec<&str> = given.iter().flat_map(|value| value.split(',')).map(media_type).collect();
    let takes = |kind: &str| {
        let group = kind.split('/').next().unwrap_or_default();
        accepted.iter().any(|one| {
            one.eq_ignore_ascii_case(kind) || *one == "*/*" || one.strip_suffix("/*").is_some_and(|one| one == group)
        })
    };
    match kinds.iter().find(|kind| !takes(kind)) {
        None => Ok(()),
        Some(missing) => {
            let message =
                format!("Accept is {:?}, which leaves out {missing}; accept {}", given.join(", "), kinds.join(", "));
            Err(Box::new(refusal(StatusCode::NOT_ACCEPTABLE, &WireError::invalid_request(message))))
        }
    }
}

fn media_type(value: &str) -> &str {
    value.split(';').next().unwrap_or_default().trim()
}

/// Which era a message belongs to: what its `_meta` says, else what its header says. For a modern one the headers are
/// checked against the body.
pub(super) fn wire_of(headers: &HeaderMap, message: &Message) -> Result<Wire, Box<Response>> {
    let version = version_of(headers);
    match message {
        Message::Request(request) if request.meta.modern.is_some() => {
            return match check_modern(headers, version, request) {
                None => Ok(Wire::Modern),
                Some(message) => Err(bad_request(Some(&request.id), &WireError::new(code::HEADER_MISMATCH, message))),
            };
        }
        Message::Request(request) if version == Some(MODERN) => {
            let message = format!(
                "the headers say {MODERN}, and params._meta lacks what every request of that version carries: \
                 io.modelcontextprotocol/protocolVersion and io.modelcontextprotocol/clientCapabilities"
            );
            return Err(bad_request(Some(&request.id), &WireError::invalid_params(message)));
        }
        _ if version == Some(MODERN) => return Ok(Wire::Modern),
        Message::Request(_) | Message::Notification { .. } | Message::Response { .. } | Message::Batch(_) => {}
    }
    match version {
        Some(version) if !SUPPORTED_VERSIONS.contains(&version) => {
            Err(bad_request(message.id(), &openoxide_mcp_protocol::unsupported_version(version)))
        }
        _ => Ok(Wire::Legacy),
    }
}

fn version_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(PROTOCOL_VERSION).map(|value| value.to_str().unwrap_or("(not ASCII)"))
}

/// What a refused body is told. Where its version is not served and the header says another, that the two differ comes
/// first.
pub(super) fn told(headers: &HeaderMap, error: WireError) -> WireError {
    let header = version_of(headers);
    let body = error.data.as_deref().and_then(|data| data.get("requested")?.as_str());
    match body {
        Some(body) if error.code == code::UNSUPPORTED_PROTOCOL_VERSION && header != Some(body) => {
            WireError::new(code::HEADER_MISMATCH, differs("MCP-Protocol-Version", header, body))
        }
        _ => error,
    }
}

fn bad_request(id: Option<&RequestId>, error: &WireError) -> Box<Response> {
    Box::new(refusal_of(id, StatusCode::BAD_REQUEST, error))
}

/// What the headers of a modern request say otherwise than its body; none where they agree.
fn check_modern(headers: &HeaderMap, version: Option<&str>, request: &Incoming) -> Option<String> {
    // The body's version is one we serve, or it would not have got here, and only one is.
    if version != Some(MODERN) {
        return Some(differs("MCP-Protocol-Version", version, MODERN));
    }
    let given = match text(headers, "mcp-method") {
        Ok(given) => given,
        Err(message) => return Some(message),
    };
    if given != Some(request.method.as_str()) {
        return Some(differs("Mcp-Method", given, &request.method));
    }
    // A method without a subject has no such header, and a body without the field is refused by its method.
    let wanted = request.meta.subject.as_deref()?;
    let given = match text(headers, "mcp-name") {
        Ok(given) => given,
        Err(message) => return Some(message),
    };
    let decoded = match given.map(|given| decoded("Mcp-Name", given)) {
        Some(Err(message)) => return Some(message),
        Some(Ok(name)) => Some(name),
        None => None,
    };
    (decoded.as_deref() != Some(wanted)).then(|| differs("Mcp-Name", decoded.as_deref(), wanted))
}

fn differs(header: &str, given: Option<&str>, body: &str) -> String {
    match given {
        None => format!("the header {header} is missing; it must be {body:?}, as in the body"),
        Some(given) => format!("the header {header} is {given:?}, and the body has {body:?}"),
    }
}

pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, String> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    // Optional white space around a value is no part of it (RFC 9110 section 5.5).
    value
        .to_str()
        .map(|text| Some(text.trim()))
        .map_err(|_| format!("the header {name} holds what is not visible ASCII"))
}

/// A value that is written `=?base64?...?=` (MCP 2026-07-28 "Value Encoding"), or as it is.
pub(super) fn decoded(header: &str, value: &str) -> Result<String, String> {
    let Some(encoded) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Ok(value.to_owned());
    };
    let bytes =
        BASE64_STANDARD.decode(encoded).map_err(|error| format!("the header {header} is not base64: {error}"))?;
    String::from_utf8(bytes).map_err(|_| format!("the header {header} is not UTF-8 behind its base64"))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| ((*name).parse().unwrap(), HeaderValue::from_str(value).unwrap())).collect()
    }

    fn modern(method: &str, params: &str) -> Message {
        let meta =
            r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"_meta":{{{meta}}}{params}}}}}"#);
        Message::parse(line.as_bytes()).unwrap()
    }

    fn refused(pairs: &[(&'static str, &str)], message: &Message) -> bool {
        wire_of(&headers(pairs), message).is_err()
    }

    #[test]
    fn modern_headers_must_say_what_the_body_says() {
        let call = modern("tools/call", r#","name":"openoxide""#);
        let version = ("mcp-protocol-version", "2026-07-28");
        let (method, name) = (("mcp-method", "tools/call"), ("mcp-name", "openoxide"));
        assert_eq!(wire_of(&headers(&[version, method, name]), &call).unwrap(), Wire::Modern);
        let encoded = ("mcp-name", "=?base64?b3Blbm94aWRl?=");
        assert_eq!(wire_of(&headers(&[version, method, encoded]), &call).unwrap(), Wire::Modern);
        for wrong in [
            vec![method, name],
            vec![version, name],
            vec![version, method],
            vec![("mcp-protocol-version", "2025-11-25"), method, name],
            vec![version, ("mcp-method", "TOOLS/CALL"), name],
            vec![version, method, ("mcp-name", "openoxide-reply")],
            vec![version, method, ("mcp-name", "=?base64?!?=")],
        ] {
            assert!(refused(&wrong, &call), "{wrong:?}");
        }
        let unserved = br#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{
            "io.modelcontextprotocol/protocolVersion":"v9","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
        let unserved = Message::parse(unserved).unwrap_err().error;
        for (given, expected) in
            [(vec![version], -32020), (vec![], -32020), (vec![("mcp-protocol-version", "v9")], -32022)]
        {
            assert_eq!(told(&headers(&given), unserved.clone()).code, expected, "{given:?}");
        }
        let list = modern("tools/list", "");
        assert_eq!(wire_of(&headers(&[version, ("mcp-method", "tools/list")]), &list).unwrap(), Wire::Modern);
    }

    #[test]
    fn what_has_one_value_comes_once() {
        for name in ["mcp-name", "mcp-method", "mcp-protocol-version", "mcp-session-id", "mcp-param-x", "authorization"]
        {
            let mut twice = headers(&[(name, "one"), ("accept", "a")]);
            assert!(check_once(&twice).is_ok(), "{name}");
            twice.append(name, HeaderValue::from_static("two"));
            assert_eq!(check_once(&twice).unwrap_err().status(), StatusCode::BAD_REQUEST, "{name}");
        }
        let mut accept = headers(&[("accept", "application/json")]);
        accept.append("accept", HeaderValue::from_static("text/event-stream"));
        assert!(check_once(&accept).is_ok());
    }

    #[test]
    fn without_meta_the_header_tells_the_era() {
        let legacy = Message::parse(br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).unwrap();
        assert_eq!(wire_of(&headers(&[]), &legacy).unwrap(), Wire::Legacy);
        assert_eq!(wire_of(&headers(&[("mcp-protocol-version", "2025-06-18")]), &legacy).unwrap(), Wire::Legacy);
        assert!(refused(&[("mcp-protocol-version", "2026-07-28")], &legacy));
        assert!(refused(&[("mcp-protocol-version", "1999-01-01")], &legacy));
    }

    #[test]
    fn json_is_sent_and_both_kinds_are_accepted() {
        let json = ("content-type", "application/json; charset=utf-8");
        for accept in ["application/json, text/event-stream", "text/event-stream;q=0.9,application/*", "*/*"] {
            assert!(check_post(&headers(&[json, ("accept", accept)])).is_ok(), "{accept}");
        }
        for accept in ["application/json", "text/event-stream", "text/html"] {
            let refused = check_post(&headers(&[json, ("accept", accept)])).unwrap_err();
            assert_eq!(refused.status(), StatusCode::NOT_ACCEPTABLE, "{accept}");
        }
        let refused = check_post(&headers(&[("content-type", "text/plain"), ("accept", "*/*")])).unwrap_err();
        assert_eq!(refused.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
}
