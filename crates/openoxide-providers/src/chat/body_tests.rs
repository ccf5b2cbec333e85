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
fn reasoning_goes_back_only_where_it_is_wanted() {
    let with_calls = |model: &str, provider: &str| {
        let body = body(model, |config| config.id = provider.into());
        let messages = body["messages"].as_array().unwrap();
        messages.iter().find(|message| !message["tool_calls"].is_null()).unwrap().clone()
    };
    assert_eq!(with_calls("deepseek-v4", "p")["reasoning_content"], "hm");
    assert_eq!(with_calls("moonshotai/kimi-k2", "other")["reasoning_content"], "");
    assert_eq!(with_calls("glm-4.6", "other").get("reasoning_content"), None);
    let plain = with_calls("gpt-4o", "p");
    assert_eq!(plain.get("reasoning_content"), None);
    // Only servers that send details understand them, and to those they must go back.
    assert_eq!(plain["reasoning_details"], json!([{"type": "reasoning.encrypted", "data": "d"}]));
    assert_eq!(with_calls("gpt-4o", "other").get("reasoning_details"), None);
}

#[test]
fn claude_behind_a_gateway_gets_cache_marks() {
    let marked = |model: &str| {
        let text = body(model, |config| config.chat.cache_breakpoints = true).to_string();
        text.matches(r#""cache_control":{"type":"ephemeral"}"#).count()
    };
    assert_eq!((marked("anthropic/claude-sonnet-4.5"), marked("openai/gpt-5")), (3, 0));
}
