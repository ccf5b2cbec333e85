//! Questions: each way they can end, once each.

use std::sync::Arc;
use std::time::Duration;

use super::support::*;
use crate::Decider;
use crate::{
    ApprovalAction, ApprovalPolicy, CommandRule, CoreError, Decision, DenialReason, Event, Op, RuleDecision, Thread,
    TurnStatus,
};

pub(super) fn decide(thread: &Arc<Thread>, id: crate::ApprovalId, decision: Decision) -> Result<(), CoreError> {
    thread.submit(Op::Approval { id, decision, by: Decider::Client(Some("tester".to_owned())) }).map(drop)
}

fn deny(reason: DenialReason) -> Decision {
    Decision::Deny { reason, note: None }
}

/// Without it, `echo` is known to be harmless.
fn ask_for_echo() -> Arc<[CommandRule]> {
    [CommandRule::new(&["echo"], RuleDecision::Ask)].into()
}

fn asking(steps: Vec<Say>) -> Bench {
    Bench::with(steps, |config| config.rules = ask_for_echo())
}

#[tokio::test]
async fn an_approved_command_runs_once_and_a_second_decision_is_an_error() {
    let bench = asking(vec![Say::Calls(vec![exec("echo hi")])]);
    let mut thread = bench.thread(ApprovalPolicy::Untrusted);
    thread.prompt("go");
    let request = thread.asked().await;
    assert!(bench.commands().is_empty(), "nothing runs before the decision");
    assert_eq!(thread.thread.attach().snapshot.pending[0].id, request.id);
    let ApprovalAction::Command { argv, cwd } = &request.action else { panic!("{request:?}") };
    assert_eq!((argv[1].as_str(), argv[2].as_str(), cwd.as_path()), ("-c", "echo hi", bench.cwd()));
    decide(&thread.thread, request.id, Decision::Approve).unwrap();
    let again = decide(&thread.thread, request.id, Decision::Approve);
    assert!(matches!(again, Err(CoreError::ApprovalNotPending { .. })));
    let result = thread.ended().await;
    assert!(result.denials.is_empty());
    assert_eq!(bench.commands(), ["spawn echo hi"]);
    assert!(bench.outputs()[0].starts_with("exit code: 0\n"), "{:?}", bench.outputs());
    assert!(thread.thread.attach().snapshot.pending.is_empty());
}

#[tokio::test]
async fn a_question_names_the_item_that_follows_whatever_is_decided() {
    for decision in [Decision::Approve, deny(DenialReason::Declined)] {
        let bench = asking(vec![Say::Calls(vec![exec("echo one"), exec("echo two")]), Say::Text("done")]);
        let mut thread = bench.thread(ApprovalPolicy::Untrusted);
        let mut events = thread.thread.attach().events;
        thread.prompt("go");
        let (first, second) = (thread.asked().await, thread.asked().await);
        assert_ne!(first.item_id, second.item_id);
        // The one that was asked second is decided first.
        decide(&thread.thread, second.id, decision.clone()).unwrap();
        decide(&thread.thread, first.id, decision).unwrap();
        thread.ended().await;
        let mut items = std::collections::HashMap::new();
        while let Some(event) = events.try_next() {
            if let Event::ItemCompleted { item, .. } = event
                && let crate::TurnItemKind::Command { call_id, .. } = &item.kind
            {
                items.insert(call_id.clone(), item.id);
            }
        }
        assert_eq!((items[&first.call_id], items[&second.call_id]), (first.item_id, second.item_id));
    }
}

#[tokio::test]
async fn every_kind_of_no_is_told_to_the_model_and_the_result() {
    for reason in [
        DenialReason::Declined,
        DenialReason::Cancelled,
        DenialReason::Error,
        DenialReason::Disconnected,
        DenialReason::NotAskable,
    ] {
        let bench = asking(vec![Say::Calls(vec![exec("echo hi")]), Say::Text("left undone")]);
        let mut thread = bench.thread(ApprovalPolicy::Untrusted);
        thread.prompt("go");
        let request = thread.asked().await;
        decide(&thread.thread, request.id, deny(reason)).unwrap();
        let result = thread.ended().await;
        assert_eq!((result.status, result.content.as_str()), (TurnStatus::Completed, "left undone"));
        assert_eq!((result.denials[0].what.as_str(), result.denials[0].reason), ("echo hi", reason));
        assert!(bench.outputs()[0].starts_with("The command was not run"));
        assert!(bench.commands().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_nobody_answers_is_denied_in_time() {
    let bench = Bench::with(vec![Say::Calls(vec![exec("echo hi")])], |config| {
        config.rules = ask_for_echo();
        config.approval_timeout = Duration::from_secs(600);
    });
    let mut thread = bench.thread(ApprovalPolicy::Untrusted);
    thread.prompt("go");
    let request = thread.asked().await;
    let result = thread.ended().await;
    assert_eq!(result.denials[0].reason, DenialReason::TimedOut);
    assert!(result.duration_ms >= 600_000, "{result:?}");
    let late = decide(&thread.thread, request.id, Decision::Approve);
    assert!(matches!(late, Err(CoreError::ApprovalNotPending { .. })));
}

#[tokio::test]
async fn deny_and_stop_ends_the_turn_and_the_thread_goes_on() {
    let bench = asking(vec![Say::Calls(vec![exec("echo a"), exec("echo b")])]);
    let mut thread = bench.thread(ApprovalPolicy::Untrusted);
    thread.prompt("go");
    let (first, second) = (thread.asked().await, thread.asked().await);
    decide(&thread.thread, first.id, Decision::DenyAndStop { note: None }).unwrap();
    let mut settled = 0;
    let result = loop {
        match thread.next().await {
            Event::ApprovalSettled { .. } => settled += 1,
            Event::TurnEnded { result, .. } => break result,
            _ => {}
        }
    };
    assert_eq!((result.status, settled), (TurnStatus::Interrupted, 2), "the other question is settled with the turn");
    assert!(decide(&thread.thread, second.id, Decision::Approve).is_err());
    thread.prompt("next");
    assert_eq!(thread.ended().await.content, "re: next");
    let outputs = thread.history().iter().filter(|item| item.starts_with("output of")).count();
    assert_eq!(outputs, 2, "every call has its output");
}

#[tokio::test]
async fn an_approval_for_the_thread_holds_in_later_turns() {
    let steps = ["echo hi", "echo hi", "echo ho"];
    let steps = steps.into_iter().flat_map(|command| [Say::Calls(vec![exec(command)]), Say::Text("ok")]);
    let bench = asking(steps.collect());
    let mut thread = bench.thread(ApprovalPolicy::Untrusted);
    thread.prompt("one");
    let request = thread.asked().await;
    decide(&thread.thread, request.id, Decision::ApproveForThread).unwrap();
    thread.ended().await;
    thread.prompt("two");
    thread.ended().await;
    assert_eq!(bench.commands(), ["spawn echo hi", "spawn echo hi"]);
    thread.prompt("three");
    thread.asked().await;
}

#[tokio::test]
async fn on_request_asks_for_what_is_marked_and_never_asks_for_nothing() {
    let marked = r#"{"cmd": "echo b", "sandbox_permissions": "require_escalated", "justification": "must"}"#;
    let calls = || vec![Say::Calls(vec![exec("echo a"), ("exec_command", marked.to_owned())])];
    let bench = Bench::new(calls());
    let mut thread = bench.thread(ApprovalPolicy::OnRequest);
    thread.prompt("go");
    let request = thread.asked().await;
    assert_eq!(request.justification.as_deref(), Some("must"));
    decide(&thread.thread, request.id, deny(DenialReason::Declined)).unwrap();
    thread.ended().await;
    assert_eq!(bench.commands(), ["spawn echo a"]);

    let bench = Bench::new(calls());
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("go");
    let result = thread.ended().await;
    assert_eq!(bench.commands(), ["spawn echo a"]);
    assert_eq!(result.denials[0].reason, DenialReason::NotAskable);

    let bench = Bench::new(calls());
    let mut thread = bench.thread(ApprovalPolicy::OnRequest);
    thread.prompt("go");
    let request = thread.asked().await;
    assert!(!request.confined && request.reason.contains("outside of the sandbox"), "{request:?}");
    decide(&thread.thread, request.id, Decision::Approve).unwrap();
    thread.ended().await;
    assert_eq!(bench.commands(), ["spawn echo a", "spawn echo b outside"]);
}

#[tokio::test]
async fn interrupting_a_parked_turn_settles_its_question() {
    let bench = asking(vec![Say::Calls(vec![exec("echo a")])]);
    let mut thread = bench.thread(ApprovalPolicy::Untrusted);
    thread.prompt("go");
    let request = thread.asked().await;
    thread.thread.submit(Op::Interrupt { turn_id: Some(request.turn_id), why: crate::Interruption::Asked }).unwrap();
    assert_eq!(thread.ended().await.status, TurnStatus::Interrupted);
    assert!(decide(&thread.thread, request.id, Decision::Approve).is_err());
    assert!(bench.commands().is_empty());
}

#[tokio::test]
async fn a_patch_shows_its_files_and_diff_and_is_applied_once_approved() {
    let patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch";
    let bench = Bench::new(vec![Say::Calls(vec![("apply_patch", patch.into())])]);
    let mut thread = bench.thread(ApprovalPolicy::Untrusted);
    thread.prompt("go");
    let request = thread.asked().await;
    let ApprovalAction::Patch { changes, unified_diff } = &request.action else { panic!("{request:?}") };
    assert_eq!(changes[0].path, std::path::Path::new("new.txt"));
    assert!(unified_diff.contains("+hello"), "{unified_diff}");
    assert!(!bench.cwd().join("new.txt").exists());
    decide(&thread.thread, request.id, Decision::Approve).unwrap();
    let result = thread.ended().await;
    assert_eq!(std::fs::read_to_string(bench.cwd().join("new.txt")).unwrap(), "hello\n");
    assert_eq!(result.files_changed, [std::path::PathBuf::from("new.txt")]);
    assert!(result.diff.as_ref().unwrap().contains("+hello"));
}

#[tokio::test]
async fn a_patch_whose_file_changes_while_it_is_asked_is_not_applied() {
    let patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch";
    let bench = Bench::new(vec![Say::Calls(vec![("apply_patch", patch.into())])]);
    let mut thread = bench.thread(ApprovalPolicy::Untrusted);
    thread.prompt("go");
    let request = thread.asked().await;
    std::fs::write(bench.cwd().join("new.txt"), "somebody else's").unwrap();
    decide(&thread.thread, request.id, Decision::Approve).unwrap();
    let result = thread.ended().await;
    assert_eq!(std::fs::read_to_string(bench.cwd().join("new.txt")).unwrap(), "somebody else's");
    assert!(result.files_changed.is_empty() && result.diff.is_none());
    assert!(bench.outputs()[0].starts_with("The patch was not applied"), "{:?}", bench.outputs());
}

fn which_database() -> (&'static str, String) {
    let question = serde_json::json!({ "id": "db", "question": "Which database?" });
    ("request_user_input", serde_json::json!({ "questions": [question] }).to_string())
}

#[tokio::test]
async fn what_the_person_says_is_the_output_of_the_question() {
    let answered = Decision::Answer([("db".to_owned(), "SQLite".to_owned())].into());
    for (decision, expected, denied) in [
        (answered, "{\"answers\":{\"db\":\"SQLite\"}}", false),
        (Decision::Approve, "sent the form back empty", false),
        (deny(DenialReason::Declined), "Decide yourself", true),
    ] {
        let bench = Bench::new(vec![Say::Calls(vec![which_database()])]);
        let mut thread = bench.thread(ApprovalPolicy::OnRequest);
        thread.prompt("go");
        let request = thread.asked().await;
        assert!(!request.confined && matches!(request.action, ApprovalAction::UserInput { .. }));
        decide(&thread.thread, request.id, decision).unwrap();
        let result = thread.ended().await;
        assert_eq!((result.status, result.denials.is_empty()), (TurnStatus::Completed, !denied));
        assert!(bench.outputs()[0].contains(expected), "{:?}", bench.outputs());
    }
}

#[tokio::test]
async fn who_wants_never_to_be_asked_is_not_asked_anything_and_words_are_no_permission() {
    let bench = Bench::new(vec![Say::Calls(vec![which_database()])]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("go");
    assert_eq!(thread.ended().await.denials[0].reason, DenialReason::NotAskable);

    let bench = asking(vec![Say::Calls(vec![exec("echo hi")])]);
    let mut thread = bench.thread(ApprovalPolicy::Untrusted);
    thread.prompt("go");
    let request = thread.asked().await;
    decide(&thread.thread, request.id, Decision::Answer([("decision".to_owned(), "approve".to_owned())].into()))
        .unwrap();
    assert_eq!(thread.ended().await.denials[0].reason, DenialReason::Error);
    assert!(bench.commands().is_empty());
}

#[tokio::test]
async fn no_rule_and_no_person_lets_a_command_reach_a_network_that_is_refused() {
    let outside = r#"{"cmd": "echo out", "sandbox_permissions": "require_escalated"}"#;
    let bench = Bench::with(vec![Say::Calls(vec![("exec_command", outside.to_owned())])], |config| {
        config.ceiling.limit_sandbox(openoxide_sandbox::SandboxMode::WorkspaceWrite, "--max-sandbox");
        config.ceiling.refuse_host_network("the listener has no token", &config.workspace_write).unwrap();
        config.rules =
            [CommandRule { leaves_sandbox: true, ..CommandRule::new(&["echo", "out"], RuleDecision::Allow) }].into();
    });
    let mut thread = bench.thread(ApprovalPolicy::OnRequest);
    thread.prompt("go");
    let result = thread.ended().await;
    assert_eq!(result.denials.len(), 1, "{result:?}");
    assert!(bench.outputs()[0].contains("the listener has no token"), "{:?}", bench.outputs());
    // Whatever was judged before, nothing that reaches the network is started.
    let spec = openoxide_sandbox::CommandSpec {
        argv: vec!["echo out".to_owned()],
        cwd: bench.cwd().into(),
        env: Default::default(),
        tty: false,
        policy: openoxide_sandbox::SandboxPolicy::full_access(),
        git_from: Vec::new(),
        output_limit: 100,
        thread_marker: None,
    };
    let refused = thread.thread.core.runner.spawn(spec).await.err().unwrap();
    assert!(refused.contains("the listener has no token"), "{refused}");
    assert!(bench.commands().is_empty());
}

/// A command in the directory `build`.
fn in_build(steps: usize) -> Bench {
    let call = || ("exec_command", serde_json::json!({ "cmd": "make", "workdir": "build" }).to_string());
    let steps = (0..steps).flat_map(|_| [Say::Calls(vec![call()]), Say::Text("done")]).collect();
    let bench = Bench::new(steps);
    for name in ["one", "two"] {
        std::fs::create_dir(bench.cwd().join(name)).unwrap();
    }
    std::os::unix::fs::symlink("one", bench.cwd().join("build")).unwrap();
    bench
}

fn directory(request: &crate::ApprovalRequest) -> &std::path::Path {
    let ApprovalAction::Command { cwd, .. } = &request.action else { panic!("{request:?}") };
    cwd
}

#[tokio::test]
async fn where_a_link_leads_is_asked_and_remembered_and_not_the_link() {
    let bench = in_build(2);
    let mut thread = bench.thread(ApprovalPolicy::Untrusted);
    thread.prompt("go");
    let request = thread.asked().await;
    assert_eq!(directory(&request), bench.cwd().join("one"));
    decide(&thread.thread, request.id, Decision::ApproveForThread).unwrap();
    thread.ended().await;
    std::fs::remove_file(bench.cwd().join("build")).unwrap();
    std::os::unix::fs::symlink("two", bench.cwd().join("build")).unwrap();
    thread.prompt("go");
    let request = thread.asked().await;
    assert_eq!(directory(&request), bench.cwd().join("two"));
    decide(&thread.thread, request.id, deny(DenialReason::Declined)).unwrap();
    thread.ended().await;
    assert_eq!(bench.commands(), ["spawn make"]);
}

#[tokio::test]
async fn a_directory_that_is_exchanged_while_it_is_asked_about_is_not_entered() {
    let bench = in_build(1);
    let mut thread = bench.thread(ApprovalPolicy::Untrusted);
    thread.prompt("go");
    let request = thread.asked().await;
    std::fs::remove_dir(bench.cwd().join("one")).unwrap();
    std::os::unix::fs::symlink("two", bench.cwd().join("one")).unwrap();
    decide(&thread.thread, request.id, Decision::Approve).unwrap();
    thread.ended().await;
    assert!(bench.commands().is_empty(), "{:?}", bench.commands());
    assert!(bench.outputs()[0].contains("leads elsewhere"), "{:?}", bench.outputs());
}
