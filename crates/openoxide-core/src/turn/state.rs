//! What happened -> what to do next, for one turn. No IO, no clock, no task: inputs come through [`TurnState::handle`],
//! actions go out in the order they must be performed, and the driver beside this does both.
//!
//! Here: the response of the model, steering, and how a turn ends. What becomes of the calls of a response is in
//! `calls`, the words for what happens and what is to be done in `step`.

mod calls;

use std::sync::Arc;

use openoxide_model::{HistoryItem, ItemKind, ModelEvent, Role, Usage};

use self::calls::{Slot, Stage};
use super::step::{Action, CallIndex, Input, ToolCall};
use crate::approvals::{Remembered, Rules};
use crate::{Denial, Event, TurnId, TurnItem, TurnItemKind, TurnStatus};

/// The state of one turn; see the module.
pub(crate) struct TurnState {
    turn_id: TurnId,
    rules: Rules,
    phase: Phase,
    steps: u32,
    max_steps: u32,
    next_item_id: u64,
    /// The message or reasoning under way.
    open: Option<(u64, ItemKind)>,
    /// Reasoning that is complete; a provider takes it back only with the item that follows it.
    held: Vec<(HistoryItem, Arc<TurnItem>)>,
    calls: Vec<Slot>,
    steers: Vec<String>,
    content: String,
    failure: Option<String>,
    usage: Usage,
    denials: Vec<Denial>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Fresh,
    Streaming,
    Calling,
    /// Ends with this once the exclusive call that runs is over.
    Stopping(TurnStatus),
    Ended(TurnStatus),
}

type Actions = Vec<Action>;

impl TurnState {
    /// A turn that has not begun, of at most so many requests to the model; item ids count from `next_item_id`.
    pub(crate) fn new(turn_id: TurnId, rules: Rules, max_steps: u32, next_item_id: u64) -> Self {
        Self {
            turn_id,
            rules,
            phase: Phase::Fresh,
            steps: 0,
            max_steps,
            next_item_id,
            open: None,
            held: Vec::new(),
            calls: Vec::new(),
            steers: Vec::new(),
            content: String::new(),
            failure: None,
            usage: Usage::default(),
            denials: Vec::new(),
        }
    }

    /// What the turn decides by.
    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// A call of the present response.
    pub(crate) fn call(&self, index: CallIndex) -> &ToolCall {
        &self.calls[index].call
    }

    /// The result's parts: content, usage, denials; and what goes back to the thread.
    pub(crate) fn into_parts(self) -> (String, Usage, Vec<Denial>, Remembered, u64) {
        let content = self.failure.unwrap_or(self.content);
        (content, self.usage, self.denials, self.rules.remembered, self.next_item_id)
    }

    /// Takes what happened and adds what is to be done.
    pub(crate) fn handle(&mut self, input: Input, actions: &mut Actions) {
        match (self.phase, input) {
            (Phase::Fresh, Input::Start(prompt)) => {
                actions.push(user_message(prompt));
                self.next_step(actions);
            }
            (Phase::Ended(TurnStatus::Completed), Input::Steer(texts)) => {
                self.steers.extend(texts);
                self.next_step(actions);
            }
            // Comes even after the end was decided: what decided it may be what could not be written.
            (phase, Input::Broken(message)) => {
                self.failure = Some(message);
                match phase {
                    Phase::Stopping(_) => self.phase = Phase::Stopping(TurnStatus::Failed),
                    _ => self.stop(TurnStatus::Failed, actions),
                }
            }
            (Phase::Ended(_), _) => {}
            (_, Input::Steer(texts)) => self.steers.extend(texts),
            (Phase::Stopping(status), Input::CallDone(index, outcome)) => {
                self.finish_call(index, outcome, actions);
                self.stop(status, actions);
            }
            (Phase::Stopping(_), _) => {}
            (Phase::Streaming, Input::Model(event)) => self.handle_model(event, actions),
            (_, Input::ModelFailed(message)) => {
                self.failure = Some(message);
                self.stop(TurnStatus::Failed, actions);
            }
            (_, Input::Interrupt) => self.stop(TurnStatus::Interrupted, actions),
            (Phase::Calling, Input::Prepared(index, prepared)) => self.handle_prepared(index, prepared, actions),
            (Phase::Calling, Input::Decided(index, decision)) => self.handle_decision(index, decision, actions),
            (Phase::Calling, Input::CallDone(index, outcome)) => self.handle_done(index, outcome, actions),
            // Nothing else can happen in the phase it comes in; a late event of a dropped stream is one such.
            (_, _) => {}
        }
    }

    fn handle_model(&mut self, event: ModelEvent, actions: &mut Actions) {
        match event {
            ModelEvent::ItemStarted(kind @ (ItemKind::Message | ItemKind::Reasoning)) => {
                self.open_item(kind, actions);
            }
            ModelEvent::TextDelta(delta) => self.handle_delta(ItemKind::Message, delta, actions),
            ModelEvent::ReasoningDelta(delta) => self.handle_delta(ItemKind::Reasoning, delta, actions),
            ModelEvent::ItemDone(item) => self.handle_item(item, actions),
            ModelEvent::Retrying { attempt, max_attempts, delay_ms, reason } => {
                self.open = None;
                self.held.clear();
                let message =
                    format!("the model is asked again in {delay_ms} ms ({attempt} of {max_attempts}): {reason}");
                actions.push(Action::Emit(Event::Warning { turn_id: self.turn_id, message }));
            }
            ModelEvent::Completed { usage } => {
                self.usage += usage;
                self.open = None;
                self.held.clear();
                actions.push(Action::DropModel);
                actions.push(Action::Emit(Event::Usage { turn_id: self.turn_id, usage: self.usage }));
                self.phase = Phase::Calling;
                actions.extend((0..self.calls.len()).map(Action::Prepare));
                self.advance(actions);
            }
            _ => {}
        }
    }

    fn open_item(&mut self, kind: ItemKind, actions: &mut Actions) -> u64 {
        let id = self.take_item_id();
        let shown = match kind {
            ItemKind::Reasoning => TurnItemKind::Reasoning { text: String::new() },
            _ => TurnItemKind::Message { text: String::new() },
        };
        self.open = Some((id, kind));
        self.emit_started(id, shown, actions);
        id
    }

    fn handle_delta(&mut self, kind: ItemKind, delta: String, actions: &mut Actions) {
        let item_id = match self.open {
            Some((id, open)) if open == kind => id,
            _ => self.open_item(kind, actions),
        };
        actions.push(Action::Emit(Event::ItemDelta { turn_id: self.turn_id, item_id, delta }));
    }

    fn handle_item(&mut self, item: HistoryItem, actions: &mut Actions) {
        match item {
            HistoryItem::Message { role: Role::Assistant, text } => {
                let id = self.close_item(ItemKind::Message, actions);
                self.release_held(actions);
                if !text.trim().is_empty() {
                    self.content.clone_from(&text);
                }
                let shown = TurnItem { id, kind: TurnItemKind::Message { text: text.clone() } };
                actions.push(Action::Append(HistoryItem::Message { role: Role::Assistant, text }));
                self.emit_completed(Arc::new(shown), actions);
            }
            HistoryItem::Reasoning { summary, raw } => {
                let id = self.close_item(ItemKind::Reasoning, actions);
                let shown = TurnItem { id, kind: TurnItemKind::Reasoning { text: summary.clone() } };
                self.held.push((HistoryItem::Reasoning { summary, raw }, Arc::new(shown)));
            }
            HistoryItem::FunctionCall { call_id, name, arguments } => {
                self.release_held(actions);
                let call =
                    ToolCall { call_id: call_id.clone(), name: name.clone(), input: arguments.clone(), custom: false };
                self.calls.push(Slot::new(call));
                actions.push(Action::Append(HistoryItem::FunctionCall { call_id, name, arguments }));
            }
            HistoryItem::CustomToolCall { call_id, name, input } => {
                self.release_held(actions);
                let call =
                    ToolCall { call_id: call_id.clone(), name: name.clone(), input: input.clone(), custom: true };
                self.calls.push(Slot::new(call));
                actions.push(Action::Append(HistoryItem::CustomToolCall { call_id, name, input }));
            }
            // A model writes nothing else.
            _ => {}
        }
    }

    /// The id of the item that is done, begun now if it never was.
    fn close_item(&mut self, kind: ItemKind, actions: &mut Actions) -> u64 {
        match self.open.take() {
            Some((id, open)) if open == kind => id,
            _ => {
                let id = self.open_item(kind, actions);
                self.open = None;
                id
            }
        }
    }

    fn release_held(&mut self, actions: &mut Actions) {
        for (item, shown) in std::mem::take(&mut self.held) {
            actions.push(Action::Append(item));
            self.emit_completed(shown, actions);
        }
    }

    fn next_step(&mut self, actions: &mut Actions) {
        self.calls.clear();
        actions.extend(self.steers.drain(..).map(user_message));
        if self.steps == self.max_steps {
            self.failure = Some(format!(
                "the turn has used all of its {} model requests; send `continue` to go on from here",
                self.max_steps
            ));
            return self.stop(TurnStatus::Failed, actions);
        }
        self.steps += 1;
        self.phase = Phase::Streaming;
        actions.push(Action::RequestModel);
    }

    /// Ends the turn, after the exclusive call that runs if there is one: a patch is done whole or not at all.
    fn stop(&mut self, status: TurnStatus, actions: &mut Actions) {
        match self.phase {
            Phase::Streaming => actions.push(Action::DropModel),
            Phase::Calling => actions.push(Action::StopCalls),
            _ => {}
        }
        let patching = self.calls.iter().any(|slot| slot.stage == Stage::Running && slot.exclusive);
        if patching {
            self.phase = Phase::Stopping(status);
        } else {
            self.phase = Phase::Ended(status);
            actions.push(Action::End(status));
        }
    }

    fn take_item_id(&mut self) -> u64 {
        let id = self.next_item_id;
        self.next_item_id += 1;
        id
    }

    fn emit_started(&self, id: u64, kind: TurnItemKind, actions: &mut Actions) {
        let item = Arc::new(TurnItem { id, kind });
        actions.push(Action::Emit(Event::ItemStarted { turn_id: self.turn_id, item }));
    }

    fn emit_completed(&self, item: Arc<TurnItem>, actions: &mut Actions) {
        actions.push(Action::Emit(Event::ItemCompleted { turn_id: self.turn_id, item }));
    }
}

fn user_message(text: String) -> Action {
    Action::Append(HistoryItem::Message { role: Role::User, text })
}
