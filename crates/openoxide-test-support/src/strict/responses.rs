//! OpenAI Responses without a store, as agents use it: everything the model made comes back, sealed reasoning included.

use serde_json::{Value, json};

use super::cache::Block;
use super::script::Step;
use super::serve::{Answer, Request};
use super::{Refusal, State, canonical, hash, list, script};

pub(super) fn answer(state: &mut State, request: &Request) -> Result<Answer, Refusal> {
    let body = &request.body;
    let input = list(&body["input"]);
    check_stateless(body)?;
    check_pairs(input)?;
    let prompts = prompts(input);
    let key = prompts.iter().find(|prompt| script::is_scripted(prompt)).cloned().unwrap_or_default();
    let thinking = json!([body["reasoning"].is_null(), body["include"]]);
    let prefix = [("instructions", &body["instructions"]), ("tools", &body["tools"]), ("thinking", &thinking)];
    state.check_prefix(&key, prefix.map(|(name, value)| (name, canonical(value))).to_vec())?;
    check_echo(state, &key, input)?;
    let parts = [&body["instructions"], &body["tools"]].into_iter().chain(input);
    let blocks: Vec<Block> = parts.map(|part| Block { text: canonical(part), is_marked: false }).collect();
    // The key steers where a request goes, and a cache is there. Source: OpenAI docs, "Prompt caching" (prompt_cache_key).
    let (tokens, cached) = state.cache.read(&canonical(&body["prompt_cache_key"]), &blocks, false);
    let (label, step) = state.step(&prompts);
    let output = output(state, body, &step);
    for item in &output {
        state.gives(&key, item);
    }
    Ok(Answer { events: events(&output, &step, tokens, cached), label, tokens, cached })
}

/// Rule: what is kept nowhere is asked for sealed. Source: OpenAI docs, "Reasoning models" (encrypted reasoning items: `store`
/// false with `include: reasoning.encrypted_content`).
fn check_stateless(body: &Value) -> Result<(), Refusal> {
    match (body["store"].as_bool(), body["include"][0].as_str()) {
        (Some(false), Some("reasoning.encrypted_content")) => Ok(()),
        _ => {
            Err("store: false and include: [\"reasoning.encrypted_content\"] are expected of a stateless client".into())
        }
    }
}

/// Rules: each call has its output and each output its call; reasoning stands before an item of the model's. Source: what the API
/// answers otherwise ("No tool output found for function call", "No tool call found for function call output", "Item of type
/// 'reasoning' was provided without its required following item").
fn check_pairs(input: &[Value]) -> Result<(), Refusal> {
    let mut open: Vec<&str> = Vec::new();
    for (at, item) in input.iter().enumerate() {
        let id = item["call_id"].as_str().unwrap_or_default();
        match item["type"].as_str() {
            Some("function_call" | "custom_tool_call") => open.push(id),
            Some("function_call_output" | "custom_tool_call_output") => {
                match open.iter().position(|known| *known == id) {
                    Some(known) => drop(open.remove(known)),
                    None => return Err(format!("No tool call found for function call output with call_id {id}.")),
                }
            }
            Some("reasoning") => {
                let next = input.get(at + 1).unwrap_or(&Value::Null);
                let is_made = next["role"] == "assistant"
                    || matches!(next["type"].as_str(), Some("reasoning" | "function_call" | "custom_tool_call"));
                if !is_made {
                    return Err(format!(
                        "Item {} of type 'reasoning' was provided without its required following item.",
                        item["id"]
                    ));
                }
            }
            _ if !open.is_empty() => return Err(format!("No tool output found for function call {}.", open[0])),
            _ => {}
        }
    }
    match open.first() {
        Some(id) => Err(format!("No tool output found for function call {id}.")),
        None => Ok(()),
    }
}

fn text_of(item: &Value) -> Option<&str> {
    item["content"].as_str().or_else(|| item["content"][0]["text"].as_str())
}

fn prompts(input: &[Value]) -> Vec<String> {
    input.iter().filter(|item| item["role"] == "user").filter_map(text_of).map(str::to_owned).collect()
}

/// Rules: what the model made comes back as it was, with its `phase`, its id and what is sealed; an id that stands with reasoning
/// does not come without it. Sources: OpenAI API reference, `MessagePhase` ("preserve and resend phase on all assistant
/// messages - dropping it can degrade performance"); OpenAI docs, "Conversation state" (add the output of each response to the
/// next input); and what the API answers otherwise ("Item of type 'message' was provided without its required 'reasoning' item").
fn check_echo(state: &State, key: &str, input: &[Value]) -> Result<(), Refusal> {
    for (at, item) in input.iter().enumerate() {
        let is_made = item["role"] == "assistant"
            || matches!(item["type"].as_str(), Some("reasoning" | "function_call" | "custom_tool_call"));
        if !is_made || state.is_lenient || state.given(key).contains(&canonical(item)) {
            continue;
        }
        // One whose reasoning is left out has lost its id with it, and nothing else.
        let is_bare = item["id"].is_null()
            && item["type"] != "reasoning"
            && state.given(key).iter().any(|given| is_same_but_for_its_id(given, item));
        if !is_bare {
            return Err(format!("echo: input.{at} is not as it was given: {item}"));
        }
    }
    Ok(())
}

fn is_same_but_for_its_id(given: &str, item: &Value) -> bool {
    let Ok(given) = serde_json::from_str::<Value>(given) else { return false };
    let same = |name: &str| given[name] == item[name];
    same("type")
        && same("phase")
        && same("call_id")
        && same("name")
        && same("arguments")
        && same("input")
        && text_of(&given) == text_of(item)
}

/// The items of a response.
fn output(state: &mut State, body: &Value, step: &Step) -> Vec<Value> {
    let mut output = Vec::new();
    if step.thinks {
        let id = state.next_id("rs");
        let sealed = hash(&[&id, &canonical(&body["input"])]);
        output.push(json!({ "id": id, "type": "reasoning", "summary": [], "encrypted_content": sealed }));
    }
    for said in &step.says {
        let phase = if said.is_commentary { "commentary" } else { "final_answer" };
        let content = json!([{ "type": "output_text", "annotations": [], "logprobs": [], "text": said.text }]);
        let (id, status) = (state.next_id("msg"), if step.is_cut { "incomplete" } else { "completed" });
        output.push(json!({ "id": id, "type": "message", "status": status, "content": content, "phase": phase, "role": "assistant" }));
    }
    for (name, arguments) in &step.calls {
        let (id, call_id) = (state.next_id("fc"), state.next_id("call"));
        let is_custom =
            list(&body["tools"]).iter().any(|tool| tool["type"] == "custom" && tool["name"] == name.as_str());
        let (kind, field) = if is_custom { ("custom_tool_call", "input") } else { ("function_call", "arguments") };
        output.push(json!({ "id": id, "type": kind, "status": "completed", field: arguments, "call_id": call_id, "name": name }));
    }
    output
}

fn events(output: &[Value], step: &Step, tokens: u64, cached: u64) -> Vec<Value> {
    let mut events = vec![json!({ "type": "response.created", "response": {} })];
    for (at, item) in output.iter().enumerate() {
        events.push(json!({ "type": "response.output_item.added", "output_index": at, "item": item }));
        events.push(json!({ "type": "response.output_item.done", "output_index": at, "item": item }));
    }
    let usage = json!({
        "input_tokens": tokens,
        "input_tokens_details": { "cached_tokens": cached },
        "output_tokens": 5,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": tokens + 5,
    });
    let mut response = json!({ "id": "resp", "usage": usage });
    if step.goes_on {
        response["end_turn"] = json!(false);
    }
    let kind = if step.is_cut { "response.incomplete" } else { "response.completed" };
    if step.is_cut {
        response["incomplete_details"] = json!({ "reason": "max_output_tokens" });
    }
    events.push(json!({ "type": kind, "response": response }));
    events
}
