//! What follows a response that calls nothing: nearly always the end of the turn. A model that says that it goes on is asked again, and so
//! is one that said nothing or was cut off, each only so often.

use openoxide_llm::{HistoryItem, Unfinished};

use super::super::step::Action;
use super::data::{Actions, Phase, TurnState};
use crate::{Event, TurnStatus, instructions};

/// How often in a row a model may go on without calling anything. One that only ever announces what it is about to do would go on for
/// good.
const MOST_IN_A_ROW: u32 = 3;

impl TurnState {
    /// Ends the turn, or asks the model again.
    pub(super) fn end_or_go_on(&mut self, actions: &mut Actions) {
        match self.unfinished.take() {
            Some(Unfinished::Paused) => self.next_step(actions),
            Some(Unfinished::GoesOn) if self.again.goes_on < MOST_IN_A_ROW => {
                self.again.goes_on += 1;
                self.next_step(actions);
            }
            Some(Unfinished::Cut) if !self.again.cut => {
                self.again.cut = true;
                self.ask_again(instructions::CUT_NOTE, actions);
            }
            Some(Unfinished::Cut) => {
                let mut message =
                    "the model's response reached its length limit twice in a row (max_output_tokens); ask for \
                                   less at once, or for the answer in parts"
                        .to_owned();
                if !self.content.is_empty() {
                    message.push_str("\n\nThe agent's last words: ");
                    message.push_str(&self.content);
                }
                self.failure = Some(message);
                self.end(TurnStatus::Failed, actions);
            }
            None if !self.has_spoken && !self.again.empty => {
                self.again.empty = true;
                self.ask_again(instructions::EMPTY_NOTE, actions);
            }
            None if !self.has_spoken && self.content.is_empty() => {
                self.failure = Some(instructions::EMPTY_ANSWER.to_owned());
                self.end(TurnStatus::Failed, actions);
            }
            None if !self.has_spoken => {
                let message = "the model ended its turn without an answer, also when it was asked again; what is told are its last words \
                               before that"
                    .to_owned();
                actions.push(Action::Emit(Event::Warning { turn_id: self.turn_id, message }));
                self.end(TurnStatus::Completed, actions);
            }
            Some(Unfinished::GoesOn) | None => self.end(TurnStatus::Completed, actions),
        }
    }

    fn ask_again(&mut self, note: &str, actions: &mut Actions) {
        actions.push(Action::Append(HistoryItem::Note { text: note.to_owned() }));
        self.next_step(actions);
    }

    fn end(&mut self, status: TurnStatus, actions: &mut Actions) {
        self.phase = Phase::Ended(status);
        actions.push(Action::End(status));
    }
}
