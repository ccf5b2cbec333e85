//! Core's questions as forms of the wire, and the answers to them as decisions.

use std::fmt::Write as _;

use openoxide_core::{ApprovalAction, ApprovalRequest, Decision, DenialReason, UserQuestion, quote_path};
use openoxide_mcp_protocol::approval_form::{self, Answer, Display, Field, Refusal};
use serde_json::{Value, json};

use super::output::{CHANGES_SHOWN, with_cut_diffs};
use super::{data, patch};

/// What a question about anything begins with that leaves the sandbox.
const OUTSIDE: &str = "OUTSIDE THE SANDBOX";

/// The same for what stays in the sandbox and is given something more.
const MORE: &str = "MORE THAN THE SANDBOX GIVES";

/// Characters of a question's first line.
const FIRST_LINE: usize = 400;

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
    let asked: Vec<String> =
        questions.iter().map(|question| openoxide_core::visible_lines(&question.question)).collect();
    let message = format!("OpenOxide asks: {}", asked.join("\n\n"));
    let display = Display {
        title: message.lines().next().unwrap_or_default(),
        name: "Answer a question",
        description: "The agent wants to know this before it goes on.",
    };
    approval_form::input_form(&message, &fields, display, details)
}

/// The parameters of `elicitation/create` for a request of core. The first line of the message says what is asked, because hosts
/// show little more of it; a patch goes on with its diff at once.
pub(crate) fn to_wire(request: &ApprovalRequest) -> Value {
    let mut details = json!({
        "threadId": request.thread_id.to_string(),
        "turnId": request.turn_id.to_string(),
        "callId": request.call_id,
        "reason": request.reason,
        "confined": request.confined,
    });
    if let Some(widening) = &request.widening {
        details["widening"] = json!(widening.to_string());
    }
    let (name, fact, rest) = match &request.action {
        ApprovalAction::Command { argv, cwd } => {
            details["command"] = json!(argv);
            details["cwd"] = json!(quote_path(cwd));
            let (line, whole) = (openoxide_core::command_line(argv), openoxide_core::visible(argv));
            let rest = if line == whole { String::new() } else { format!("\nCommand: {whole}") };
            let directory = openoxide_core::visible(&[quote_path(cwd)]);
            ("Run a command", format!("Run in {directory}: {line}"), rest)
        }
        ApprovalAction::Input { command_id, argv, cwd, text } => {
            details["input"] = json!(text);
            details["commandId"] = json!(command_id);
            details["command"] = json!(argv);
            details["cwd"] = json!(quote_path(cwd));
            let into = match argv.as_slice() {
                [] => format!("command {command_id}"),
                argv => format!("command {command_id}, {}", openoxide_core::visible(argv)),
            };
            // The line break at its end is the key that sends it.
            let line = text.strip_suffix('\n').unwrap_or(text);
            let fact = format!("Type into {into}: {}", openoxide_core::visible_text(line));
            ("Type into a command", fact, format!("\n{}", openoxide_core::visible_lines(text)))
        }
        ApprovalAction::Patch { changes, unified_diff } => {
            details["changes"] = json!(with_cut_diffs(changes, CHANGES_SHOWN));
            details["diff"] = json!(unified_diff);
            let (fact, rest) = patch::shown(changes, &with_cut_diffs(changes, DIFF_SHOWN));
            ("Change files", fact, rest)
        }
        ApprovalAction::UserInput { questions } => {
            details["questions"] = json!(data::questions(questions));
            return input_form(questions, details);
        }
    };
    let fact = match (request.confined, &request.widening) {
        (true, _) => fact,
        (false, Some(widening)) => format!("{MORE} ({}): {fact}", openoxide_core::visible_text(&widening.to_string())),
        (false, None) => format!("{OUTSIDE}: {fact}"),
    };
    let first = first_line(&fact);
    let mut message = first.clone();
    // Writing to a string cannot fail.
    if first != fact {
        let _ = write!(message, "\n\n{fact}");
    }
    let _ = write!(message, "\n{}", rest.trim_end());
    message.truncate(message.trim_end().len());
    let mut why = format!("Asked because {}.", openoxide_core::visible_text(&request.reason));
    if let Some(justification) = &request.justification {
        let _ = write!(why, "\n\nReason given: {}", openoxide_core::visible_text(justification));
        details["justification"] = json!(justification);
    }
    let _ = write!(message, "\n\n{why}");
    let covered = request.for_thread.as_deref().map(openoxide_core::visible_text);
    match &covered {
        Some(covered) => {
            details["forThread"] = json!(covered);
            let _ = write!(message, "\n\nApproving it for the thread covers {covered}.");
        }
        None => message.push_str("\n\nIt can be approved once, and not for the thread."),
    }
    let description = why.replace("\n\n", " ");
    approval_form::question(
        &message,
        Display { title: &first, name, description: &description },
        details,
        covered.as_deref(),
    )
}

/// A fact as a line that a person reads at a glance; what it leaves out stands below it.
fn first_line(fact: &str) -> String {
    match fact.char_indices().nth(FIRST_LINE) {
        Some((end, _)) => format!("{}... (whole below)", &fact[..end]),
        None => fact.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use openoxide_core::{ApprovalId, FileChange, FileChangeKind, ThreadId, TurnId};

    use super::*;

    fn request(action: ApprovalAction) -> ApprovalRequest {
        ApprovalRequest {
            id: ApprovalId::new(),
            thread_id: ThreadId::new(),
            turn_id: TurnId::new(),
            call_id: "c1".to_owned(),
            item_id: 1,
            reason: "it asks to run outside of the sandbox".to_owned(),
            confined: false,
            widening: None,
            for_thread: None,
            justification: Some("needs\u{1b}[2J the net".to_owned()),
            action,
        }
    }

    #[test]
    fn a_command_is_shown_as_it_is_with_control_characters_visible() {
        let argv = vec!["bash".to_owned(), "-c".to_owned(), "echo \u{1b}[31mhi".to_owned()];
        let params = to_wire(&request(ApprovalAction::Command { argv: argv.clone(), cwd: "/w".into() }));
        let message = params["message"].as_str().unwrap();
        let first = message.lines().next().unwrap();
        assert!(first.starts_with("OUTSIDE THE SANDBOX: Run in /w: ") && first.contains("hi"), "{message}");
        assert!(
            message.contains("\nCommand: bash -c ") && message.contains("Asked because it asks to run"),
            "{message}"
        );
        let shown = &params["_meta"]["anthropic/permissionDisplay"];
        assert_eq!((&shown["title"], &shown["displayName"]), (&json!(first), &json!("Run a command")));
        assert!(!shown["description"].as_str().unwrap().contains('\u{1b}'), "{shown}");
        assert!(!message.contains('\u{1b}'), "{message}");
        assert_eq!(params["_meta"]["openoxide/approval"]["command"], json!(argv));
    }

    #[test]
    fn what_is_typed_is_shown_with_what_it_is_typed_into() {
        let (argv, text) = (vec!["bash".to_owned()], "rm -rf x\u{1b}[2J\n".to_owned());
        let typed = ApprovalAction::Input { command_id: 3, argv, cwd: "/w".into(), text: text.clone() };
        let params = to_wire(&request(typed));
        let message = params["message"].as_str().unwrap();
        assert!(message.starts_with("OUTSIDE THE SANDBOX: Type into command 3, bash: "), "{message}");
        assert!(message.contains("rm -rf x") && !message.contains('\u{1b}'), "{message}");
        assert_eq!(params["_meta"]["openoxide/approval"]["input"], json!(text));
    }

    #[test]
    fn a_patch_shows_its_files_and_its_diff() {
        let diff = "--- a/a.txt\n+++ b/b.txt\n@@ -0,0 +1,50000 @@\n".to_owned() + &"+x\n".repeat(50_000);
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
        let first = message.lines().next().unwrap();
        assert_eq!(first, "OUTSIDE THE SANDBOX: Change 2 files (+50001 -1): a.txt -> b.txt, /etc/evil");
        assert!(message.contains("\nupdate a.txt -> b.txt\n"), "{message}");
        assert!(message.contains("are shown]") && message.len() < DIFF_SHOWN + 600);
        // Nothing that is short hides behind what is long.
        assert!(message.contains("+rm -rf /"), "{message}");
        assert_eq!(params["_meta"]["openoxide/approval"]["changes"][1]["diff"], evil);
    }

    #[test]
    fn a_command_too_long_for_a_line_stands_whole_below_it() {
        let argv = vec!["echo".to_owned(), "x".repeat(2_000), "; rm -rf /".to_owned()];
        let mut request = request(ApprovalAction::Command { argv, cwd: "/w".into() });
        request.confined = true;
        let params = to_wire(&request);
        let message = params["message"].as_str().unwrap();
        let lines: Vec<&str> = message.lines().collect();
        assert!(lines[0].starts_with("Run in /w: echo xxx") && lines[0].ends_with("... (whole below)"), "{message}");
        assert!(lines[0].len() < 450 && lines[2].ends_with("'; rm -rf /'") && message.len() < 3_000, "{message}");
    }

    #[test]
    fn a_path_too_long_for_a_line_stands_whole_below_it() {
        let path = format!("{}/etc/evil", "a".repeat(1_000));
        let diff = "@@ -0,0 +1 @@\n+x\n".into();
        let change = FileChange { path: path.clone().into(), kind: FileChangeKind::Add, move_to: None, diff };
        let patch = ApprovalAction::Patch { changes: vec![change], unified_diff: String::new() };
        let params = to_wire(&request(patch));
        let message = params["message"].as_str().unwrap();
        assert!(!message.lines().next().unwrap().contains("evil") && message.contains(&path), "{message}");
    }

    #[test]
    fn a_small_change_is_in_the_first_line_and_its_diff_follows() {
        let diff = "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def f(a, b):\n-    return a - b\n+    return a + b\n";
        let change =
            FileChange { path: "calc.py".into(), kind: FileChangeKind::Update, move_to: None, diff: diff.into() };
        let patch = ApprovalAction::Patch { changes: vec![change], unified_diff: diff.to_owned() };
        let mut request = request(patch);
        (request.confined, request.justification) = (true, None);
        let params = to_wire(&request);
        assert_eq!(
            params["message"],
            "Change calc.py (+1 -1): `- return a - b` / `+ return a + b`\n@@ -1,2 +1,2 @@\n def f(a, b):\n-    return a - b\n+    return a + b\n\nAsked because it asks to run outside of the sandbox.\n\nIt can be approved once, and not for the thread."
        );
    }

    #[test]
    fn a_question_says_what_an_approval_for_the_thread_covers_or_does_not_offer_it() {
        let argv = ["bash", "-c", "npm ci"].map(str::to_owned).to_vec();
        let mut request = request(ApprovalAction::Command { argv, cwd: "/w".into() });
        let decisions = |params: &Value| params["requestedSchema"]["properties"]["decision"]["enum"].clone();
        let params = to_wire(&request);
        assert_eq!(decisions(&params), json!(["approve", "deny", "deny_and_stop"]));
        assert!(params["message"].as_str().unwrap().ends_with("approved once, and not for the thread."), "{params}");
        request.widening = Some(openoxide_core::Widening::Network);
        request.for_thread = Some("commands that begin with `npm ci`, inside the sandbox with the network".to_owned());
        let params = to_wire(&request);
        assert_eq!(decisions(&params), json!(["approve", "approve_for_thread", "deny", "deny_and_stop"]));
        let message = params["message"].as_str().unwrap();
        assert!(message.starts_with("MORE THAN THE SANDBOX GIVES (the network): Run in /w: "), "{message}");
        assert!(message.ends_with("covers commands that begin with `npm ci`, inside the sandbox with the network."));
        let details = &params["_meta"]["openoxide/approval"];
        assert_eq!((&details["widening"], details["forThread"].is_string()), (&json!("the network"), true));
    }
}
