//! Core's questions as forms of the wire, and the answers to them as decisions.

use std::fmt::Write as _;

use openoxide_core::{
    ApprovalAction, ApprovalRequest, Decision, DenialReason, FileChangeKind, UserQuestion, quote_path,
};
use openoxide_mcp_protocol::approval_form::{self, Answer, Field, Refusal};
use serde_json::{Value, json};

use super::output::{CHANGES_SHOWN, with_cut_diffs};

/// A diff longer than this many bytes is cut in a question.
const DIFF_SHOWN: usize = 8 * 1024;

/// What a client's answer to a question about `action` means. What is not understood is a denial.
pub(crate) fn from_wire(action: &ApprovalAction, answer: &Value) -> Decision {
    match action {
        ApprovalAction::UserInput { questions } => {
            let ids: Vec<&str> = questions.iter().map(|question| question.id.as_str()).collect();
            match approval_form::read_input(answer, &ids) {
                Ok(answers) => Decision::Answer(answers),
                Err(refusal) => deny(reason_of(refusal)),
            }
        }
        ApprovalAction::Command { .. } | ApprovalAction::Input { .. } | ApprovalAction::Patch { .. } => {
            decision(answer)
        }
    }
}

/// A denial without words.
pub(crate) fn deny(reason: DenialReason) -> Decision {
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
pub(crate) fn to_wire(request: &ApprovalRequest) -> Value {
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
        ApprovalAction::Input { command_id, argv, cwd, text } => {
            let shown = openoxide_core::visible_lines(text);
            let into = match argv.as_slice() {
                [] => format!("command {command_id}"),
                argv => format!("command {command_id}, {}", openoxide_core::visible(argv)),
            };
            let how = if request.confined { "" } else { ", which runs without a sandbox" };
            let _ = write!(message, "OpenOxide wants to type into {into}{how}:\n\n{shown}");
            details["input"] = json!(text);
            details["commandId"] = json!(command_id);
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
    use openoxide_core::{ApprovalId, FileChange, ThreadId, TurnId};

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
        let params = to_wire(&request(ApprovalAction::Command { argv: argv.clone(), cwd: "/w".into() }));
        let message = params["message"].as_str().unwrap();
        assert!(message.contains("without a sandbox") && message.contains("bash -c"), "{message}");
        assert!(message.contains("in /w") && message.contains("Asked because it asks to run outside"), "{message}");
        assert!(!message.contains('\u{1b}'), "{message}");
        assert_eq!(params["_meta"]["openoxide/approval"]["command"], json!(argv));
    }

    #[test]
    fn what_is_typed_is_shown_with_what_it_is_typed_into() {
        let (argv, text) = (vec!["bash".to_owned()], "rm -rf x\u{1b}[2J\n".to_owned());
        let typed = ApprovalAction::Input { command_id: 3, argv, cwd: "/w".into(), text: text.clone() };
        let params = to_wire(&request(typed));
        let message = params["message"].as_str().unwrap();
        assert!(message.contains("type into command 3, bash, which runs without a sandbox"), "{message}");
        assert!(message.contains("rm -rf x") && !message.contains('\u{1b}'), "{message}");
        assert_eq!(params["_meta"]["openoxide/approval"]["input"], json!(text));
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
        let params = to_wire(&request(ApprovalAction::Patch { changes, unified_diff: diff + evil }));
        let message = params["message"].as_str().unwrap();
        assert!(message.contains("change 2 files") && message.contains("update a.txt -> b.txt"), "{message}");
        assert!(message.contains("are shown]") && message.len() < DIFF_SHOWN + 500);
        // Nothing that is short hides behind what is long.
        assert!(message.contains("+rm -rf /"), "{message}");
        assert_eq!(params["_meta"]["openoxide/approval"]["changes"][1]["diff"], evil);
    }
}
