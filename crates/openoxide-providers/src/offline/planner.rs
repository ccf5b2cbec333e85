//! From the history of a turn to what to do next: calls to make, or the last message. A function of its input alone.

use super::{
    answer,
    calls::{Action, Pause, Replay},
    clause::Step,
    instructions,
    steps::{self, Report},
};
use crate::{HistoryItem, ModelRequest, Role};

/// What the stand-in says and does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Next {
    /// Shown before the calls; the answer itself when there are none. May be empty.
    pub(super) text: String,
    pub(super) calls: Vec<Action>,
}

/// What matters of the turn under way.
#[derive(Debug, Default)]
struct Turn<'a> {
    /// What was asked, later additions below.
    prompt: String,
    answers: Vec<&'a str>,
}

pub(super) fn plan(request: &ModelRequest<'_>) -> Next {
    let turn = read_turn(request.input);
    let steps = instructions::parse(&turn.prompt);
    let mut replay = Replay::new(turn.answers, request.tools);
    if let [only] = steps.as_slice()
        && let Some(next) = plan_question(only, &mut replay)
    {
        return next;
    }
    if steps.is_empty() {
        return Next { text: answer::help(""), calls: Vec::new() };
    }
    let mut reports: Vec<Report> = Vec::new();
    let mut is_stopped = false;
    for (index, step) in steps.iter().enumerate() {
        let left = replay.left();
        match steps::perform(step, &mut replay) {
            Ok(report) => reports.push(report),
            Err(Pause::NotOffered(tool)) => reports.push(Report::failed(format!(
                "Did not {}: it cannot be done here, since the tool `{tool}` is not offered.",
                steps::describe(step)
            ))),
            Err(Pause::Call(calls)) => {
                // A step is announced once, with its first call.
                let is_new = replay.left() == 0 && left == 0;
                let text =
                    if is_new { answer::announce(index, steps.len(), &steps::describe(step)) } else { String::new() };
                return Next { text, calls };
            }
            Err(Pause::Denied(answer)) => {
                reports.push(Report::denied(&steps::describe(step), &answer));
                is_stopped = true;
                break;
            }
        }
    }
    let left_out = if is_stopped { &steps[reports.len()..] } else { &[] };
    Next { text: answer::summary(&reports, left_out), calls: Vec::new() }
}

/// A prompt that is one question, or nothing the stand-in understands, is answered by itself, without a summary.
fn plan_question(step: &Step, replay: &mut Replay<'_>) -> Option<Next> {
    let (question, is_clear) = match step {
        Step::Explain(question) => (question, true),
        Step::Unclear(text) => (text, false),
        _ => return None,
    };
    let found = match steps::explain(question, replay) {
        Ok(found) => found,
        Err(Pause::Call(calls)) => return Some(Next { text: String::new(), calls }),
        Err(Pause::NotOffered(tool)) => Some(format!("I cannot search here: the tool `{tool}` is not offered.")),
        Err(Pause::Denied(answer)) => Some(answer),
    };
    let text = match found {
        Some(found) if is_clear => answer::sign(&found),
        Some(found) => answer::help(&found),
        None => answer::help(""),
    };
    Some(Next { text, calls: Vec::new() })
}

/// Reads the turn under way: its prompt and the answers its calls have had. A prompt begins a turn, unless it comes
/// right after an answer, with no message of the model in between: then it was given to the running turn.
fn read_turn(input: &[std::sync::Arc<HistoryItem>]) -> Turn<'_> {
    let mut turn = Turn::default();
    let mut is_over = true;
    for item in input {
        match &**item {
            HistoryItem::Note { text } => is_over |= text.starts_with("<turn_interrupted>"),
            HistoryItem::Message { role: Role::User, text, .. } => {
                if is_over {
                    turn = Turn::default();
                }
                turn.prompt.push_str(text);
                turn.prompt.push_str("\n\n");
                is_over = false;
            }
            HistoryItem::Message { role: Role::Assistant, .. } => is_over = true,
            HistoryItem::FunctionCall { .. } | HistoryItem::CustomToolCall { .. } => is_over = false,
            HistoryItem::ToolOutput { output, .. } => {
                is_over = false;
                turn.answers.push(output);
            }
            HistoryItem::Message { .. } | HistoryItem::Image { .. } | HistoryItem::Reasoning { .. } => {}
        }
    }
    turn
}

#[cfg(test)]
#[path = "planner_tests.rs"]
mod tests;
