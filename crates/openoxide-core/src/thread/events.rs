//! Who reads what a thread tells: one log for all ([`EventLog`]), and a place in it for each [`EventReceiver`].
//!
//! The lock is held for a push or a read, never across an await.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::event_log::{EventLog, LogLimits, OpenItem, Progress};
use crate::Event;
use crate::mutex::lock;

/// A place in the events of one thread, for [`crate::Thread::attach_from`].
///
/// It holds for as long as the thread is in memory. One of before the thread was loaded, or of another thread, is answered
/// like one whose events are no longer kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    life: u64,
    position: u64,
}

/// Tells the logs of this process apart, so that no cursor of one is taken for a place in another.
static LIVES: AtomicU64 = AtomicU64::new(0);

/// What a thread tells, and everybody who reads it.
pub(crate) struct Hub {
    life: u64,
    inner: Mutex<Inner>,
}

struct Inner {
    log: EventLog,
    readers: Vec<Arc<Place>>,
    is_closed: bool,
}

/// How far one reader is. Read and changed under the hub's lock, but for [`EventReceiver::cursor`].
struct Place {
    position: AtomicU64,
    /// Whether it has read all there is and is to be woken.
    is_waiting: AtomicBool,
    /// Wakes the one reader; the permit that `notify_one` stores makes a wake between check and wait count.
    ready: Notify,
}

/// A reader, and what was under way when it began to read.
pub(super) struct Subscription {
    pub(super) events: EventReceiver,
    pub(super) open_items: Vec<OpenItem>,
    pub(super) progress: Progress,
}

impl Inner {
    /// Up to where every reader has read.
    fn read(&self) -> u64 {
        let positions = self.readers.iter().map(|place| place.position.load(Ordering::Relaxed));
        positions.min().unwrap_or(self.log.end())
    }

    fn trim(&mut self) {
        if self.log.holds_too_much() {
            let read = self.read();
            self.log.trim(read);
        }
    }

    fn join(&mut self, position: u64) -> Arc<Place> {
        let place = Arc::new(Place {
            position: AtomicU64::new(position),
            is_waiting: AtomicBool::new(false),
            ready: Notify::new(),
        });
        self.readers.push(Arc::clone(&place));
        place
    }

    fn next(&mut self, place: &Place) -> Option<Event> {
        let (event, position) = self.log.read(place.position.load(Ordering::Relaxed))?;
        place.position.store(position, Ordering::Relaxed);
        self.trim();
        Some(event)
    }
}

impl Hub {
    /// A hub without readers.
    pub(super) fn new(limits: LogLimits) -> Self {
        let inner = Inner { log: EventLog::new(limits), readers: Vec::new(), is_closed: false };
        Self { life: LIVES.fetch_add(1, Ordering::Relaxed), inner: Mutex::new(inner) }
    }

    /// A reader of everything emitted from now on, and what is under way now.
    pub(super) fn subscribe(self: &Arc<Self>) -> Subscription {
        let mut inner = lock(&self.inner);
        let position = inner.log.end();
        let place = inner.join(position);
        Subscription {
            events: EventReceiver { hub: Arc::clone(self), place },
            open_items: inner.log.open_items(),
            progress: inner.log.progress().clone(),
        }
    }

    /// A reader of everything after a cursor; none where that is not all there.
    pub(super) fn subscribe_from(self: &Arc<Self>, cursor: Cursor) -> Option<EventReceiver> {
        let mut inner = lock(&self.inner);
        let is_covered = cursor.life == self.life && inner.log.covers(cursor.position);
        is_covered.then(|| EventReceiver { hub: Arc::clone(self), place: inner.join(cursor.position) })
    }

    /// What is under way now.
    pub(super) fn progress(&self) -> Progress {
        lock(&self.inner).log.progress().clone()
    }

    /// Gives an event to every reader.
    pub(crate) fn emit(&self, event: Event) {
        let mut inner = lock(&self.inner);
        // Deltas come by the thousand: the next one sees to what this one is too much.
        let read = match event {
            Event::ItemDelta { .. } if !inner.log.holds_too_much() => 0,
            _ => inner.read(),
        };
        inner.log.push(event, read);
        let waiting = inner.readers.iter().filter(|place| place.is_waiting.swap(false, Ordering::Relaxed));
        waiting.for_each(|place| place.ready.notify_one());
    }

    /// Keeps nothing for those that come back until a turn begins again.
    pub(super) fn rest(&self) {
        let mut inner = lock(&self.inner);
        let read = inner.read();
        inner.log.rest(read);
    }

    /// Bytes of events that are kept.
    #[cfg(test)]
    pub(super) fn holds(&self) -> usize {
        lock(&self.inner).log.bytes()
    }

    /// Whether nobody reads.
    pub(crate) fn is_unwatched(&self) -> bool {
        lock(&self.inner).readers.is_empty()
    }

    /// Ends it for every reader: each gets what is left, then `None`.
    pub(crate) fn close(&self) {
        let mut inner = lock(&self.inner);
        inner.is_closed = true;
        inner.readers.iter().for_each(|place| place.ready.notify_one());
    }
}

/// Reads the events of one thread, in the order they happened.
pub struct EventReceiver {
    hub: Arc<Hub>,
    place: Arc<Place>,
}

impl EventReceiver {
    /// The next event; `None` once the thread was shut down and all was read.
    ///
    /// Cancel-safe: an event is taken only when the future is ready with it.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            {
                let mut inner = lock(&self.hub.inner);
                if let Some(event) = inner.next(&self.place) {
                    return Some(event);
                }
                if inner.is_closed {
                    return None;
                }
                self.place.is_waiting.store(true, Ordering::Relaxed);
            }
            self.place.ready.notified().await;
        }
    }

    /// The next event if one is there already.
    pub fn try_next(&mut self) -> Option<Event> {
        lock(&self.hub.inner).next(&self.place)
    }

    /// The place after the event that was read last.
    pub fn cursor(&self) -> Cursor {
        Cursor { life: self.hub.life, position: self.place.position.load(Ordering::Relaxed) }
    }
}

impl Drop for EventReceiver {
    fn drop(&mut self) {
        let mut inner = lock(&self.hub.inner);
        inner.readers.retain(|place| !Arc::ptr_eq(place, &self.place));
        inner.trim();
    }
}

#[cfg(test)]
mod tests {
    use super::super::event_log::OVERHEAD;
    use super::*;
    use crate::TurnId;

    fn hub(delta_bytes: usize) -> Arc<Hub> {
        Arc::new(Hub::new(LogLimits { delta_bytes, log_bytes: 1 << 20 }))
    }

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
        let hub = hub(1 << 20);
        let (mut first, mut second) = (hub.subscribe().events, hub.subscribe().events);
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
        let hub = hub(2 * OVERHEAD + 20);
        let (mut slow, mut fast) = (hub.subscribe().events, hub.subscribe().events);
        let turn = TurnId::new();
        hub.emit(Event::Warning { turn_id: turn, message: "w".to_owned() });
        for item in 0..100 {
            hub.emit(delta(turn, item, "12345"));
            assert!(fast.try_next().is_some(), "one that reads loses nothing to one that does not");
        }
        hub.emit(Event::Warning { turn_id: turn, message: "w".to_owned() });
        assert_eq!(texts(&mut slow), ["w", "98:12345", "99:12345", "w"], "the oldest go");
        hub.emit(delta(turn, 1, "again"));
        assert_eq!(texts(&mut slow), ["1:again"]);
    }

    #[tokio::test]
    async fn a_reader_whose_deltas_were_dropped_is_woken_by_what_comes_next() {
        let hub = hub(0);
        let mut receiver = hub.subscribe().events;
        let waiting = tokio::spawn(async move { receiver.next().await });
        tokio::task::yield_now().await;
        let turn_id = TurnId::new();
        hub.emit(delta(turn_id, 1, "dropped at once"));
        tokio::task::yield_now().await;
        hub.emit(Event::TurnStarted { turn_id });
        assert!(matches!(waiting.await.unwrap(), Some(Event::TurnStarted { .. })));
    }

    #[tokio::test]
    async fn closing_ends_a_reader_after_what_is_left() {
        let hub = hub(1 << 20);
        let mut receiver = hub.subscribe().events;
        hub.emit(delta(TurnId::new(), 1, "last"));
        hub.close();
        assert!(receiver.next().await.is_some());
        assert!(receiver.next().await.is_none());
    }

    #[tokio::test]
    async fn a_waiting_reader_is_woken() {
        let hub = hub(1 << 20);
        let mut receiver = hub.subscribe().events;
        let waiting = tokio::spawn(async move { receiver.next().await.is_some() });
        tokio::task::yield_now().await;
        hub.emit(delta(TurnId::new(), 1, "x"));
        assert!(waiting.await.unwrap());
    }
}
