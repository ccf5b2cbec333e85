//! Whatever is told, attached, dropped and attached again: each reader is whole, or is told that it is not.

use std::collections::BTreeMap;
use std::sync::Arc;

use openoxide_llm::Usage;
use proptest::prelude::*;

use super::event_log::{LogLimits, OpenItem};
use super::events::{Cursor, EventReceiver, Hub};
use crate::{Event, ThreadId, TurnId, TurnItem, TurnItemKind, TurnResult, TurnStatus};

/// One thing that happens. The numbers choose among what is there.
#[derive(Debug, Clone)]
enum Step {
    Begin,
    Start,
    Delta(usize, String),
    Complete(usize),
    Warn,
    End,
    Attach,
    Leave(usize),
    Return(usize),
    Read(usize, usize),
}

const TEXT: [&str; 6] = ["", "a", "ä", "aß", "a€", "€äaß"];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Begin),
        3 => Just(Step::Start),
        // Of more than one byte each, so that a place within one would be noticed.
        12 => (any::<usize>(), 0..6_usize).prop_map(|(item, bytes)| Step::Delta(item, TEXT[bytes].to_owned())),
        2 => any::<usize>().prop_map(Step::Complete),
        2 => Just(Step::Warn),
        1 => Just(Step::End),
        2 => Just(Step::Attach),
        4 => any::<usize>().prop_map(Step::Leave),
        4 => any::<usize>().prop_map(Step::Return),
        12 => (any::<usize>(), 1..6_usize).prop_map(|(reader, events)| Step::Read(reader, events)),
    ]
}

/// One reader over all its attachments: what it has been told, put together as a protocol would.
struct Reader {
    events: Option<EventReceiver>,
    left_at: Option<Cursor>,
    /// How many events of the truth it has been told, or is behind.
    told: usize,
    /// The text of the items that are open for it.
    texts: BTreeMap<u64, OpenItem>,
}

/// What happened in truth.
#[derive(Default)]
struct Truth {
    /// The events that are no deltas, by a name of each.
    events: Vec<String>,
    texts: BTreeMap<u64, String>,
    turn: Option<TurnId>,
    next_item: u64,
}

fn name(event: &Event) -> String {
    match event {
        Event::ItemStarted { item, .. } => format!("start {}", item.id),
        Event::ItemCompleted { item, .. } => format!("complete {}", item.id),
        Event::TurnStarted { turn_id } => format!("begin {turn_id}"),
        Event::TurnEnded { turn_id, .. } => format!("end {turn_id}"),
        Event::Warning { message, .. } => message.clone(),
        other => panic!("unexpected {other:?}"),
    }
}

fn message(id: u64, text: &str) -> Arc<TurnItem> {
    Arc::new(TurnItem { id, kind: TurnItemKind::Message { text: text.to_owned() } })
}

fn result(turn_id: TurnId) -> Arc<TurnResult> {
    Arc::new(TurnResult {
        thread_id: ThreadId::new(),
        turn_id,
        status: TurnStatus::Completed,
        content: String::new(),
        files_changed: Vec::new(),
        diff: None,
        usage: Usage::default(),
        thread_usage: Usage::default(),
        duration_ms: 0,
        denials: Vec::new(),
        warnings: Vec::new(),
    })
}

struct World {
    hub: Arc<Hub>,
    truth: Truth,
    readers: Vec<Reader>,
    gaps: usize,
    /// Whether the limits are such that deltas of a reader that stays are dropped.
    drops_deltas: bool,
}

impl World {
    fn new(limits: LogLimits, drops_deltas: bool) -> Self {
        let hub = Arc::new(Hub::new(limits));
        Self { hub, truth: Truth { next_item: 1, ..Truth::default() }, readers: Vec::new(), gaps: 0, drops_deltas }
    }

    fn emit(&mut self, event: Event) {
        self.truth.events.push(name(&event));
        self.hub.emit(event);
    }

    fn take(&mut self, step: Step) {
        let open: Vec<u64> = self.truth.texts.keys().copied().collect();
        let chosen = |index: usize| open.get(index % open.len().max(1)).copied();
        match (step, self.truth.turn) {
            (Step::Begin, None) => {
                let turn_id = TurnId::new();
                self.truth.turn = Some(turn_id);
                self.emit(Event::TurnStarted { turn_id });
            }
            (Step::Start, Some(turn_id)) => {
                let id = self.truth.next_item;
                self.truth.next_item += 1;
                self.truth.texts.insert(id, String::new());
                self.emit(Event::ItemStarted { turn_id, item: message(id, "") });
            }
            (Step::Delta(index, delta), Some(turn_id)) => {
                let Some(item_id) = chosen(index) else { return };
                self.truth.texts.get_mut(&item_id).unwrap().push_str(&delta);
                self.hub.emit(Event::ItemDelta { turn_id, item_id, delta });
            }
            (Step::Complete(index), Some(turn_id)) => {
                let Some(id) = chosen(index) else { return };
                let text = self.truth.texts.remove(&id).unwrap();
                self.emit(Event::ItemCompleted { turn_id, item: message(id, &text) });
            }
            (Step::Warn, Some(turn_id)) => {
                let message = format!("warning {}", self.truth.events.len());
                self.emit(Event::Warning { turn_id, message });
            }
            (Step::End, Some(turn_id)) => {
                (self.truth.turn, self.truth.texts) = (None, BTreeMap::new());
                self.emit(Event::TurnEnded { turn_id, result: result(turn_id) });
                self.hub.rest();
            }
            (Step::Attach, _) => {
                let mut reader = Reader { events: None, left_at: None, told: 0, texts: BTreeMap::new() };
                reader.start_over(&self.hub, self.truth.events.len());
                self.readers.push(reader);
            }
            (Step::Leave(index), _) => {
                if let Some(reader) = pick(&mut self.readers, index)
                    && let Some(events) = reader.events.take()
                {
                    reader.left_at = Some(events.cursor());
                }
            }
            (Step::Return(index), _) => {
                if let Some(reader) = pick(&mut self.readers, index)
                    && let Some(cursor) = reader.left_at.take()
                {
                    reader.events = self.hub.subscribe_from(cursor);
                    if reader.events.is_none() {
                        self.gaps += 1;
                        reader.start_over(&self.hub, self.truth.events.len());
                    }
                }
            }
            (Step::Read(index, events), _) => {
                if let Some(reader) = pick(&mut self.readers, index) {
                    reader.read(events, &self.truth);
                }
            }
            _ => {}
        }
    }

    /// Has everybody come back and read all there is, and compares.
    fn settle(mut self) -> usize {
        for index in 0..self.readers.len() {
            self.take(Step::Return(index));
        }
        for reader in &mut self.readers {
            reader.read(usize::MAX, &self.truth);
            assert_eq!(reader.told, self.truth.events.len(), "nothing is left out");
            let (open, known): (Vec<_>, Vec<_>) = (self.truth.texts.keys().collect(), reader.texts.keys().collect());
            assert_eq!(known, open, "each open item is known");
            for (id, item) in &reader.texts {
                let truth = &self.truth.texts[id];
                let fits = match (self.drops_deltas, item.is_cut) {
                    (true, _) => is_left_of(&item.text, truth),
                    (false, true) => truth.ends_with(&item.text),
                    (false, false) => item.text == *truth,
                };
                assert!(fits, "{item:?} of {truth:?}");
            }
        }
        self.gaps
    }
}

/// Whether a text is another one without parts of it.
fn is_left_of(text: &str, whole: &str) -> bool {
    let mut rest = whole.chars();
    text.chars().all(|wanted| rest.any(|c| c == wanted))
}

fn pick(readers: &mut [Reader], index: usize) -> Option<&mut Reader> {
    let readers_len = readers.len();
    readers.get_mut(index % readers_len.max(1))
}

impl Reader {
    fn start_over(&mut self, hub: &Arc<Hub>, events: usize) {
        let attached = hub.subscribe();
        self.texts = attached.open_items.into_iter().map(|open| (open.item.id, open)).collect();
        self.told = events;
        self.events = Some(attached.events);
    }

    fn read(&mut self, most: usize, truth: &Truth) {
        let Some(events) = &mut self.events else { return };
        for _ in 0..most {
            let Some(event) = events.try_next() else { break };
            if let Event::ItemDelta { item_id, delta, .. } = &event {
                self.texts.get_mut(item_id).expect("a delta of an open item").text.push_str(delta);
                continue;
            }
            assert_eq!(Some(&name(&event)), truth.events.get(self.told), "the next event, not one later nor one again");
            self.told += 1;
            match event {
                Event::ItemStarted { item, .. } => {
                    let open = OpenItem { item, text: String::new(), is_cut: false };
                    self.texts.insert(open.item.id, open);
                }
                Event::ItemCompleted { item, .. } => drop(self.texts.remove(&item.id)),
                Event::TurnEnded { .. } => self.texts.clear(),
                _ => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn attached_again_from_a_cursor_nothing_is_missing_and_nothing_comes_twice(
        steps in prop::collection::vec(step(), 0..160),
    ) {
        let mut world = World::new(LogLimits { delta_bytes: 1 << 20, log_bytes: 1 << 20 }, false);
        // Within a turn nothing is let go of.
        world.take(Step::Begin);
        steps.into_iter().filter(|step| !matches!(step, Step::End)).for_each(|step| world.take(step));
        prop_assert_eq!(world.settle(), 0, "all was kept");
    }

    #[test]
    fn what_is_no_longer_kept_is_told_as_a_gap_and_all_goes_on_from_there(
        steps in prop::collection::vec(step(), 0..160),
        log_bytes in prop_oneof![Just(0_usize), 200..2000_usize],
    ) {
        let mut world = World::new(LogLimits { delta_bytes: 1 << 20, log_bytes }, false);
        steps.into_iter().for_each(|step| world.take(step));
        world.settle();
    }

    #[test]
    fn with_little_room_for_deltas_nothing_else_is_lost(
        steps in prop::collection::vec(step(), 0..160),
        delta_bytes in 0..300_usize,
    ) {
        let mut world = World::new(LogLimits { delta_bytes, log_bytes: 1000 }, true);
        steps.into_iter().for_each(|step| world.take(step));
        world.settle();
    }
}

#[test]
fn an_idle_thread_keeps_no_events_and_a_cursor_at_their_end_is_still_good() {
    let hub = Arc::new(Hub::new(LogLimits { delta_bytes: 1 << 20, log_bytes: 1 << 20 }));
    let mut early = hub.subscribe().events;
    let (before, turn_id) = (early.cursor(), TurnId::new());
    hub.emit(Event::TurnStarted { turn_id });
    hub.emit(Event::TurnEnded { turn_id, result: result(turn_id) });
    hub.rest();
    assert!(hub.holds() > 0, "a reader that has not read is given what it is owed");
    while early.try_next().is_some() {}
    assert_eq!(hub.holds(), 0);
    let end = early.cursor();
    drop(early);
    assert!(hub.subscribe_from(before).is_none());
    let mut back = hub.subscribe_from(end).expect("all of it was read");
    let turn_id = TurnId::new();
    hub.emit(Event::TurnStarted { turn_id });
    assert!(matches!(back.try_next(), Some(Event::TurnStarted { .. })));
    assert!(Hub::subscribe_from(&Arc::new(Hub::new(LogLimits { delta_bytes: 1, log_bytes: 1 })), before).is_none());
}

#[test]
fn a_complete_item_takes_the_place_of_its_deltas() {
    let hub = Arc::new(Hub::new(LogLimits { delta_bytes: 1 << 20, log_bytes: 1 << 20 }));
    let (start, turn_id) = (hub.subscribe().events.cursor(), TurnId::new());
    hub.emit(Event::TurnStarted { turn_id });
    hub.emit(Event::ItemStarted { turn_id, item: message(1, "") });
    for _ in 0..100 {
        hub.emit(Event::ItemDelta { turn_id, item_id: 1, delta: "x".repeat(1000) });
    }
    assert!(hub.holds() > 100_000);
    let mut live = hub.subscribe_from(start).unwrap();
    hub.emit(Event::ItemCompleted { turn_id, item: message(1, "whole") });
    let told = std::iter::from_fn(|| live.try_next());
    let deltas: usize =
        told.map(|event| if let Event::ItemDelta { delta, .. } = event { delta.len() } else { 0 }).sum();
    assert_eq!(deltas, 100_000, "one that is attached is told all of it");
    hub.emit(Event::ItemStarted { turn_id, item: message(2, "") });
    hub.emit(Event::ItemCompleted { turn_id, item: message(2, "") });
    assert!(hub.holds() < 1000, "{}", hub.holds());
    let mut back = hub.subscribe_from(start).unwrap();
    let told: Vec<_> = std::iter::from_fn(|| back.try_next()).map(|event| name(&event)).collect();
    assert_eq!(told[1..], ["start 1", "complete 1", "start 2", "complete 2"]);
}
