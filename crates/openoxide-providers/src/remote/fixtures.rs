//! A history and tools with one of everything, for the body snapshots of all dialects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Decoder, End, Reader};
use crate::{HistoryItem, ModelEvent, ModelRequest, Role, ToolSpec};

/// A turn of every sort of item, made by provider `p`, with reasoning of each dialect.
pub(crate) fn history() -> Vec<Arc<HistoryItem>> {
    let message = |role, text: &str| HistoryItem::Message { role, text: text.into(), carried: None };
    let reasoning = |summary: &str, mut raw: Value| {
        raw["_provider"] = "p".into();
        HistoryItem::Reasoning { summary: summary.into(), raw }
    };
    let call = |id: &str, arguments: &str| HistoryItem::FunctionCall {
        call_id: id.into(),
        name: "read_file".into(),
        arguments: arguments.into(),
        carried: None,
    };
    let output =
        |id: &str, custom, output: &str| HistoryItem::ToolOutput { call_id: id.into(), custom, output: output.into() };
    [
        message(Role::Developer, "be brief"),
        message(Role::User, "<environment_context/>"),
        message(Role::User, "fix it"),
        reasoning("", json!({"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "sealed"})),
        reasoning("hm", json!({"type": "thinking", "thinking": "hm", "signature": "s"})),
        reasoning("", json!({"type": "redacted_thinking", "data": "d"})),
        reasoning(
            "hm",
            json!({"type": "chat_reasoning", "field": "reasoning_content", "text": "hm",
                   "details": [{"type": "reasoning.encrypted", "data": "d"}]}),
        ),
        message(Role::Assistant, "I look."),
        call("call:1", "{\"path\": \"a\"}"),
        call("call_2", "{\"path\":"),
        HistoryItem::CustomToolCall {
            call_id: "call_3".into(),
            name: "apply_patch".into(),
            input: "*** \"x\"\n".into(),
            carried: None,
        },
        output("call:1", false, "one"),
        output("call_2", false, "two"),
        output("call_3", true, "three"),
        HistoryItem::Image { media_type: "image/png".into(), data: "iVBORw==".into() },
        message(Role::User, "also this"),
        message(Role::Assistant, "Done."),
        message(Role::User, "thanks"),
    ]
    .into_iter()
    .map(Arc::new)
    .collect()
}

/// A function and a freeform tool.
pub(crate) fn tools() -> Vec<ToolSpec> {
    vec![
        ToolSpec::Function {
            name: "read_file".into(),
            description: "Reads.".into(),
            parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        },
        ToolSpec::Freeform { name: "apply_patch".into(), description: "Patches.".into(), grammar: "start: x".into() },
    ]
}

/// A request for `model` with these.
pub(crate) fn request<'a>(model: &'a str, input: &'a [Arc<HistoryItem>], tools: &'a [ToolSpec]) -> ModelRequest<'a> {
    ModelRequest {
        model,
        instructions: "You code.",
        input,
        tools,
        cache_key: "thread-1",
        reasoning: Default::default(),
    }
}

/// Everything a reader makes of these events, and how they ended.
pub(crate) fn decode(reader: impl Reader + 'static, events: &[Value]) -> (Vec<ModelEvent>, Option<End>) {
    let bytes: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    decode_chunks(reader, &[bytes.as_bytes()])
}

/// The same for bytes as they may come; deltas are taken once, at the end.
pub(crate) fn decode_chunks(reader: impl Reader + 'static, chunks: &[&[u8]]) -> (Vec<ModelEvent>, Option<End>) {
    let mut decoder = Decoder::new(Box::new(reader));
    for chunk in chunks {
        decoder.feed(chunk).unwrap();
    }
    decoder.finish().unwrap();
    let end = decoder.end().cloned();
    (std::iter::from_fn(|| decoder.next_event()).collect(), end)
}

/// Only the items that are done.
pub(crate) fn items(events: &[ModelEvent]) -> Vec<HistoryItem> {
    let done = |event: &ModelEvent| match event {
        ModelEvent::ItemDone(item) => Some(item.clone()),
        _ => None,
    };
    events.iter().filter_map(done).collect()
}
