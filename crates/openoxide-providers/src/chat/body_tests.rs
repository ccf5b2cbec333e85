//! What a request looks like on the wire.

use serde_json::json;

use super::*;
use crate::{
    ChatOptions,
    remote::fixtures::{history, request, tools},
};

fn body(model: &str, change: impl FnOnce(&mut ProviderConfig)) -> Value {
    let (input, tools) = (history(), tools());
    let mut config = ProviderConfig::new("p", "http://x");
    change(&mut config);
    let facts = config.facts.apply(crate::facts_of(model));
    serde_json::from_slice(&encode(&request(model, &input, &tools), &config, &facts).unwrap()).unwrap()
}

#[test]
fn a_plain_server_gets_only_what_all_understand() {
    insta::assert_json_snapshot!("plain", body("some-model", |_| {}));
}

#[test]
fn openai_gets_its_extensions_and_images() {
    let body = body("gpt-5", |config| {
        config.chat = ChatOptions { cache_key: true, max_completion_tokens: true, ..ChatOptions::default() };
        config.reasoning_effort = Some("low".into());
        config.max_output_tokens = Some(100);
    });
    assert_eq!(
        [&body["prompt_cache_key"], &body["max_completion_tokens"], &body["reasoning_effort"], &body["max_tokens"]],
        [&json!("thread-1"), &json!(100), &json!("low"), &Value::Null]
    );
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}});
    assert!(body["messages"].as_array().unwrap().iter().any(|message| message["content"][0] == image), "{body}");
}

#[test]
fn reasoning_goes_back_as_it_came_whatever_the_models_name_is() {
    let with_calls = |model: &str, provider: &str| {
        let body = body(model, |config| config.id = provider.into());
        let messages = body["messages"].as_array().unwrap();
        messages.iter().find(|message| !message["tool_calls"].is_null()).unwrap().clone()
    };
    for model in ["deepseek-v4", "glm-4.6", "my-deployment", "gpt-4o"] {
        let own = with_calls(model, "p");
        assert_eq!((&own["reasoning_content"], own.get("reasoning")), (&json!("hm"), None), "{model}");
        assert_eq!(own["reasoning_details"], json!([{"type": "reasoning.encrypted", "data": "d"}]), "{model}");
    }
    // What another provider made is left out, and where a server insists on the field, it is empty.
    assert_eq!(with_calls("moonshotai/kimi-k2", "other")["reasoning_content"], "");
    assert_eq!(with_calls("glm-4.6", "other").get("reasoning_content"), None);
    assert_eq!(with_calls("gpt-4o", "other").get("reasoning_details"), None);
}

#[test]
fn reasoning_goes_back_in_the_field_it_came_in() {
    let raw = json!({"type": "chat_reasoning", "field": "reasoning", "text": "hm", "_provider": "p"});
    let call = json!({"type": "chat_call", "extra_content": {"google": {"thought_signature": "s"}}, "arguments": "{ \"patch\": \"x\"}", "_provider": "p"});
    let input: Vec<std::sync::Arc<HistoryItem>> = [
        HistoryItem::Message { role: crate::Role::User, text: "u".into(), carried: None },
        HistoryItem::Reasoning { summary: "hm".into(), raw },
        HistoryItem::CustomToolCall {
            call_id: "c".into(),
            name: "apply_patch".into(),
            input: "x".into(),
            carried: Some(Box::new(call)),
        },
        HistoryItem::ToolOutput { call_id: "c".into(), custom: true, output: "o".into() },
    ]
    .into_iter()
    .map(Into::into)
    .collect();
    let config = ProviderConfig::new("p", "http://x");
    let tools = tools();
    let body = encode(&request("some-model", &input, &tools), &config, &crate::facts_of("some-model")).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let sent = &body["messages"][2];
    assert_eq!((&sent["reasoning"], sent.get("reasoning_content")), (&json!("hm"), None));
    assert_eq!(
        sent["tool_calls"][0],
        json!({"id": "c", "type": "function", "function": {"name": "apply_patch", "arguments": "{ \"patch\": \"x\"}"},
               "extra_content": {"google": {"thought_signature": "s"}}})
    );
}

#[test]
fn claude_behind_a_gateway_gets_cache_marks() {
    let marked = |model: &str| {
        let text = body(model, |config| config.chat.cache_breakpoints = true).to_string();
        text.matches(r#""cache_control":{"type":"ephemeral"}"#).count()
    };
    assert_eq!((marked("anthropic/claude-sonnet-4.5"), marked("openai/gpt-5")), (3, 0));
}
