//! Methods that are answered at once: lists, resources, completion.

use openoxide_mcp_protocol::{Cacheable, Era, ToolsPage, WireError, parse_params};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::{offer, prompts, resources};

/// What can complete an argument.
const WORDS: [&str; 3] = ["paris", "park", "party"];

/// Answers a method.
pub(crate) fn answer(fixture: &Fixture, method: &str, params: Option<&RawValue>, era: Era) -> Result<Value, WireError> {
    let is_modern = era == Era::Modern;
    let kept = |result: Value| Ok(cached(result, is_modern));
    match method {
        "ping" if !is_modern => Ok(json!({})),
        "server/discover" if is_modern => Ok(offer::discovered()),
        "tools/list" => {
            let page = ToolsPage { tools: &fixture.tools, cache: is_modern.then_some(Cacheable::FIXED) };
            Ok(serde_json::to_value(page).expect("wire types serialize"))
        }
        "prompts/list" => kept(json!({ "prompts": prompts::list() })),
        "resources/list" => kept(json!({ "resources": resources::list() })),
        "resources/templates/list" => kept(json!({ "resourceTemplates": resources::templates() })),
        "resources/read" => kept(json!({ "contents": [resources::read(&uri(method, params)?, is_modern)?] })),
        // The watched resource never changes, so that nothing has to be remembered.
        "resources/subscribe" | "resources/unsubscribe" if !is_modern => {
            resources::read(&uri(method, params)?, is_modern).map(|_| json!({}))
        }
        "completion/complete" => completion(method, params),
        other => Err(WireError::method_not_found(other)),
    }
}

fn cached(mut result: Value, is_modern: bool) -> Value {
    if let (true, Some(fields), Ok(Value::Object(cache))) =
        (is_modern, result.as_object_mut(), serde_json::to_value(Cacheable::FIXED))
    {
        fields.extend(cache);
    }
    result
}

fn uri(method: &str, params: Option<&RawValue>) -> Result<String, WireError> {
    #[derive(Deserialize)]
    struct Params {
        uri: String,
    }
    Ok(parse_params::<Params>(method, params)?.uri)
}

fn completion(method: &str, params: Option<&RawValue>) -> Result<Value, WireError> {
    #[derive(Deserialize)]
    struct Params {
        argument: Argument,
    }
    #[derive(Deserialize)]
    struct Argument {
        value: String,
    }
    let begun = parse_params::<Params>(method, params)?.argument.value;
    let values: Vec<&str> = WORDS.into_iter().filter(|word| word.starts_with(&begun)).collect();
    Ok(json!({ "completion": { "total": values.len(), "values": values, "hasMore": false } }))
}
