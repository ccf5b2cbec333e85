//! What becomes of the calls of one response: prepared, asked, run, over.
//!
//! All are prepared at once, and their questions are held until all are, so that they go out together. Calls that only read and commands run side by
//! side; a call that changes files ("exclusive") runs alone, after those before it and ahead of those after it. What
//! was prepared while earlier calls were still to run is prepared again at its turn, and asked again if it has come to
//! mean something else.

use std::sync::Arc;

use openoxide_llm::HistoryItem;

use super::super::step::{Action, CallIndex, with_status};
use super::data::{Actions, Again, Stage, TurnState};
use crate::rules::approvals::{self, Judged};
use crate::tools::call::refused_item;
use crate::tools::{CallOutcome, Prepared};
use crate::{
    ApprovalAction, Decider, Decision, Denial, DenialReason, Event, Interruption, ItemStatus, RuleDecision, TurnItem,
    TurnItemKind, TurnStatus,
};

fn completed(item: TurnItemKind) -> TurnItemKind {
    with_status(item, ItemStatus::Completed)
}

impl TurnState {
    pub(super) fn handle_prepared(&mut self, index: CallIndex, prepared: Prepared, actions: &mut Actions) {
        let fresh = self.earlier_done(index);
        match prepared {
            Prepared::Refused { later: true, .. } if !fresh => {
                let slot = &mut self.calls[index];
                (slot.stage, slot.exclusive) = (Stage::Later, true);
            }
            Prepared::Refused { message, item, .. } => {
                self.finish_call(index, CallOutcome::plain(message, item), actions);
            }
            Prepared::Ready { item, question, exclusive } => {
                let slot = &mut self.calls[index];
                let settled = question.as_ref().is_none_or(|question| slot.approved.as_ref() == Some(question));
                let judged = question.map(|question| self.rules.judge(question));
                let decision = judged.as_ref().filter(|_| !settled).map(|judged| judged.verdict.decision);
                (slot.item, slot.question, slot.exclusive, slot.fresh) = (Some(item), judged, exclusive, fresh);
                match decision {
                    None | Some(RuleDecision::Allow) => slot.stage = Stage::Ready,
                    Some(RuleDecision::Ask) => slot.stage = Stage::ToAsk,
                    Some(RuleDecision::Forbid) => self.refuse(index, actions),
                }
            }
        }
        self.advance(actions);
    }

    /// A call has run. Where the sandbox stopped it, it may be asked for again, this time without.
    pub(super) fn handle_done(&mut self, index: CallIndex, mut outcome: CallOutcome, actions: &mut Actions) {
        let again = outcome.again.take().map(|question| self.rules.judge(*question));
        match again {
            Some(judged) if judged.verdict.decision != RuleDecision::Forbid => {
                let decision = judged.verdict.decision;
                let slot = &mut self.calls[index];
                let id = slot.running_item.take();
                slot.item = Some(with_status(outcome.item.clone(), ItemStatus::InProgress));
                slot.question = Some(judged);
                if let Some(id) = id {
                    self.emit_completed(Arc::new(TurnItem { id, kind: outcome.item.clone() }), actions);
                }
                self.calls[index].stopped = Some(outcome);
                if decision == RuleDecision::Ask {
                    self.calls[index].stage = Stage::ToAsk;
                } else {
                    self.release(index, actions);
                }
            }
            _ => self.finish_call(index, outcome, actions),
        }
        self.advance(actions);
    }

    fn release(&mut self, index: CallIndex, actions: &mut Actions) {
        let slot = &mut self.calls[index];
        slot.stage = Stage::Ready;
        // What was found out in the sandbox is superseded.
        slot.stopped = None;
        actions.push(Action::Release(index));
    }

    pub(super) fn handle_decision(&mut self, index: CallIndex, decision: Decision, by: Decider, actions: &mut Actions) {
        let slot = &mut self.calls[index];
        let (Stage::Asked, Some(Judged { question, .. })) = (slot.stage, &slot.question) else { return };
        let (action, approved) = (question.action.clone(), question.clone());
        match decision {
            Decision::Approve | Decision::ApproveForThread => {
                if decision == Decision::ApproveForThread {
                    self.rules.remembered.approve(question);
                    actions.extend(approvals::for_thread(question).map(Action::Remember));
                }
                let was_stopped = slot.stopped.is_some();
                (slot.stage, slot.approved) = (Stage::Ready, Some(approved));
                if was_stopped {
                    self.release(index, actions);
                }
                self.advance(actions);
            }
            Decision::Answer(answers) if matches!(action, ApprovalAction::UserInput { .. }) => {
                let item = slot.item.take().map_or_else(|| refused_item(&slot.call), completed);
                let output = serde_json::json!({ "answers": answers }).to_string();
                self.finish_call(index, CallOutcome::plain(output, item), actions);
                self.advance(actions);
            }
            // Words that say neither yes nor no to what was asked.
            Decision::Answer(_) => {
                self.deny(index, &action, DenialReason::Error, None, &by, actions);
                self.advance(actions);
            }
            Decision::Deny { reason, note } => {
                self.deny(index, &action, reason, note.as_deref(), &by, actions);
                self.advance(actions);
            }
            Decision::DenyAndStop { note } => {
                self.deny(index, &action, DenialReason::Declined, note.as_deref(), &by, actions);
                let what = approvals::describe(&action);
                self.deny_unanswered(DenialReason::Cancelled);
                self.interruption = Some(Interruption::Denied { what, by, note });
                self.stop(TurnStatus::Interrupted, actions);
            }
        }
    }

    fn deny(
        &mut self,
        index: CallIndex,
        action: &ApprovalAction,
        reason: DenialReason,
        note: Option<&str>,
        by: &Decider,
        actions: &mut Actions,
    ) {
        let own_words = note.map(str::trim).filter(|note| !note.is_empty()).map(str::to_owned);
        let told = own_words.or_else(|| approvals::note_of(reason, by));
        self.denials.push(Denial { what: approvals::describe(action), reason, note: told });
        let slot = &mut self.calls[index];
        let output = approvals::denial_sentence(action, reason, by, note);
        if let Some(stopped) = slot.stopped.take() {
            // It has run once; what that came to is told with the answer. Its item is complete already.
            slot.item = None;
            let output = format!("{}\n[Asked to run it again without the sandbox: {output}]", stopped.output);
            return self.finish_told(index, output, actions);
        }
        let item =
            slot.item.take().map_or_else(|| refused_item(&slot.call), |item| with_status(item, ItemStatus::Declined));
        self.finish_call(index, CallOutcome::plain(output, item), actions);
    }

    /// Counts the questions that nobody has answered as denied, when the turn ends under them.
    pub(super) fn deny_unanswered(&mut self, reason: DenialReason) {
        let asked = self.calls.iter().filter(|slot| slot.stage == Stage::Asked);
        let questions = asked.filter_map(|slot| slot.question.as_ref());
        let denials =
            questions.map(|judged| Denial { what: approvals::describe(&judged.question.action), reason, note: None });
        self.denials.extend(denials);
    }

    /// Does not do what the rules forbid, and tells the model.
    fn refuse(&mut self, index: CallIndex, actions: &mut Actions) {
        let slot = &mut self.calls[index];
        let Some(Judged { question, verdict, .. }) = slot.question.take() else { return };
        let (output, reason) = approvals::refusal(&question.action, &verdict);
        let item =
            slot.item.take().map_or_else(|| refused_item(&slot.call), |item| with_status(item, ItemStatus::Declined));
        self.denials.push(Denial { what: approvals::describe(&question.action), reason, note: None });
        self.finish_call(index, CallOutcome::plain(output, item), actions);
    }

    /// Appends the output of a call whose item is complete already.
    fn finish_told(&mut self, index: CallIndex, output: String, actions: &mut Actions) {
        let slot = &mut self.calls[index];
        slot.stage = Stage::Done;
        let (call_id, custom) = (slot.call.call_id.clone(), slot.call.custom);
        actions.push(Action::Append(HistoryItem::ToolOutput { call_id, custom, output }));
    }

    /// Appends the output, then tells that the item is complete.
    pub(super) fn finish_call(&mut self, index: CallIndex, outcome: CallOutcome, actions: &mut Actions) {
        let slot = &mut self.calls[index];
        if slot.stage == Stage::Done {
            return;
        }
        let item_id = match slot.running_item.or(slot.asked_item) {
            Some(id) => id,
            None => self.take_item_id(),
        };
        let slot = &mut self.calls[index];
        slot.stage = Stage::Done;
        actions.push(Action::Append(HistoryItem::ToolOutput {
            call_id: slot.call.call_id.clone(),
            custom: slot.call.custom,
            output: outcome.output,
        }));
        self.emit_completed(Arc::new(TurnItem { id: item_id, kind: outcome.item }), actions);
        self.images.extend(outcome.image);
        if let Some(steps) = outcome.plan {
            actions.push(Action::Emit(Event::Plan { turn_id: self.turn_id, steps: Arc::new(steps) }));
        }
    }

    /// Puts the questions that are held, once nothing is being prepared that may add one.
    fn ask_together(&mut self, actions: &mut Actions) {
        if self.calls.iter().any(|slot| slot.stage == Stage::Preparing) {
            return;
        }
        let mut questions = Vec::new();
        for (index, slot) in self.calls.iter_mut().enumerate() {
            if let (Stage::ToAsk, Some(question)) = (slot.stage, &slot.question) {
                questions.push((index, question.clone()));
                slot.stage = Stage::Asked;
                if slot.asked_item.is_none() {
                    slot.asked_item = Some(self.next_item_id);
                    self.next_item_id += 1;
                }
            }
        }
        if !questions.is_empty() {
            actions.push(Action::Ask(questions));
        }
    }

    /// Starts every call that may run now; with none left, goes on to the next step or the end.
    pub(super) fn advance(&mut self, actions: &mut Actions) {
        for index in 0..self.calls.len() {
            let alone = self.earlier_done(index);
            let slot = &self.calls[index];
            match slot.stage {
                Stage::Later if alone => {
                    self.calls[index].stage = Stage::Preparing;
                    actions.push(Action::Prepare(index));
                }
                Stage::Ready if slot.exclusive && alone && !slot.fresh => {
                    self.calls[index].stage = Stage::Preparing;
                    actions.push(Action::Prepare(index));
                }
                Stage::Ready if (slot.exclusive && alone) || (!slot.exclusive && self.may_run_beside(index)) => {
                    self.run(index, actions);
                }
                Stage::Preparing
                | Stage::Later
                | Stage::ToAsk
                | Stage::Asked
                | Stage::Ready
                | Stage::Running
                | Stage::Done => {}
            }
        }
        self.ask_together(actions);
        if self.calls.iter().any(|slot| slot.stage != Stage::Done) {
            return;
        }
        if self.calls.is_empty() {
            self.end_or_go_on(actions);
        } else {
            self.again = Again::default();
            self.next_step(actions);
        }
    }

    fn run(&mut self, index: CallIndex, actions: &mut Actions) {
        let item_id = match self.calls[index].asked_item.take() {
            Some(id) => id,
            None => self.take_item_id(),
        };
        let slot = &mut self.calls[index];
        (slot.stage, slot.running_item) = (Stage::Running, Some(item_id));
        if let Some(item) = slot.item.take() {
            self.emit_started(item_id, item, actions);
        }
        actions.push(Action::Run(index, item_id));
    }

    fn earlier_done(&self, index: CallIndex) -> bool {
        self.calls[..index].iter().all(|slot| slot.stage == Stage::Done)
    }

    /// No earlier call changes files, or may turn out to.
    fn may_run_beside(&self, index: CallIndex) -> bool {
        self.calls[..index]
            .iter()
            .all(|slot| slot.stage == Stage::Done || (!slot.exclusive && slot.stage != Stage::Preparing))
    }
}
