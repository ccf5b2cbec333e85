//! What events of the wire become.

use serde_json::json;

use super::*;
use crate::{
    ModelEvent,
    remote::fixtures::{decode, items, tools},
};

fn reader() -> MessagesReader {
    MessagesReader::new(Freeform::of(&tools()))
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"role": "assistant", "usage":
        {"input_tokens": 3, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 5, "output_tokens": 1}}})
}

fn block(start: Value, deltas: &[Value]) -> Vec<Value> {
    let mut events = vec![json!({"type": "content_block_start", "index": 0, "content_block": start})];
    events.extend(deltas.iter().map(|delta| json!({"type": "content_block_delta", "index": 0, "delta": delta})));
    events.push(json!({"type": "content_block_stop", "index": 0}));
    events
}

fn text(text: &str) -> Vec<Value> {
    block(json!({"type": "text", "text": ""}), &[json!({"type": "text_delta", "text": text})])
}

fn stop(reason: &str) -> Vec<Value> {
    vec![
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

fn message(text: &str) -> HistoryItem {
    HistoryItem::Message { role: Role::Assistant, text: text.into(), carried: None }
}

#[test]
fn thinking_text_and_parallel_calls_become_items() {
    let call = |name: &str, id: &str, pieces: &[&str]| {
        let deltas: Vec<Value> =
            pieces.iter().map(|piece| json!({"type": "input_json_delta", "partial_json": piece})).collect();
        block(json!({"type": "tool_use", "id": id, "name": name, "input": {}}), &deltas)
    };
    let thinking = block(
        json!({"type": "thinking", "thinking": "", "signature": ""}),
        &[
            json!({"type": "thinking_delta", "thinking": "h"}),
            json!({"type": "thinking_delta", "thinking": "m"}),
            json!({"type": "signature_delta", "signature": "sig"}),
        ],
    );
    let whole = block(json!({"type": "tool_use", "id": "c", "name": "g", "input": {"y": 2}}), &[]);
    let events = [
        vec![start(), json!({"type": "ping"}), json!({"type": "brand_new", "delta": {"odd": 1}})],
        thinking,
        block(json!({"type": "redacted_thinking", "data": "zz"}), &[]),
        text("I look."),
        call("f", "a", &["{\"x\"", ":1}"]),
        call("apply_patch", "b", &["{\"input\":\"p\"}"]),
        whole,
        block(json!({"type": "server_tool_use", "id": "s", "name": "web_search"}), &[]),
        call("f", "d", &[]),
        stop("tool_use"),
    ]
    .concat();
    let (events, end) = decode(reader(), &events);
    assert_eq!(end, Some(End::Completed));
    let call = |id: &str, name: &str, arguments: &str| HistoryItem::FunctionCall {
        call_id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
        carried: None,
    };
    assert_eq!(
        items(&events),
        [
            HistoryItem::Reasoning {
                summary: "hm".into(),
                raw: json!({"type": "thinking", "thinking": "hm", "signature": "sig"})
            },
            HistoryItem::Reasoning { summary: String::new(), raw: json!({"type": "redacted_thinking", "data": "zz"}) },
            message("I look."),
            call("a", "f", "{\"x\":1}"),
            HistoryItem::CustomToolCall {
                call_id: "b".into(),
                name: "apply_patch".into(),
                input: "p".into(),
                carried: None
            },
            call("c", "g", "{\"y\":2}"),
            call("d", "f", "{}"),
        ]
    );
    let usage = Usage { input_tokens: 12, cached_input_tokens: 5, output_tokens: 9, reasoning_output_tokens: 0 };
    assert_eq!(events.last(), Some(&ModelEvent::Completed { usage }));
}

#[test]
fn every_way_to_end_is_told_apart() {
    let cut = |cause, reason: &str| Some(End::Incomplete { cause, reason: Some(reason.into()) });
    let failed = |code: &str, text: &str| Some(End::Failed { code: Some(code.into()), message: text.into() });
    let refused = vec![
        json!({"type": "message_delta", "delta": {"stop_reason": "refusal",
            "stop_details": {"type": "refusal", "category": "cyber", "explanation": "no exploits"}}}),
        json!({"type": "message_stop"}),
    ];
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    for (last, expected) in [
        (stop("end_turn"), Some(End::Completed)),
        (stop("brand_new"), Some(End::Completed)),
        (stop("max_tokens"), Some(End::Completed)),
        (stop("model_context_window_exceeded"), cut(Cause::ContextLength, "model_context_window_exceeded")),
        (stop("refusal"), cut(Cause::ContentPolicy, "refusal")),
        (refused, cut(Cause::ContentPolicy, "refusal: no exploits")),
        (vec![error], failed("overloaded_error", "Overloaded")),
        (stop("end_turn")[..1].to_vec(), Some(End::Completed)),
        (vec![], None),
    ] {
        let events = [vec![start()], text("x"), last.clone()].concat();
        assert_eq!(decode(reader(), &events).1, expected, "{last:?}");
    }
}

#[test]
fn a_pause_asks_for_more() {
    let (events, _) = decode(reader(), &[text("x"), stop("pause_turn")].concat());
    assert_eq!(events[events.len() - 2], ModelEvent::Unfinished(Unfinished::Paused));
    assert!(items(&events).contains(&message("x")));
}

#[test]
fn what_the_model_made_goes_back_as_it_came() {
    let content = json!([
        {"type": "thinking", "thinking": "", "signature": "sig", "later": 1},
        {"type": "redacted_thinking", "data": "zz"},
        {"type": "text", "text": "I look.", "citations": null},
        {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}, "caller": {"type": "direct"}},
        {"type": "tool_use", "id": "b", "name": "apply_patch", "input": {"patch": "p"}},
    ]);
    let deltas = [
        vec![json!({"type": "signature_delta", "signature": "sig"})],
        vec![],
        vec![json!({"type": "text_delta", "text": "I look."})],
        vec![json!({"type": "input_json_delta", "partial_json": "{\"x\":1}"})],
        vec![json!({"type": "input_json_delta", "partial_json": "{\"patch\":\"p\"}"})],
    ];
    let events: Vec<Value> = content
        .as_array()
        .unwrap()
        .iter()
        .zip(&deltas)
        .flat_map(|(whole, deltas)| {
            let mut start = whole.clone();
            for (name, empty) in [("text", json!("")), ("signature", json!("")), ("input", json!({}))] {
                if start.get(name).is_some() {
                    start[name] = empty;
                }
            }
            block(start, deltas)
        })
        .chain(stop("tool_use"))
        .collect();
    let said = items(&decode(reader(), &events).0);
    let mut history = vec![HistoryItem::Message { role: Role::User, text: "u".into(), carried: None }];
    history.extend(said.into_iter().map(|mut item| {
        match &mut item {
            HistoryItem::Message { carried, .. }
            | HistoryItem::FunctionCall { carried, .. }
            | HistoryItem::CustomToolCall { carried, .. } => {
                if let Some(carried) = carried {
                    carried["_provider"] = "p".into();
                }
            }
            HistoryItem::Reasoning { raw, .. } => raw["_provider"] = "p".into(),
            _ => {}
        }
        item
    }));
    let history: Vec<_> = history.into_iter().map(std::sync::Arc::new).collect();
    let tools = tools();
    let request = crate::remote::fixtures::request("claude-opus-4-7", &history, &tools);
    let config = crate::ProviderConfig::new("p", "http://x");
    let body = crate::messages::encode(&request, &config, &crate::facts_of("claude-opus-4-7")).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["messages"][1]["content"].to_string(), content.to_string());
}
