//! Queues between a thread and those who watch it.
//!
//! A thread pushes each event once into its [`Hub`]; every [`EventReceiver`] has a queue of its own there. Deltas are
//! the only events that may come by the thousand, so they alone are merged and, past a bound in bytes, dropped. Both
//! locks are held for a push or a pop, never across an await.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::Event;
use crate::mutex::lock;

/// A delta counts as its text and this much for the event around it.
const DELTA_OVERHEAD: usize = 64;

/// Every queue that events of one thread go to.
pub(crate) struct Hub {
    queues: Mutex<Vec<Arc<Queue>>>,
    delta_budget: usize,
}

impl Hub {
    /// A hub without readers; `delta_budget` is in bytes, for each reader.
    pub(crate) fn new(delta_budget: usize) -> Self {
        Self { queues: Mutex::new(Vec::new()), delta_budget }
    }

    /// A reader of everything emitted from now on.
    pub(crate) fn subscribe(self: &Arc<Self>) -> EventReceiver {
        let queue = Arc::new(Queue::default());
        lock(&self.queues).push(Arc::clone(&queue));
        EventReceiver { hub: Arc::clone(self), queue }
    }

    /// Gives an event to every reader.
    pub(crate) fn emit(&self, event: Event) {
        let queues = lock(&self.queues);
        if let Some((last, rest)) = queues.split_last() {
            for queue in rest {
                queue.push(event.clone(), self.delta_budget);
            }
            last.push(event, self.delta_budget);
        }
    }

    /// Whether nobody reads.
    pub(crate) fn is_unwatched(&self) -> bool {
        lock(&self.queues).is_empty()
    }

    /// Ends every queue: readers get what is left, then `None`.
    pub(crate) fn close(&self) {
        for queue in lock(&self.queues).drain(..) {
            lock(&queue.inner).closed = true;
            queue.ready.notify_one();
        }
    }
}

#[derive(Default)]
struct Queue {
    inner: Mutex<QueueInner>,
    /// Wakes the one reader; the permit that `notify_one` stores makes a wake between check and wait count.
    ready: Notify,
}

#[derive(Default)]
struct QueueInner {
    events: VecDeque<Event>,
    delta_bytes: usize,
    closed: bool,
}

impl Queue {
    fn push(&self, event: Event, delta_budget: usize) {
        let mut inner = lock(&self.inner);
        let was_empty = inner.events.is_empty();
        if let Event::ItemDelta { item_id, delta, .. } = &event {
            let merges = matches!(inner.events.back(), Some(Event::ItemDelta { item_id: last, .. }) if last == item_id);
            let cost = delta.len() + if merges { 0 } else { DELTA_OVERHEAD };
            if inner.delta_bytes + cost > delta_budget {
                return;
            }
            inner.delta_bytes += cost;
            if merges && let Some(Event::ItemDelta { delta: text, .. }) = inner.events.back_mut() {
                text.push_str(delta);
                return;
            }
        }
        inner.events.push_back(event);
        drop(inner);
        if was_empty {
            self.ready.notify_one();
        }
    }
}

/// Reads the events of one thread, in the order they happened.
pub struct EventReceiver {
    hub: Arc<Hub>,
    queue: Arc<Queue>,
}

impl EventReceiver {
    /// The next event; `None` once the thread was shut down and all was read.
    ///
    /// Cancel-safe: an event is taken only when the future is ready with it.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            {
                let mut inner = lock(&self.queue.inner);
                if let Some(event) = inner.events.pop_front() {
                    if let Event::ItemDelta { delta, .. } = &event {
                        inner.delta_bytes = inner.delta_bytes.saturating_sub(delta.len() + DELTA_OVERHEAD);
                    }
                    return Some(event);
                }
                if inner.closed {
                    return None;
                }
            }
            self.queue.ready.notified().await;
        }
    }

    /// The next event if one is there already.
    pub fn try_next(&mut self) -> Option<Event> {
        let mut inner = lock(&self.queue.inner);
        let event = inner.events.pop_front();
        if let Some(Event::ItemDelta { delta, .. }) = &event {
            inner.delta_bytes = inner.delta_bytes.saturating_sub(delta.len() + DELTA_OVERHEAD);
        }
        event
    }
}

impl Drop for EventReceiver {
    fn drop(&mut self) {
        lock(&self.hub.queues).retain(|queue| !Arc::ptr_eq(queue, &self.queue));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TurnId;

    fn delta(turn_id: TurnId, item_id: u64, text: &str) -> Event {
        Event::ItemDelta { turn_id, item_id, delta: text.to_owned() }
    }

    fn texts(receiver: &mut EventReceiver) -> Vec<String> {
        std::iter::from_fn(|| receiver.try_next())
            .map(|event| match event {
                Event::ItemDelta { item_id, delta, .. } => format!("{item_id}:{delta}"),
                Event::Warning { message, .. } => message,
                other => panic!("unexpected {other:?}"),
            })
            .collect()
    }

    #[test]
    fn unread_deltas_of_one_item_are_merged_and_order_is_kept() {
        let hub = Arc::new(Hub::new(1 << 20));
        let (mut first, mut second) = (hub.subscribe(), hub.subscribe());
        let turn = TurnId::new();
        for text in ["a", "b", "c"] {
            hub.emit(delta(turn, 1, text));
        }
        hub.emit(delta(turn, 2, "x"));
        hub.emit(Event::Warning { turn_id: turn, message: "w".to_owned() });
        hub.emit(delta(turn, 2, "y"));
        let expected = ["1:abc", "2:x", "w", "2:y"];
        assert_eq!(texts(&mut first), expected);
        assert_eq!(texts(&mut second), expected);
    }

    #[test]
    fn past_the_budget_deltas_are_dropped_and_nothing_else() {
        let hub = Arc::new(Hub::new(DELTA_OVERHEAD + 10));
        let mut receiver = hub.subscribe();
        let turn = TurnId::new();
        for _ in 0..100 {
            hub.emit(delta(turn, 1, "12345"));
        }
        for _ in 0..5 {
            hub.emit(Event::Warning { turn_id: turn, message: "w".to_owned() });
        }
        assert_eq!(texts(&mut receiver), ["1:1234512345", "w", "w", "w", "w", "w"]);
        hub.emit(delta(turn, 1, "again"));
        assert_eq!(texts(&mut receiver), ["1:again"], "what was read gives its room back");
    }

    #[tokio::test]
    async fn closing_ends_a_reader_after_what_is_left() {
        let hub = Arc::new(Hub::new(1 << 20));
        let mut receiver = hub.subscribe();
        hub.emit(delta(TurnId::new(), 1, "last"));
        hub.close();
        assert!(receiver.next().await.is_some());
        assert!(receiver.next().await.is_none());
    }

    #[tokio::test]
    async fn a_waiting_reader_is_woken() {
        let hub = Arc::new(Hub::new(1 << 20));
        let mut receiver = hub.subscribe();
        let waiting = tokio::spawn(async move { receiver.next().await.is_some() });
        tokio::task::yield_now().await;
        hub.emit(delta(TurnId::new(), 1, "x"));
        assert!(waiting.await.unwrap());
    }
}
