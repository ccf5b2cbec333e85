//! Decoding says the same however the network cuts the bytes, in every dialect.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{End, Reader, fixtures::decode_chunks};
use crate::{Freeform, ModelEvent, chat::ChatReader, messages::MessagesReader, responses::ResponsesReader};

fn reader(dialect: usize) -> Box<dyn Reader> {
    match dialect {
        0 => Box::new(ResponsesReader::new(Freeform::none())),
        1 => Box::new(ChatReader::new(Freeform::none())),
        _ => Box::new(MessagesReader::new(Freeform::none())),
    }
}

impl Reader for Box<dyn Reader> {
    fn read(&mut self, data: &[u8], events: &mut super::Events) {
        (**self).read(data, events);
    }

    fn is_ending(&self) -> bool {
        (**self).is_ending()
    }

    fn finish(&mut self, events: &mut super::Events) {
        (**self).finish(events);
    }
}

/// Events of all three dialects; each reader skips what is not its own.
fn pieces() -> Vec<Value> {
    vec![
        json!({"type": "response.output_item.added", "item": {"type": "message"}}),
        json!({"type": "response.output_text.delta", "delta": "é\"\\ text"}),
        json!({"type": "response.reasoning_summary_text.delta", "delta": "hm"}),
        json!({"type": "response.output_item.done", "item": {"type": "message", "content": [{"text": "t"}]}}),
        json!({"type": "response.output_item.done", "item":
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}}),
        json!({"type": "response.completed", "response": {"usage": {"input_tokens": 1, "output_tokens": 2}}}),
        json!({"choices": [{"delta": {"content": "häppchen"}}]}),
        json!({"choices": [{"delta": {"reasoning_content": "hm"}}]}),
        json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}]}}]}),
        json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}}]}),
        json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 3}}),
        json!({"type": "content_block_start", "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_start", "content_block": {"type": "thinking", "thinking": ""}}),
        json!({"type": "content_block_start", "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}}),
        json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "ü"}}),
        json!({"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}}),
        json!({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{}"}}),
        json!({"type": "content_block_stop"}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
        json!({"type": "message_stop"}),
        json!({"error": {"message": "boom"}}),
        json!("nonsense"),
    ]
}

fn decode(dialect: usize, chunks: &[&[u8]]) -> (Vec<ModelEvent>, Option<End>) {
    decode_chunks(reader(dialect), chunks)
}

proptest! {
    #[test]
    fn any_chunking_says_the_same(
        chosen in prop::collection::vec(prop::sample::select(pieces()), 0..14),
        cuts in prop::collection::vec(0usize..2_000, 0..10),
        dialect in 0usize..3,
    ) {
        let bytes: String = chosen.iter().map(|event| format!("event: e\r\ndata: {event}\r\n\r\n")).collect();
        let bytes = bytes.as_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let whole = decode(dialect, &[bytes]);
        prop_assert_eq!(&decode(dialect, &chunks), &whole);
        prop_assert_eq!(&decode(dialect, &single), &whole);
    }
}
