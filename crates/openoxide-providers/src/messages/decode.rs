//! Reads the events of a Messages stream (Anthropic API reference, streaming).
//!
//! A response is a row of content blocks, each of which becomes one item when it stops. What is not JSON and what is not
//! known is skipped.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use crate::{
    Cause, Freeform, HistoryItem, ItemKind, Role, Unfinished, Usage,
    remote::{End, Events, Reader, carried::kept},
};

/// What one attempt's stream has said so far.
#[derive(Debug)]
pub(crate) struct MessagesReader {
    freeform: Freeform,
    block: Option<Block>,
    usage: WireUsage,
    stop: Option<Stop>,
}

/// The block under way; `start` holds all members it began with.
#[derive(Debug)]
enum Block {
    Text {
        start: Map<String, Value>,
        text: String,
    },
    Thinking {
        start: Map<String, Value>,
        text: String,
        signature: String,
    },
    /// Thinking that is sealed whole.
    Redacted(Value),
    ToolUse {
        start: Map<String, Value>,
        id: String,
        name: String,
        input: String,
    },
    /// A kind nobody asked for.
    Other,
}

/// Why the model stopped.
#[derive(Debug)]
struct Stop {
    reason: String,
    /// The explanation of a refusal.
    explanation: Option<String>,
}

/// The fields of all events in one.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// The deltas of blocks, and that of the message.
#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    signature: Option<Text<'a>>,
    #[serde(borrow, default)]
    partial_json: Option<Text<'a>>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(borrow, default)]
    stop_details: Option<&'a RawValue>,
}

/// `Option<Cow<str>>` on its own never borrows; inside a struct it does.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct WireUsage {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    thinking_tokens: Option<u64>,
}

impl MessagesReader {
    /// A reader for one attempt; calls of `freeform` tools come as functions.
    pub(crate) fn new(freeform: Freeform) -> Self {
        Self { freeform, block: None, usage: WireUsage::default(), stop: None }
    }
}

impl Reader for MessagesReader {
    fn read(&mut self, data: &[u8], events: &mut Events) {
        let Ok(event) = serde_json::from_slice::<Envelope<'_>>(data) else { return };
        match &*event.kind {
            "content_block_delta" => {
                if let Some(delta) = event.delta {
                    self.read_delta(&delta, events);
                }
            }
            "content_block_start" => {
                // A server that forgets to stop a block has stopped it by beginning another.
                self.stop_block(events);
                if let Some(block) = event.content_block.and_then(|raw| serde_json::from_str(raw.get()).ok()) {
                    self.start_block(block, events);
                }
            }
            "content_block_stop" => self.stop_block(events),
            "message_start" => {
                #[derive(Deserialize)]
                struct Message<'a> {
                    #[serde(borrow, default)]
                    usage: Option<&'a RawValue>,
                }
                let message = event.message.and_then(|raw| serde_json::from_str::<Message<'_>>(raw.get()).ok());
                self.count(message.and_then(|message| message.usage), events);
            }
            "message_delta" => {
                self.count(event.usage, events);
                let Some(delta) = event.delta else { return };
                if let Some(reason) = delta.stop_reason {
                    self.stop = Some(Stop { reason, explanation: delta.stop_details.and_then(explanation) });
                }
            }
            "message_stop" => self.conclude(events),
            "error" => events.end_with(read_error(event.error)),
            _ => {}
        }
    }

    fn is_ending(&self) -> bool {
        self.stop.is_some()
    }

    fn finish(&mut self, events: &mut Events) {
        if self.stop.is_some() {
            self.conclude(events);
        }
    }
}

impl MessagesReader {
    fn start_block(&mut self, block: Value, events: &mut Events) {
        let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        let start = block.as_object().cloned().unwrap_or_default();
        self.block = Some(match block["type"].as_str() {
            Some("text") => {
                let text = text("text");
                events.start(ItemKind::Message);
                events.delta(false, &text);
                Block::Text { start, text }
            }
            Some("thinking") => {
                let thinking = text("thinking");
                events.start(ItemKind::Reasoning);
                events.delta(true, &thinking);
                Block::Thinking { start, text: thinking, signature: text("signature") }
            }
            Some("redacted_thinking") => {
                events.start(ItemKind::Reasoning);
                Block::Redacted(block)
            }
            Some("tool_use") => {
                events.start(ItemKind::ToolCall);
                // Empty when the input comes in deltas; some servers send it whole.
                let whole = block["input"].as_object().filter(|input| !input.is_empty());
                let input = whole.map(|_| block["input"].to_string()).unwrap_or_default();
                Block::ToolUse { start, id: text("id"), name: text("name"), input }
            }
            _ => Block::Other,
        });
    }

    fn read_delta(&mut self, delta: &Delta<'_>, events: &mut Events) {
        match &mut self.block {
            Some(Block::Text { text, .. }) => {
                if let Some(Text(piece)) = &delta.text {
                    text.push_str(piece);
                    events.delta(false, piece);
                }
            }
            Some(Block::Thinking { text, signature, .. }) => {
                if let Some(Text(piece)) = &delta.thinking {
                    text.push_str(piece);
                    events.delta(true, piece);
                }
                if let Some(Text(piece)) = &delta.signature {
                    signature.push_str(piece);
                }
            }
            Some(Block::ToolUse { input, .. }) => {
                if let Some(Text(piece)) = &delta.partial_json {
                    input.push_str(piece);
                }
            }
            Some(Block::Redacted(_) | Block::Other) | None => {}
        }
    }

    fn stop_block(&mut self, events: &mut Events) {
        match self.block.take() {
            Some(Block::Text { mut start, text }) => {
                start.insert("text".to_owned(), Value::Null);
                let carried = kept(start, &["type", "text"]);
                events.done(HistoryItem::Message { role: Role::Assistant, text, carried });
            }
            Some(Block::Thinking { start: mut raw, text, signature }) => {
                raw.insert("thinking".to_owned(), text.clone().into());
                raw.insert("signature".to_owned(), signature.into());
                events.done(HistoryItem::Reasoning { summary: text, raw: Value::Object(raw) });
            }
            Some(Block::Redacted(raw)) => events.done(HistoryItem::Reasoning { summary: String::new(), raw }),
            Some(Block::ToolUse { mut start, id, name, input }) if !name.is_empty() => {
                let id = if id.is_empty() { format!("call_{:016x}", fastrand::u64(..)) } else { id };
                let input = if input.trim().is_empty() { "{}".to_owned() } else { input };
                let call = self.freeform.call(id, name, input, |written| {
                    // As it was written, where the text does not tell.
                    let written = written.and_then(|written| serde_json::from_str::<Value>(written).ok());
                    let is_told = written.is_none();
                    start.insert("input".to_owned(), written.filter(Value::is_object).unwrap_or_default());
                    kept(start, if is_told { &["type", "id", "name", "input"] } else { &[] })
                });
                events.done(call);
            }
            Some(Block::ToolUse { .. } | Block::Other) | None => {}
        }
    }

    /// Takes the numbers of `usage` that it has; they are sums so far, not differences.
    fn count(&mut self, usage: Option<&RawValue>, events: &mut Events) {
        let Some(new) = usage.and_then(|usage| serde_json::from_str::<WireUsage>(usage.get()).ok()) else { return };
        let old = self.usage;
        self.usage = WireUsage {
            input_tokens: new.input_tokens.or(old.input_tokens),
            cache_creation_input_tokens: new.cache_creation_input_tokens.or(old.cache_creation_input_tokens),
            cache_read_input_tokens: new.cache_read_input_tokens.or(old.cache_read_input_tokens),
            output_tokens: new.output_tokens.or(old.output_tokens),
            output_tokens_details: new.output_tokens_details.or(old.output_tokens_details),
        };
        let number = |number: Option<u64>| number.unwrap_or_default();
        let cached = number(self.usage.cache_read_input_tokens);
        events.set_usage(Usage {
            input_tokens: number(self.usage.input_tokens) + number(self.usage.cache_creation_input_tokens) + cached,
            cached_input_tokens: cached,
            output_tokens: number(self.usage.output_tokens),
            reasoning_output_tokens: number(
                self.usage.output_tokens_details.and_then(|details| details.thinking_tokens),
            ),
        });
    }

    /// The response is over by its own word.
    fn conclude(&mut self, events: &mut Events) {
        self.stop_block(events);
        let stop = self.stop.take();
        let (cause, reason) = match stop.as_ref().map(|stop| stop.reason.as_str()) {
            Some("max_tokens") => return events.complete(Some(Unfinished::Cut)),
            Some("model_context_window_exceeded") => (Cause::ContextLength, "model_context_window_exceeded".to_owned()),
            Some("refusal") => {
                let explanation = stop.as_ref().and_then(|stop| stop.explanation.as_deref());
                let reason = explanation.map_or_else(|| "refusal".to_owned(), |why| format!("refusal: {why}"));
                (Cause::ContentPolicy, reason)
            }
            Some("pause_turn") => return events.complete(Some(Unfinished::Paused)),
            _ => return events.complete(None),
        };
        events.end_with(End::Incomplete { cause, reason: Some(reason) });
    }
}

/// The explanation of `stop_details`, where there is one.
fn explanation(raw: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Details {
        #[serde(default)]
        explanation: Option<String>,
    }
    serde_json::from_str::<Details>(raw.get()).ok()?.explanation.filter(|text| !text.is_empty())
}

fn read_error(raw: Option<&RawValue>) -> End {
    let error: Value = raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let text = |key: &str| error[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let code = text("type");
    let message = text("message").or_else(|| code.clone()).unwrap_or_else(|| "no reason given".to_owned());
    End::Failed { code, message }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
