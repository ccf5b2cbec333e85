//! Reads the chunks of a Chat Completions stream.
//!
//! The API has one message per response; items are made of it in the order in which their kinds appear: reasoning, text,
//! calls. What is not JSON and what is not known is skipped.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::{CALL_TYPE, body::raw_reasoning, details};
use crate::{
    Carried, Cause, Freeform, HistoryItem, ItemKind, Role, Unfinished, Usage,
    remote::{End, Events, Reader},
};

/// Most calls of one response that are kept apart; further ones are dropped.
const MAX_CALLS: usize = 256;

/// What one attempt's stream has said so far.
#[derive(Debug)]
pub(crate) struct ChatReader {
    freeform: Freeform,
    /// The message or reasoning under way.
    open: Option<ItemKind>,
    text: String,
    reasoning: String,
    /// The field the reasoning came in.
    field: Option<&'static str>,
    details: Vec<Value>,
    calls: Vec<Call>,
    finish: Option<String>,
}

/// A call under way.
#[derive(Debug)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    /// What some providers want back with it, as signatures of thought (Gemini).
    extra: Option<Value>,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(default)]
    finish_reason: Option<String>,
}

/// Fields that servers disagree on are read one by one, so that a surprise in one does not lose the others.
#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(borrow, default)]
    function: Option<FunctionDelta<'a>>,
    #[serde(default)]
    extra_content: Option<Value>,
}

#[derive(Deserialize)]
struct FunctionDelta<'a> {
    #[serde(default)]
    name: Option<String>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

impl ChatReader {
    /// A reader for one attempt; calls of `freeform` tools come as functions.
    pub(crate) fn new(freeform: Freeform) -> Self {
        Self {
            freeform,
            open: None,
            text: String::new(),
            reasoning: String::new(),
            field: None,
            details: Vec::new(),
            calls: Vec::new(),
            finish: None,
        }
    }
}

impl Reader for ChatReader {
    fn read(&mut self, data: &[u8], events: &mut Events) {
        if data.trim_ascii() == b"[DONE]" {
            if self.finish.is_some() || self.has_begun(events) {
                self.conclude(events);
            }
            return;
        }
        let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(data) else { return };
        if let Some(error) = chunk.error {
            events.end_with(read_error(error));
            return;
        }
        if let Some(usage) = chunk.usage.and_then(|usage| serde_json::from_str::<WireUsage>(usage.get()).ok()) {
            events.set_usage(usage.into());
        }
        let choices = chunk.choices.unwrap_or_default();
        if choices.is_empty() && chunk.usage.is_some() && self.finish.is_some() {
            // The tokens come last; what some servers forget is the word after them.
            return self.conclude(events);
        }
        for choice in choices.into_iter().filter(|choice| choice.index == 0) {
            if let Some(delta) = choice.delta {
                self.read_delta(delta, events);
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.finish = Some(reason);
            }
        }
    }

    fn is_ending(&self) -> bool {
        self.finish.is_some()
    }

    fn finish(&mut self, events: &mut Events) {
        if self.finish.is_some() {
            self.conclude(events);
        }
    }
}

impl ChatReader {
    fn has_begun(&self, events: &Events) -> bool {
        self.open.is_some() || !self.calls.is_empty() || events.items_done() > 0
    }

    fn read_delta(&mut self, delta: Delta<'_>, events: &mut Events) {
        let mut shown = false;
        for (field, raw) in [("reasoning_content", delta.reasoning_content), ("reasoning", delta.reasoning)] {
            // Some servers say the same in both.
            if let Some(text) = raw.and_then(string).filter(|text| !text.is_empty() && !shown) {
                self.field.get_or_insert(field);
                self.say(ItemKind::Reasoning, &text, events);
                shown = true;
            }
        }
        if let Some(raw) = delta.reasoning_details {
            details::add(&mut self.details, raw.get());
            if !shown && self.field.is_none() {
                self.say(ItemKind::Reasoning, &details::text(raw.get()), events);
            }
        }
        for raw in [delta.content, delta.refusal].into_iter().flatten() {
            match string(raw) {
                Some(text) => self.say(ItemKind::Message, &text, events),
                None => self.read_parts(raw, events),
            }
        }
        for call in delta.tool_calls.unwrap_or_default() {
            self.read_call(call, events);
        }
    }

    /// Content in parts, as Mistral's reasoning models send it.
    fn read_parts(&mut self, raw: &RawValue, events: &mut Events) {
        for part in serde_json::from_str::<Vec<Value>>(raw.get()).unwrap_or_default() {
            if let Some(text) = part["text"].as_str() {
                self.say(ItemKind::Message, text, events);
            }
            for thought in part["thinking"].as_array().into_iter().flatten() {
                self.say(ItemKind::Reasoning, thought["text"].as_str().unwrap_or_default(), events);
            }
        }
    }

    fn say(&mut self, kind: ItemKind, text: &str, events: &mut Events) {
        if text.is_empty() {
            return;
        }
        if self.open != Some(kind) {
            self.close(events);
            events.start(kind);
            self.open = Some(kind);
        }
        let is_reasoning = kind == ItemKind::Reasoning;
        if is_reasoning { &mut self.reasoning } else { &mut self.text }.push_str(text);
        events.delta(is_reasoning, text);
    }

    /// Ends the message or reasoning under way.
    fn close(&mut self, events: &mut Events) {
        match self.open.take() {
            Some(ItemKind::Message) => {
                let text = std::mem::take(&mut self.text);
                events.done(HistoryItem::Message { role: Role::Assistant, text, carried: None });
            }
            Some(ItemKind::Reasoning) => {
                let summary = std::mem::take(&mut self.reasoning);
                let raw = raw_reasoning(self.field, &summary, std::mem::take(&mut self.details));
                events.done(HistoryItem::Reasoning { summary, raw });
            }
            _ => {}
        }
    }

    fn read_call(&mut self, delta: CallDelta<'_>, events: &mut Events) {
        let function = delta.function.unwrap_or(FunctionDelta { name: None, arguments: None });
        let id = delta.id.filter(|id| !id.is_empty());
        let name = function.name.filter(|name| !name.is_empty());
        // The same index with another id is another call: some servers number none of them.
        let is_other =
            |call: &Call| name.is_some() && id.as_ref().is_some_and(|id| !call.id.is_empty() && *id != call.id);
        let known = match delta.index {
            Some(_) => self.calls.iter_mut().rfind(|call| call.index == delta.index),
            None => self.calls.last_mut().filter(|_| name.is_none() || id.is_some()),
        };
        let call = match known {
            Some(call) if !is_other(call) => call,
            _ => {
                if self.calls.len() == MAX_CALLS {
                    return;
                }
                self.close(events);
                self.calls.push(Call {
                    index: delta.index,
                    id: String::new(),
                    name: String::new(),
                    arguments: String::new(),
                    extra: None,
                });
                self.calls.last_mut().expect("one was just added")
            }
        };
        if let Some(id) = id {
            call.id = id;
        }
        if let Some(name) = name {
            // Whole each time in most servers, in pieces in none that is known.
            call.name = name;
        }
        call.extra = delta.extra_content.or(call.extra.take());
        if let Some(arguments) = function.arguments {
            match string(arguments) {
                Some(piece) => call.arguments.push_str(&piece),
                // An object instead of the text of one.
                None => call.arguments.push_str(arguments.get()),
            }
        }
    }

    /// The response is over by its own word.
    fn conclude(&mut self, events: &mut Events) {
        self.close(events);
        let incomplete = |cause, reason: &str| End::Incomplete { cause, reason: Some(reason.to_owned()) };
        match self.finish.as_deref() {
            Some("length") => return events.complete(Some(Unfinished::Cut)),
            Some("content_filter") => return events.end_with(incomplete(Cause::ContentPolicy, "content_filter")),
            Some("error") => {
                let message = "the response ended with an error that the provider did not name".to_owned();
                return events.end_with(End::Failed { code: None, message });
            }
            _ => {}
        }
        if !self.details.is_empty() {
            // What came after the text it led to.
            let raw = raw_reasoning(None, "", std::mem::take(&mut self.details));
            events.done(HistoryItem::Reasoning { summary: String::new(), raw });
        }
        let mut seen: Vec<String> = Vec::new();
        for call in std::mem::take(&mut self.calls) {
            if call.name.is_empty() {
                continue;
            }
            let is_good = !call.id.is_empty() && !seen.contains(&call.id);
            let id = if is_good { call.id } else { format!("call_{:016x}", fastrand::u64(..)) };
            seen.push(id.clone());
            let arguments = if call.arguments.trim().is_empty() { "{}".to_owned() } else { call.arguments };
            events.start(ItemKind::ToolCall);
            let extra = call.extra;
            events.done(self.freeform.call(id, call.name, arguments, |written| carried(written, extra)));
        }
        events.complete(None);
    }
}

/// What a call carries: its arguments where the text does not tell how they were written, and what the provider put beside it.
fn carried(written: Option<&str>, extra: Option<Value>) -> Carried {
    let written = written.map(|written| ("arguments".to_owned(), written.into()));
    let extra = extra.map(|extra| ("extra_content".to_owned(), extra));
    let carried: Map<String, Value> = written.into_iter().chain(extra).collect();
    if carried.is_empty() {
        return None;
    }
    let mut typed = Map::from_iter([("type".to_owned(), CALL_TYPE.into())]);
    typed.extend(carried);
    Some(Box::new(Value::Object(typed)))
}

/// The text of a JSON string; `None` for anything else.
fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str::<Text<'_>>(raw.get()).ok().map(|Text(text)| text)
}

/// An error within the stream: an object, or only its message.
fn read_error(raw: &RawValue) -> End {
    let error: Value = serde_json::from_str(raw.get()).unwrap_or_default();
    let code = match (&error["code"], &error["type"]) {
        (Value::String(code), _) => Some(code.clone()),
        (Value::Number(code), _) => Some(code.to_string()),
        (_, Value::String(kind)) => Some(kind.clone()),
        _ => None,
    };
    let message = error["message"].as_str().or_else(|| error.as_str()).filter(|message| !message.is_empty());
    let message = message.map(str::to_owned).or_else(|| code.clone()).unwrap_or_else(|| "no reason given".to_owned());
    End::Failed { code, message }
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct WireUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek's word for cached tokens.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl From<WireUsage> for Usage {
    fn from(usage: WireUsage) -> Self {
        let cached = usage.prompt_tokens_details.and_then(|details| details.cached_tokens);
        Self {
            input_tokens: usage.prompt_tokens.unwrap_or_default(),
            cached_input_tokens: cached.or(usage.prompt_cache_hit_tokens).unwrap_or_default(),
            output_tokens: usage.completion_tokens.unwrap_or_default(),
            reasoning_output_tokens: usage
                .completion_tokens_details
                .and_then(|details| details.reasoning_tokens)
                .unwrap_or_default(),
        }
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
