//! What chunks of the wire become.

use serde_json::json;

use super::*;
use crate::{
    ModelEvent, ToolSpec,
    remote::fixtures::{decode, decode_chunks, items, tools},
};

fn reader() -> ChatReader {
    ChatReader::new(Freeform::of(&tools()))
}

fn chunk(delta: Value) -> Value {
    json!({"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn message(text: &str) -> HistoryItem {
    HistoryItem::Message { role: Role::Assistant, text: text.into(), carried: None }
}

#[test]
fn reasoning_text_and_parallel_calls_become_items_in_order() {
    let (events, end) = decode(
        reader(),
        &[
            chunk(json!({"role": "assistant", "content": ""})),
            chunk(json!({"reasoning_content": "hm"})),
            chunk(json!({"reasoning_content": "m", "content": null})),
            chunk(json!({"content": "I "})),
            chunk(json!({"content": "look.", "brand_new": {"x": 1}})),
            chunk(json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}]})),
            chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"x\""}}]})),
            chunk(
                json!({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "apply_patch", "arguments": "{\"input\":\"p\"}"}},
                                        {"index": 2, "id": "c", "function": {"name": "g"}}]}),
            ),
            chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]})),
            finish("tool_calls"),
            json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 2}}}),
        ],
    );
    assert_eq!(end, Some(End::Completed));
    assert_eq!(
        items(&events),
        [
            HistoryItem::Reasoning {
                summary: "hmm".into(),
                raw: json!({"type": "chat_reasoning", "field": "reasoning_content", "text": "hmm"})
            },
            message("I look."),
            HistoryItem::FunctionCall {
                call_id: "a".into(),
                name: "f".into(),
                arguments: "{\"x\":1}".into(),
                carried: None
            },
            HistoryItem::CustomToolCall {
                call_id: "b".into(),
                name: "apply_patch".into(),
                input: "p".into(),
                carried: None
            },
            HistoryItem::FunctionCall { call_id: "c".into(), name: "g".into(), arguments: "{}".into(), carried: None },
        ]
    );
    assert_eq!(events[1], ModelEvent::ReasoningDelta("hmm".into()));
    let usage = Usage { input_tokens: 10, cached_input_tokens: 4, output_tokens: 5, reasoning_output_tokens: 2 };
    assert_eq!(events.last(), Some(&ModelEvent::Completed { usage }));
}

#[test]
fn servers_that_number_or_name_calls_badly_are_understood() {
    let call = |index: Value, id: Value, name: &str| {
        chunk(json!({"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": {"n": 1}}}]}))
    };
    for calls in [
        [call(json!(0), json!("a"), "f"), call(json!(0), json!("b"), "g")],
        [call(Value::Null, json!("a"), "f"), call(Value::Null, json!("b"), "g")],
        [call(json!(0), json!("a"), "f"), call(json!(1), json!("a"), "g")],
        [call(json!(0), json!(""), "f"), call(json!(1), Value::Null, "g")],
    ] {
        let (events, _) = decode(reader(), &[calls[0].clone(), calls[1].clone(), finish("tool_calls")]);
        let found: Vec<(String, String)> = items(&events)
            .into_iter()
            .map(|item| match item {
                HistoryItem::FunctionCall { call_id, name, arguments, .. } => {
                    assert_eq!(arguments, "{\"n\":1}");
                    (name, call_id)
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["f", "g"], "{calls:?}");
        assert!(found[0].1 != found[1].1 && !found[0].1.is_empty(), "{found:?}");
    }
}

#[test]
fn details_are_kept_whole_also_those_that_come_after_the_text() {
    let (events, _) = decode(
        reader(),
        &[
            chunk(
                json!({"reasoning": "a", "reasoning_details": [{"type": "reasoning.text", "text": "a", "index": 0}]}),
            ),
            chunk(json!({"content": "x"})),
            chunk(json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "d", "index": 1}]})),
            finish("stop"),
        ],
    );
    let raw: Vec<Value> = items(&events)
        .into_iter()
        .filter_map(|item| match item {
            HistoryItem::Reasoning { raw, .. } => Some(raw),
            _ => None,
        })
        .collect();
    assert_eq!(raw[0]["details"], json!([{"type": "reasoning.text", "text": "a", "index": 0}]));
    assert_eq!(
        raw[1],
        json!({"type": "chat_reasoning", "details": [{"type": "reasoning.encrypted", "data": "d", "index": 1}]})
    );
    assert!(items(&events).contains(&message("x")));
}

#[test]
fn every_way_to_end_is_told_apart() {
    let cut = |cause, reason: &str| Some(End::Incomplete { cause, reason: Some(reason.into()) });
    let failed =
        |code: Option<&str>, text: &str| Some(End::Failed { code: code.map(Into::into), message: text.into() });
    for (last, expected) in [
        (finish("stop"), Some(End::Completed)),
        (finish("end_turn"), Some(End::Completed)),
        (finish("length"), Some(End::Completed)),
        (finish("content_filter"), cut(Cause::ContentPolicy, "content_filter")),
        (json!({"error": {"code": "server_error", "message": "boom"}}), failed(Some("server_error"), "boom")),
        (
            json!({"error": {"code": 502, "message": "up"}, "choices": [{"delta": {}, "finish_reason": "error"}]}),
            failed(Some("502"), "up"),
        ),
        (json!({"error": "flat"}), failed(None, "flat")),
        (chunk(json!({"content": "y"})), None),
    ] {
        let (_, end) = decode(reader(), &[chunk(json!({"content": "x"})), last.clone()]);
        assert_eq!(end, expected, "{last}");
    }
}

#[test]
fn a_refusal_is_the_message_and_done_alone_is_an_end() {
    let bytes = format!("data: {}\n\ndata: [DONE]\n\n", chunk(json!({"refusal": "No."})));
    let (events, end) = decode_chunks(reader(), &[bytes.as_bytes()]);
    assert_eq!((items(&events), end), (vec![message("No.")], Some(End::Completed)));
    // With nothing before it, it ends nothing.
    assert_eq!(decode_chunks(reader(), &[b"data: [DONE]\n\n"]).1, None);
}

#[test]
fn parts_are_read_and_odd_fields_lose_only_themselves() {
    let (events, _) = decode(
        reader(),
        &[
            chunk(json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "t"}]}]})),
            chunk(json!({"content": [{"type": "text", "text": "a"}], "reasoning": {"odd": true}})),
            json!({"choices": [{"delta": {"content": "b"}}], "usage": "odd"}),
            json!({"choices": [{"index": 1, "delta": {"content": "another choice"}}]}),
            json!([1, 2]),
            finish("stop"),
        ],
    );
    assert!(items(&events).contains(&message("ab")), "{events:?}");
}

#[test]
fn an_output_that_is_cut_keeps_its_text_and_drops_its_calls() {
    let reader = ChatReader::new(Freeform::of(&[] as &[ToolSpec]));
    let call = chunk(json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x"}}]}));
    let (events, _) = decode(reader, &[chunk(json!({"content": "half"})), call, finish("length")]);
    assert_eq!(items(&events), [message("half")]);
    assert_eq!(events[events.len() - 2], ModelEvent::Unfinished(Unfinished::Cut));
}
