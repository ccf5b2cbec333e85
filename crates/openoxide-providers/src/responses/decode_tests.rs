//! What events of the wire become.

use serde_json::{Value, json};

use super::*;
use crate::{ModelEvent, remote::Decoder};

fn decode(events: &[Value]) -> (Vec<ModelEvent>, Option<End>) {
    let bytes: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let mut decoder = Decoder::new(Box::new(ResponsesReader::new(Freeform::none())));
    decoder.feed(bytes.as_bytes()).unwrap();
    (std::iter::from_fn(|| decoder.next_event()).collect(), decoder.end().cloned())
}

#[test]
fn deltas_of_a_chunk_merge_and_the_done_item_decides() {
    let (events, end) = decode(&[
        json!({"type": "response.created", "response": {}}),
        json!({"type": "response.output_item.added", "item": {"type": "message"}}),
        json!({"type": "response.output_text.delta", "delta": "a\n"}),
        json!({"type": "response.output_text.delta", "delta": "b"}),
        json!({"type": "response.brand_new", "delta": {"x": 1}}),
        json!({"type": "response.refusal.delta", "delta": "c"}),
        json!({"type": "response.output_item.done", "item": {"type": "message", "content": [
            {"type": "output_text", "text": "A"}, {"type": "refusal", "refusal": "R"}]}}),
        json!({"type": "response.completed", "response": {"usage": {
            "input_tokens": 10, "input_tokens_details": {"cached_tokens": 4},
            "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2}}}}),
        json!({"type": "response.output_text.delta", "delta": "after the end"}),
    ]);
    assert_eq!(end, Some(End::Completed));
    assert_eq!(
        events,
        [
            ModelEvent::ItemStarted(ItemKind::Message),
            ModelEvent::TextDelta("a\nbc".into()),
            ModelEvent::ItemDone(HistoryItem::Message { role: Role::Assistant, text: "AR".into(), carried: None }),
            ModelEvent::Completed {
                usage: Usage { input_tokens: 10, cached_input_tokens: 4, output_tokens: 5, reasoning_output_tokens: 2 }
            },
        ]
    );
}

#[test]
fn reasoning_is_shown_in_parts_and_kept_raw() {
    let raw = json!({"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "x"},
        {"type": "summary_text", "text": "y"}], "encrypted_content": "zz", "later_field": [1]});
    let (events, _) = decode(&[
        json!({"type": "response.output_item.added", "item": {"type": "reasoning"}}),
        json!({"type": "response.reasoning_summary_part.added"}),
        json!({"type": "response.reasoning_summary_text.delta", "delta": "x"}),
        json!({"type": "response.reasoning_summary_part.added"}),
        json!({"type": "response.reasoning_summary_text.delta", "delta": "y"}),
        json!({"type": "response.output_item.done", "item": raw}),
    ]);
    assert_eq!(
        events,
        [
            ModelEvent::ItemStarted(ItemKind::Reasoning),
            ModelEvent::ReasoningDelta("x\n\ny".into()),
            ModelEvent::ItemDone(HistoryItem::Reasoning { summary: "x\n\ny".into(), raw }),
        ]
    );
}

#[test]
fn calls_are_read_and_foreign_items_skipped() {
    let (events, _) = decode(&[
        json!({"type": "response.output_item.added", "item": {"type": "web_search_call"}}),
        json!({"type": "response.output_item.done", "item": {"type": "web_search_call", "id": "w"}}),
        json!({"type": "response.output_item.done", "item":
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{\"a\":1}"}}),
        json!({"type": "response.output_item.done", "item":
            {"type": "custom_tool_call", "call_id": "d", "name": "p", "input": "t"}}),
        json!({"type": "response.completed"}),
    ]);
    assert_eq!(
        events[..events.len() - 1],
        [
            ModelEvent::ItemDone(HistoryItem::FunctionCall {
                call_id: "c".into(),
                name: "f".into(),
                arguments: "{\"a\":1}".into(),
                carried: None
            }),
            ModelEvent::ItemDone(HistoryItem::CustomToolCall {
                call_id: "d".into(),
                name: "p".into(),
                input: "t".into(),
                carried: None
            }),
        ]
    );
}

#[test]
fn items_of_the_last_event_count_when_none_came_before() {
    let (events, _) = decode(&[json!({"type": "response.completed", "response": {"output": [
        {"type": "message", "content": [{"type": "output_text", "text": "only here"}]}], "usage": null}})]);
    assert_eq!(events.len(), 3);
    assert_eq!(
        events[1],
        ModelEvent::ItemDone(HistoryItem::Message { role: Role::Assistant, text: "only here".into(), carried: None })
    );
}

#[test]
fn every_way_to_end_is_told_apart() {
    let failed =
        |code: Option<&str>, message: &str| Some(End::Failed { code: code.map(Into::into), message: message.into() });
    for (event, expected) in [
        (
            json!({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "boom"}}}),
            failed(Some("server_error"), "boom"),
        ),
        (json!({"type": "response.failed"}), failed(None, "no reason given")),
        (json!({"type": "error", "code": null, "message": "flat"}), failed(None, "flat")),
        (json!({"type": "error", "error": {"code": 500, "message": "nested"}}), failed(Some("500"), "nested")),
        (
            json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": "content_filter"}}}),
            Some(End::Incomplete { cause: Cause::ContentPolicy, reason: Some("content_filter".into()) }),
        ),
        (json!({"type": "response.queued"}), None),
    ] {
        assert_eq!(decode(std::slice::from_ref(&event)).1, expected, "{event}");
    }
}

#[test]
fn bad_lines_are_skipped() {
    let mut decoder = Decoder::new(Box::new(ResponsesReader::new(Freeform::none())));
    decoder.feed(b"data: [DONE]\n\ndata: {\"type\":\n\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"\xff\"}\n\n").unwrap();
    decoder.feed(b"data: {\"type\":\"response.output_text.delta\",\"delta\":\"ok\"}\n\n").unwrap();
    assert_eq!(decoder.next_event(), Some(ModelEvent::TextDelta("ok".into())));
    assert_eq!(decoder.next_event(), None);
}

/// The items of a response, as they go back in the next request.
fn sent_back(output: &[Value], model: &str) -> Value {
    let mut events: Vec<Value> =
        output.iter().map(|item| json!({"type": "response.output_item.done", "item": item})).collect();
    events.push(json!({"type": "response.completed"}));
    let input: Vec<_> = crate::remote::fixtures::items(&decode(&events).0)
        .into_iter()
        .map(|mut item| {
            if let HistoryItem::Message { carried: Some(made), .. }
            | HistoryItem::FunctionCall { carried: Some(made), .. }
            | HistoryItem::CustomToolCall { carried: Some(made), .. } = &mut item
            {
                made["_provider"] = "p".into();
            }
            std::sync::Arc::new(item)
        })
        .collect();
    let config = crate::ProviderConfig::new("p", "http://x");
    let request = crate::remote::fixtures::request(model, &input, &[]);
    let facts = crate::ModelFacts { freeform: true, ..crate::facts_of(model) };
    let body: Value = serde_json::from_slice(&crate::responses::encode(&request, &config, &facts).unwrap()).unwrap();
    body["input"].clone()
}

#[test]
fn what_the_model_made_goes_back_as_it_came_whatever_its_name_is() {
    let text = |text: &str| json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text});
    let mut output = vec![
        json!({"id": "rs", "type": "reasoning", "summary": [], "encrypted_content": "sealed"}),
        json!({"id": "msg", "type": "message", "status": "completed", "content": [text("I look.")], "phase": "commentary", "role": "assistant"}),
        json!({"type": "message", "id": "two", "role": "assistant", "content": [text("a"), {"type": "refusal", "refusal": "b"}]}),
        json!({"id": "fc", "type": "function_call", "status": "completed", "arguments": "{\"a\": 1}", "call_id": "c", "name": "f"}),
        json!({"id": "ctc", "type": "custom_tool_call", "status": "completed", "call_id": "d", "input": "text", "name": "p", "later": [1]}),
    ];
    let outputs = |sent: Value| -> Vec<Value> {
        let sent = sent.as_array().unwrap().clone();
        sent.into_iter().filter(|item| !item["type"].as_str().unwrap().ends_with("_output")).collect()
    };
    for model in ["gpt-6", "gpt-4o", "my-deployment"] {
        assert_eq!(json!(outputs(sent_back(&output, model))).to_string(), json!(output).to_string(), "{model}");
    }
    // Reasoning that cannot be read again takes the ids of what stands with it along, and nothing else.
    output[0] = json!({"id": "rs", "type": "reasoning", "summary": []});
    let bare = outputs(sent_back(&output[..2], "gpt-6"));
    assert_eq!(bare, [json!({"type": "message", "role": "assistant", "content": "I look.", "phase": "commentary"})]);
}

#[test]
fn a_model_that_has_not_ended_its_turn_says_so() {
    let message = |phase: &str| {
        json!({"type": "response.output_item.done", "item":
        {"type": "message", "phase": phase, "content": [{"type": "output_text", "text": "t"}]}})
    };
    let goes_on = Some(ModelEvent::Unfinished(Unfinished::GoesOn));
    for (said, response, expected) in [
        (vec!["commentary"], json!({}), goes_on.clone()),
        (vec!["commentary"], json!({"end_turn": true}), None),
        (vec!["final_answer"], json!({"end_turn": false}), goes_on.clone()),
        (vec!["commentary", "final_answer"], json!({}), None),
        (vec!["final_answer"], json!({}), None),
        (vec![], json!({}), None),
    ] {
        let mut events: Vec<Value> = said.iter().copied().map(message).collect();
        events.push(json!({"type": "response.completed", "response": response}));
        let (events, _) = decode(&events);
        let found = events.into_iter().find(|event| matches!(event, ModelEvent::Unfinished(_)));
        assert_eq!(found, expected, "{said:?} {response}");
    }
    let cut =
        json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}});
    let (events, end) = decode(&[cut]);
    assert_eq!((&events[0], end), (&ModelEvent::Unfinished(Unfinished::Cut), Some(End::Completed)));
}
