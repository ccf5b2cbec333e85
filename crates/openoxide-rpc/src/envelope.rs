//! JSON-RPC 2.0 envelopes: one line of bytes to one [`Envelope`], and back, with the member `jsonrpc` or without.
//!
//! Parameters stay raw text here; the method that wants them parses them once, into its own type.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{RpcError, code};

/// How deep arrays and objects of one message may nest. The parsers behind recurse, so the bound guards the stack.
pub const MAX_NESTING: usize = 100;

/// A request id: a string or an integer of 64 bits. Null and fractions, which JSON-RPC advises against, are refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RequestId {
    /// An integer.
    Number(i64),
    /// A string.
    String(Arc<str>),
}

/// As JSON has it.
impl std::fmt::Display for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::String(text) => serde_json::Value::from(&**text).fmt(f),
        }
    }
}

/// One message, parameters still raw.
#[derive(Debug)]
pub enum Envelope {
    /// Wants an answer.
    Request {
        /// To be echoed.
        id: RequestId,
        /// The method.
        method: String,
        /// The `params` object, if any.
        params: Option<Box<RawValue>>,
    },
    /// Wants none.
    Notification {
        /// The method.
        method: String,
        /// The `params` object, if any.
        params: Option<Box<RawValue>>,
    },
    /// Answers a question of ours.
    Response {
        /// The question.
        id: RequestId,
        /// What came back.
        outcome: Outcome,
    },
    /// An array of messages, each judged by itself (protocols that have batches).
    Batch(Vec<Result<Envelope, EnvelopeError>>),
}

/// How a question of ours was answered.
#[derive(Debug)]
pub enum Outcome {
    /// A result, raw.
    Result(Box<RawValue>),
    /// An error, raw.
    Error(Box<RawValue>),
}

/// Why a line is no message, with the id to answer under where one could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvelopeError {
    /// The id of the broken request.
    pub id: Option<RequestId>,
    /// What to answer.
    pub error: RpcError,
}

impl EnvelopeError {
    fn new(id: Option<RequestId>, code: i32, message: impl Into<String>) -> Self {
        Self { id, error: RpcError::new(code, message) }
    }
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Keeps a field that is there with the value `null` apart from one that is not there.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Whether the messages of a protocol carry the member `"jsonrpc": "2.0"`: how they are read and how they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Header {
    /// Every message carries it; one without it is refused (JSON-RPC 2.0 section 4).
    #[default]
    Present,
    /// No message that is written carries it; one that is read may.
    Absent,
}

impl Header {
    /// Parses one line (without its newline).
    ///
    /// # Errors
    /// -32700 where the bytes are not UTF-8 or not JSON, -32600 where they are JSON but no JSON-RPC message, or nest
    /// deeper than [`MAX_NESTING`].
    pub fn parse(self, line: &[u8]) -> Result<Envelope, EnvelopeError> {
        parse_line(line, self)
    }

    /// A request as one line with its newline.
    pub fn request<T: Serialize>(self, id: &RequestId, method: &str, params: &T) -> Vec<u8> {
        to_line(&Out { id: Some(Some(id)), method: Some(method), params: Some(params), ..Out::of(self) })
    }

    /// A notification as one line with its newline.
    pub fn notification<T: Serialize>(self, method: &str, params: &T) -> Vec<u8> {
        to_line(&Out { method: Some(method), params: Some(params), ..Out::of(self) })
    }

    /// An answer as one line with its newline. Without an id, which could not be read then, the member is left out: MCP knows
    /// no other form. Messages without the header have it as null (JSON-RPC 2.0 section 5).
    pub fn response<T: Serialize>(self, id: Option<&RequestId>, outcome: Result<&T, &RpcError>) -> Vec<u8> {
        let id = (id.is_some() || self == Self::Absent).then_some(id);
        match outcome {
            Ok(result) => to_line(&Out { id, result: Some(result), ..Out::of(self) }),
            Err(error) => to_line::<Value>(&Out { id, error: Some(error), ..Out::of(self) }),
        }
    }
}

fn parse_line(line: &[u8], header: Header) -> Result<Envelope, EnvelopeError> {
    let text = std::str::from_utf8(line).map_err(|error| {
        let message = format!("the line is not UTF-8: byte {} is no part of a character", error.valid_up_to());
        EnvelopeError::new(salvage_id(line), code::PARSE_ERROR, message)
    })?;
    if nests_too_deep(line) {
        let message = format!("the message nests deeper than {MAX_NESTING} arrays and objects");
        return Err(EnvelopeError::new(salvage_id(line), code::INVALID_REQUEST, message));
    }
    let text = text.trim_ascii();
    if text.starts_with('[') {
        let entries: Vec<&RawValue> = serde_json::from_str(text).map_err(not_json)?;
        if entries.is_empty() {
            return Err(EnvelopeError::new(None, code::INVALID_REQUEST, "a batch holds at least one message"));
        }
        return Ok(Envelope::Batch(entries.into_iter().map(|entry| parse_object(entry.get(), header)).collect()));
    }
    parse_object(text, header)
}

fn not_json(error: serde_json::Error) -> EnvelopeError {
    EnvelopeError::new(None, code::PARSE_ERROR, format!("the line is not JSON: {error}"))
}

fn parse_object(text: &str, header: Header) -> Result<Envelope, EnvelopeError> {
    let invalid = |id, message: &str| Err(EnvelopeError::new(id, code::INVALID_REQUEST, message));
    let raw: Raw<'_> = match serde_json::from_str(text) {
        Ok(raw) => raw,
        Err(error) if error.is_data() && !text.starts_with('{') => {
            return invalid(None, "a JSON-RPC message is an object");
        }
        Err(error) if error.is_data() => {
            return invalid(salvage_id(text.as_bytes()), &format!("not a JSON-RPC message: {error}"));
        }
        Err(error) => return Err(not_json(error)),
    };
    let id = match raw.id.map(|id| serde_json::from_str::<RequestId>(id.get())) {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(_)) => return invalid(None, "id must be a string or a 64-bit integer"),
    };
    match raw.jsonrpc.as_deref() {
        Some("2.0") => {}
        Some(other) => return invalid(id, &format!("jsonrpc must be \"2.0\", not {other:?}")),
        None if header == Header::Absent => {}
        None => return invalid(id, "the field jsonrpc is missing; it must be \"2.0\""),
    }
    let params = raw.params.map(RawValue::to_owned);
    match (raw.method, id, raw.result, raw.error) {
        (Some(method), Some(id), None, None) => Ok(Envelope::Request { id, method: method.into_owned(), params }),
        (Some(method), None, None, None) => Ok(Envelope::Notification { method: method.into_owned(), params }),
        (None, Some(id), Some(result), None) => {
            Ok(Envelope::Response { id, outcome: Outcome::Result(result.to_owned()) })
        }
        (None, Some(id), None, Some(error)) => Ok(Envelope::Response { id, outcome: Outcome::Error(error.to_owned()) }),
        (_, id, _, _) => invalid(id, "a message has a method, or an id with either a result or an error"),
    }
}

fn nests_too_deep(line: &[u8]) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for &byte in line {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_NESTING {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// Finds the top-level `id` of a message that cannot be parsed whole (too long, too deep, not UTF-8), so that its
/// sender gets an answer it can match. `prefix` may end anywhere.
pub fn salvage_id(prefix: &[u8]) -> Option<RequestId> {
    let (mut depth, mut at) = (0usize, 0usize);
    let mut last_key_is_id = false;
    while at < prefix.len() {
        match prefix[at] {
            b'"' => {
                let end = string_end(prefix, at)?;
                let text = &prefix[at..end];
                if depth == 1 && last_key_is_id {
                    return serde_json::from_slice(text).ok();
                }
                let is_key = prefix[end..].trim_ascii_start().first() == Some(&b':');
                last_key_is_id = depth == 1 && is_key && text == b"\"id\"";
                at = end;
                continue;
            }
            b'-' | b'0'..=b'9' if depth == 1 && last_key_is_id => {
                let len = prefix[at..].iter().take_while(|b| !matches!(b, b',' | b'}' | b' ' | b'\t' | b'\r')).count();
                return serde_json::from_slice(&prefix[at..at + len]).ok();
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' => last_key_is_id = false,
            _ => {}
        }
        at += 1;
    }
    None
}

/// The index behind the string literal that begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

#[derive(Serialize)]
struct Out<'a, T: Serialize> {
    #[serde(skip_serializing_if = "Option::is_none")]
    jsonrpc: Option<&'static str>,
    /// None leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Option<&'a RequestId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RpcError>,
}

impl<T: Serialize> Out<'_, T> {
    fn of(header: Header) -> Self {
        let jsonrpc = (header == Header::Present).then_some("2.0");
        Self { jsonrpc, id: None, method: None, params: None, result: None, error: None }
    }
}

fn to_line<T: Serialize>(out: &Out<'_, T>) -> Vec<u8> {
    // Our own types hold string keys and finite numbers only, which always serialize.
    let mut line = serde_json::to_vec(out).expect("wire types serialize");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn error_of(line: &[u8]) -> (i32, Option<RequestId>) {
        let error = Header::Present.parse(line).expect_err("should be refused");
        (error.error.code, error.id)
    }

    #[test]
    fn reads_the_three_kinds_of_message() {
        let Envelope::Request { id, method, params } =
            Header::Present.parse(br#"  {"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":1}} "#).unwrap()
        else {
            panic!("a request")
        };
        assert_eq!((id, method.as_str()), (RequestId::String("a".into()), "ping"));
        assert_eq!(params.unwrap().get(), r#"{"x":1}"#);
        assert!(matches!(
            Header::Present.parse(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            Ok(Envelope::Notification { .. })
        ));
        assert!(matches!(
            Header::Present.parse(br#"{"jsonrpc":"2.0","id":7,"result":null}"#),
            Ok(Envelope::Response { outcome: Outcome::Result(_), .. })
        ));
        assert!(matches!(
            Header::Present.parse(br#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"x"}}"#),
            Ok(Envelope::Response { outcome: Outcome::Error(_), .. })
        ));
    }

    #[test]
    fn refuses_each_bad_line_with_its_code_and_the_id_where_it_can_be_read() {
        let nine = Some(RequestId::Number(9));
        for (line, code, id) in [
            (&b"hello"[..], code::PARSE_ERROR, None),
            (br#"{"jsonrpc":"2.0","id":9,"method":"#, code::PARSE_ERROR, None),
            (b"42", code::INVALID_REQUEST, None),
            (b"[]", code::INVALID_REQUEST, None),
            (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, code::INVALID_REQUEST, None),
            (br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, code::INVALID_REQUEST, None),
            (br#"{"jsonrpc":"2.0","id":12345678901234567890123,"method":"ping"}"#, code::INVALID_REQUEST, None),
            (br#"{"jsonrpc":"1.0","id":9,"method":"ping"}"#, code::INVALID_REQUEST, nine.clone()),
            (br#"{"id":9,"method":"ping"}"#, code::INVALID_REQUEST, nine.clone()),
            (br#"{"jsonrpc":"2.0","id":9}"#, code::INVALID_REQUEST, nine.clone()),
            (br#"{"jsonrpc":"2.0","id":9,"method":5}"#, code::INVALID_REQUEST, nine.clone()),
            (b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"\xff\"}", code::PARSE_ERROR, nine.clone()),
        ] {
            assert_eq!(error_of(line), (code, id), "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn what_is_no_object_is_told_so() {
        let scalar = Header::Present.parse(b"42").unwrap_err().error.message;
        assert_eq!(scalar, "a JSON-RPC message is an object");
    }

    #[test]
    fn without_the_header_it_may_still_come_and_is_not_written() {
        for line in [&br#"{"id":9,"method":"x"}"#[..], br#"{"jsonrpc":"2.0","id":9,"method":"x"}"#] {
            assert!(matches!(Header::Absent.parse(line), Ok(Envelope::Request { .. })));
        }
        assert!(Header::Absent.parse(br#"{"jsonrpc":"1.0","id":9,"method":"x"}"#).is_err());
        let id = RequestId::Number(9);
        assert_eq!(Header::Absent.response(Some(&id), Ok(&7)), b"{\"id\":9,\"result\":7}\n");
        let error = RpcError::new(-1, "x");
        let nobody = |header: Header| header.response::<Value>(None, Err(&error));
        assert_eq!(nobody(Header::Absent), b"{\"id\":null,\"error\":{\"code\":-1,\"message\":\"x\"}}\n");
        assert!(nobody(Header::Present).starts_with(b"{\"jsonrpc\":\"2.0\",\"error\""));
        assert_eq!(Header::Present.response(Some(&id), Ok(&7)), b"{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":7}\n");
    }

    #[test]
    fn a_duplicate_key_is_refused() {
        let (code, _) = error_of(br#"{"jsonrpc":"2.0","id":9,"id":10,"method":"ping"}"#);
        assert_eq!(code, code::INVALID_REQUEST);
    }

    #[test]
    fn deep_nesting_is_refused_without_recursing() {
        let line = [
            br#"{"jsonrpc":"2.0","id":9,"method":"ping","params":{"x":"#.as_slice(),
            "[".repeat(100_000).as_bytes(),
            "]".repeat(100_000).as_bytes(),
            b"}}",
        ]
        .concat();
        assert_eq!(error_of(&line), (code::INVALID_REQUEST, Some(RequestId::Number(9))));
    }

    #[test]
    fn the_id_is_found_in_a_prefix_whatever_stands_before_it() {
        let prefix = br#"{"params":{"id":1,"s":"\"id\":2"},"x":["id",3],"id" : "q-7", "method":"to"#;
        assert_eq!(salvage_id(prefix), Some(RequestId::String("q-7".into())));
        assert_eq!(salvage_id(br#"{"method":"id","params":{"id":4"#), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Header::Present.parse(&line);
            let _ = salvage_id(&line);
        }

        #[test]
        fn what_we_write_we_read(id in any::<i64>(), method in "[a-z/]{1,20}", text in any::<String>()) {
            let line = Header::Present.request(&RequestId::Number(id), &method, &serde_json::json!({ "t": text }));
            prop_assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
            let Ok(Envelope::Request { id: read, params, .. }) = Header::Present.parse(&line[..line.len() - 1]) else {
                panic!("not read back")
            };
            prop_assert_eq!(read, RequestId::Number(id));
            let params: Value = serde_json::from_str(params.unwrap().get()).unwrap();
            prop_assert_eq!(params["t"].as_str(), Some(text.as_str()));
        }
    }
}
