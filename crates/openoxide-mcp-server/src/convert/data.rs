//! What core speaks of as the wire has it: items, changes of files, questions, plans, tokens. Each type here borrows from
//! one of core's, so that long texts are not copied before they are JSON.

use std::borrow::Cow;

use openoxide_core::{
    ApprovalAction, ApprovalRequest, FileChange, FileChangeKind, ItemStatus, PlanStatus, PlanStep, TurnItem,
    TurnItemKind, Usage, UserOption, UserQuestion, quote_path,
};
use openoxide_mcp_protocol::UsageReport;
use serde::Serialize;

/// An item of a turn.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemData<'a> {
    id: u64,
    #[serde(flatten)]
    pub(crate) kind: ItemKindData<'a>,
}

/// What an item is.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum ItemKindData<'a> {
    Message {
        text: &'a str,
    },
    Reasoning {
        text: &'a str,
    },
    Command {
        call_id: &'a str,
        argv: &'a [String],
        cwd: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        output: Cow<'a, str>,
        duration_ms: u64,
        status: StatusData,
    },
    Patch {
        call_id: &'a str,
        changes: Vec<ChangeData<'a>>,
        status: StatusData,
    },
    Tool {
        call_id: &'a str,
        name: &'a str,
        summary: &'a str,
        status: StatusData,
    },
}

/// How an item stands.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum StatusData {
    InProgress,
    Completed,
    Failed,
    Declined,
}

/// A file that a patch changes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChangeData<'a> {
    path: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    move_to: Option<String>,
    pub(crate) diff: Cow<'a, str>,
}

/// A question to the caller.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovalData<'a> {
    id: String,
    thread_id: String,
    turn_id: String,
    call_id: &'a str,
    justification: Option<&'a str>,
    reason: &'a str,
    confined: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    widening: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    for_thread: Option<&'a str>,
    action: ActionData<'a>,
}

/// What is asked.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum ActionData<'a> {
    Command { argv: &'a [String], cwd: String },
    Input { command_id: u64, argv: &'a [String], cwd: String, text: &'a str },
    Patch { changes: Vec<ChangeData<'a>>, unified_diff: &'a str },
    UserInput { questions: Vec<QuestionData<'a>> },
}

/// A question of the model's.
#[derive(Debug, Serialize)]
pub(crate) struct QuestionData<'a> {
    id: &'a str,
    question: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    options: Vec<OptionData<'a>>,
}

#[derive(Debug, Serialize)]
struct OptionData<'a> {
    label: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
}

/// A step of a plan.
#[derive(Debug, Serialize)]
pub(crate) struct StepData<'a> {
    step: &'a str,
    status: &'static str,
}

/// An item, whose changes `changes_of` tells where it is a patch.
pub(crate) fn item<'a>(
    item: &'a TurnItem,
    changes_of: impl FnOnce(&'a [FileChange]) -> Vec<ChangeData<'a>>,
) -> ItemData<'a> {
    let kind = match &item.kind {
        TurnItemKind::Message { text } => ItemKindData::Message { text },
        TurnItemKind::Reasoning { text } => ItemKindData::Reasoning { text },
        TurnItemKind::Command { call_id, argv, cwd, exit_code, output, duration_ms, status } => ItemKindData::Command {
            call_id,
            argv,
            cwd: quote_path(cwd),
            exit_code: *exit_code,
            output: output.into(),
            duration_ms: *duration_ms,
            status: status_of(*status),
        },
        TurnItemKind::Patch { call_id, changes, status } => {
            ItemKindData::Patch { call_id, changes: changes_of(changes), status: status_of(*status) }
        }
        TurnItemKind::Tool { call_id, name, summary, status } => {
            ItemKindData::Tool { call_id, name, summary, status: status_of(*status) }
        }
    };
    ItemData { id: item.id, kind }
}

fn status_of(status: ItemStatus) -> StatusData {
    match status {
        ItemStatus::InProgress => StatusData::InProgress,
        ItemStatus::Completed => StatusData::Completed,
        ItemStatus::Failed => StatusData::Failed,
        ItemStatus::Declined => StatusData::Declined,
    }
}

/// A change, with this as its diff.
pub(crate) fn change<'a>(change: &FileChange, diff: impl Into<Cow<'a, str>>) -> ChangeData<'a> {
    let kind = match change.kind {
        FileChangeKind::Add => "add",
        FileChangeKind::Update => "update",
        FileChangeKind::Delete => "delete",
    };
    let move_to = change.move_to.as_deref().map(quote_path);
    ChangeData { path: quote_path(&change.path), kind, move_to, diff: diff.into() }
}

/// A question.
pub(crate) fn approval(request: &ApprovalRequest) -> ApprovalData<'_> {
    let action = match &request.action {
        ApprovalAction::Command { argv, cwd } => ActionData::Command { argv, cwd: quote_path(cwd) },
        ApprovalAction::Input { command_id, argv, cwd, text } => {
            ActionData::Input { command_id: *command_id, argv, cwd: quote_path(cwd), text }
        }
        ApprovalAction::Patch { changes, unified_diff } => {
            ActionData::Patch { changes: changes.iter().map(|one| change(one, &*one.diff)).collect(), unified_diff }
        }
        ApprovalAction::UserInput { questions } => ActionData::UserInput { questions: self::questions(questions) },
    };
    ApprovalData {
        id: request.id.to_string(),
        thread_id: request.thread_id.to_string(),
        turn_id: request.turn_id.to_string(),
        call_id: &request.call_id,
        justification: request.justification.as_deref(),
        reason: &request.reason,
        confined: request.confined,
        widening: request.widening.as_ref().map(ToString::to_string),
        for_thread: request.for_thread.as_deref(),
        action,
    }
}

/// The model's questions.
pub(crate) fn questions(questions: &[UserQuestion]) -> Vec<QuestionData<'_>> {
    questions.iter().map(QuestionData::from).collect()
}

impl<'a> From<&'a UserQuestion> for QuestionData<'a> {
    fn from(UserQuestion { id, question, options }: &'a UserQuestion) -> Self {
        Self { id, question, options: options.iter().map(OptionData::from).collect() }
    }
}

impl<'a> From<&'a UserOption> for OptionData<'a> {
    fn from(UserOption { label, description }: &'a UserOption) -> Self {
        Self { label, description: description.as_deref() }
    }
}

/// A plan.
pub(crate) fn plan(steps: &[PlanStep]) -> Vec<StepData<'_>> {
    steps.iter().map(StepData::from).collect()
}

impl<'a> From<&'a PlanStep> for StepData<'a> {
    fn from(PlanStep { step, status }: &'a PlanStep) -> Self {
        let status = match status {
            PlanStatus::Pending => "pending",
            PlanStatus::InProgress => "in_progress",
            PlanStatus::Completed => "completed",
        };
        Self { step, status }
    }
}

/// Tokens.
pub(crate) fn usage(usage: &Usage) -> UsageReport {
    UsageReport {
        input_tokens: usage.input_tokens,
        cached_input_tokens: usage.cached_input_tokens,
        output_tokens: usage.output_tokens,
        reasoning_output_tokens: usage.reasoning_output_tokens,
    }
}

#[cfg(test)]
mod tests {
    use openoxide_core::{ApprovalId, ThreadId, TurnId};
    use serde_json::json;

    use super::*;

    fn whole(changes: &[FileChange]) -> Vec<ChangeData<'_>> {
        changes.iter().map(|one| change(one, &*one.diff)).collect()
    }

    fn shown(kind: TurnItemKind) -> String {
        serde_json::to_string(&item(&TurnItem { id: 7, kind }, whole)).unwrap()
    }

    fn changes() -> Vec<FileChange> {
        let change = |path: &str, kind, move_to: Option<&str>| FileChange {
            path: path.into(),
            kind,
            move_to: move_to.map(Into::into),
            diff: "d\n".into(),
        };
        vec![
            change("a\tb", FileChangeKind::Add, None),
            change("b", FileChangeKind::Update, Some("c")),
            change("d", FileChangeKind::Delete, None),
        ]
    }

    const CHANGES: &str = r#"[{"path":"\"a\\tb\"","kind":"add","diff":"d\n"},{"path":"b","kind":"update","moveTo":"c","diff":"d\n"},{"path":"d","kind":"delete","diff":"d\n"}]"#;

    #[test]
    fn items_have_the_names_of_the_wire() {
        let text = "t".to_owned();
        assert_eq!(shown(TurnItemKind::Message { text: text.clone() }), r#"{"id":7,"type":"message","text":"t"}"#);
        assert_eq!(shown(TurnItemKind::Reasoning { text }), r#"{"id":7,"type":"reasoning","text":"t"}"#);
        let command = |exit_code, status| TurnItemKind::Command {
            call_id: "c".into(),
            argv: vec!["ls".into()],
            cwd: "/w".into(),
            exit_code,
            output: "o".into(),
            duration_ms: 5,
            status,
        };
        assert_eq!(
            shown(command(Some(3), ItemStatus::Failed)),
            r#"{"id":7,"type":"command","callId":"c","argv":["ls"],"cwd":"/w","exitCode":3,"output":"o","durationMs":5,"status":"failed"}"#
        );
        assert_eq!(
            shown(command(None, ItemStatus::InProgress)),
            r#"{"id":7,"type":"command","callId":"c","argv":["ls"],"cwd":"/w","output":"o","durationMs":5,"status":"inProgress"}"#
        );
        let patch = TurnItemKind::Patch { call_id: "c".into(), changes: changes(), status: ItemStatus::Declined };
        let expected = format!(r#"{{"id":7,"type":"patch","callId":"c","changes":{CHANGES},"status":"declined"}}"#);
        assert_eq!(shown(patch), expected);
        let tool = TurnItemKind::Tool {
            call_id: "c".into(),
            name: "grep".into(),
            summary: "s".into(),
            status: ItemStatus::Completed,
        };
        assert_eq!(
            shown(tool),
            r#"{"id":7,"type":"tool","callId":"c","name":"grep","summary":"s","status":"completed"}"#
        );
    }

    #[test]
    fn questions_plans_and_tokens_have_the_names_of_the_wire() {
        let (id, thread_id, turn_id) = (ApprovalId::new(), ThreadId::new(), TurnId::new());
        let asked = |action, justification: Option<&str>| {
            let request = ApprovalRequest {
                id,
                thread_id,
                turn_id,
                call_id: "c".into(),
                item_id: 1,
                justification: justification.map(str::to_owned),
                reason: "r".into(),
                confined: true,
                widening: None,
                for_thread: Some("t".into()),
                action,
            };
            serde_json::to_string(&approval(&request)).unwrap()
        };
        let expected = |justification: &str, action: &str| {
            format!(
                r#"{{"id":"{id}","threadId":"{thread_id}","turnId":"{turn_id}","callId":"c","justification":{justification},"reason":"r","confined":true,"forThread":"t","action":{action}}}"#
            )
        };
        let command = ApprovalAction::Command { argv: vec!["ls".into()], cwd: "/w".into() };
        assert_eq!(asked(command, Some("j")), expected("\"j\"", r#"{"type":"command","argv":["ls"],"cwd":"/w"}"#));
        let input =
            ApprovalAction::Input { command_id: 3, argv: vec!["sh".into()], cwd: "/w".into(), text: "y\n".into() };
        assert_eq!(
            asked(input, None),
            expected("null", r#"{"type":"input","commandId":3,"argv":["sh"],"cwd":"/w","text":"y\n"}"#)
        );
        let patch = ApprovalAction::Patch { changes: changes(), unified_diff: "u".into() };
        let told = format!(r#"{{"type":"patch","changes":{CHANGES},"unifiedDiff":"u"}}"#);
        assert_eq!(asked(patch, None), expected("null", &told));
        let option = |label: &str, description: Option<&str>| UserOption {
            label: label.into(),
            description: description.map(str::to_owned),
        };
        let options = vec![option("a", None), option("b", Some("d"))];
        let questions = vec![
            UserQuestion { id: "x".into(), question: "q".into(), options },
            UserQuestion { id: "y".into(), question: "q".into(), options: Vec::new() },
        ];
        assert_eq!(
            asked(ApprovalAction::UserInput { questions }, None),
            expected(
                "null",
                r#"{"type":"userInput","questions":[{"id":"x","question":"q","options":[{"label":"a"},{"label":"b","description":"d"}]},{"id":"y","question":"q"}]}"#
            )
        );
        let steps = [PlanStatus::Pending, PlanStatus::InProgress, PlanStatus::Completed]
            .map(|status| PlanStep { step: "s".into(), status });
        assert_eq!(
            json!(plan(&steps)).to_string(),
            r#"[{"step":"s","status":"pending"},{"step":"s","status":"in_progress"},{"step":"s","status":"completed"}]"#
        );
        let tokens = Usage { input_tokens: 1, cached_input_tokens: 2, output_tokens: 3, reasoning_output_tokens: 4 };
        assert_eq!(
            json!(usage(&tokens)).to_string(),
            r#"{"inputTokens":1,"cachedInputTokens":2,"outputTokens":3,"reasoningOutputTokens":4}"#
        );
    }
}
