//! A model that says what its script says, one step a request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt, stream};
use openoxide_llm::{
    HistoryItem, ItemKind, ModelError, ModelEvent, ModelFacts, ModelRequest, ModelStream, Provider, Role, Usage,
};
use tokio::sync::Notify;

/// One response.
#[derive(Debug)]
pub enum Say {
    /// A message.
    Text(&'static str),
    /// A patch, as a freeform call.
    Patch(String),
    /// A call of a function with a JSON document.
    Call(&'static str, String),
    /// A message, then a call of a function with a JSON document.
    TextAndCall(&'static str, &'static str, String),
    /// Several patches in one response.
    Patches(Vec<String>),
    /// Nothing, until the notify is told; then a message.
    Wait(Arc<Notify>, &'static str),
    /// A failure.
    Fail(&'static str),
}

/// Answers by its script; without one, by repeating the last prompt behind `re: `.
#[derive(Default)]
pub struct ScriptedModel {
    steps: Mutex<VecDeque<Say>>,
    calls: Mutex<u32>,
    /// Told at each request; a permit is kept for who waits later.
    asked: Notify,
}

impl ScriptedModel {
    /// A model with this script.
    pub fn new(steps: impl IntoIterator<Item = Say>) -> Arc<Self> {
        Arc::new(Self { steps: Mutex::new(steps.into_iter().collect()), ..Self::default() })
    }

    /// Ready once the model was asked for something.
    pub async fn asked(&self) {
        self.asked.notified().await;
    }

    fn call_id(&self) -> String {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        *calls += 1;
        format!("call-{calls}")
    }

    fn patch(&self, input: String) -> HistoryItem {
        HistoryItem::CustomToolCall { call_id: self.call_id(), name: "apply_patch".to_owned(), input, carried: None }
    }
}

fn message(text: &str) -> Vec<Result<ModelEvent, ModelError>> {
    vec![
        Ok(ModelEvent::ItemStarted(ItemKind::Message)),
        Ok(ModelEvent::TextDelta(text.to_owned())),
        Ok(ModelEvent::ItemDone(HistoryItem::Message { role: Role::Assistant, text: text.to_owned(), carried: None })),
        Ok(completed()),
    ]
}

fn completed() -> ModelEvent {
    ModelEvent::Completed { usage: Usage { input_tokens: 10, output_tokens: 2, ..Usage::default() } }
}

fn items(items: Vec<HistoryItem>) -> Vec<Result<ModelEvent, ModelError>> {
    items.into_iter().map(|item| Ok(ModelEvent::ItemDone(item))).chain([Ok(completed())]).collect()
}

impl Provider for ScriptedModel {
    fn id(&self) -> &str {
        "script"
    }

    /// A model of this name is one that sees and reads a lot; of any other nothing is known.
    fn facts(&self, model: &str) -> ModelFacts {
        if model.starts_with("gpt-") {
            ModelFacts { context_window: 272_000, images: true, is_known: true, ..ModelFacts::UNKNOWN }
        } else {
            ModelFacts::UNKNOWN
        }
    }

    fn stream(&self, request: ModelRequest<'_>) -> ModelStream {
        self.asked.notify_one();
        let step = self.steps.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let events = match step {
            Some(Say::Text(text)) => message(text),
            Some(Say::Patch(patch)) => items(vec![self.patch(patch)]),
            Some(Say::Patches(patches)) => items(patches.into_iter().map(|patch| self.patch(patch)).collect()),
            Some(Say::Call(name, arguments)) => items(vec![HistoryItem::FunctionCall {
                call_id: self.call_id(),
                name: name.to_owned(),
                arguments,
                carried: None,
            }]),
            Some(Say::TextAndCall(text, name, arguments)) => {
                let said = HistoryItem::Message { role: Role::Assistant, text: text.to_owned(), carried: None };
                let call = HistoryItem::FunctionCall {
                    call_id: self.call_id(),
                    name: name.to_owned(),
                    arguments,
                    carried: None,
                };
                items(vec![said, call])
            }
            Some(Say::Fail(reason)) => vec![Err(ModelError::Config { reason: reason.to_owned() })],
            Some(Say::Wait(until, text)) => {
                let told = async move { until.notified().await };
                return stream::once(told).flat_map(move |()| stream::iter(message(text))).boxed();
            }
            None => {
                let last = request.input.iter().rev().find_map(|item| match &**item {
                    HistoryItem::Message { role: Role::User, text, .. } => Some(text.as_str()),
                    _ => None,
                });
                message(&format!("re: {}", last.unwrap_or_default()))
            }
        };
        stream::iter(events).boxed()
    }
}
