//! What one thread has told, as far as somebody may still want it. Pure data; [`super::events::Hub`] puts it under a lock.
//!
//! Every event has a position: it counts one, a delta counts its bytes. Positions rise for as long as the thread is in
//! memory, so that "all events after position p" is one answer for whoever asks, however deltas are merged. All readers
//! read this one log. An event stays until every reader has read it and, while a turn runs, for those that come back,
//! within a bound in bytes. Deltas are the only events that may come by the thousand, so they alone are merged and, past
//! a bound of their own, dropped, the oldest first.

use std::collections::VecDeque;
use std::sync::Arc;

use openoxide_llm::Usage;

use crate::{ApprovalAction, Event, PlanStep, TurnItem, TurnItemKind};

/// An event counts as what it holds and this much for itself.
pub(super) const OVERHEAD: usize = 64;

/// A delta is not merged into one that has this many bytes, so that dropping the oldest does not drop all.
const MERGED: usize = 4096;

/// What a log may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogLimits {
    /// Bytes of deltas, unread ones included.
    pub(super) delta_bytes: usize,
    /// Bytes of events that every reader has read.
    pub(super) log_bytes: usize,
}

/// An item that has begun and is not complete, with what was told of it so far.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenItem {
    /// The item as it began.
    pub item: Arc<TurnItem>,
    /// Its deltas so far, one after the other.
    pub text: String,
    /// Whether the beginning of the text is not kept any more. The completed item has all of it.
    pub is_cut: bool,
}

/// What the running turn has told that later events go on from.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Progress {
    /// The latest plan.
    pub(super) plan: Option<Arc<Vec<PlanStep>>>,
    /// Tokens spent so far.
    pub(super) usage: Usage,
}

/// What one thread has told; see the module.
pub(super) struct EventLog {
    limits: LogLimits,
    entries: VecDeque<Entry>,
    /// After the event that came last.
    end: u64,
    /// From here on nothing is missing but deltas of items that have completed since.
    whole_from: u64,
    bytes: usize,
    delta_bytes: usize,
    /// Whether what all have read is kept for those that come back.
    is_kept: bool,
    open: Vec<Open>,
    progress: Progress,
}

struct Entry {
    /// Its position.
    at: u64,
    event: Event,
}

struct Open {
    item: Arc<TurnItem>,
    is_cut: bool,
}

impl Entry {
    fn end(&self) -> u64 {
        self.at + span(&self.event)
    }

    fn delta_of(&self) -> Option<u64> {
        match &self.event {
            Event::ItemDelta { item_id, .. } => Some(*item_id),
            _ => None,
        }
    }
}

impl EventLog {
    /// A log in which nothing was told.
    pub(super) fn new(limits: LogLimits) -> Self {
        Self {
            limits,
            entries: VecDeque::new(),
            end: 0,
            whole_from: 0,
            bytes: 0,
            delta_bytes: 0,
            is_kept: false,
            open: Vec::new(),
            progress: Progress::default(),
        }
    }

    /// The position after the event that came last.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes of all that is kept.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether all after this position is there.
    pub(super) fn covers(&self, position: u64) -> bool {
        (self.whole_from..=self.end).contains(&position)
    }

    /// The plan and the tokens of the running turn.
    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The items that have begun and are not complete.
    pub(super) fn open_items(&self) -> Vec<OpenItem> {
        let open = self.open.iter().map(|open| {
            let own = self.entries.iter().filter(|entry| entry.delta_of() == Some(open.item.id));
            let text = own.filter_map(|entry| match &entry.event {
                Event::ItemDelta { delta, .. } => Some(delta.as_str()),
                _ => None,
            });
            OpenItem { item: Arc::clone(&open.item), text: text.collect(), is_cut: open.is_cut }
        });
        open.collect()
    }

    /// Adds an event. Every reader has read up to `read`.
    pub(super) fn push(&mut self, event: Event, read: u64) {
        let (at, weight) = (self.end, weight(&event));
        self.note(&event, read);
        match &event {
            // It says nothing, and would have no position of its own.
            Event::ItemDelta { delta, .. } if delta.is_empty() => return,
            Event::ItemDelta { item_id, delta, .. } => {
                self.end += span(&event);
                let last = self.entries.back_mut().filter(|last| last.delta_of() == Some(*item_id));
                if let Some(Event::ItemDelta { delta: text, .. }) = last.map(|last| &mut last.event)
                    && text.len() + delta.len() <= MERGED
                {
                    text.push_str(delta);
                    self.bytes += delta.len();
                    self.delta_bytes += delta.len();
                } else {
                    self.bytes += weight;
                    self.delta_bytes += weight;
                    self.entries.push_back(Entry { at, event });
                }
            }
            _ => {
                self.end += span(&event);
                self.bytes += weight;
                self.entries.push_back(Entry { at, event });
            }
        }
        while self.delta_bytes > self.limits.delta_bytes {
            let Some(oldest) = self.entries.iter().position(|entry| entry.delta_of().is_some()) else { break };
            self.remove(oldest);
        }
        self.trim(read);
    }

    /// What comes at a position, and the position after it. Deltas of one item are merged.
    pub(super) fn read(&self, position: u64) -> Option<(Event, u64)> {
        // Most readers are at the end.
        let first = match self.entries.back() {
            Some(last) if last.at <= position => self.entries.len() - usize::from(position < last.end()),
            _ => self.entries.partition_point(|entry| entry.end() <= position),
        };
        let mut entries = self.entries.range(first..);
        let entry = entries.next()?;
        let mut end = entry.end();
        let Event::ItemDelta { turn_id, item_id, delta } = &entry.event else {
            return Some((entry.event.clone(), end));
        };
        // A position within a delta is where an earlier one ended before it was merged.
        let read = usize::try_from(position.saturating_sub(entry.at)).unwrap_or(usize::MAX);
        let mut text = delta.get(read..).unwrap_or_default().to_owned();
        for next in entries {
            match &next.event {
                Event::ItemDelta { item_id: other, delta, .. } if other == item_id => text.push_str(delta),
                _ => break,
            }
            end = next.end();
        }
        Some((Event::ItemDelta { turn_id: *turn_id, item_id: *item_id, delta: text }, end))
    }

    /// Whether [`EventLog::trim`] may have something to do.
    pub(super) fn holds_too_much(&self) -> bool {
        !self.is_kept || self.bytes > self.limits.log_bytes
    }

    /// Lets go of what every reader has read, where it need not be kept. Every reader has read up to `read`.
    pub(super) fn trim(&mut self, read: u64) {
        while let Some(first) = self.entries.front()
            && first.end() <= read
            && self.holds_too_much()
        {
            self.remove(0);
        }
        if !self.is_kept && self.entries.is_empty() {
            // An idle thread holds nothing for it.
            self.entries = VecDeque::new();
            self.whole_from = self.end;
        }
    }

    /// Keeps nothing for those that come back until a turn begins again.
    pub(super) fn rest(&mut self, read: u64) {
        self.is_kept = false;
        self.open = Vec::new();
        self.progress = Progress::default();
        self.trim(read);
    }

    /// Removes an entry, for whoever has not read it.
    fn remove(&mut self, index: usize) {
        let Some(entry) = self.entries.remove(index) else { return };
        self.whole_from = self.whole_from.max(entry.end());
        self.uncount(&entry.event);
        if let Some(item_id) = entry.delta_of()
            && let Some(open) = self.open.iter_mut().find(|open| open.item.id == item_id)
        {
            open.is_cut = true;
        }
    }

    fn uncount(&mut self, event: &Event) {
        let weight = weight(event);
        self.bytes -= weight;
        if matches!(event, Event::ItemDelta { .. }) {
            self.delta_bytes -= weight;
        }
    }

    /// Follows what is under way.
    fn note(&mut self, event: &Event, read: u64) {
        match event {
            Event::TurnStarted { .. } => {
                self.is_kept = true;
                self.open.clear();
                self.progress = Progress::default();
            }
            Event::ItemStarted { item, .. } => self.open.push(Open { item: Arc::clone(item), is_cut: false }),
            Event::ItemCompleted { item, .. } => {
                self.open.retain(|open| open.item.id != item.id);
                self.drop_deltas(read);
            }
            Event::Plan { steps, .. } => self.progress.plan = Some(Arc::clone(steps)),
            Event::Usage { usage, .. } => self.progress.usage = *usage,
            Event::TurnEnded { .. } => {
                self.open.clear();
                self.drop_deltas(read);
            }
            Event::ItemDelta { .. }
            | Event::ApprovalRequested { .. }
            | Event::ApprovalSettled { .. }
            | Event::Warning { .. } => {}
        }
    }

    /// Drops deltas that every reader has read and of which the completed item has the text.
    fn drop_deltas(&mut self, read: u64) {
        let Self { entries, open, bytes, delta_bytes, .. } = self;
        entries.retain(|entry| {
            let is_told = entry.end() <= read
                && entry.delta_of().is_some_and(|item_id| open.iter().all(|open| open.item.id != item_id));
            if is_told {
                let weight = weight(&entry.event);
                (*bytes, *delta_bytes) = (*bytes - weight, *delta_bytes - weight);
            }
            !is_told
        });
    }
}

/// How many positions an event takes.
fn span(event: &Event) -> u64 {
    match event {
        Event::ItemDelta { delta, .. } => delta.len() as u64,
        _ => 1,
    }
}

/// About how many bytes an event holds.
fn weight(event: &Event) -> usize {
    let held = match event {
        Event::ItemStarted { item, .. } | Event::ItemCompleted { item, .. } => item_weight(item),
        Event::ItemDelta { delta, .. } => delta.len(),
        Event::ApprovalRequested { request, .. } => match &request.action {
            ApprovalAction::Patch { unified_diff, .. } => 2 * unified_diff.len(),
            ApprovalAction::Command { argv, .. } => argv_weight(argv),
            ApprovalAction::Input { argv, text, .. } => argv_weight(argv) + text.len(),
            ApprovalAction::UserInput { questions } => {
                questions.iter().map(|question| question.question.len() + OVERHEAD).sum()
            }
        },
        Event::Plan { steps, .. } => steps.iter().map(|step| step.step.len() + OVERHEAD).sum(),
        Event::Warning { message, .. } => message.len(),
        Event::TurnEnded { result, .. } => result.content.len() + result.diff.as_ref().map_or(0, String::len),
        Event::TurnStarted { .. } | Event::ApprovalSettled { .. } | Event::Usage { .. } => 0,
    };
    held + OVERHEAD
}

fn item_weight(item: &TurnItem) -> usize {
    let held = match &item.kind {
        TurnItemKind::Message { text } | TurnItemKind::Reasoning { text } => text.len(),
        TurnItemKind::Command { argv, output, .. } => argv_weight(argv) + output.len(),
        TurnItemKind::Patch { changes, .. } => changes.iter().map(|change| change.diff.len() + OVERHEAD).sum(),
        TurnItemKind::Tool { summary, .. } => summary.len(),
    };
    held + OVERHEAD
}

fn argv_weight(argv: &[String]) -> usize {
    argv.iter().map(|arg| arg.len() + size_of::<String>()).sum()
}
