//! The side of a thread that faces the disk: how it takes its rollout into use and gives it up, and what it does where
//! disk and memory disagree.
//!
//! A thread is in use while a turn runs or waits, a command of it is alive, somebody holds a [`Claim`], or lines wait for
//! the disk. Else it is idle and holds neither a descriptor nor its lock, so that another process may go on with it.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::handle::Thread;
use super::kept_diffs::KeptDiffs;
use super::restore::{self, Restored};
use super::state::State;
use super::temporary::remove_temporary;
use crate::mutex::lock;
use crate::store::{Damage, EventRecord, Fate, Reading, RolloutItem, Stamp, ThreadStore, ThreadWriter};
use crate::turn::{ContextDue, SummedUp};
use crate::{CoreError, Event, Interruption, Limits, ThreadId, TurnId};

/// From one look for commands that are still alive to the next: short at first, since most are about to be gone.
const COMMANDS_ROUND: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(200)];

/// The right to use a thread: while it is held the rollout stays open and nobody else writes it.
pub(crate) struct Claim {
    thread: Arc<Thread>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut state = lock(&self.thread.state);
        state.claims -= 1;
        self.thread.release_if_idle(&mut state);
    }
}

/// What [`Thread::claim`] found on disk.
enum Found {
    /// What memory has.
    Same(Box<dyn ThreadWriter>),
    /// Something else.
    Other(Box<dyn ThreadWriter>, Reading),
    /// Nothing, and nobody wanted that.
    Nothing(Box<dyn ThreadWriter>),
}

impl Thread {
    /// Takes the thread into use, as it is on disk: where another process has gone on with it, that is loaded. Blocks on
    /// the disk.
    ///
    /// # Errors
    /// Another process uses the thread, it was deleted or put aside, or the disk fails.
    pub(crate) fn claim(self: &Arc<Self>) -> Result<Claim, CoreError> {
        let claim = self.hold();
        let _one_at_a_time = lock(&self.claiming);
        let known = {
            let mut rollout = lock(&self.rollout);
            if rollout.is_writable() && !rollout.leave_misplaced() {
                return Ok(claim);
            }
            rollout.elsewhere()
        };
        let Some((store, seen)) = known else { return Ok(claim) };
        match self.look(store.as_ref(), seen)? {
            Found::Same(writer) => lock(&self.rollout).install(writer),
            Found::Other(writer, reading) => self.agree(writer, reading)?,
            Found::Nothing(writer) => self.write_anew(writer, "its file was gone"),
        }
        Ok(claim)
    }

    /// A claim on a thread whose rollout is open, or is about to be.
    pub(crate) fn hold(self: &Arc<Self>) -> Claim {
        lock(&self.state).claims += 1;
        Claim { thread: Arc::clone(self) }
    }

    fn look(&self, store: &dyn ThreadStore, seen: Stamp) -> Result<Found, CoreError> {
        let id = self.id();
        let writer = match store.claim(id) {
            Ok(writer) => writer,
            Err(error) if error.kind() == io::ErrorKind::NotFound => match store.fate(id) {
                Fate::Deleted => {
                    remove_temporary(self.core.config.launcher.host_paths(), id);
                    return Err(self.is_gone(CoreError::ThreadNotFound { id }));
                }
                Fate::Archived => return Err(self.is_gone(CoreError::ThreadArchived { id })),
                Fate::Lost => return Ok(Found::Nothing(store.lock(id).map_err(|error| failure(store, id, error))?)),
            },
            Err(error) => return Err(failure(store, id, error)),
        };
        if writer.stamp() == seen {
            return Ok(Found::Same(writer));
        }
        let reading = writer.read_back(self.core.config.limits.max_load_bytes);
        let reading = reading.map_err(|error| unreadable(id, writer.stamp(), &self.core.config.limits, error))?;
        Ok(Found::Other(writer, reading))
    }

    /// The thread is no more, so memory does not keep it either.
    fn is_gone(&self, error: CoreError) -> CoreError {
        lock(&self.state).closed = Some(Interruption::ThreadClosed);
        if let Some(registry) = self.registry.upgrade() {
            registry.forget(self.id());
        }
        error
    }

    /// Makes one of what is on disk and what is in memory. Disk goes before, but for what memory alone has: that was
    /// written once, and is written again.
    fn agree(&self, mut writer: Box<dyn ThreadWriter>, reading: Reading) -> Result<(), CoreError> {
        let damage = reading.damage;
        let Some(mut disk) = restore::restore(reading.lines) else {
            let kept = writer.begin_anew().map_err(|source| CoreError::Rollout { id: self.id(), source })?;
            let why = match kept {
                Some(path) => format!("its first line could not be read; what its file held is in {}", path.display()),
                None => "its file was empty".to_owned(),
            };
            self.write_anew(writer, &why);
            return Ok(());
        };
        let mut state = lock(&self.state);
        let mut rollout = lock(&self.rollout);
        rollout.install(writer);
        let missing = missing_on_disk(&state, &disk, &self.core.kept_diffs);
        let lines = if missing.is_empty() {
            let lines = disk.close_cut_off();
            state.adopt(disk);
            lines
        } else {
            state.warnings.push(format!(
                "the rollout of this thread was shorter than what the server knows; {} lines were written again",
                missing.len()
            ));
            missing
        };
        state.warnings.extend(damage_sentence(&damage));
        for line in lines {
            rollout.append(&line);
        }
        Ok(())
    }

    /// Writes the thread from memory into an empty rollout.
    fn write_anew(&self, writer: Box<dyn ThreadWriter>, why: &str) {
        let mut state = lock(&self.state);
        let mut rollout = lock(&self.rollout);
        let meta = rollout.meta().clone();
        rollout.install(writer);
        rollout.append(&RolloutItem::SessionMeta(meta));
        for item in state.history.iter() {
            rollout.append(&RolloutItem::ResponseItem(Arc::clone(item)));
        }
        let diffs = &self.core.kept_diffs;
        for line in state.beside_history(diffs).into_iter().chain(state.checkpoint(diffs)) {
            rollout.append(&line);
        }
        tracing::warn!(thread = %self.id(), why, "the rollout was written anew from memory");
        state.warnings.push(format!("the rollout of this thread was written anew from memory, since {why}"));
    }

    /// Tells that a line waits for the disk, once in a turn. What the line says must be in memory by now: where too many
    /// wait, all that is in memory is written instead.
    pub(super) fn not_written(&self, state: &mut State) {
        let mut rollout = lock(&self.rollout);
        if rollout.wants_state() {
            let lines = state.as_lines(&self.core.kept_diffs);
            rollout.put_instead(lines);
        }
        if let (Some(running), Some(behind)) = (&mut state.running, rollout.behind())
            && !std::mem::replace(&mut running.told_behind, true)
        {
            let message = format!("the thread is not saved at the moment ({}); writing it is tried again", behind.why);
            self.hub.emit(Event::Warning { turn_id: running.turn_id, message });
        }
    }

    /// Adds a warning to the result of the turn under way.
    pub(crate) fn warn_in_result(&self, message: String) {
        lock(&self.state).turn_warnings.push(message);
    }

    /// What a turn's result has to warn of: what was noted for it, and lines that are not on disk.
    pub(super) fn take_warnings(&self, state: &mut State) -> Vec<String> {
        let mut warnings = std::mem::take(&mut state.turn_warnings);
        let mut rollout = lock(&self.rollout);
        // A disk that was full for a moment is nothing to warn of.
        rollout.catch_up();
        if let Some(behind) = rollout.behind() {
            warnings.push(format!(
                "this thread is no longer saved: its rollout cannot be written ({}). It goes on in memory, and what is missing \
                 is written when that works again; check the free space and the permissions of the commands directory",
                behind.why
            ));
        }
        warnings
    }

    /// Tells what was noted for the turn that begins.
    pub(super) fn tell_warnings(&self, turn_id: TurnId) {
        let mut state = lock(&self.state);
        for message in std::mem::take(&mut state.warnings) {
            state.turn_warnings.push(message.clone());
            self.hub.emit(Event::Warning { turn_id, message });
        }
    }

    /// Gives descriptor and lock up where nothing needs them.
    pub(super) fn release_if_idle(self: &Arc<Self>, state: &mut State) {
        if state.running.is_some() || !state.queue.is_empty() || state.claims > 0 {
            return;
        }
        let commands = self.commands.alive();
        let mut rollout = lock(&self.rollout);
        if commands.is_empty() {
            if let Some(syncer) = rollout.close()
                && tokio::runtime::Handle::try_current().is_ok()
            {
                self.core.sync.push(self.id(), syncer);
            }
        } else {
            rollout.set_commands(commands);
            if !std::mem::replace(&mut state.watches_commands, true) {
                self.watch_commands();
            }
        }
    }

    /// Looks from time to time whether commands in the background are still alive, and gives the thread up when none is.
    fn watch_commands(self: &Arc<Self>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let this: Weak<Self> = Arc::downgrade(self);
        runtime.spawn(async move {
            let mut round = COMMANDS_ROUND[0];
            loop {
                tokio::time::sleep(round).await;
                round = (round * 2).min(COMMANDS_ROUND[1]);
                let Some(thread) = this.upgrade() else { return };
                if thread.commands.alive().is_empty() {
                    let mut state = lock(&thread.state);
                    state.watches_commands = false;
                    lock(&thread.rollout).set_commands(Vec::new());
                    thread.release_if_idle(&mut state);
                    return;
                }
            }
        });
    }

    /// Tries again to write lines that wait.
    pub(crate) fn catch_up(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        let is_behind = lock(&self.rollout).behind().is_some();
        if is_behind {
            self.release_if_idle(&mut state);
        }
    }

    /// Says on whose behalf the thread is used, for other processes that want it.
    pub fn used_by(&self, client: Option<&str>) {
        lock(&self.rollout).set_client(client);
    }

    /// Whether the history in memory is what is on disk, as far as can be told without reading it.
    pub(crate) fn is_current(&self) -> bool {
        let rollout = lock(&self.rollout);
        rollout.is_writable()
            || rollout.elsewhere().is_none_or(|(store, seen)| store.stamp(self.id()).is_ok_and(|stamp| stamp == seen))
    }
}

/// What memory has and the disk has not, where the disk has nothing that memory has not; nothing else.
fn missing_on_disk(state: &State, disk: &Restored, diffs: &KeptDiffs) -> Vec<RolloutItem> {
    let memory = &state.history;
    let is_beginning = memory.len() >= disk.history.len() && memory[..disk.history.len()] == disk.history[..];
    let knows = |turn_id| state.kept_result(turn_id).is_some();
    // Where the histories are the same, the turns tell who knows more.
    let has_more = memory.len() == disk.history.len()
        && (disk.results.iter().any(|kept| !knows(kept.result.turn_id))
            || disk.cut_off.as_ref().is_some_and(|turn| !knows(turn.turn_id)));
    if !is_beginning || has_more {
        return Vec::new();
    }
    let items = memory[disk.history.len()..].iter().map(|item| RolloutItem::ResponseItem(Arc::clone(item)));
    let is_there = |turn_id| disk.results.iter().any(|kept| kept.result.turn_id == turn_id);
    // Those before one that is there are there as well, beyond the last few that were read.
    let from = state.results.iter().rposition(|kept| is_there(kept.result.turn_id)).map_or(0, |at| at + 1);
    let results = state.results.iter().skip(from);
    let results = results.map(|kept| RolloutItem::EventMsg(kept.record(diffs)));
    let granted = state.granted.iter().filter(|approval| !disk.granted.contains(approval));
    let granted = granted.map(|approval| RolloutItem::EventMsg(EventRecord::Remembered { approval: approval.clone() }));
    let mut lines: Vec<RolloutItem> = items.chain(granted).chain(results).collect();
    if !lines.is_empty() {
        // For what the last few results do not tell: the tokens of all turns.
        lines.extend(state.checkpoint(diffs));
    }
    lines
}

/// What a person is told of damaged lines.
pub(crate) fn damage_sentence(damage: &[Damage]) -> Option<String> {
    let first = damage.first()?;
    Some(format!(
        "{} damaged lines of this thread's rollout were left out, the first at byte {} ({} bytes: {}); the rest was loaded",
        damage.len(),
        first.at,
        first.bytes,
        first.why
    ))
}

/// Why a thread could not be claimed.
pub(crate) fn failure(store: &dyn ThreadStore, id: ThreadId, source: io::Error) -> CoreError {
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::InvalidInput => match store.fate(id) {
            Fate::Archived => CoreError::ThreadArchived { id },
            Fate::Deleted | Fate::Lost => CoreError::ThreadNotFound { id },
        },
        io::ErrorKind::WouldBlock => CoreError::ThreadBusy { id, holder: store.holder(id) },
        _ => CoreError::Rollout { id, source },
    }
}

/// Why a thread could not be read.
pub(crate) fn unreadable(id: ThreadId, stamp: Stamp, limits: &Limits, source: io::Error) -> CoreError {
    match source.kind() {
        io::ErrorKind::FileTooLarge => {
            CoreError::ThreadTooLarge { id, bytes: stamp.length, max: limits.max_load_bytes }
        }
        _ => CoreError::Rollout { id, source },
    }
}

impl State {
    /// Takes over what was loaded.
    pub(crate) fn adopt(&mut self, restored: Restored) {
        let Restored { context, history, prefix, remembered, granted, results, usage, next_item_id, .. } = restored;
        self.context_due = if history.is_empty() { ContextDue::Everything } else { ContextDue::Nothing };
        self.finished_len = history.len();
        self.history = Arc::new(history);
        (self.remembered, self.granted, self.usage) = (remembered, granted, usage);
        // Those of a turn that memory alone knew are not used again either.
        self.next_item_id = self.next_item_id.max(next_item_id);
        self.context = context;
        (self.context_tokens, self.summed_up, self.prefix) = (0, SummedUp::Never, prefix);
        self.results.clear();
        self.results.extend(results);
    }

    /// What the thread holds beside its history, as lines.
    fn beside_history(&self, diffs: &KeptDiffs) -> Vec<RolloutItem> {
        let granted = self.granted.iter().map(|approval| EventRecord::Remembered { approval: approval.clone() });
        let results = self.results.iter().map(|kept| kept.record(diffs));
        let context = self.context.iter().map(|context| RolloutItem::TurnContext(context.clone()));
        context.chain(granted.chain(results).map(RolloutItem::EventMsg)).collect()
    }

    /// The record that a `compacted` needs before it.
    pub(crate) fn checkpoint(&self, diffs: &KeptDiffs) -> Option<RolloutItem> {
        let context = self.context.clone()?;
        let usage_before = self.results.front().map_or_else(openoxide_llm::Usage::default, |first| {
            let (total, own) = (first.result.thread_usage, first.result.usage);
            openoxide_llm::Usage {
                input_tokens: total.input_tokens.saturating_sub(own.input_tokens),
                cached_input_tokens: total.cached_input_tokens.saturating_sub(own.cached_input_tokens),
                output_tokens: total.output_tokens.saturating_sub(own.output_tokens),
                reasoning_output_tokens: total.reasoning_output_tokens.saturating_sub(own.reasoning_output_tokens),
            }
        });
        let results = self.results.iter().map(|kept| kept.record(diffs)).collect();
        let remembered = self.granted.clone();
        Some(RolloutItem::EventMsg(EventRecord::Checkpoint {
            context,
            usage_before,
            remembered,
            results,
            prefix: self.prefix.clone(),
        }))
    }

    /// The whole thread in two lines.
    fn as_lines(&self, diffs: &KeptDiffs) -> Vec<RolloutItem> {
        let compacted = RolloutItem::Compacted(self.history.to_vec());
        self.checkpoint(diffs).into_iter().chain([compacted]).collect()
    }
}
