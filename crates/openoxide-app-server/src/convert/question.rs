//! Core's questions as requests to clients, and the answers to them as decisions.

use openoxide_core::{ApprovalAction, ApprovalRequest, Decision, DenialReason, command_line, quote_path, visible_text};
use serde_json::Value;
use serde_json::value::RawValue;

use super::item::{id_of, unknown_action};
use super::thread::now_ms;
use crate::types::request::{
    ApprovalAnswer, CommandApprovalParams, FileApprovalParams, Question, QuestionOption, UserInputAnswer,
    UserInputParams,
};
use crate::types::thread::ActiveFlag;

/// The code by which a client says that the person has dismissed questions.
const DISMISSED: i64 = -32000;

/// Decisions on offer. Those that would write rules are not: rules are the operator's.
const DECISIONS: [&str; 4] = ["accept", "acceptForSession", "decline", "cancel"];

/// A request to a client.
pub(crate) enum Asking {
    Command(CommandApprovalParams),
    Patch(FileApprovalParams),
    Input(UserInputParams),
}

impl Asking {
    /// Its method and parameters.
    pub(crate) fn parts(&self) -> (&'static str, Value) {
        let value = |params: serde_json::Result<Value>| params.unwrap_or_default();
        match self {
            Self::Command(params) => ("item/commandExecution/requestApproval", value(serde_json::to_value(params))),
            Self::Patch(params) => ("item/fileChange/requestApproval", value(serde_json::to_value(params))),
            Self::Input(params) => ("item/tool/requestUserInput", value(serde_json::to_value(params))),
        }
    }
}

/// What a client is asked.
pub(crate) fn to_wire(request: &ApprovalRequest) -> Asking {
    let (thread_id, turn_id) = (request.thread_id.to_string(), request.turn_id.to_string());
    let (item_id, started_at_ms) = (id_of(request.item_id), now_ms());
    let command = |kind, command: String, cwd: &std::path::Path| {
        Asking::Command(CommandApprovalParams {
            kind,
            thread_id: thread_id.clone(),
            turn_id: turn_id.clone(),
            item_id: item_id.clone(),
            started_at_ms,
            command_actions: vec![unknown_action(&command)],
            command,
            cwd: quote_path(cwd),
            reason: Some(reason(request)),
            available_decisions: DECISIONS.to_vec(),
        })
    };
    match &request.action {
        ApprovalAction::Command { argv, cwd } => command("command", command_line(argv), cwd),
        ApprovalAction::Input { command_id, argv, cwd, text } => {
            let into = match argv.as_slice() {
                [] => format!("command {command_id}"),
                argv => format!("command {command_id}, {}", command_line(argv)),
            };
            command("writeStdin", format!("type into {into}: {}", visible_text(text)), cwd)
        }
        ApprovalAction::Patch { .. } => Asking::Patch(FileApprovalParams {
            thread_id,
            turn_id,
            item_id,
            started_at_ms,
            reason: Some(reason(request)),
            grant_root: None,
        }),
        ApprovalAction::UserInput { questions } => {
            let questions = questions.iter().map(|question| Question {
                id: question.id.clone(),
                header: visible_text(&question.id),
                question: visible_text(&question.question),
                is_other: !question.options.is_empty(),
                is_secret: false,
                options: (!question.options.is_empty()).then(|| {
                    let options = question.options.iter().map(|option| QuestionOption {
                        label: visible_text(&option.label),
                        description: visible_text(option.description.as_deref().unwrap_or_default()),
                    });
                    options.collect()
                }),
            });
            let questions = questions.collect();
            Asking::Input(UserInputParams {
                thread_id,
                turn_id,
                item_id,
                questions,
                is_blocking: true,
                auto_resolution_ms: None,
            })
        }
    }
}

/// Why it is asked: the rules' reason, where the command would run, and the model's own words.
fn reason(request: &ApprovalRequest) -> String {
    let mut reason = visible_text(&request.reason);
    if !request.confined {
        reason.insert_str(0, "OUTSIDE THE SANDBOX: ");
    }
    if let Some(justification) = &request.justification {
        reason.push_str("; the agent says: ");
        reason.push_str(&visible_text(justification));
    }
    reason
}

/// What a turn waits for.
pub(crate) fn flags_of<'a>(pending: impl Iterator<Item = &'a ApprovalRequest>) -> Vec<ActiveFlag> {
    let mut flags = Vec::new();
    for request in pending {
        let flag = match request.action {
            ApprovalAction::UserInput { .. } => ActiveFlag::WaitingOnUserInput,
            ApprovalAction::Command { .. } | ApprovalAction::Input { .. } | ApprovalAction::Patch { .. } => {
                ActiveFlag::WaitingOnApproval
            }
        };
        if !flags.contains(&flag) {
            flags.push(flag);
        }
    }
    flags
}

/// A denial without words.
pub(crate) fn deny(reason: DenialReason) -> Decision {
    Decision::Deny { reason, note: None }
}

/// What an answer means. What is not understood is a denial.
pub(crate) fn from_wire(action: &ApprovalAction, answer: &RawValue) -> Decision {
    let decision = match action {
        ApprovalAction::UserInput { questions } => {
            serde_json::from_str(answer.get()).ok().map(|given: UserInputAnswer| {
                let one = |id: &String| Some((id.clone(), given.answers.get(id)?.answers.join("\n")));
                Decision::Answer(questions.iter().filter_map(|question| one(&question.id)).collect())
            })
        }
        ApprovalAction::Command { .. } | ApprovalAction::Input { .. } | ApprovalAction::Patch { .. } => {
            serde_json::from_str(answer.get()).ok().and_then(|given| decision(&given))
        }
    };
    decision.unwrap_or_else(|| deny(DenialReason::Error))
}

/// What an error in place of an answer means.
pub(crate) fn from_error(error: &RawValue) -> Decision {
    let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
    match error["code"].as_i64() {
        Some(DISMISSED) => deny(DenialReason::Cancelled),
        _ => deny(DenialReason::Error),
    }
}

/// The words of all documents of the protocol are understood; an object, which would write a rule, is not.
fn decision(given: &ApprovalAnswer) -> Option<Decision> {
    let for_session = given.accept_settings.as_ref().and_then(|settings| settings.for_session).unwrap_or_default();
    Some(match given.decision.as_str()? {
        "accept" | "approved" | "allow" | "allowed" if for_session => Decision::ApproveForThread,
        "accept" | "approved" | "allow" | "allowed" => Decision::Approve,
        "acceptForSession" | "approved_for_session" => Decision::ApproveForThread,
        "decline" | "denied" | "deny" => deny(DenialReason::Declined),
        "cancel" | "abort" => Decision::DenyAndStop { note: None },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> ApprovalAction {
        ApprovalAction::Command { argv: vec!["ls".into()], cwd: "/w".into() }
    }

    fn read(action: &ApprovalAction, answer: &str) -> Decision {
        from_wire(action, &RawValue::from_string(answer.to_owned()).unwrap())
    }

    #[test]
    fn every_answer_ends_in_one_decision() {
        for (answer, expected) in [
            (r#"{"decision":"accept"}"#, Decision::Approve),
            (r#"{"decision":"accept","acceptSettings":{"forSession":false}}"#, Decision::Approve),
            (r#"{"decision":"accept","acceptSettings":{"forSession":true}}"#, Decision::ApproveForThread),
            (r#"{"decision":"acceptForSession"}"#, Decision::ApproveForThread),
            (r#"{"decision":"decline"}"#, deny(DenialReason::Declined)),
            (r#"{"decision":"cancel"}"#, Decision::DenyAndStop { note: None }),
            (r#"{"decision":"sure"}"#, deny(DenialReason::Error)),
            (
                r#"{"decision":{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["ls"]}}}"#,
                deny(DenialReason::Error),
            ),
            ("{}", deny(DenialReason::Error)),
            ("[]", deny(DenialReason::Error)),
            ("null", deny(DenialReason::Error)),
        ] {
            assert_eq!(read(&command(), answer), expected, "{answer}");
        }
    }

    #[test]
    fn questions_are_answered_by_their_ids_and_others_are_left_out() {
        let question = |id: &str| openoxide_core::UserQuestion { id: id.into(), question: "?".into(), options: vec![] };
        let action = ApprovalAction::UserInput { questions: vec![question("a"), question("b")] };
        let answer = r#"{"answers":{"a":{"answers":["x","y"]},"z":{"answers":["no"]}}}"#;
        let expected = [("a".to_owned(), "x\ny".to_owned())].into();
        assert_eq!(read(&action, answer), Decision::Answer(expected));
        assert_eq!(read(&action, r#"{"decision":"accept"}"#), deny(DenialReason::Error));
    }

    #[test]
    fn an_error_is_a_denial_and_says_which() {
        let error = |text: &str| from_error(&RawValue::from_string(text.to_owned()).unwrap());
        assert_eq!(error(r#"{"code":-32000,"message":"User cancelled input"}"#), deny(DenialReason::Cancelled));
        assert_eq!(error(r#"{"code":-32601,"message":"?"}"#), deny(DenialReason::Error));
        assert_eq!(error("7"), deny(DenialReason::Error));
    }
}
