//! What one thread holds in memory, as data under one lock; [`crate::Thread`] does what follows from it.

use std::collections::VecDeque;
use std::sync::Arc;

use openoxide_llm::Usage;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::kept_diffs::KeptDiffs;
use crate::api::Owner;
use crate::rules::approvals::Remembered;
use crate::store::{EventRecord, Prefix, TurnContext};
use crate::turn::{ContextDue, History, SummedUp, TurnControl};
use crate::{ApprovalRequest, Decider, Decision, Held, Interruption, RememberedApproval, SteerId, TurnId, TurnResult};

/// Where it is not known how many item ids were used, as after a crash, so many are passed over: no turn gives out this
/// many, and ids stay below 2^53 for two million times.
pub(crate) const UNKNOWN_ITEM_IDS: u64 = 1 << 32;

/// How many ended turns can still be asked for.
pub(crate) const KEPT_RESULTS: usize = 8;

/// What one thread holds.
pub(crate) struct State {
    /// Why it refuses whatever comes; none while it is open.
    pub(crate) closed: Option<Interruption>,
    /// Oldest first.
    pub(crate) history: History,
    /// How much of the history belongs to turns that have ended.
    pub(crate) finished_len: usize,
    /// What the model is told ahead of the next prompt.
    pub(crate) context_due: ContextDue,
    /// Prompts that wait for their turn.
    pub(crate) queue: VecDeque<Queued>,
    /// The turn under way.
    pub(crate) running: Option<Running>,
    /// Questions of the turn under way.
    pub(crate) pending: Vec<Pending>,
    /// Questions that are settled, until the turn's own task has written so.
    pub(crate) settled: Vec<Settled>,
    /// Results of the turns that ended last, oldest first.
    pub(crate) results: VecDeque<KeptResult>,
    /// What need not be asked again.
    pub(crate) remembered: Remembered,
    /// The id of the next item. It rises over the whole life of the thread, also where it is loaded again.
    pub(crate) next_item_id: u64,
    /// Since when nobody follows the turn under way, as far as that was noticed.
    pub(crate) unwatched_since: Option<Instant>,
    /// Tokens of all turns that have ended.
    pub(crate) usage: Usage,
    /// When something was last asked of the thread, or a turn of it ended.
    pub(crate) last_used: Instant,
    /// Tokens of the history as the model counted them last; 0 where it has not.
    pub(crate) context_tokens: u64,
    /// What the history was summed up to.
    pub(crate) summed_up: SummedUp,
    /// What the thread's requests begin with; none where that is not known.
    pub(crate) prefix: Option<Prefix>,
    /// What the last turn ran with.
    pub(crate) context: Option<TurnContext>,
    /// What was approved for the thread, as it was written.
    pub(crate) granted: Vec<RememberedApproval>,
    /// How many hold the thread in use; see `thread/disk_side.rs`.
    pub(crate) claims: usize,
    /// Whether somebody waits for the end of commands in the background.
    pub(crate) watches_commands: bool,
    /// What the next turn's result is to warn of.
    pub(crate) warnings: Vec<String>,
    /// What this turn's result is to warn of.
    pub(crate) turn_warnings: Vec<String>,
}

/// The result of an ended turn as a thread holds it: without its diff, which may be as long as the files it changed.
#[derive(Debug, Clone)]
pub(crate) struct KeptResult {
    /// Its diff is none.
    pub(crate) result: Arc<TurnResult>,
    /// Bytes of the diff it had; 0 where it had none.
    pub(crate) diff_bytes: usize,
    /// Where the line of the turn's end begins in the rollout, as far as that is known.
    pub(crate) at: Option<u64>,
    /// The first item id that no turn up to this one has used, as far as that is known.
    pub(crate) next_item_id: Option<u64>,
}

impl KeptResult {
    /// What is kept of a result.
    pub(crate) fn of(result: &TurnResult, at: Option<u64>, next_item_id: Option<u64>) -> Self {
        let diff_bytes = result.diff.as_ref().map_or(0, String::len);
        // Field by field, so that the diff is not copied to be dropped.
        let light = TurnResult {
            thread_id: result.thread_id,
            turn_id: result.turn_id,
            status: result.status,
            content: result.content.clone(),
            files_changed: result.files_changed.clone(),
            diff: None,
            usage: result.usage,
            thread_usage: result.thread_usage,
            duration_ms: result.duration_ms,
            denials: result.denials.clone(),
            warnings: result.warnings.clone(),
        };
        Self { result: Arc::new(light), diff_bytes, at, next_item_id }
    }

    /// The record of the turn's end, with its diff where memory has it.
    pub(crate) fn record(&self, diffs: &KeptDiffs) -> EventRecord {
        let record = match diffs.find(self.result.turn_id) {
            Some(whole) => EventRecord::turn_ended(&whole),
            None => EventRecord::turn_ended(&self.result).with_diff_elsewhere(self.diff_bytes),
        };
        record.with_next_item_id(self.next_item_id)
    }
}

/// A prompt that waits.
pub(crate) struct Queued {
    pub(crate) turn_id: TurnId,
    pub(crate) text: String,
    /// The room that the text takes.
    pub(crate) room: Held<Owner>,
    /// Who asked, as far as traces tell.
    pub(crate) caller: tracing::Span,
}

/// Text that steers the turn under way.
pub(crate) struct Steer {
    /// Takes it back.
    pub(crate) id: SteerId,
    pub(crate) text: String,
    /// The room that the text takes until the model is given it.
    pub(crate) _room: Held<Owner>,
}

/// The turn under way.
pub(crate) struct Running {
    pub(crate) turn_id: TurnId,
    pub(crate) started: Instant,
    pub(crate) control: Arc<TurnControl>,
    /// Steering text the model has not been given yet.
    pub(crate) steers: Vec<Steer>,
    /// Its place among the turns that run; the next turn of the thread takes it over.
    pub(crate) place: Held<Owner>,
    /// The room that its prompt takes.
    pub(crate) _room: Held<Owner>,
    /// The end is decided: nothing can steer or interrupt it any more.
    pub(crate) sealed: bool,
    /// It was told that lines of it are not on disk.
    pub(crate) told_behind: bool,
    /// Its caller is gone for good: a thread that has nothing else leaves memory with it.
    pub(crate) abandoned: bool,
}

/// A question that waits for its decision.
pub(crate) struct Pending {
    pub(crate) request: Arc<ApprovalRequest>,
    /// When it was first put to somebody.
    pub(crate) put_at: Option<Instant>,
    /// The driver waits at the other end; it is gone when the turn ended first.
    pub(crate) answer: oneshot::Sender<(Decision, Decider)>,
}

/// A question that was decided.
pub(crate) struct Settled {
    pub(crate) request: Arc<ApprovalRequest>,
    pub(crate) decision: Decision,
    pub(crate) by: Decider,
}

impl State {
    /// A thread with this history, in which every turn has ended.
    pub(crate) fn new(history: History, context_due: ContextDue) -> Self {
        Self {
            closed: None,
            finished_len: history.len(),
            history,
            context_due,
            queue: VecDeque::new(),
            running: None,
            pending: Vec::new(),
            settled: Vec::new(),
            results: VecDeque::new(),
            remembered: Remembered::default(),
            next_item_id: 1,
            unwatched_since: None,
            usage: Usage::default(),
            last_used: Instant::now(),
            context_tokens: 0,
            summed_up: SummedUp::Never,
            prefix: None,
            context: None,
            granted: Vec::new(),
            claims: 0,
            watches_commands: false,
            warnings: Vec::new(),
            turn_warnings: Vec::new(),
        }
    }

    /// Bytes of prompts that wait, steering text included.
    pub(crate) fn waiting_bytes(&self) -> usize {
        let steers =
            self.running.iter().flat_map(|running| &running.steers).map(|steer| steer.text.len()).sum::<usize>();
        self.queue.iter().map(|queued| queued.text.len()).sum::<usize>() + steers
    }

    /// How many prompts wait, steering text included.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len() + self.running.as_ref().map_or(0, |running| running.steers.len())
    }

    /// What is kept of the result of a turn.
    pub(crate) fn kept_result(&self, turn_id: TurnId) -> Option<&KeptResult> {
        self.results.iter().find(|kept| kept.result.turn_id == turn_id)
    }

    /// Keeps a result for those who ask later. Returns the one that is given up for it.
    pub(crate) fn keep_result(&mut self, kept: KeptResult) -> Option<KeptResult> {
        let oldest = if self.results.len() == KEPT_RESULTS { self.results.pop_front() } else { None };
        self.results.push_back(kept);
        oldest
    }
}
