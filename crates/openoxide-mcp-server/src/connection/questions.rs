//! Approval questions: how they are worded, and the table of those put to legacy clients.
//!
//! An answer counts once: it is taken out of the table, becomes a [`Decision`] here and nowhere else, and core refuses
//! a second one for the same approval.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};

use openoxide_core::{
    ApprovalAction, ApprovalId, ApprovalRequest, Decider, Decision, DenialReason, FileChangeKind, Op, Thread,
    UserQuestion, quote_path,
};
use openoxide_mcp_protocol::approval_form::{self, Answer, Field, Refusal};
use openoxide_mcp_protocol::{Outcome, RequestId, parse_unique};
use serde_json::{Value, json};

use crate::connection::calls::Call;
use crate::convert::output::{CHANGES_SHOWN, with_cut_diffs};
use crate::{ApprovalStrategy, Server};
use openoxide_rpc::lock;

/// A diff longer than this many bytes is cut in a question.
const DIFF_SHOWN: usize = 8 * 1024;

/// The questions put to this connection with `elicitation/create` and not answered yet, by their unguessable id.
#[derive(Default)]
pub(crate) struct Questions(Mutex<HashMap<RequestId, Question>>);

struct Question {
    thread: Arc<Thread>,
    approval: ApprovalId,
    /// The call that asked.
    call: u64,
    /// Who is asked, by name.
    client: Option<String>,
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Question>> {
        lock(&self.0)
    }

    /// Enters a question of `call` and returns the id to ask it under: a random UUID of its own.
    pub(crate) fn enter(&self, thread: &Arc<Thread>, approval: ApprovalId, call: &Call) -> RequestId {
        let id = RequestId::String(ApprovalId::new().to_string().into());
        self.lock().insert(
            id.clone(),
            Question { thread: Arc::clone(thread), approval, call: call.gate.key(), client: call.client.name.clone() },
        );
        id
    }

    /// Settles the question that `id` names. An id that names none (answered, withdrawn, made up) is ignored.
    pub(crate) fn answered(&self, id: &RequestId, outcome: Outcome) {
        let Some(question) = self.lock().remove(id) else {
            tracing::debug!(?id, "an answer to no open question is ignored");
            return;
        };
        let by = Decider::Client(question.client);
        match outcome {
            // What is no JSON after all is no answer either.
            Outcome::Result(result) => {
                let answer = parse_unique(result.get()).unwrap_or(Value::Null);
                settle_by_answer(&question.thread, question.approval, &answer, by);
            }
            Outcome::Error(error) => {
                tracing::info!(error = error.get(), "the client answered a question with an error");
                settle(&question.thread, question.approval, deny(DenialReason::Error), by);
            }
        }
    }

    /// Settles every question as denied: whoever was asked went away.
    pub(crate) fn disconnect(&self) {
        let open: Vec<Question> = self.lock().drain().map(|(_, question)| question).collect();
        for Question { thread, approval, client, .. } in open {
            settle_disconnected(&thread, approval, client);
        }
    }

    /// Takes back the question about `approval`, wherever it was settled; returns its id so that the client can be told.
    pub(crate) fn withdraw(&self, approval: ApprovalId) -> Option<RequestId> {
        let mut questions = self.lock();
        let id = questions.iter().find(|(_, question)| question.approval == approval)?.0.clone();
        questions.remove(&id);
        Some(id)
    }

    /// Takes back every question of a call.
    pub(crate) fn withdraw_call(&self, call: u64) -> Vec<RequestId> {
        let mut withdrawn = Vec::new();
        self.lock().retain(|id, question| {
            if question.call == call {
                withdrawn.push(id.clone());
            }
            question.call != call
        });
        withdrawn
    }
}

/// Gives what a client answered to core. An answer to what is not asked, or not any more, changes nothing.
pub(crate) fn settle_by_answer(thread: &Arc<Thread>, approval: ApprovalId, answer: &Value, by: Decider) {
    let Some(request) = thread.pending_approvals().into_iter().find(|request| request.id == approval) else { return };
    let decision = match &request.action {
        ApprovalAction::UserInput { questions } => {
            let ids: Vec<&str> = questions.iter().map(|question| question.id.as_str()).collect();
            match approval_form::read_input(answer, &ids) {
                Ok(answers) => Decision::Answer(answers),
                Err(refusal) => deny(reason_of(refusal)),
            }
        }
        _ => decision(answer),
    };
    settle(thread, approval, decision, by);
}

/// Gives a decision to core. One that comes too late changes nothing.
fn settle(thread: &Arc<Thread>, approval: ApprovalId, decision: Decision, by: Decider) {
    if let Err(error) = thread.submit(Op::Approval { id: approval, decision, by }) {
        tracing::debug!(%error, "a late decision is ignored");
    }
}

/// Has the operator's strategy answer a question that nobody can be asked.
pub(crate) fn settle_unasked(server: &Server, thread: &Arc<Thread>, request: &ApprovalRequest) {
    let decision = match server.approval_strategy {
        ApprovalStrategy::AutoWithinPolicy if request.confined => Decision::Approve,
        _ => deny(DenialReason::NotAskable),
    };
    settle(thread, request.id, decision, Decider::Strategy(server.approval_strategy.name()));
}

/// Denies a question because whoever was asked, or would be, has gone away.
pub(crate) fn settle_disconnected(thread: &Arc<Thread>, approval: ApprovalId, client: Option<String>) {
    settle(thread, approval, deny(DenialReason::Disconnected), Decider::Client(client));
}

/// A denial without words.
fn deny(reason: DenialReason) -> Decision {
    Decision::Deny { reason, note: None }
}

/// The decision in a client's answer.
fn decision(result: &Value) -> Decision {
    match approval_form::read_answer(result) {
        Answer::Approve => Decision::Approve,
        Answer::ApproveForThread => Decision::ApproveForThread,
        Answer::Deny(refusal, note) => Decision::Deny { reason: reason_of(refusal), note },
        Answer::DenyAndStop(note) => Decision::DenyAndStop { note },
    }
}

fn reason_of(refusal: Refusal) -> DenialReason {
    match refusal {
        Refusal::Declined => DenialReason::Declined,
        Refusal::Cancelled => DenialReason::Cancelled,
        Refusal::Error => DenialReason::Error,
    }
}

/// The form with which the agent asks the person.
fn input_form(questions: &[UserQuestion], details: Value) -> Value {
    let visible = openoxide_core::visible_text;
    let fields: Vec<Field> = questions
        .iter()
        .map(|question| {
            let options = question.options.iter();
            let options = options.map(|option| (visible(&option.label), option.description.as_deref().map(visible)));
            Field { id: question.id.clone(), question: visible(&question.question), options: options.collect() }
        })
        .collect();
    let mut message = "OpenOxide asks:".to_owned();
    for question in questions {
        // Writing to a string cannot fail.
        let _ = write!(message, "\n\n{}", openoxide_core::visible_lines(&question.question));
    }
    approval_form::input_form(&message, &fields, details)
}

/// The parameters of `elicitation/create` for a request of core.
pub(crate) fn wording(request: &ApprovalRequest) -> Value {
    let mut message = String::new();
    let mut details = json!({
        "threadId": request.thread_id,
        "turnId": request.turn_id,
        "callId": request.call_id,
        "reason": request.reason,
        "confined": request.confined,
    });
    // Writing to a string cannot fail.
    match &request.action {
        ApprovalAction::Command { argv, cwd } => {
            let shown = openoxide_core::visible(argv);
            let directory = openoxide_core::visible(&[quote_path(cwd)]);
            let how = if request.confined { "" } else { " without a sandbox" };
            let _ = write!(message, "OpenOxide wants to run this command{how}:\n\n{shown}\n\nin {directory}");
            details["command"] = json!(argv);
            details["cwd"] = json!(quote_path(cwd));
        }
        ApprovalAction::Patch { changes, unified_diff } => {
            let _ = writeln!(message, "OpenOxide wants to change {}:", files(changes.len()));
            for change in changes {
                let verb = match change.kind {
                    FileChangeKind::Add => "add",
                    FileChangeKind::Update => "update",
                    FileChangeKind::Delete => "delete",
                };
                let path = openoxide_core::visible(&[quote_path(&change.path)]);
                let _ = write!(message, "\n  {verb} {path}");
                if let Some(to) = &change.move_to {
                    let to = openoxide_core::visible(&[quote_path(to)]);
                    let _ = write!(message, " -> {to}");
                }
            }
            message.push_str("\n\n");
            for change in with_cut_diffs(changes, DIFF_SHOWN) {
                message.push_str(&openoxide_core::visible_lines(&change.diff));
            }
            details["changes"] = json!(with_cut_diffs(changes, CHANGES_SHOWN));
            details["diff"] = json!(unified_diff);
        }
        ApprovalAction::UserInput { questions } => {
            details["questions"] = json!(questions);
            return input_form(questions, details);
        }
        // An action that this protocol has no words for yet; the reason below says what is asked.
        _ => message.push_str("OpenOxide wants to act."),
    }
    message.truncate(message.trim_end().len());
    let _ = write!(message, "\n\nAsked because {}.", openoxide_core::visible_text(&request.reason));
    if let Some(why) = &request.justification {
        let _ = write!(message, "\n\nReason given: {}", openoxide_core::visible_text(why));
        details["justification"] = json!(why);
    }
    approval_form::question(&message, details)
}

fn files(count: usize) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

#[cfg(test)]
mod tests {
    use openoxide_core::{FileChange, ThreadId, TurnId};

    use super::*;

    fn request(action: ApprovalAction) -> ApprovalRequest {
        ApprovalRequest {
            id: ApprovalId::new(),
            thread_id: ThreadId::new(),
            turn_id: TurnId::new(),
            call_id: "c1".to_owned(),
            reason: "it asks to run outside of the sandbox".to_owned(),
            confined: false,
            justification: Some("needs\u{1b}[2J the net".to_owned()),
            action,
        }
    }

    #[test]
    fn a_command_is_shown_as_it_is_with_control_characters_visible() {
        let argv = vec!["bash".to_owned(), "-c".to_owned(), "echo \u{1b}[31mhi".to_owned()];
        let params = wording(&request(ApprovalAction::Command { argv: argv.clone(), cwd: "/w".into() }));
        let message = params["message"].as_str().unwrap();
        assert!(message.contains("without a sandbox") && message.contains("bash -c"), "{message}");
        assert!(message.contains("in /w") && message.contains("Asked because it asks to run outside"), "{message}");
        assert!(!message.contains('\u{1b}'), "{message}");
        assert_eq!(params["_meta"]["openoxide/approval"]["command"], json!(argv));
    }

    #[test]
    fn a_patch_shows_its_files_and_its_diff() {
        let diff = "--- a/a.txt\n+++ b/b.txt\n".to_owned() + &"+x\n".repeat(50_000);
        let change = |path: &str, move_to: Option<&str>, diff: &str| FileChange {
            path: path.into(),
            kind: FileChangeKind::Update,
            move_to: move_to.map(Into::into),
            diff: diff.into(),
        };
        let evil = "--- a/evil\n+++ b/evil\n@@ -1 +1 @@\n-a\n+rm -rf /\n";
        let changes = vec![change("a.txt", Some("b.txt"), &diff), change("/etc/evil", None, evil)];
        let params = wording(&request(ApprovalAction::Patch { changes, unified_diff: diff + evil }));
        let message = params["message"].as_str().unwrap();
        assert!(message.contains("change 2 files") && message.contains("update a.txt -> b.txt"), "{message}");
        assert!(message.contains("are shown]") && message.len() < DIFF_SHOWN + 500);
        // Nothing that is short hides behind what is long.
        assert!(message.contains("+rm -rf /"), "{message}");
        assert_eq!(params["_meta"]["openoxide/approval"]["changes"][1]["diff"], evil);
    }
}
