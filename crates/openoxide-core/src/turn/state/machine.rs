//! The model's response, steering, and how a turn ends.

use std::sync::Arc;

use openoxide_llm::{HistoryItem, ItemKind, ModelEvent, Role};

use super::super::compact::Summary;
use super::super::step::{Action, Input};
use super::data::{Actions, Budget, Phase, Slot, Stage, SummedUp, TurnState};
use crate::tools::ToolCall;
use crate::{Event, TurnItem, TurnItemKind, TurnStatus};

impl TurnState {
    /// Takes what happened and adds what is to be done.
    pub(crate) fn handle(&mut self, input: Input, actions: &mut Actions) {
        match (self.phase, input) {
            (Phase::Fresh, Input::Start(prompt)) => {
                self.prompts.push(prompt);
                self.next_step(actions);
            }
            (Phase::Ended(TurnStatus::Completed), Input::Steer(texts)) => {
                self.prompts.extend(texts);
                self.next_step(actions);
            }
            // Comes even after the end was decided.
            (phase, Input::Broken(message)) => {
                self.failure = Some(message);
                match phase {
                    Phase::Stopping(_) => self.phase = Phase::Stopping(TurnStatus::Failed),
                    Phase::Fresh | Phase::Compacting | Phase::Streaming | Phase::Calling | Phase::Ended(_) => {
                        self.stop(TurnStatus::Failed, actions)
                    }
                }
            }
            (Phase::Ended(_), _) => {}
            (Phase::Stopping(status), Input::CallDone(index, outcome)) => {
                self.finish_call(index, outcome, actions);
                self.stop(status, actions);
            }
            (Phase::Stopping(_), _) => {}
            (Phase::Streaming, Input::Model(event)) => self.handle_model(event, actions),
            // Once: what is too long even when it is short stays so.
            (Phase::Streaming, Input::ModelFailed { is_too_long: true, message }) if !self.is_recovering => {
                self.is_recovering = true;
                self.failure = Some(message);
                actions.push(Action::DropModel);
                self.summarise("the model cannot read a conversation of this length", actions);
            }
            (_, Input::ModelFailed { message, .. }) => {
                self.failure = Some(message);
                self.stop(TurnStatus::Failed, actions);
            }
            (Phase::Compacting, Input::Summarised(summary)) => self.handle_summary(summary, actions),
            (_, Input::OutOfTime(seconds)) => {
                self.exhaust(&format!("all of its {seconds} s (max_turn_seconds)"));
                self.stop(TurnStatus::Failed, actions);
            }
            (_, Input::Interrupt(why)) => {
                self.deny_unanswered(why.unanswered());
                self.interruption = Some(why);
                self.stop(TurnStatus::Interrupted, actions);
            }
            (Phase::Calling, Input::Prepared(index, prepared)) => self.handle_prepared(index, prepared, actions),
            (Phase::Calling, Input::Decided(index, decision, by)) => {
                self.handle_decision(index, decision, by, actions);
            }
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
            ModelEvent::Restarted { shown_bytes, .. } => {
                let message = format!("the answer broke off after {shown_bytes} bytes and starts again");
                actions.push(Action::Emit(Event::Warning { turn_id: self.turn_id, message }));
            }
            ModelEvent::Unbound => actions.push(Action::Unbind),
            ModelEvent::Unfinished(unfinished) => self.unfinished = Some(unfinished),
            ModelEvent::Completed { usage } => {
                self.usage += usage;
                self.context_tokens = usage.input_tokens + usage.output_tokens;
                if self.summed_up == SummedUp::Unknown {
                    self.summed_up = SummedUp::To(self.context_tokens);
                }
                self.open = None;
                self.held.clear();
                actions.push(Action::DropModel);
                actions.push(Action::Emit(Event::Usage { turn_id: self.turn_id, usage: self.usage }));
                self.phase = Phase::Calling;
                actions.extend((0..self.calls.len()).map(Action::Prepare));
                self.advance(actions);
            }
            // A call is shown when it is prepared.
            ModelEvent::ItemStarted(ItemKind::ToolCall) => {}
        }
    }

    fn open_item(&mut self, kind: ItemKind, actions: &mut Actions) -> u64 {
        let id = self.take_item_id();
        let shown = match kind {
            ItemKind::Reasoning => TurnItemKind::Reasoning { text: String::new() },
            ItemKind::Message | ItemKind::ToolCall => TurnItemKind::Message { text: String::new() },
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
            HistoryItem::Message { role: Role::Assistant, mut text, carried } => {
                // It stays as long as the thread does.
                text.shrink_to_fit();
                let id = self.close_item(ItemKind::Message, actions);
                self.release_held(actions);
                if !text.trim().is_empty() {
                    self.has_spoken = true;
                    self.content.clone_from(&text);
                }
                let shown = TurnItem { id, kind: TurnItemKind::Message { text: text.clone() } };
                actions.push(Action::Append(HistoryItem::Message { role: Role::Assistant, text, carried }));
                self.emit_completed(Arc::new(shown), actions);
            }
            HistoryItem::Reasoning { summary, raw } => {
                let id = self.close_item(ItemKind::Reasoning, actions);
                let shown = TurnItem { id, kind: TurnItemKind::Reasoning { text: summary.clone() } };
                self.held.push((HistoryItem::Reasoning { summary, raw }, Arc::new(shown)));
            }
            HistoryItem::FunctionCall { call_id, name, arguments, carried } => {
                self.release_held(actions);
                let call =
                    ToolCall { call_id: call_id.clone(), name: name.clone(), input: arguments.clone(), custom: false };
                self.calls.push(Slot::new(call));
                actions.push(Action::Append(HistoryItem::FunctionCall { call_id, name, arguments, carried }));
            }
            HistoryItem::CustomToolCall { call_id, name, input, carried } => {
                self.release_held(actions);
                let call =
                    ToolCall { call_id: call_id.clone(), name: name.clone(), input: input.clone(), custom: true };
                self.calls.push(Slot::new(call));
                actions.push(Action::Append(HistoryItem::CustomToolCall { call_id, name, input, carried }));
            }
            // A model writes nothing else.
            HistoryItem::Message { .. }
            | HistoryItem::Note { .. }
            | HistoryItem::Image { .. }
            | HistoryItem::ToolOutput { .. } => {}
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

    pub(super) fn next_step(&mut self, actions: &mut Actions) {
        self.calls.clear();
        (self.unfinished, self.has_spoken) = (None, false);
        actions.extend(self.images.drain(..).map(Action::Append));
        let Budget { max_steps, max_tokens, compact_at } = self.budget;
        let spent = self.usage.input_tokens + self.usage.output_tokens;
        let used_up = match max_tokens {
            _ if self.steps >= max_steps => Some(format!("all of its {max_steps} model requests (max_steps)")),
            Some(most) if spent >= most => Some(format!("{spent} of its {most} tokens (max_turn_tokens)")),
            _ => None,
        };
        if let Some(what) = used_up {
            self.give_prompts(actions);
            self.exhaust(&what);
            return self.stop(TurnStatus::Failed, actions);
        }
        if compact_at.is_some_and(|at| self.has_outgrown(at)) {
            let message = format!("the conversation has {} tokens", self.context_tokens);
            return self.summarise(&message, actions);
        }
        self.give_prompts(actions);
        self.steps += 1;
        self.phase = Phase::Streaming;
        actions.push(Action::RequestModel);
    }

    fn give_prompts(&mut self, actions: &mut Actions) {
        actions.extend(self.prompts.drain(..).map(user_message));
        actions.push(Action::TakeSteers);
    }

    /// Notes that the turn has used up what it was given. What the agent said last is told as well: it is what there is.
    fn exhaust(&mut self, what: &str) {
        let mut message = format!("the turn has used {what}; what it did stands, and `continue` goes on from here");
        if !self.content.is_empty() {
            message.push_str("\n\nThe agent's last words: ");
            message.push_str(&self.content);
        }
        self.failure = Some(message);
    }

    /// Whether the history is longer than it may be and has grown since it was summed up, by a quarter of that length. What stays
    /// long although it was summed up would be summed up before every request otherwise.
    fn has_outgrown(&self, at: u64) -> bool {
        let least = match self.summed_up {
            SummedUp::To(tokens) => at.max(tokens.saturating_add(at / 4)),
            SummedUp::Never | SummedUp::Unknown => at,
        };
        self.context_tokens >= least
    }

    fn summarise(&mut self, why: &str, actions: &mut Actions) {
        // It is a request like any other.
        self.steps += 1;
        self.phase = Phase::Compacting;
        let message = format!("{why}, so it is summed up first");
        actions.push(Action::Emit(Event::Warning { turn_id: self.turn_id, message }));
        actions.push(Action::Summarise);
    }

    fn handle_summary(&mut self, summary: Result<Summary, String>, actions: &mut Actions) {
        // Known again with the next response.
        self.context_tokens = 0;
        match summary {
            Ok(Summary { text, usage }) => {
                self.usage += usage;
                self.failure = None;
                self.summed_up = SummedUp::Unknown;
                actions.push(Action::Compact(text));
                actions.push(Action::Emit(Event::Usage { turn_id: self.turn_id, usage: self.usage }));
            }
            // What the model said of the length is the reason to tell.
            Err(_) if self.failure.is_some() => return self.stop(TurnStatus::Failed, actions),
            Err(error) => {
                self.budget.compact_at = None;
                let message = format!("the conversation could not be summed up and stays as it is: {error}");
                actions.push(Action::Emit(Event::Warning { turn_id: self.turn_id, message }));
            }
        }
        self.next_step(actions);
    }

    /// Ends the turn, after the exclusive call that runs if there is one: a patch is done whole or not at all.
    pub(super) fn stop(&mut self, status: TurnStatus, actions: &mut Actions) {
        match self.phase {
            Phase::Streaming => actions.push(Action::DropModel),
            Phase::Calling | Phase::Compacting => actions.push(Action::StopCalls),
            Phase::Fresh | Phase::Stopping(_) | Phase::Ended(_) => {}
        }
        let patching = self.calls.iter().any(|slot| slot.stage == Stage::Running && slot.exclusive);
        if patching {
            self.phase = Phase::Stopping(status);
        } else {
            self.phase = Phase::Ended(status);
            actions.push(Action::End(status));
        }
    }
}

fn user_message(text: String) -> Action {
    Action::Append(HistoryItem::Message { role: Role::User, text, carried: None })
}
