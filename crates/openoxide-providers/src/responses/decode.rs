//! Reads the events of a Responses stream (OpenAI API reference, streaming events).
//!
//! What is not JSON and what is not known is skipped: providers add events without notice. An item's own last event
//! decides what it is, whatever its deltas said.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use crate::{
    Carried, Cause, Freeform, HistoryItem, ItemKind, Role, Unfinished, Usage,
    remote::{End, Events, Reader, carried::kept},
};

/// What one attempt's stream has said that later events depend on.
#[derive(Debug)]
pub(crate) struct ResponsesReader {
    freeform: Freeform,
    /// The reasoning item under way has shown a part, so that the next is set off from it.
    reasoning_shown: bool,
    /// Reasoning came that nobody can read again; ids of what stands with it would ask for it.
    has_lost_reasoning: bool,
    /// Whether each message so far only says what the model is about to do; none where there is no message.
    is_commentary: Option<bool>,
}

impl ResponsesReader {
    /// A reader for one attempt; calls of `freeform` tools come as functions.
    pub(crate) fn new(freeform: Freeform) -> Self {
        Self { freeform, reasoning_shown: false, has_lost_reasoning: false, is_commentary: None }
    }
}

/// The fields of all events in one; borrowed from the chunk wherever JSON's escapes allow.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    delta: Option<Text<'a>>,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
}

/// `Option<Cow<str>>` on its own never borrows; inside a struct it does.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Reader for ResponsesReader {
    fn read(&mut self, data: &[u8], events: &mut Events) {
        let Ok(event) = serde_json::from_slice::<Envelope<'_>>(data) else { return };
        let delta = event.delta.as_ref().map_or("", |Text(delta)| delta);
        match &*event.kind {
            "response.output_text.delta" | "response.refusal.delta" => events.delta(false, delta),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.reasoning_shown = true;
                events.delta(true, delta);
            }
            "response.reasoning_summary_part.added" if self.reasoning_shown => events.delta(true, "\n\n"),
            "response.output_item.added" => {
                if let Some(kind) = event.item.and_then(item_kind) {
                    self.reasoning_shown = false;
                    events.start(kind);
                }
            }
            "response.output_item.done" => {
                if let Some(item) = event.item.and_then(|item| self.read_item(item)) {
                    events.done(item);
                }
            }
            "response.completed" => self.completed(event.response, events),
            "response.incomplete" => {
                let response = read_response(event.response);
                match response.incomplete_details.as_ref().and_then(|details| details.reason.as_deref()) {
                    Some("content_filter") => {
                        let reason = Some("content_filter".to_owned());
                        events.end_with(End::Incomplete { cause: Cause::ContentPolicy, reason });
                    }
                    Some(_) => {
                        events.set_usage(response.usage.unwrap_or_default().into());
                        events.complete(Some(Unfinished::Cut));
                    }
                    None => events.end_with(End::Incomplete { cause: Cause::OutputLimit, reason: None }),
                }
            }
            "response.failed" => {
                events.end_with(read_response(event.response).error.unwrap_or_default().into_end());
            }
            "error" => events.end_with(serde_json::from_slice::<WireError>(data).unwrap_or_default().into_end()),
            _ => {}
        }
    }
}

impl ResponsesReader {
    fn completed(&mut self, response: Option<&RawValue>, events: &mut Events) {
        let response = read_response(response);
        // A server that sends no item events still lists the items here.
        if events.items_done() == 0 {
            for raw in response.output.unwrap_or_default() {
                if let (Some(kind), Some(item)) = (item_kind(raw), self.read_item(raw)) {
                    events.start(kind);
                    events.done(item);
                }
            }
        }
        events.set_usage(response.usage.unwrap_or_default().into());
        let goes_on = !response.end_turn.unwrap_or(self.is_commentary != Some(true));
        events.complete(goes_on.then_some(Unfinished::GoesOn));
    }

    /// An item as the history keeps it; `None` for kinds nobody offered the model.
    fn read_item(&mut self, raw: &RawValue) -> Option<HistoryItem> {
        let item: WireItem = serde_json::from_str(raw.get()).ok()?;
        match item.kind.as_str() {
            "message" => {
                let is_commentary = item.phase.as_deref() == Some("commentary");
                self.is_commentary = Some(self.is_commentary.unwrap_or(true) && is_commentary);
                let carried = self.carried(raw, &["type", "role", "content"], |item| {
                    // Nearly every message has one part; more of them stay as they are.
                    let parts = item.get_mut("content").and_then(Value::as_array_mut);
                    if let Some([Value::Object(part)]) = parts.map(Vec::as_mut_slice)
                        && let Some(text @ Value::String(_)) = part.get_mut("text")
                    {
                        *text = Value::Null;
                    }
                });
                Some(HistoryItem::Message { role: Role::Assistant, text: join(item.content, ""), carried })
            }
            "reasoning" => {
                let mut summary = join(item.summary, "\n\n");
                if summary.is_empty() {
                    summary = join(item.content, "\n\n");
                }
                let raw = serde_json::from_str::<Map<String, Value>>(raw.get()).ok()?;
                self.has_lost_reasoning |= !super::body::is_readable(&raw);
                Some(HistoryItem::Reasoning { summary, raw: Value::Object(raw) })
            }
            "function_call" => {
                const SAID: [&str; 4] = ["type", "call_id", "name", "arguments"];
                let (call_id, name) = (item.call_id.or(item.id)?, item.name?);
                let call = self.freeform.call(call_id, name, item.arguments.unwrap_or_default(), |written| {
                    // As they were written, where the text does not tell.
                    let keep = |item: &mut Map<String, Value>| match written {
                        Some(_) => {}
                        None => drop(item.insert("arguments".to_owned(), Value::Null)),
                    };
                    self.carried(raw, if written.is_some() { &[] } else { &SAID }, keep)
                });
                Some(call)
            }
            "custom_tool_call" => {
                let carried = self.carried(raw, &["type", "call_id", "name", "input"], |item| {
                    item.insert("input".to_owned(), Value::Null);
                });
                Some(HistoryItem::CustomToolCall {
                    call_id: item.call_id.or(item.id)?,
                    name: item.name?,
                    input: item.input.unwrap_or_default(),
                    carried,
                })
            }
            _ => None,
        }
    }

    /// What an item carries beyond the members `said`, once `change` has taken out its text.
    fn carried(&self, raw: &RawValue, said: &[&str], change: impl FnOnce(&mut Map<String, Value>)) -> Carried {
        let mut item = serde_json::from_str::<Map<String, Value>>(raw.get()).ok()?;
        change(&mut item);
        if self.has_lost_reasoning {
            item.shift_remove("id");
        }
        kept(item, said)
    }
}

/// What of a response object matters; everything in it may be absent or null.
#[derive(Deserialize, Default)]
struct ResponseBody<'a> {
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(borrow, default)]
    output: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    error: Option<WireError>,
    #[serde(default)]
    incomplete_details: Option<IncompleteDetails>,
    /// Whether the model has ended its turn, where the provider says.
    #[serde(default)]
    end_turn: Option<bool>,
}

#[derive(Deserialize)]
struct IncompleteDetails {
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireUsage {
    input_tokens: u64,
    input_tokens_details: Option<InputDetails>,
    output_tokens: u64,
    output_tokens_details: Option<OutputDetails>,
}

impl From<WireUsage> for Usage {
    fn from(usage: WireUsage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            cached_input_tokens: usage.input_tokens_details.unwrap_or_default().cached_tokens,
            output_tokens: usage.output_tokens,
            reasoning_output_tokens: usage.output_tokens_details.unwrap_or_default().reasoning_tokens,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct InputDetails {
    cached_tokens: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireError {
    r#type: Option<String>,
    code: Option<serde_json::Value>,
    message: Option<String>,
    error: Option<Box<WireError>>,
}

impl WireError {
    fn into_end(self) -> End {
        // The `error` event comes flat or with an object inside, by server.
        if let Some(inner) = self.error {
            return inner.into_end();
        }
        let code = match self.code {
            Some(serde_json::Value::String(code)) => Some(code),
            Some(serde_json::Value::Number(code)) => Some(code.to_string()),
            // Of an event that is flat this is only the event's own name.
            _ => self.r#type.filter(|kind| kind != "error"),
        };
        let message = self.message.filter(|message| !message.is_empty());
        let message = message.or_else(|| code.clone()).unwrap_or_else(|| "no reason given".into());
        End::Failed { code, message }
    }
}

fn read_response(raw: Option<&RawValue>) -> ResponseBody<'_> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

#[derive(Deserialize)]
struct WireItem {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    call_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
    #[serde(default)]
    input: Option<String>,
    #[serde(default)]
    phase: Option<String>,
    #[serde(default)]
    content: Option<Vec<WirePart>>,
    #[serde(default)]
    summary: Option<Vec<WirePart>>,
}

#[derive(Deserialize)]
struct WirePart {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
}

fn item_kind(raw: &RawValue) -> Option<ItemKind> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    match &*serde_json::from_str::<Kind<'_>>(raw.get()).ok()?.kind {
        "message" => Some(ItemKind::Message),
        "reasoning" => Some(ItemKind::Reasoning),
        "function_call" | "custom_tool_call" => Some(ItemKind::ToolCall),
        _ => None,
    }
}

fn join(parts: Option<Vec<WirePart>>, between: &str) -> String {
    let texts: Vec<String> =
        parts.unwrap_or_default().into_iter().filter_map(|part| part.text.or(part.refusal)).collect();
    texts.join(between)
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
