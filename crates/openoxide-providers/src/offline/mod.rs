//! The embedded provider: a rule-based stand-in, not a language model, and its answers say so.
//!
//! It understands a few plain instructions and turns them into real tool calls, so that everything around a model can be
//! tried with no account and no network. A response is a pure function of the request: no state, no clock, no IO.
//! `instructions` cuts the prompt into clauses, `clause` reads each as a step, `steps` performs a step over the answers
//! that `calls` replays from the history, `planner` decides what comes next, `answer` words it.

mod answer;
mod calls;
mod clause;
mod edits;
mod instructions;
mod outputs;
mod planner;
mod search;
mod steps;
mod words;

use crate::{
    HistoryItem, ItemKind, ModelEvent, ModelFacts, ModelRequest, ModelStream, Provider, Role, ToolSpec, Usage,
};

/// Text deltas of one message at most; a long message comes in larger pieces.
const DELTAS: usize = 40;

/// The stand-in. All values are equal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Offline;

impl Offline {
    /// A stand-in.
    pub fn new() -> Self {
        Self
    }
}

impl Provider for Offline {
    fn id(&self) -> &str {
        "offline"
    }

    fn facts(&self, model: &str) -> ModelFacts {
        crate::facts_of(model)
    }

    fn stream(&self, request: ModelRequest<'_>) -> ModelStream {
        Box::pin(futures_util::stream::iter(respond(&request).into_iter().map(Ok)))
    }
}

fn respond(request: &ModelRequest<'_>) -> Vec<ModelEvent> {
    let next = planner::plan(request);
    let mut events = Vec::new();
    let mut written = 0;
    if !next.text.is_empty() {
        written += next.text.len();
        events.push(ModelEvent::ItemStarted(ItemKind::Message));
        events.extend(deltas(&next.text).into_iter().map(ModelEvent::TextDelta));
        events.push(ModelEvent::ItemDone(HistoryItem::Message {
            role: Role::Assistant,
            text: next.text,
            carried: None,
        }));
    }
    for (index, action) in next.calls.into_iter().enumerate() {
        // The history only grows, so its length makes ids that no earlier call of the thread has.
        let item = action.into_item(format!("offline_{}_{index}", request.input.len()), request.tools);
        written += item_len(&item);
        events.push(ModelEvent::ItemStarted(ItemKind::ToolCall));
        events.push(ModelEvent::ItemDone(item));
    }
    let tools: usize = request.tools.iter().map(tool_len).sum();
    let read = request.instructions.len() + tools + request.input.iter().map(|item| item_len(item)).sum::<usize>();
    events.push(ModelEvent::Completed {
        usage: Usage { input_tokens: tokens(read), output_tokens: tokens(written), ..Usage::default() },
    });
    events
}

/// A text in pieces of whole words that make it up again.
fn deltas(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_inclusive(char::is_whitespace).collect();
    words.chunks(words.len().div_ceil(DELTAS).max(1)).map(<[&str]>::concat).collect()
}

/// Tokens that so many bytes of text are, about.
fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(4) as u64
}

fn item_len(item: &HistoryItem) -> usize {
    match item {
        HistoryItem::Message { text, .. } | HistoryItem::Note { text } => text.len(),
        HistoryItem::Reasoning { summary, .. } => summary.len(),
        HistoryItem::FunctionCall { name, arguments: text, .. }
        | HistoryItem::CustomToolCall { name, input: text, .. } => name.len() + text.len(),
        HistoryItem::ToolOutput { output, .. } => output.len(),
        HistoryItem::Image { data, .. } => data.len(),
    }
}

fn tool_len(tool: &ToolSpec) -> usize {
    match tool {
        ToolSpec::Function { name, description, .. } => name.len() + description.len(),
        ToolSpec::Freeform { name, description, grammar } => name.len() + description.len() + grammar.len(),
    }
}
