//! Core's face: what can be asked of a thread ([`Op`]) and what it tells ([`Event`]). No MCP word lives here.

use std::sync::Arc;

use openoxide_llm::Usage;

use crate::{
    ApprovalId, ApprovalRequest, Decider, Decision, Denial, FileChange, Interruption, SteerId, ThreadId, TurnId,
};

/// Something asked of a thread.
#[derive(Debug, Clone)]
pub enum Op {
    /// Run a turn with this prompt, after those already queued.
    UserInput {
        /// The prompt; not empty.
        text: String,
    },
    /// Give this to the running turn before its next model step; without a running turn, the same as
    /// [`Op::UserInput`].
    Steer {
        /// The text; not empty.
        text: String,
    },
    /// End a turn. A queued turn is withdrawn, the running one is interrupted: the model connection is closed, its
    /// processes get SIGTERM at once and SIGKILL after two seconds. `None` means the running turn, if any.
    Interrupt {
        /// The turn to end.
        turn_id: Option<TurnId>,
        /// Why, for whoever reads its result.
        why: Interruption,
    },
    /// Settle a pending approval. Each approval is settled once.
    Approval {
        /// The question.
        id: ApprovalId,
        /// Its answer.
        decision: Decision,
        /// Who gives it.
        by: Decider,
    },
    /// End the running turn as [`Op::Interrupt`] does, on behalf of a caller that is gone for good. Where it was the first
    /// turn of a thread that is kept on disk, and nothing else waits, the thread leaves memory with it.
    Abandon {
        /// The turn to end.
        turn_id: TurnId,
        /// Who ends it, and why.
        why: Interruption,
    },
    /// Take back steering text that the model has not been given yet; without effect when it has.
    Withdraw {
        /// The text.
        steer: SteerId,
    },
    /// Interrupt everything, end every process of the thread, and refuse what comes later.
    Shutdown,
}

/// What a submitted [`Op`] became.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submitted {
    /// The input has a turn of its own, running now or queued.
    Turn(TurnId),
    /// The input goes to this running turn with its next model step, and can be taken back until then.
    Steered(TurnId, SteerId),
    /// Done; there is no turn to follow.
    Done,
}

/// Something that happened on a thread. Each event but the first names its turn.
#[derive(Debug, Clone)]
pub enum Event {
    /// A queued turn began to run, and that is written.
    TurnStarted {
        /// The turn.
        turn_id: TurnId,
    },
    /// An item of the turn began.
    ItemStarted {
        /// The turn.
        turn_id: TurnId,
        /// The item.
        item: Arc<TurnItem>,
    },
    /// More of an item. Deltas of one item that nobody has read yet are merged, and dropped past a bound: the
    /// completed item is authoritative.
    ItemDelta {
        /// The turn.
        turn_id: TurnId,
        /// The item's id.
        item_id: u64,
        /// Text of a message or reasoning, or a command's output (lossy UTF-8).
        delta: String,
    },
    /// An item is complete and written to the rollout.
    ItemCompleted {
        /// The turn.
        turn_id: TurnId,
        /// The item.
        item: Arc<TurnItem>,
    },
    /// The turn waits for a decision.
    ApprovalRequested {
        /// The turn.
        turn_id: TurnId,
        /// The question.
        request: Arc<ApprovalRequest>,
    },
    /// A question is settled, whoever settled it.
    ApprovalSettled {
        /// The turn.
        turn_id: TurnId,
        /// The question.
        id: ApprovalId,
    },
    /// Tokens spent by the turn so far.
    Usage {
        /// The turn.
        turn_id: TurnId,
        /// Totals of the turn.
        usage: Usage,
    },
    /// The plan changed.
    Plan {
        /// The turn.
        turn_id: TurnId,
        /// All steps.
        steps: Arc<Vec<PlanStep>>,
    },
    /// Something a person should know that does not end the turn (a retry, a truncated document).
    Warning {
        /// The turn.
        turn_id: TurnId,
        /// A sentence.
        message: String,
    },
    /// The turn ended, well or not; its result says which. Last event of a turn.
    TurnEnded {
        /// The turn.
        turn_id: TurnId,
        /// How it ended.
        result: Arc<TurnResult>,
    },
}

impl Event {
    /// The turn the event belongs to.
    pub fn turn_id(&self) -> TurnId {
        match self {
            Self::TurnStarted { turn_id }
            | Self::ItemStarted { turn_id, .. }
            | Self::ItemDelta { turn_id, .. }
            | Self::ItemCompleted { turn_id, .. }
            | Self::ApprovalRequested { turn_id, .. }
            | Self::ApprovalSettled { turn_id, .. }
            | Self::Usage { turn_id, .. }
            | Self::Plan { turn_id, .. }
            | Self::Warning { turn_id, .. }
            | Self::TurnEnded { turn_id, .. } => *turn_id,
        }
    }
}

/// One item of a turn, as told to whoever watches.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnItem {
    /// Unique within the thread for as long as it lasts, also where it is loaded again, and rising.
    pub id: u64,
    /// What it is.
    pub kind: TurnItemKind,
}

/// What an item is.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnItemKind {
    /// A message of the model.
    Message {
        /// The text; empty when it begins.
        text: String,
    },
    /// Reasoning that may be shown.
    Reasoning {
        /// The text; empty when it begins.
        text: String,
    },
    /// A command.
    Command {
        /// The model's tool call.
        call_id: String,
        /// The exact argument vector.
        argv: Vec<String>,
        /// Its directory.
        cwd: std::path::PathBuf,
        /// `None` while it runs, or when it was never started.
        exit_code: Option<i32>,
        /// Captured output, cut to the capture limit; empty when it begins.
        output: String,
        /// Milliseconds it took so far.
        duration_ms: u64,
        /// How it stands.
        status: ItemStatus,
    },
    /// A patch.
    Patch {
        /// The model's tool call.
        call_id: String,
        /// The changes.
        changes: Vec<FileChange>,
        /// How it stands.
        status: ItemStatus,
    },
    /// Another tool (reading, listing, searching, planning, writing to a running command).
    Tool {
        /// The model's tool call.
        call_id: String,
        /// The tool's name.
        name: String,
        /// A short human phrase, such as `reading src/main.rs`.
        summary: String,
        /// How it stands.
        status: ItemStatus,
    },
}

/// How a command, patch or tool call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemStatus {
    /// Under way.
    InProgress,
    /// Done.
    Completed,
    /// Tried, without success.
    Failed,
    /// Not done: a decision or the policy forbade it.
    Declined,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanStep {
    /// What is to be done.
    pub step: String,
    /// How it stands.
    pub status: PlanStatus,
}

/// How a plan step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanStatus {
    /// Not begun.
    Pending,
    /// Under way.
    InProgress,
    /// Done.
    Completed,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnResult {
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn_id: TurnId,
    /// How it ended.
    pub status: TurnStatus,
    /// The model's last message of the turn that was not empty; for a failure, what went wrong and what to do. An
    /// interrupted turn says so in its first sentence, with who ended it and why, before what the model had said.
    pub content: String,
    /// Files changed by patches, in the order first touched.
    pub files_changed: Vec<std::path::PathBuf>,
    /// What the patches changed, as one unified diff against the files as the turn found them.
    pub diff: Option<String>,
    /// Tokens spent.
    pub usage: Usage,
    /// Tokens spent by the thread so far, this turn included.
    pub thread_usage: Usage,
    /// Milliseconds from start to end.
    pub duration_ms: u64,
    /// What was asked for and not done.
    pub denials: Vec<Denial>,
    /// What a person should know of how the thread is kept: it is not saved any more, or parts of it were lost.
    pub warnings: Vec<String>,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnStatus {
    /// The model finished.
    Completed,
    /// Somebody ended it.
    Interrupted,
    /// It could not go on.
    Failed,
}
