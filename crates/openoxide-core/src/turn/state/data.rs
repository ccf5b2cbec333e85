//! What a turn knows, and what of it the handling of all inputs has in common.

use std::sync::Arc;

use openoxide_llm::{HistoryItem, ItemKind, Unfinished, Usage};

use super::super::step::{Action, CallIndex};
use crate::rules::approvals::{Judged, Question, Remembered, Rules};
use crate::tools::{CallOutcome, ToolCall};
use crate::{Denial, Event, Interruption, TurnId, TurnItem, TurnItemKind, TurnStatus};

/// One call of the present response.
pub(super) struct Slot {
    pub(super) call: ToolCall,
    pub(super) stage: Stage,
    pub(super) exclusive: bool,
    /// Every earlier call was over when this one was prepared.
    pub(super) fresh: bool,
    pub(super) item: Option<TurnItemKind>,
    /// The item's id once it runs.
    pub(super) running_item: Option<u64>,
    /// The id that its item will have, once it was asked about: whoever is asked can name the item before it begins.
    pub(super) asked_item: Option<u64>,
    pub(super) question: Option<Judged>,
    pub(super) approved: Option<Question>,
    /// What the call came to within the sandbox, while it is asked whether to do it again without.
    pub(super) stopped: Option<CallOutcome>,
}

/// How far a call has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Preparing,
    /// To be prepared again when every earlier call is over.
    Later,
    /// Its question waits for those of the other calls.
    ToAsk,
    Asked,
    Ready,
    Running,
    Done,
}

impl Slot {
    /// A call the model has just made.
    pub(super) fn new(call: ToolCall) -> Self {
        Self {
            call,
            stage: Stage::Preparing,
            exclusive: false,
            fresh: false,
            item: None,
            running_item: None,
            asked_item: None,
            question: None,
            approved: None,
            stopped: None,
        }
    }
}

/// One turn from its prompt to its end, as a machine without IO: no task, no clock, no disk.
///
/// # How it is driven
///
/// The driver makes it with [`TurnState::new`], gives it [`Input::Start`] once, and then whatever happens, in the order in
/// which it happens, through [`TurnState::handle`]. Each call adds [`Action`]s to a list; the driver performs all of them, in
/// their order, before it gives the next input. [`Action::End`] is the last; what the turn came to is then taken with
/// [`TurnState::into_outcome`].
///
/// | action | what the driver gives back, once each unless the turn stops first |
/// |---|---|
/// | `RequestModel` | [`Input::Model`] until `Completed`, or one [`Input::ModelFailed`] |
/// | `Summarise` | [`Input::Summarised`] |
/// | `Prepare(call)` | [`Input::Prepared`] |
/// | `Ask(questions)` | one [`Input::Decided`] for each question |
/// | `Run(call, item)` | [`Input::CallDone`] |
/// | `End(Completed)` | nothing, or [`Input::Steer`] where steering text came before the thread sealed the turn: it goes on |
///
/// [`Input::Interrupt`], [`Input::OutOfTime`] and [`Input::Broken`] may come at any moment, each at most once.
///
/// # Phases
///
/// ```text
/// Fresh -> Streaming -> Calling -> Streaming ... -> Ended
///              |  ^         |
///              v  |         +-> Stopping (an exclusive call still runs) -> Ended
///          Compacting
/// ```
///
/// # What holds
///
/// - An input that does not belong to the present phase changes nothing: a late event of a stream that was dropped, a
///   decision for a call that is over.
/// - Every call of the model gets exactly one output, in the history before the next request, or none where the turn stops
///   (the thread closes its history then).
/// - A question is judged once, when its call is prepared or stopped; the verdict goes with it ([`Judged`]). The questions of
///   one response go out together.
/// - An exclusive call (one that changes files) is never cut off: the turn ends when it is done.
/// - Ids of items rise and are never given out twice. A call that is asked about has its item's id from the question on.
pub(crate) struct TurnState {
    pub(super) turn_id: TurnId,
    pub(super) rules: Rules,
    pub(super) phase: Phase,
    pub(super) budget: Budget,
    pub(super) steps: u32,
    /// Tokens that the next request will have at least; 0 where that is not known.
    pub(super) context_tokens: u64,
    /// Whether this turn's history was shortened because the model refused it.
    pub(super) is_recovering: bool,
    /// Why the response that was just read does not end the model's turn by itself.
    pub(super) unfinished: Option<Unfinished>,
    /// Whether a message of the present response says something.
    pub(super) has_spoken: bool,
    /// What the model was asked again for since it last called something.
    pub(super) again: Again,
    /// What the history was summed up to; it is not summed up again before it has grown.
    pub(super) summed_up: SummedUp,
    pub(super) next_item_id: u64,
    /// The message or reasoning under way.
    pub(super) open: Option<(u64, ItemKind)>,
    /// Reasoning that is complete; a provider takes it back only with the item that follows it.
    pub(super) held: Vec<(HistoryItem, Arc<TurnItem>)>,
    pub(super) calls: Vec<Slot>,
    /// Pictures that calls gave. They come after the last output: no provider takes anything between outputs.
    pub(super) images: Vec<HistoryItem>,
    /// What the model is given with the next request, beside the steering text that comes until then.
    pub(super) prompts: Vec<String>,
    pub(super) content: String,
    pub(super) failure: Option<String>,
    /// Why somebody ended the turn; the first reason counts.
    pub(super) interruption: Option<Interruption>,
    pub(super) usage: Usage,
    pub(super) denials: Vec<Denial>,
}

/// How often the model was asked again by itself.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Again {
    /// Because it goes on.
    pub(super) goes_on: u32,
    /// Because it said nothing.
    pub(super) empty: bool,
    /// Because its response was cut.
    pub(super) cut: bool,
}

/// What a history was summed up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum SummedUp {
    /// It was not, as far as is known.
    #[default]
    Never,
    /// Known with the next response.
    Unknown,
    /// So many tokens.
    To(u64),
}

/// How far a turn may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Requests to the model.
    pub(crate) max_steps: u32,
    /// Tokens read and written, over all requests.
    pub(crate) max_tokens: Option<u64>,
    /// The length of history, in tokens, from which on it is summed up first.
    pub(crate) compact_at: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Fresh,
    Compacting,
    Streaming,
    Calling,
    /// Ends with this once the exclusive call that runs is over.
    Stopping(TurnStatus),
    Ended(TurnStatus),
}

/// What a turn came to, and what goes back to its thread.
pub(crate) struct Outcome {
    pub(crate) content: String,
    /// Why somebody ended the turn, where it ended so.
    pub(crate) interruption: Option<Interruption>,
    pub(crate) usage: Usage,
    pub(crate) denials: Vec<Denial>,
    pub(crate) remembered: Remembered,
    pub(crate) next_item_id: u64,
    pub(crate) context_tokens: u64,
    pub(crate) summed_up: SummedUp,
}

pub(super) type Actions = Vec<Action>;

impl TurnState {
    /// A turn that has not begun, on a history of so many tokens; item ids count from `next_item_id`.
    pub(crate) fn new(turn_id: TurnId, rules: Rules, budget: Budget, context_tokens: u64, next_item_id: u64) -> Self {
        Self {
            turn_id,
            rules,
            phase: Phase::Fresh,
            budget,
            steps: 0,
            context_tokens,
            is_recovering: false,
            unfinished: None,
            has_spoken: false,
            again: Again::default(),
            summed_up: SummedUp::Never,
            next_item_id,
            open: None,
            held: Vec::new(),
            calls: Vec::new(),
            images: Vec::new(),
            prompts: Vec::new(),
            content: String::new(),
            failure: None,
            interruption: None,
            usage: Usage::default(),
            denials: Vec::new(),
        }
    }

    /// The same turn on a history that was summed up before.
    pub(crate) fn after(mut self, summed_up: SummedUp) -> Self {
        self.summed_up = summed_up;
        self
    }

    /// A call of the present response.
    pub(crate) fn call(&self, index: CallIndex) -> &ToolCall {
        &self.calls[index].call
    }

    /// The id of the item that a call which is asked about will have.
    pub(crate) fn asked_item(&self, index: CallIndex) -> u64 {
        // A question goes out with the id that is given here; 0 is no item's.
        self.calls[index].asked_item.unwrap_or_default()
    }

    /// What it came to.
    pub(crate) fn into_outcome(self) -> Outcome {
        let interruption = self.interruption.filter(|_| self.phase == Phase::Ended(TurnStatus::Interrupted));
        let content = match (self.failure, &interruption) {
            (Some(failure), _) => failure,
            (None, Some(why)) if self.content.is_empty() => why.sentence(),
            (None, Some(why)) => format!("{}\n\n{}", why.sentence(), self.content),
            (None, None) => self.content,
        };
        Outcome {
            content,
            interruption,
            usage: self.usage,
            denials: self.denials,
            remembered: self.rules.remembered,
            next_item_id: self.next_item_id,
            context_tokens: self.context_tokens,
            summed_up: self.summed_up,
        }
    }

    pub(super) fn take_item_id(&mut self) -> u64 {
        let id = self.next_item_id;
        self.next_item_id += 1;
        id
    }

    pub(super) fn emit_started(&self, id: u64, kind: TurnItemKind, actions: &mut Actions) {
        let item = Arc::new(TurnItem { id, kind });
        actions.push(Action::Emit(Event::ItemStarted { turn_id: self.turn_id, item }));
    }

    pub(super) fn emit_completed(&self, item: Arc<TurnItem>, actions: &mut Actions) {
        actions.push(Action::Emit(Event::ItemCompleted { turn_id: self.turn_id, item }));
    }
}
