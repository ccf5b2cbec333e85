//! What a request looks like on the wire.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::remote::fixtures::{history, request, tools};

fn body_of(model: &str, input: &[Arc<HistoryItem>], change: impl FnOnce(&mut ProviderConfig)) -> Value {
    let tools = tools();
    let mut config = ProviderConfig::new("p", "http://x");
    change(&mut config);
    let facts = config.facts.apply(crate::facts_of(model));
    serde_json::from_slice(&encode(&request(model, input, &tools), &config, &facts).unwrap()).unwrap()
}

#[test]
fn one_of_everything() {
    insta::assert_json_snapshot!("everything", body_of("claude-sonnet-4-6", &history(), |_| {}));
}

#[test]
fn no_more_than_four_marks_and_the_beginning_never_changes() {
    let all = history();
    let mut before: Option<Vec<Value>> = None;
    for length in [3, 14, 16, 18] {
        let mut body = body_of("claude-sonnet-4-6", &all[..length], |_| {});
        assert!(body.to_string().matches("cache_control").count() <= 4, "{length}");
        for message in body["messages"].as_array_mut().unwrap() {
            for block in message["content"].as_array_mut().unwrap() {
                block.as_object_mut().unwrap().remove("cache_control");
            }
        }
        let now = body["messages"].as_array().unwrap().clone();
        if let Some(before) = before {
            // The last message may have grown; none before it may have changed.
            let (_, whole) = before.split_last().unwrap();
            assert_eq!(now[..whole.len()], *whole, "{length}");
        }
        before = Some(now);
    }
}

#[test]
fn thinking_is_asked_for_as_the_model_has_it() {
    let with = |model: &str, effort: Option<&str>| {
        let body = body_of(model, &history(), |config| config.reasoning_effort = effort.map(Into::into));
        (body["thinking"].clone(), body["output_config"].clone())
    };
    let adaptive = json!({"type": "adaptive", "display": "summarized"});
    assert_eq!(with("claude-opus-4-7", None), (adaptive.clone(), Value::Null));
    assert_eq!(with("claude-opus-4-7", Some("high")), (adaptive, json!({"effort": "high"})));
    assert_eq!(with("claude-opus-4-7", Some("none")), (Value::Null, Value::Null));
    assert_eq!(with("claude-haiku-4-5", None), (Value::Null, Value::Null));
    assert_eq!(with("claude-haiku-4-5", Some("low")), (json!({"type": "enabled", "budget_tokens": 4096}), Value::Null));
    assert_eq!(with("some-model", Some("low")), (Value::Null, Value::Null));
}

#[test]
fn thinking_is_asked_for_in_every_request_of_a_thread_or_in_none() {
    let all = history();
    for (model, effort) in [("claude-opus-4-7", None), ("claude-haiku-4-5", Some("low")), ("claude-haiku-4-5", None)] {
        let thinking = |length: usize, id: &str| {
            let body = body_of(model, &all[..length], |config| {
                (config.id, config.reasoning_effort) = (id.into(), effort.map(Into::into));
            });
            body["thinking"].clone()
        };
        let first = thinking(3, "p");
        for length in 3..=18 {
            assert_eq!(thinking(length, "p"), first, "{model} {length}");
            assert_eq!(
                thinking(length, "other"),
                first,
                "{model} {length}: after calls that another provider's model made"
            );
        }
    }
    let other = body_of("claude-opus-4-7", &all, |config| config.id = "other".into());
    assert!(!other["messages"].to_string().contains("thinking"), "reasoning of another provider is dropped");
}

#[test]
fn thinking_of_another_beginning_is_dropped_where_the_server_knows_how() {
    let binding = |change: fn(&mut ProviderConfig)| {
        let body = body_of("claude-opus-4-7", &history(), |config| {
            config.wire_api = crate::WireApi::Messages;
            change(config);
        });
        body["thinking"]["block_binding"].clone()
    };
    let drops = json!({"prefix_mismatch_behavior": "drop_block"});
    assert_eq!(binding(|config| config.base_url = "https://api.anthropic.com/v1".into()), drops);
    assert_eq!(binding(|config| config.drops_unbound_thinking = Some(true)), drops);
    assert_eq!(binding(|_| {}), Value::Null, "a gateway may refuse it");
}

#[test]
fn a_history_that_begins_with_the_model_gets_an_opening() {
    let body = body_of("claude-opus-4-7", &history()[16..], |_| {});
    let roles: Vec<&str> = body["messages"].as_array().unwrap().iter().filter_map(|m| m["role"].as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
}

#[test]
fn the_output_limit_is_always_there() {
    assert_eq!(body_of("claude-opus-4-7", &history(), |_| {})["max_tokens"], 64_000);
    assert_eq!(body_of("some-model", &history(), |_| {})["max_tokens"], 8_192);
    assert_eq!(body_of("some-model", &history(), |config| config.max_output_tokens = Some(9))["max_tokens"], 9);
}
