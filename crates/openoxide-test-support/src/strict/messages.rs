//! Anthropic Messages, with preserved thinking as the newest models have it.

use serde_json::{Value, json};

use super::cache::Block;
use super::script::Step;
use super::serve::{Answer, Request};
use super::{Refusal, State, canonical, hash, list, script};

const BETA: &str = "thinking-binding-controls-2026-08-01";

pub(super) fn answer(state: &mut State, request: &Request) -> Result<Answer, Refusal> {
    let body = &request.body;
    let messages = list(&body["messages"]);
    check_shape(body, messages)?;
    let drops = drops_blocks(state, request)?;
    let prompts = prompts(messages);
    let key = prompts.iter().find(|prompt| script::is_scripted(prompt)).cloned().unwrap_or_default();
    let thinking = json!([body["thinking"]["type"], body["thinking"]["budget_tokens"]]);
    let prefix = [("system", &body["system"]), ("tools", &body["tools"]), ("thinking", &thinking)];
    state.check_prefix(&key, prefix.map(|(name, value)| (name, canonical(value))).to_vec())?;
    check_thinking(state, body, messages, drops)?;
    check_echo(state, &key, messages)?;
    let (tokens, cached) = state.cache.read(&canonical(&thinking), &blocks(body, messages), true);
    let (label, step) = state.step(&prompts);
    let content = content(state, body, messages, &step);
    let kept: Vec<Value> =
        content.iter().filter(|block| !step.is_cut || block["type"] != "tool_use").cloned().collect();
    state.gives(&key, &Value::Array(kept));
    Ok(Answer { events: events(&content, &step, tokens, cached), label, tokens, cached })
}

/// Rules: `max_tokens` is there; roles alternate and begin and end with the user's; each call is answered at once, and nothing
/// else is; no text is empty; at most four marks. Sources: Claude API reference, `POST /v1/messages`; Claude docs, "Handle tool
/// calls" (results follow their calls at once, and come first in their message), "Prompt caching" (4 breakpoints), and for the
/// end "Migration guide" (no prefill of the assistant's message).
fn check_shape(body: &Value, messages: &[Value]) -> Result<(), Refusal> {
    if !body["max_tokens"].is_u64() {
        return Err("max_tokens: Field required".into());
    }
    if body.to_string().matches("\"cache_control\"").count() > 4 {
        return Err("A maximum of 4 blocks with cache_control may be provided.".into());
    }
    let mut calls: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let expected = if at % 2 == 0 { "user" } else { "assistant" };
        if message["role"] != expected {
            return Err(format!("messages.{at}: roles must alternate, and this should be {expected}"));
        }
        let content = list(&message["content"]);
        if content.is_empty() {
            return Err(format!("messages.{at}: content must not be empty"));
        }
        for (place, block) in content.iter().enumerate() {
            if block["type"] == "text" && block["text"].as_str().is_none_or(|text| text.trim().is_empty()) {
                return Err(format!("messages.{at}.content.{place}: text content blocks must be non-empty"));
            }
        }
        if expected == "user" {
            let results: Vec<&str> = content.iter().map_while(|block| block["tool_use_id"].as_str()).collect();
            let later = content[results.len()..].iter().any(|block| block["type"] == "tool_result");
            if results != calls || later {
                return Err(format!(
                    "messages.{at}: tool_use ids {calls:?} want their tool_result first, not {results:?}"
                ));
            }
            calls.clear();
        } else {
            calls =
                content.iter().filter(|block| block["type"] == "tool_use").filter_map(|b| b["id"].as_str()).collect();
        }
    }
    match messages.len() % 2 {
        1 => Ok(()),
        _ => Err("the conversation must end with a user message".into()),
    }
}

/// Rule: `block_binding` comes with its beta header, and with thinking. Source: Claude API reference, `thinking.block_binding`
/// (without the header 400; not valid with `disabled`).
fn drops_blocks(state: &State, request: &Request) -> Result<bool, Refusal> {
    let behavior = &request.body["thinking"]["block_binding"]["prefix_mismatch_behavior"];
    let has_header =
        request.headers.get("anthropic-beta").is_some_and(|betas| betas.split(',').any(|b| b.trim() == BETA));
    match behavior.as_str() {
        _ if state.refuses_beta && has_header => {
            Err(format!("Unexpected value(s) `{BETA}` for the `anthropic-beta` header"))
        }
        None => Ok(false),
        Some(_) if !has_header => Err("thinking.block_binding: Extra inputs are not permitted".into()),
        Some(behavior) => Ok(behavior == "drop_block"),
    }
}

fn prompts(messages: &[Value]) -> Vec<String> {
    let users = messages.iter().filter(|message| message["role"] == "user");
    users.flat_map(|message| list(&message["content"])).filter_map(|b| b["text"].as_str()).map(str::to_owned).collect()
}

/// What a thinking block at a place is bound to.
fn signature(body: &Value, messages: &[Value], before: &[Value]) -> String {
    let messages: Vec<String> =
        messages.iter().map(|m| format!("{} {}", m["role"], canonical(&m["content"]))).collect();
    let before: Vec<String> = before.iter().map(canonical).collect();
    hash(&[&canonical(&body["system"]), &canonical(&body["tools"]), &messages.join("\n"), &before.join("\n")])
}

/// Rule: before a thinking block nothing has changed, thinking included, and it is as it was given. Source: Claude docs,
/// "Prefix checks on thinking blocks".
fn check_thinking(state: &mut State, body: &Value, messages: &[Value], drops: bool) -> Result<(), Refusal> {
    for (at, message) in messages.iter().enumerate() {
        let content = list(&message["content"]);
        for (place, block) in content.iter().enumerate().filter(|(_, block)| block["type"] == "thinking") {
            if block["signature"] == signature(body, &messages[..at], &content[..place]) {
                continue;
            }
            let path = format!("messages.{at}.content.{place}");
            if drops {
                state.dropped.push(path);
                return Ok(());
            }
            return Err(format!(
                "{path}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or \
                 set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
            ));
        }
    }
    Ok(())
}

/// Rule: each of the model's messages comes back as it was given; thinking may be left out of it. Source: Claude docs,
/// "Prefix checks on thinking blocks" (send each assistant turn back exactly as the API returned it).
fn check_echo(state: &State, key: &str, messages: &[Value]) -> Result<(), Refusal> {
    let thoughtless = |content: &[Value]| -> Vec<Value> {
        content.iter().filter(|block| block["type"] != "thinking").cloned().collect()
    };
    for (at, message) in messages.iter().enumerate().filter(|(_, message)| message["role"] == "assistant") {
        let content = &message["content"];
        let bare = canonical(&Value::Array(thoughtless(list(content))));
        let is_given = state.given(key).iter().any(|given| {
            let without = || serde_json::from_str::<Vec<Value>>(given).map(|given| thoughtless(&given));
            *given == canonical(content) || without().is_ok_and(|given| canonical(&Value::Array(given)) == bare)
        });
        if !is_given {
            return Err(format!("echo: messages.{at} is not as it was given: {content}"));
        }
    }
    Ok(())
}

/// The request in the order in which it is read. Source: Claude docs, "Prompt caching" (tools, system, messages).
fn blocks(body: &Value, messages: &[Value]) -> Vec<Block> {
    let parts = list(&body["tools"]).iter().chain(list(&body["system"]));
    let said = messages.iter().flat_map(|message| list(&message["content"]));
    let block = |value: &Value| Block { text: canonical(value), is_marked: !value["cache_control"].is_null() };
    parts.chain(said).map(block).collect()
}

/// The blocks of a response.
fn content(state: &mut State, body: &Value, messages: &[Value], step: &Step) -> Vec<Value> {
    let mut content = Vec::new();
    if step.thinks && !body["thinking"].is_null() {
        let signature = signature(body, messages, &content);
        // Its text is empty where the display is left out, and it comes back all the same.
        content.push(json!({ "type": "thinking", "thinking": "", "signature": signature }));
    }
    content.extend(step.says.iter().map(|said| json!({ "type": "text", "text": said.text })));
    for (name, arguments) in &step.calls {
        let id = state.next_id("toolu");
        let input: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({ "patch": arguments }));
        content.push(
            json!({ "type": "tool_use", "id": id, "name": name, "input": input, "caller": { "type": "direct" } }),
        );
    }
    content
}

fn events(content: &[Value], step: &Step, tokens: u64, cached: u64) -> Vec<Value> {
    let usage = json!({ "input_tokens": tokens - cached, "cache_read_input_tokens": cached, "output_tokens": 1 });
    let mut events = vec![json!({ "type": "message_start", "message": { "role": "assistant", "usage": usage } })];
    for (index, block) in content.iter().enumerate() {
        let (start, delta) = match block["type"].as_str() {
            Some("thinking") => (
                json!({ "type": "thinking", "thinking": "", "signature": "" }),
                json!({ "type": "signature_delta", "signature": block["signature"] }),
            ),
            Some("text") => {
                (json!({ "type": "text", "text": "" }), json!({ "type": "text_delta", "text": block["text"] }))
            }
            _ => {
                let mut start = block.clone();
                start["input"] = json!({});
                (start, json!({ "type": "input_json_delta", "partial_json": block["input"].to_string() }))
            }
        };
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        events.push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    let reason = match step {
        Step { is_cut: true, .. } => "max_tokens",
        Step { calls, .. } if !calls.is_empty() => "tool_use",
        _ => "end_turn",
    };
    events
        .push(json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": 5 } }));
    events.push(json!({ "type": "message_stop" }));
    events
}
