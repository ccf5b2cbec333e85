//! The words between the state machine of a turn and its driver: what happened ([`Input`]), what to do ([`Action`]).

use openoxide_llm::{HistoryItem, ModelEvent};

use super::compact::Summary;
use crate::rules::approvals::Judged;
use crate::tools::{CallOutcome, Prepared};
use crate::{Decider, Decision, Event, Interruption, ItemStatus, RememberedApproval, TurnItemKind, TurnStatus};

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
    /// Leave out of the history what is bound to another beginning of it.
    Unbind,
    /// Close the connection to the model.
    DropModel,
    /// Have the history summed up.
    Summarise,
    /// Let what the person said and this summary take the history's place.
    Compact(String),
    /// Find out what a call comes down to.
    Prepare(CallIndex),
    /// Put these questions, all at once.
    Ask(Vec<(CallIndex, Judged)>),
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
