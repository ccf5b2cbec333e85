//! Reads the events of a Responses stream. Bytes come from `stream`, [`ModelEvent`]s and the stream's [`End`] go back
//! to it. Knows no HTTP and no clock.
//!
//! What is not JSON and what is not known is skipped: providers add events without notice.

use std::{borrow::Cow, collections::VecDeque};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{HistoryItem, ItemKind, ModelEvent, Role, SseError, Usage, sse::SseParser};

/// Longest event that is read. The largest real ones repeat a whole response.
const EVENT_LIMIT: usize = 16 * 1024 * 1024;

/// How a stream ended by its own word. Without one it was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// `response.completed`; its event is in the queue.
    Completed,
    /// `response.incomplete`, with its reason where it gave one.
    Incomplete(Option<String>),
    /// `response.failed` or `error`.
    Failed { code: Option<String>, message: String },
}

/// The state of one attempt's stream.
#[derive(Debug)]
pub(super) struct Decoder {
    parser: SseParser,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    /// Events not yet handed out; holds at most what one batch of `stream` brought.
    queue: VecDeque<ModelEvent>,
    /// Deltas of one kind in a row, merged until something else comes or they are asked for.
    text: String,
    text_is_reasoning: bool,
    /// The reasoning item under way has shown a part, so that the next is set off from it.
    reasoning_shown: bool,
    items_done: usize,
    /// An item other than reasoning is complete.
    is_committed: bool,
    end: Option<End>,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self { parser: SseParser::new(EVENT_LIMIT), state: State::default() }
    }

    /// Reads bytes as they come.
    ///
    /// # Errors
    ///
    /// The parser's; what was read before is in the queue.
    pub(super) fn feed(&mut self, chunk: &[u8]) -> Result<(), SseError> {
        let Self { parser, state } = self;
        parser.feed(chunk, |data| state.take(data))
    }

    /// Reads what the end of the body completes.
    ///
    /// # Errors
    ///
    /// As [`Decoder::feed`].
    pub(super) fn finish(&mut self) -> Result<(), SseError> {
        let Self { parser, state } = self;
        std::mem::replace(parser, SseParser::new(0)).finish(|data| state.take(data))
    }

    /// The next event of what was read so far. Deltas merge until they are asked for.
    pub(super) fn next_event(&mut self) -> Option<ModelEvent> {
        if self.state.queue.is_empty() {
            self.state.flush();
        }
        self.state.queue.pop_front()
    }

    pub(super) fn end(&self) -> Option<&End> {
        self.state.end.as_ref()
    }

    /// Whether an item is complete that cannot be taken back. Reasoning alone can: it belongs to the item that it leads
    /// to, and callers keep it only with that ([`ModelEvent::Retrying`]).
    pub(super) fn is_committed(&self) -> bool {
        self.state.is_committed
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

impl State {
    /// The data of one event.
    fn take(&mut self, data: &[u8]) {
        if self.end.is_some() {
            return;
        }
        let Ok(event) = serde_json::from_slice::<Envelope<'_>>(data) else { return };
        match &*event.kind {
            "response.output_text.delta" | "response.refusal.delta" => self.delta(false, event.delta),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.reasoning_shown = true;
                self.delta(true, event.delta);
            }
            "response.reasoning_summary_part.added" if self.reasoning_shown => {
                self.delta(true, Some(Text(Cow::Borrowed("\n\n"))));
            }
            "response.output_item.added" => {
                if let Some(kind) = event.item.and_then(item_kind) {
                    self.reasoning_shown = false;
                    self.push(ModelEvent::ItemStarted(kind));
                }
            }
            "response.output_item.done" => {
                if let Some(item) = event.item.and_then(read_item) {
                    self.done(item);
                }
            }
            "response.completed" => self.completed(event.response),
            "response.incomplete" => {
                let response = read_response(event.response);
                self.end = Some(End::Incomplete(response.incomplete_details.and_then(|details| details.reason)));
            }
            "response.failed" => {
                let error = read_response(event.response).error.unwrap_or_default();
                self.end = Some(error.into_end());
            }
            "error" => self.end = Some(read_error(data).into_end()),
            _ => {}
        }
    }

    fn delta(&mut self, is_reasoning: bool, delta: Option<Text<'_>>) {
        let Some(Text(delta)) = delta else { return };
        if self.text_is_reasoning != is_reasoning {
            self.flush();
            self.text_is_reasoning = is_reasoning;
        }
        self.text.push_str(&delta);
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.queue.push_back(if self.text_is_reasoning {
                ModelEvent::ReasoningDelta(text)
            } else {
                ModelEvent::TextDelta(text)
            });
        }
    }

    fn push(&mut self, event: ModelEvent) {
        self.flush();
        self.queue.push_back(event);
    }

    fn done(&mut self, item: HistoryItem) {
        self.items_done += 1;
        self.is_committed |= !matches!(item, HistoryItem::Reasoning { .. });
        self.push(ModelEvent::ItemDone(item));
    }

    fn completed(&mut self, response: Option<&RawValue>) {
        let response = read_response(response);
        // A server that sends no item events still lists the items here.
        if self.items_done == 0 {
            for raw in response.output.unwrap_or_default() {
                if let (Some(kind), Some(item)) = (item_kind(raw), read_item(raw)) {
                    self.push(ModelEvent::ItemStarted(kind));
                    self.done(item);
                }
            }
        }
        let usage = response.usage.unwrap_or_default();
        self.push(ModelEvent::Completed {
            usage: Usage {
                input_tokens: usage.input_tokens,
                cached_input_tokens: usage.input_tokens_details.unwrap_or_default().cached_tokens,
                output_tokens: usage.output_tokens,
                reasoning_output_tokens: usage.output_tokens_details.unwrap_or_default().reasoning_tokens,
            },
        });
        self.end = Some(End::Completed);
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
            _ => None,
        };
        let message = self.message.filter(|message| !message.is_empty());
        let message = message.or_else(|| code.clone()).unwrap_or_else(|| "no reason given".into());
        End::Failed { code, message }
    }
}

fn read_response(raw: Option<&RawValue>) -> ResponseBody<'_> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

fn read_error(data: &[u8]) -> WireError {
    serde_json::from_slice(data).unwrap_or_default()
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

/// An item as the history keeps it; `None` for kinds nobody offered the model.
fn read_item(raw: &RawValue) -> Option<HistoryItem> {
    let item: WireItem = serde_json::from_str(raw.get()).ok()?;
    match item.kind.as_str() {
        "message" => Some(HistoryItem::Message { role: Role::Assistant, text: join(item.content, "") }),
        "reasoning" => {
            let mut summary = join(item.summary, "\n\n");
            if summary.is_empty() {
                summary = join(item.content, "\n\n");
            }
            Some(HistoryItem::Reasoning { summary, raw: serde_json::from_str(raw.get()).ok()? })
        }
        "function_call" => Some(HistoryItem::FunctionCall {
            call_id: item.call_id.or(item.id)?,
            name: item.name?,
            arguments: item.arguments.unwrap_or_default(),
        }),
        "custom_tool_call" => Some(HistoryItem::CustomToolCall {
            call_id: item.call_id.or(item.id)?,
            name: item.name?,
            input: item.input.unwrap_or_default(),
        }),
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
