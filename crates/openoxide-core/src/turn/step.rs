//! The words between the state machine of a turn and its driver: what happened ([`Input`]), what to do ([`Action`]).

use openoxide_llm::{HistoryItem, ModelEvent};

use super::compact::Summary;
use crate::approvals::{Question, RememberedApproval};
use crate::{Decider, Decision, Event, Interruption, ItemStatus, PlanStep, TurnItemKind, TurnStatus};

/// A tool call of the model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolCall {
    /// Ties the call to its output.
    pub(crate) call_id: String,
    /// The tool's name.
    pub(crate) name: String,
    /// A JSON object, or the text of a freeform tool.
    pub(crate) input: String,
    /// Whether `input` is the text of a freeform tool.
    pub(crate) custom: bool,
}

/// Which call of the present response.
pub(crate) type CallIndex = usize;

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Input {
    /// The prompt; the first input of every turn.
    Start(String),
    /// Texts that came before a turn that was done could be sealed, oldest first.
    Steer(Vec<String>),
    /// The model said something.
    Model(ModelEvent),
    /// The model cannot answer.
    ModelFailed {
        /// Why, and what to do.
        message: String,
        /// Because it was given more than it can read.
        is_too_long: bool,
    },
    /// The history was summed up, or why not.
    Summarised(Result<Summary, String>),
    /// The turn has used all its time, so many seconds.
    OutOfTime(u64),
    /// A call's arguments are understood.
    Prepared(CallIndex, Prepared),
    /// A question was decided, and by whom.
    Decided(CallIndex, Decision, Decider),
    /// A call is over.
    CallDone(CallIndex, CallOutcome),
    /// Somebody ends the turn.
    Interrupt(Interruption),
    /// Something the turn cannot do without does not work; says what and what to do.
    Broken(String),
}

/// What a call comes down to.
#[derive(Debug)]
pub(crate) enum Prepared {
    /// It can run.
    Ready {
        /// What it shows while it runs.
        item: TurnItemKind,
        /// What a person may have to decide first.
        question: Option<Question>,
        /// It changes files and runs alone.
        exclusive: bool,
    },
    /// It cannot run.
    Refused {
        /// The sentence for the model.
        message: String,
        /// What it shows.
        item: TurnItemKind,
        /// It may be possible once the calls before it have run.
        later: bool,
    },
}

/// What a call came to.
#[derive(Debug)]
pub(crate) struct CallOutcome {
    /// The text for the model.
    pub(crate) output: String,
    /// The finished item.
    pub(crate) item: TurnItemKind,
    /// A new plan.
    pub(crate) plan: Option<Vec<PlanStep>>,
    /// A picture for the model, given to it after the outputs of the response's calls.
    pub(crate) image: Option<HistoryItem>,
    /// The sandbox stopped it: the question whether to do it again without.
    pub(crate) again: Option<Box<Question>>,
}

impl CallOutcome {
    /// An outcome that is all there is to it.
    pub(crate) fn plain(output: String, item: TurnItemKind) -> Self {
        Self { output, item, plan: None, image: None, again: None }
    }
}

/// Something to do.
#[derive(Debug)]
pub(crate) enum Action {
    /// Write to the rollout and add to the history.
    Append(HistoryItem),
    /// Write what the turn is steered by, and add it to the history. Until then it can be taken back.
    TakeSteers,
    /// Ask the model for its next response.
    RequestModel,
    /// Write that something is approved for the rest of the thread.
    Remember(RememberedApproval),
    /// Close the connection to the model.
    DropModel,
    /// Have the history summed up.
    Summarise,
    /// Let what the person said and this summary take the history's place.
    Compact(String),
    /// Find out what a call comes down to.
    Prepare(CallIndex),
    /// Put these questions, all at once.
    Ask(Vec<(CallIndex, Question)>),
    /// Run a call under this item.
    Run(CallIndex, u64),
    /// Let a call that ran, when it runs again, leave the sandbox.
    Release(CallIndex),
    /// Send SIGTERM to the turn's commands and forget calls that only read.
    StopCalls,
    /// Tell whoever watches.
    Emit(Event),
    /// The turn is over. A completed turn goes on if it is steered before the driver seals it.
    End(TurnStatus),
}

/// What a call shows that was never understood.
pub(crate) fn refused_item(call: &ToolCall) -> TurnItemKind {
    TurnItemKind::Tool {
        call_id: call.call_id.clone(),
        name: call.name.clone(),
        summary: "refused".to_owned(),
        status: ItemStatus::Failed,
    }
}

/// An item with another status.
pub(crate) fn with_status(mut item: TurnItemKind, now: ItemStatus) -> TurnItemKind {
    match &mut item {
        TurnItemKind::Command { status, .. }
        | TurnItemKind::Patch { status, .. }
        | TurnItemKind::Tool { status, .. } => {
            *status = now;
        }
        TurnItemKind::Message { .. } | TurnItemKind::Reasoning { .. } => {}
    }
    item
}
