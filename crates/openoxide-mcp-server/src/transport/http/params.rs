//! Arguments of a tool that the headers of its calls repeat (`x-mcp-header`, MCP 2026-07-28 "Custom Headers from Tool
//! Parameters"). What somebody on the way has routed by has to be what the tool gets.

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use openoxide_mcp_protocol::tools::Mirrored;
use openoxide_mcp_protocol::{CallToolParams, Incoming, Message, WireError, code};
use serde_json::Value;

use super::headers::{decoded, text};
use super::refusal_of;
use crate::service::Service;

/// What the header of a mirrored argument says otherwise than the arguments; none where they agree.
fn differs(mirrored: &Mirrored, headers: &HeaderMap, arguments: &Value) -> Option<String> {
    let Mirrored { header, path } = mirrored;
    let value = path.iter().try_fold(arguments, |value, key| value.get(key)).filter(|value| !value.is_null());
    let given = match text(headers, header) {
        Ok(given) => given.map(|given| decoded(header, given)).transpose(),
        Err(message) => Err(message),
    };
    let given = match given {
        Ok(given) => given,
        Err(message) => return Some(message),
    };
    let argument = path.join(".");
    match (given, value) {
        (None, None) => None,
        (Some(given), Some(value)) if is_same(&given, value) => None,
        (Some(given), Some(value)) => {
            Some(format!("the header {header} is {given:?}, and the argument {argument} is {value}"))
        }
        (Some(_), None) => Some(format!("there is a header {header} and no argument {argument}")),
        (None, Some(_)) => Some(format!("the header {header} is missing; it must say what {argument} says")),
    }
}

fn is_same(header: &str, value: &Value) -> bool {
    match value {
        Value::String(value) => header == value,
        Value::Bool(value) => header == value.to_string(),
        // 42 and 42.0 are the same.
        Value::Number(value) => header.parse::<f64>().ok().is_some_and(|header| value.as_f64() == Some(header)),
        _ => false,
    }
}

/// Refuses a call whose headers do not say what its arguments say.
pub(super) fn check(headers: &HeaderMap, message: &Message, service: &dyn Service) -> Result<(), Box<Response>> {
    let Message::Request(Incoming { id, method, meta, params }) = message else { return Ok(()) };
    let mirrored = match &meta.subject {
        Some(tool) if method == "tools/call" => service.mirrored(tool),
        _ => return Ok(()),
    };
    if mirrored.is_empty() {
        return Ok(());
    }
    // Parameters that cannot be read are refused where the call is.
    let Ok(params) = CallToolParams::parse(params.as_deref()) else { return Ok(()) };
    let arguments = params.arguments.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    match mirrored.iter().find_map(|one| differs(one, headers, &arguments)) {
        None => Ok(()),
        Some(message) => {
            let error = WireError::new(code::HEADER_MISMATCH, message);
            Err(Box::new(refusal_of(Some(id), StatusCode::BAD_REQUEST, &error)))
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use serde_json::json;

    use super::*;

    fn differs(header: Option<&str>, arguments: &Value) -> bool {
        let schema = json!({ "properties": { "where": { "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
        } } } });
        let mirrored = Mirrored::of_schema(schema.as_object().unwrap());
        assert_eq!(mirrored.len(), 1);
        let mut headers = HeaderMap::new();
        if let Some(value) = header {
            headers.insert("mcp-param-region", HeaderValue::from_str(value).unwrap());
        }
        super::differs(&mirrored[0], &headers, arguments).is_some()
    }

    #[test]
    fn a_header_says_what_the_argument_says_or_both_say_nothing() {
        let at = |value: Value| json!({ "where": { "region": value } });
        for (header, arguments) in [
            (Some("Hello"), at(json!("Hello"))),
            (Some("=?base64?SGVsbG8=?="), at(json!("Hello"))),
            (Some("=?base64?SGVsbG8="), at(json!("=?base64?SGVsbG8="))),
            (Some("42.0"), at(json!(42))),
            (Some("true"), at(json!(true))),
            (None, at(Value::Null)),
            (None, json!({})),
        ] {
            assert!(!differs(header, &arguments), "{header:?} {arguments}");
        }
        for (header, arguments) in [
            (Some("hello"), at(json!("Hello"))),
            (Some("=?base64?SGVsbG8?="), at(json!("Hello"))),
            (Some("=?base64?SGVs!!!bG8=?="), at(json!("Hello"))),
            (Some("Hello"), json!({})),
            (None, at(json!("Hello"))),
        ] {
            assert!(differs(header, &arguments), "{header:?} {arguments}");
        }
    }
}
