//! What a turn needs of its thread, and what the two hand each other at its beginning and its end. The thread's floor
//! implements [`TurnHost`]; a turn reaches its thread by nothing else.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use openoxide_llm::HistoryItem;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::state::SummedUp;
use crate::mutex::lock;
use crate::rules::approvals::Remembered;
use crate::store::TurnContext;
use crate::tools::{ToolHost, Toolbox};
use crate::{ApprovalId, ApprovalRequest, Decider, Decision, Interruption, RememberedApproval, TurnId, TurnStatus};

/// The history of a thread; cloned by reference for a model request or a fork.
pub(crate) type History = Arc<Vec<Arc<HistoryItem>>>;

/// See the module.
pub(crate) trait TurnHost: ToolHost {
    /// The tools of the thread.
    fn toolbox(&self) -> &Toolbox;

    /// The length of the thread, in tokens, from which on it is summed up; none where it never is.
    fn compact_at(&self) -> Option<u64>;

    /// How many tokens a conversation with the thread's model may have.
    fn room(&self) -> u64;

    /// Files that turns of the thread have changed, as far as they are known, the latest last.
    fn files_changed(&self) -> Vec<PathBuf>;

    /// Notes what the thread's requests begin with, by its digest, where that has changed. What was bound to the old beginning is
    /// left out of the history.
    fn begin_with(&self, digest: &str);

    /// Leaves out of the history what is bound to a beginning of it that is no more.
    fn unbind(&self);

    /// Which directory the thread works in ([`openoxide_sandbox::DirectoryId`]).
    fn directory_id(&self) -> &str;

    /// Whether the model is to be told that the directory was made anew; asked once.
    fn take_remade(&self) -> bool;

    /// Notes on disk what the turn begins with, then tells that it begins.
    fn record_turn(&self, context: TurnContext);

    /// Writes an item to the rollout, then adds it to the history.
    fn append(&self, item: HistoryItem);

    /// The history as it stands.
    fn history(&self) -> History;

    /// Lets another history take the place of this one.
    fn replace_history(&self, items: Vec<Arc<HistoryItem>>);

    /// Lets text take the place of the oldest pictures, where the history holds too many bytes of them.
    fn bound_pictures(&self);

    /// Notes that the model has been told what was due.
    fn context_sent(&self);

    /// Steering text that came since the last call and was not taken back.
    fn take_steers(&self) -> Vec<String>;

    /// Decides that the turn ends, so that nothing steers or interrupts it any more, and returns steering text that was not
    /// taken yet. With such text a turn that would be complete goes on instead: nothing is decided.
    fn seal(&self, status: TurnStatus) -> Vec<String>;

    /// Notes what was approved for the rest of the thread.
    fn grant(&self, approval: RememberedApproval);

    /// Puts questions. Whoever hears of the first finds all of them pending. Each receiver gets its decision, or is
    /// closed with the turn.
    fn ask(&self, requests: Vec<ApprovalRequest>) -> Vec<oneshot::Receiver<(Decision, Decider)>>;

    /// Settles a question that nobody answered in time, unless it was settled just before.
    fn time_out(&self, id: ApprovalId);

    /// Writes what was settled since the last call, and then tells it.
    fn write_settled(&self);
}

/// What the model is told ahead of the next prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContextDue {
    /// Instructions, project documents and environment: a thread's first turn.
    Everything,
    /// The environment alone: the first turn of a fork, whose history has the rest.
    Environment,
    /// Nothing.
    Nothing,
}

/// A turn that has just begun, for its driver.
pub(crate) struct StartedTurn {
    pub(crate) turn_id: TurnId,
    pub(crate) text: String,
    pub(crate) started: Instant,
    pub(crate) control: Arc<TurnControl>,
    /// Who asked, as far as traces tell.
    pub(crate) caller: tracing::Span,
}

/// What the driver needs of the state as a turn begins.
pub(crate) struct TurnStart {
    pub(crate) context_due: ContextDue,
    pub(crate) remembered: Remembered,
    pub(crate) next_item_id: u64,
    /// Tokens of the history, as far as that is known.
    pub(crate) context_tokens: u64,
    pub(crate) summed_up: SummedUp,
}

/// What one turn leaves to the next.
pub(crate) struct LastingState {
    pub(crate) remembered: Remembered,
    pub(crate) next_item_id: u64,
    pub(crate) context_tokens: u64,
    pub(crate) summed_up: SummedUp,
}

/// What others tell the driver of a turn.
#[derive(Default)]
pub(crate) struct TurnControl {
    interrupted: Mutex<Option<Interruption>>,
    wake: Notify,
}

impl TurnControl {
    /// Tells the driver to end the turn. The first reason stays.
    pub(crate) fn interrupt(&self, why: Interruption) {
        lock(&self.interrupted).get_or_insert(why);
        self.wake.notify_one();
    }

    /// Ready once the turn is to end. Cancel-safe: the reason stays set.
    pub(crate) async fn interrupted(&self) -> Interruption {
        loop {
            let why = lock(&self.interrupted).clone();
            match why {
                Some(why) => return why,
                None => self.wake.notified().await,
            }
        }
    }
}
