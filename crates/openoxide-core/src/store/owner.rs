//! The rollout of one thread as its thread in memory knows it: the one owner of what is on disk. Every line goes through
//! it, so it knows which file it last wrote or read, how long that was, and which lines could not be written yet.
//!
//! While the thread is idle it holds neither a descriptor nor the lock; [`Rollout::seen`] is what tells whether somebody
//! else has written in between.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::{RolloutItem, RolloutLine, SessionMeta, Stamp, Syncer, ThreadStore, ThreadWriter, json};
use crate::Holder;

/// Bytes of lines that wait for a disk that does not take them. Beyond it they are given up for the thread's state as a
/// whole, which is in memory anyway. Little for tests, which would have to write as much.
const MAX_BACKLOG: usize = if cfg!(test) { 64 << 10 } else { 32 << 20 };

/// See the module.
pub(crate) struct Rollout {
    /// None keeps nothing.
    store: Option<Arc<dyn ThreadStore>>,
    meta: Box<SessionMeta>,
    /// Open while the thread is in use.
    writer: Option<Box<dyn ThreadWriter>>,
    /// What the file was when it was last written or read here; none before the first line.
    seen: Option<Stamp>,
    /// Lines that could not be written, oldest first.
    backlog: VecDeque<RolloutLine>,
    backlog_bytes: usize,
    /// The backlog was too long and is gone.
    overflowed: bool,
    /// The last line was refused.
    is_failing: bool,
    /// What the system said when a line was last refused.
    trouble: String,
    /// Who uses the thread, for whoever else wants it.
    holder: Holder,
}

/// Lines that are not on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Behind {
    /// What the system says.
    pub(crate) why: String,
}

impl Rollout {
    /// One that keeps nothing.
    pub(crate) fn ephemeral(meta: SessionMeta) -> Self {
        Self::new(None, meta, None)
    }

    /// One that begins with its thread's first turn.
    pub(crate) fn pending(store: Arc<dyn ThreadStore>, meta: SessionMeta) -> Self {
        Self::new(Some(store), meta, None)
    }

    /// One that was just read.
    pub(crate) fn open(store: Arc<dyn ThreadStore>, meta: SessionMeta, writer: Box<dyn ThreadWriter>) -> Self {
        Self::new(Some(store), meta, Some(writer))
    }

    fn new(store: Option<Arc<dyn ThreadStore>>, meta: SessionMeta, writer: Option<Box<dyn ThreadWriter>>) -> Self {
        let seen = writer.as_ref().map(|writer| writer.stamp());
        let holder = Holder { pid: std::process::id(), ..Holder::default() };
        Self {
            store,
            meta: Box::new(meta),
            writer,
            seen,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            overflowed: false,
            is_failing: false,
            trouble: String::new(),
            holder,
        }
    }

    /// Whether anything is kept.
    pub(crate) fn is_ephemeral(&self) -> bool {
        self.store.is_none()
    }

    /// Where it is kept.
    pub(crate) fn store(&self) -> Option<Arc<dyn ThreadStore>> {
        self.store.clone()
    }

    /// Whether the first line is written.
    pub(crate) fn is_begun(&self) -> bool {
        self.seen.is_some()
    }

    /// Whether lines can be appended: it is open, or has no other side to agree with.
    pub(crate) fn is_writable(&self) -> bool {
        self.writer.is_some() || self.store.is_none() || self.seen.is_none()
    }

    /// Gives up a file that is open and no longer where it belongs, unless lines wait for it. Whether that was so.
    pub(crate) fn leave_misplaced(&mut self) -> bool {
        let (Some((store, seen)), true) = (self.elsewhere(), self.writer.is_some()) else { return false };
        let is_in_place = store.stamp(self.meta.id).is_ok_and(|stamp| stamp == seen);
        if is_in_place || self.behind().is_some() {
            return false;
        }
        self.writer = None;
        true
    }

    /// Where it is kept, and what it was when it was last looked at; none where there is nothing to agree with.
    pub(crate) fn elsewhere(&self) -> Option<(Arc<dyn ThreadStore>, Stamp)> {
        Some((Arc::clone(self.store.as_ref()?), self.seen?))
    }

    /// Bytes on disk.
    pub(crate) fn length(&self) -> u64 {
        self.seen.map_or(0, |seen| seen.length)
    }

    /// The first line.
    pub(crate) fn meta(&self) -> &SessionMeta {
        &self.meta
    }

    /// Writes the first line, unless it is written or nothing is kept.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        let Some(store) = self.store.as_ref().filter(|_| self.seen.is_none()) else { return Ok(()) };
        let mut writer = store.lock(self.meta.id)?;
        if let Err(error) = writer.append(&RolloutItem::SessionMeta((*self.meta).clone())) {
            // An empty file would be listed as a thread.
            if let Err(error) = writer.discard() {
                tracing::debug!(thread = %self.meta.id, %error, "an empty rollout was not removed");
            }
            return Err(error);
        }
        self.install(writer);
        Ok(())
    }

    /// Goes on with a writer that was claimed and whose lines are known.
    pub(crate) fn install(&mut self, writer: Box<dyn ThreadWriter>) {
        writer.note(&self.holder);
        self.seen = Some(writer.stamp());
        self.writer = Some(writer);
    }

    /// Writes a line behind all that wait; where that fails it waits as well. Says whether it is on disk, which is so
    /// too where nothing is kept.
    pub(crate) fn append(&mut self, item: &RolloutItem) -> bool {
        if self.store.is_none() {
            return true;
        }
        if let Err(error) = self.begin() {
            self.trouble = error.to_string();
        }
        let line = RolloutLine::now(item.clone());
        if self.catch_up() && self.write(&line) {
            return true;
        }
        self.keep(line);
        false
    }

    /// Tries to write the lines that wait. Whether none does any more.
    pub(crate) fn catch_up(&mut self) -> bool {
        while let Some(line) = self.backlog.pop_front() {
            if !self.write(&line) {
                self.backlog.push_front(line);
                return false;
            }
        }
        self.backlog_bytes = 0;
        !self.overflowed
    }

    /// Whether lines were given up, so that the thread's state has to be written instead; see [`Rollout::put_instead`].
    pub(crate) fn wants_state(&self) -> bool {
        self.overflowed
    }

    /// Has these lines wait in place of those that were given up.
    pub(crate) fn put_instead(&mut self, items: Vec<RolloutItem>) {
        self.overflowed = false;
        self.backlog = items.into_iter().map(RolloutLine::now).collect();
        self.backlog_bytes = 0;
    }

    fn write(&mut self, line: &RolloutLine) -> bool {
        let Some(writer) = &mut self.writer else {
            self.trouble = "it is not open".to_owned();
            return false;
        };
        let written = writer.append_line(line);
        self.seen = Some(writer.stamp());
        match written {
            Ok(()) => {
                self.is_failing = false;
                true
            }
            Err(error) => {
                // Once for as long as it lasts: whoever watches the log of a full disk is told enough by one line.
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::error!(thread = %self.meta.id, %error, "the rollout cannot be written; its lines wait");
                }
                self.trouble = error.to_string();
                false
            }
        }
    }

    fn keep(&mut self, line: RolloutLine) {
        if self.overflowed {
            return;
        }
        self.backlog_bytes += weight(&line.item);
        self.backlog.push_back(line);
        if self.backlog_bytes > MAX_BACKLOG {
            self.overflowed = true;
            self.backlog = VecDeque::new();
        }
    }

    /// Whether the disk is behind the memory.
    pub(crate) fn behind(&self) -> Option<Behind> {
        let is_behind = self.overflowed || !self.backlog.is_empty();
        is_behind.then(|| Behind { why: self.trouble.clone() })
    }

    /// Gives descriptor and lock up, unless lines wait: nobody may go on without them. What makes the lines durable is
    /// returned, where there is something to make durable.
    pub(crate) fn close(&mut self) -> Option<Syncer> {
        if !self.catch_up() {
            return None;
        }
        let writer = self.writer.take()?;
        self.seen = Some(writer.stamp());
        writer.syncer().ok()
    }

    /// See [`ThreadWriter::syncer`]; `None` when there is nothing to make durable.
    pub(crate) fn syncer(&self) -> Option<Syncer> {
        self.writer.as_ref().and_then(|writer| writer.syncer().ok())
    }

    /// Says on whose behalf the thread is used.
    pub(crate) fn set_client(&mut self, client: Option<&str>) {
        if self.holder.client.as_deref() != client {
            self.holder.client = client.map(str::to_owned);
            self.note();
        }
    }

    /// Says which background commands keep the thread in use.
    pub(crate) fn set_commands(&mut self, commands: Vec<String>) {
        if self.holder.commands != commands {
            self.holder.commands = commands;
            self.note();
        }
    }

    fn note(&self) {
        if let Some(writer) = &self.writer {
            writer.note(&self.holder);
        }
    }
}

/// What a line that waits takes in memory. Items of the history are there anyway.
fn weight(item: &RolloutItem) -> usize {
    const SHARED: usize = 128;
    match item {
        RolloutItem::ResponseItem(_) => SHARED,
        RolloutItem::Compacted(items) => SHARED * (items.len() + 1),
        other => json::length_of(other).unwrap_or(SHARED),
    }
}
