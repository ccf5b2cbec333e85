//! What a stream has said so far, in the order it is handed out. The readers of the dialects write here, `stream`
//! takes from here. Knows no dialect, no network and no clock.
//!
//! Items that are done are held back until the response is complete or something after them must be shown: what the
//! caller has not been given can still be taken back, so a stream that breaks at its very end can start again.

use std::collections::VecDeque;

use crate::{Cause, HistoryItem, ItemKind, ModelEvent, Unfinished, Usage};

/// How a stream ended by its own word. Without one it was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The good end; its event is in the queue.
    Completed,
    /// Stopped on purpose, with the reason where one was given.
    Incomplete { cause: Cause, reason: Option<String> },
    /// The provider's error.
    Failed { code: Option<String>, message: String },
}

/// The events of one attempt.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Events not yet handed out; at most what one batch of `stream` brought.
    queue: VecDeque<ModelEvent>,
    /// Deltas of one kind in a row, merged until something else comes or they are asked for.
    text: String,
    text_is_reasoning: bool,
    /// Done items, and what began after them without being shown.
    held: Vec<ModelEvent>,
    /// The kind of the item last shown, and how many bytes of it.
    shown: Option<(ItemKind, usize)>,
    items_done: usize,
    is_committed: bool,
    has_committed_call: bool,
    usage: Usage,
    end: Option<End>,
}

impl Events {
    /// An item begins.
    pub(crate) fn start(&mut self, kind: ItemKind) {
        if kind == ItemKind::ToolCall {
            // Nothing of a call is shown before it is done.
            if self.held.is_empty() {
                self.push(ModelEvent::ItemStarted(kind));
            } else {
                self.held.push(ModelEvent::ItemStarted(kind));
            }
            return;
        }
        self.commit();
        self.shown = Some((kind, 0));
        self.push(ModelEvent::ItemStarted(kind));
    }

    /// More text of a message or of reasoning.
    pub(crate) fn delta(&mut self, is_reasoning: bool, delta: &str) {
        if delta.is_empty() {
            return;
        }
        self.commit();
        if self.text_is_reasoning != is_reasoning {
            self.flush();
            self.text_is_reasoning = is_reasoning;
        }
        let kind = if is_reasoning { ItemKind::Reasoning } else { ItemKind::Message };
        match &mut self.shown {
            Some((shown, bytes)) if *shown == kind => *bytes += delta.len(),
            shown => *shown = Some((kind, delta.len())),
        }
        self.text.push_str(delta);
    }

    /// An item is done.
    pub(crate) fn done(&mut self, item: HistoryItem) {
        self.items_done += 1;
        self.flush();
        // Reasoning binds nobody: callers keep it only with the item that follows it.
        if self.held.is_empty() && matches!(item, HistoryItem::Reasoning { .. }) {
            self.queue.push_back(ModelEvent::ItemDone(item));
        } else {
            self.held.push(ModelEvent::ItemDone(item));
        }
    }

    /// The tokens so far; counts where a response ends without its own word.
    pub(crate) fn set_usage(&mut self, usage: Usage) {
        self.usage = usage;
    }

    /// The good end, also of a response that the model does not end its turn with.
    pub(crate) fn complete(&mut self, unfinished: Option<Unfinished>) {
        if unfinished == Some(Unfinished::Cut) {
            self.drop_calls();
        }
        self.commit();
        if let Some(unfinished) = unfinished {
            self.push(ModelEvent::Unfinished(unfinished));
        }
        self.push(ModelEvent::Completed { usage: self.usage });
        self.end = Some(End::Completed);
    }

    /// The provider's own end that is not good.
    pub(crate) fn end_with(&mut self, end: End) {
        self.end = Some(end);
    }

    pub(crate) fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    pub(crate) fn items_done(&self) -> usize {
        self.items_done
    }

    /// The next event of what was read so far. Deltas merge until they are asked for.
    pub(super) fn next(&mut self) -> Option<ModelEvent> {
        if self.queue.is_empty() {
            self.flush();
        }
        self.queue.pop_front()
    }

    /// Whether the caller has been given an item that cannot be taken back.
    pub(super) fn is_committed(&self) -> bool {
        self.is_committed
    }

    /// Whether a call is among these.
    pub(super) fn has_committed_call(&self) -> bool {
        self.has_committed_call
    }

    /// What is void when the attempt starts again: the kind of the item last shown and the bytes of it.
    pub(super) fn shown(&self) -> Option<(ItemKind, usize)> {
        self.shown
    }

    /// The attempt has failed for good: what was said to its end is worth keeping, what was only called is not.
    pub(super) fn give_up(&mut self) {
        self.held.retain(|event| matches!(event, ModelEvent::ItemDone(HistoryItem::Message { .. })));
        self.commit();
    }

    /// Forgets calls that were not handed out: where a response is cut, the last is torn.
    fn drop_calls(&mut self) {
        self.held.retain(|event| {
            !matches!(
                event,
                ModelEvent::ItemStarted(ItemKind::ToolCall)
                    | ModelEvent::ItemDone(HistoryItem::FunctionCall { .. } | HistoryItem::CustomToolCall { .. })
            )
        });
    }

    /// Hands out what was held back.
    fn commit(&mut self) {
        if self.held.is_empty() {
            return;
        }
        self.flush();
        self.is_committed = true;
        self.has_committed_call |= self.held.iter().any(|event| {
            matches!(event, ModelEvent::ItemDone(HistoryItem::FunctionCall { .. } | HistoryItem::CustomToolCall { .. }))
        });
        self.queue.extend(self.held.drain(..));
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;

    fn message(text: &str) -> HistoryItem {
        HistoryItem::Message { role: Role::Assistant, text: text.into(), carried: None }
    }

    fn call(id: &str) -> HistoryItem {
        HistoryItem::FunctionCall { call_id: id.into(), name: "f".into(), arguments: "{}".into(), carried: None }
    }

    fn taken(events: &mut Events) -> Vec<ModelEvent> {
        std::iter::from_fn(|| events.next()).collect()
    }

    #[test]
    fn done_items_wait_for_the_end_or_for_what_is_shown_after_them() {
        let mut events = Events::default();
        events.start(ItemKind::Message);
        events.delta(false, "a");
        events.done(message("a"));
        events.start(ItemKind::ToolCall);
        events.done(call("1"));
        let shown = [ModelEvent::ItemStarted(ItemKind::Message), ModelEvent::TextDelta("a".into())];
        assert_eq!(taken(&mut events), shown);
        assert!(!events.is_committed());
        assert_eq!(events.shown(), Some((ItemKind::Message, 1)));

        events.delta(false, "b");
        assert!(events.is_committed() && events.has_committed_call());
        assert_eq!(
            taken(&mut events),
            [
                ModelEvent::ItemDone(message("a")),
                ModelEvent::ItemStarted(ItemKind::ToolCall),
                ModelEvent::ItemDone(call("1")),
                ModelEvent::TextDelta("b".into()),
            ]
        );
    }

    #[test]
    fn reasoning_is_handed_out_at_once_and_binds_nobody() {
        let mut events = Events::default();
        let reasoning = HistoryItem::Reasoning { summary: "s".into(), raw: serde_json::Value::Null };
        events.start(ItemKind::Reasoning);
        events.done(reasoning.clone());
        assert_eq!(taken(&mut events), [ModelEvent::ItemStarted(ItemKind::Reasoning), ModelEvent::ItemDone(reasoning)]);
        assert!(!events.is_committed());
    }

    #[test]
    fn giving_up_keeps_what_was_said_and_drops_what_was_called() {
        let mut events = Events::default();
        events.done(message("said"));
        events.start(ItemKind::ToolCall);
        events.done(call("1"));
        events.give_up();
        assert_eq!(taken(&mut events), [ModelEvent::ItemDone(message("said"))]);
    }
}
