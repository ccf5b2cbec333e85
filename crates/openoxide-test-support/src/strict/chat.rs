//! Chat Completions of a server with a reasoning model.

use serde_json::{Value, json};

use super::cache::Block;
use super::script::Step;
use super::serve::{Answer, Request};
use super::{Refusal, State, canonical, hash, list, script};

pub(super) fn answer(state: &mut State, request: &Request) -> Result<Answer, Refusal> {
    let body = &request.body;
    let messages = list(&body["messages"]);
    check_order(messages)?;
    let prompts = prompts(messages);
    let key = prompts.iter().find(|prompt| script::is_scripted(prompt)).cloned().unwrap_or_default();
    let system = &messages[0]["content"];
    let prefix = [("system", system), ("tools", &body["tools"]), ("thinking", &body["reasoning_effort"])];
    state.check_prefix(&key, prefix.map(|(name, value)| (name, canonical(value))).to_vec())?;
    check_echo(state, &key, messages)?;
    let parts = [&body["tools"]].into_iter().chain(messages);
    let blocks: Vec<Block> = parts.map(|part| Block { text: canonical(part), is_marked: false }).collect();
    let (tokens, cached) = state.cache.read("", &blocks, false);
    let (label, step) = state.step(&prompts);
    let message = message(state, messages, &step);
    let mut kept = message.clone();
    if let (true, Some(fields)) = (step.is_cut, kept.as_object_mut()) {
        fields.remove("tool_calls");
    }
    state.gives(&key, &kept);
    Ok(Answer { events: events(&message, &step, tokens, cached), label, tokens, cached })
}

/// Rules: one system message in front; user and assistant take turns; each call is answered at once, in order, and nothing else
/// is. Sources: OpenAI API reference, `POST /chat/completions` (tool messages follow the message with their `tool_calls`); the chat
/// templates of Mistral and Gemma models ("Conversation roles must alternate").
fn check_order(messages: &[Value]) -> Result<(), Refusal> {
    if messages.first().is_none_or(|first| first["role"] != "system") {
        return Err("messages.0 must be the system message".into());
    }
    let (mut last, mut open) = ("system", Vec::<&str>::new());
    for (at, message) in messages.iter().enumerate().skip(1) {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            if open.first() != Some(&id) {
                return Err(format!("messages.{at}: tool_call_id {id} answers none of {open:?}"));
            }
            open.remove(0);
            last = "tool";
            continue;
        }
        if !open.is_empty() {
            return Err(format!("messages.{at}: tool_calls {open:?} have no tool message"));
        }
        let is_fine = match role {
            "user" => last != "user",
            "assistant" => matches!(last, "user" | "tool"),
            _ => false,
        };
        if !is_fine {
            return Err(format!("messages.{at}: conversation roles must alternate, and {role} follows {last}"));
        }
        if role == "assistant" {
            open = list(&message["tool_calls"]).iter().filter_map(|call| call["id"].as_str()).collect();
        }
        last = role;
    }
    match last {
        "user" | "tool" if open.is_empty() => Ok(()),
        _ => Err(format!("the conversation ends with {last} and open calls {open:?}")),
    }
}

fn prompts(messages: &[Value]) -> Vec<String> {
    let users = messages.iter().filter(|message| message["role"] == "user");
    // What was said in a row is one message here; a prompt begins where a paragraph does.
    let texts = users.filter_map(|message| message["content"].as_str());
    texts.flat_map(|text| text.split("\n\n")).map(str::to_owned).collect()
}

/// Rule: the model's messages come back as they were, with `reasoning_content` and `reasoning_details`. Sources: DeepSeek docs,
/// "Thinking Mode" (the `reasoning_content` of turns with tool calls must be passed back in all later requests, else 400);
/// OpenRouter docs, "Reasoning tokens" (preserving `reasoning_details`: the whole sequence, unmodified).
fn check_echo(state: &State, key: &str, messages: &[Value]) -> Result<(), Refusal> {
    for (at, message) in messages.iter().enumerate().filter(|(_, message)| message["role"] == "assistant") {
        let sent = canonical(&normal(message));
        let unsealed = |given: &String| {
            let mut given: Value = serde_json::from_str(given).unwrap_or_default();
            given.as_object_mut().map(|fields| fields.remove("reasoning_details"));
            canonical(&given) == sent
        };
        // Sealed reasoning may be left out as a whole.
        let is_given = state.given(key).contains(&sent)
            || (message["reasoning_details"].is_null() && state.given(key).iter().any(unsealed));
        if !is_given {
            return Err(format!("echo: messages.{at} is not as it was given: {message}"));
        }
    }
    Ok(())
}

/// A message with its members in one order, without those that are null.
fn normal(message: &Value) -> Value {
    let names = ["role", "content", "reasoning_content", "reasoning_details", "tool_calls"];
    let there = names.into_iter().filter(|name| !message[*name].is_null());
    Value::Object(there.map(|name| (name.to_owned(), message[name].clone())).collect())
}

fn message(state: &mut State, messages: &[Value], step: &Step) -> Value {
    let mut message = json!({ "role": "assistant" });
    let text: String = step.says.iter().map(|said| said.text.as_str()).collect();
    if !text.is_empty() {
        message["content"] = json!(text);
    }
    if step.thinks {
        let sealed = hash(&[&canonical(&Value::Array(messages.to_vec()))]);
        message["reasoning_content"] = json!("Let me see.");
        message["reasoning_details"] =
            json!([{ "type": "reasoning.encrypted", "data": sealed, "id": state.next_id("rd"), "index": 0 }]);
    }
    let calls: Vec<Value> = step
        .calls
        .iter()
        .map(|(name, arguments)| {
            let id = state.next_id("call");
            let is_json = serde_json::from_str::<Value>(arguments).is_ok();
            let arguments = if is_json { arguments.clone() } else { json!({ "patch": arguments }).to_string() };
            json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
        })
        .collect();
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    normal(&message)
}

fn events(message: &Value, step: &Step, tokens: u64, cached: u64) -> Vec<Value> {
    let chunk = |delta: Value| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] });
    let mut events = vec![chunk(json!({ "role": "assistant", "content": "" }))];
    if step.thinks {
        events.push(chunk(json!({ "reasoning_content": message["reasoning_content"], "reasoning_details": message["reasoning_details"] })));
    }
    if !message["content"].is_null() {
        events.push(chunk(json!({ "content": message["content"] })));
    }
    for (at, call) in list(&message["tool_calls"]).iter().enumerate() {
        let mut call = call.clone();
        call["index"] = json!(at);
        events.push(chunk(json!({ "tool_calls": [call] })));
    }
    let reason = match step {
        Step { is_cut: true, .. } => "length",
        Step { calls, .. } if !calls.is_empty() => "tool_calls",
        _ => "stop",
    };
    events.push(json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] }));
    let details = json!({ "cached_tokens": cached });
    events.push(json!({ "choices": [], "usage": { "prompt_tokens": tokens, "completion_tokens": 5, "prompt_tokens_details": details } }));
    events
}
