//! Commands: parallel, in the background, interrupted, and gone with their thread.

use super::support::*;
use crate::Decider;
use crate::{ApprovalPolicy, Decision, Event, ItemStatus, Op, TurnItemKind, TurnStatus};

#[tokio::test(start_paused = true)]
async fn commands_of_one_response_run_side_by_side() {
    let bench = Bench::new(vec![Say::Calls(vec![exec("later 3"), exec("later 3"), exec("later 3")])]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("go");
    let result = thread.ended().await;
    assert!((3000..4000).contains(&result.duration_ms), "{result:?}");
    assert_eq!(bench.outputs().len(), 3);
}

#[tokio::test]
async fn output_is_streamed_and_the_completed_item_has_it_all() {
    let bench = Bench::new(vec![Say::Calls(vec![exec("echo hi")])]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("go");
    let mut streamed = String::new();
    loop {
        match thread.next().await {
            Event::ItemDelta { delta, .. } => streamed.push_str(&delta),
            Event::ItemCompleted { item, .. } => {
                let TurnItemKind::Command { output, exit_code, status, .. } = &item.kind else { continue };
                assert_eq!((output.as_str(), *exit_code, *status), ("hi\n", Some(0), ItemStatus::Completed));
                break;
            }
            _ => {}
        }
    }
    assert_eq!(streamed, "hi\n");
}

#[tokio::test]
async fn a_failed_command_and_one_that_cannot_start_are_told_to_the_model() {
    let bench = Bench::new(vec![Say::Calls(vec![exec("fail"), exec("unstartable")])]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("go");
    assert_eq!(thread.ended().await.status, TurnStatus::Completed);
    let outputs = bench.outputs();
    assert!(outputs.iter().any(|output| output.starts_with("exit code: 3\n")), "{outputs:?}");
    assert!(outputs.contains(&"The command could not be started: no such thing.".to_owned()), "{outputs:?}");
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_command_is_told_to_end_at_once_and_is_gone_before_the_end_is_announced() {
    let bench = Bench::new(vec![Say::Calls(vec![exec("stubborn")])]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("go");
    bench.runner.spawned.notified().await;
    let began = tokio::time::Instant::now();
    thread.thread.submit(Op::Interrupt { turn_id: None, why: crate::Interruption::Asked }).unwrap();
    assert_eq!(thread.ended().await.status, TurnStatus::Interrupted);
    assert_eq!(began.elapsed().as_millis(), 2000, "it was killed after its two seconds");
    assert_eq!(bench.commands(), ["spawn stubborn", "term stubborn", "gone stubborn"]);
    thread.prompt("next");
    assert_eq!(thread.ended().await.content, "re: next");
}

#[tokio::test(start_paused = true)]
async fn a_long_command_goes_on_in_the_background_until_its_thread_closes() {
    let stdin = |text: &str| {
        ("write_stdin", serde_json::json!({ "session_id": 1, "chars": text, "yield_time_ms": 300 }).to_string())
    };
    let sleep = ("exec_command", r#"{"cmd": "sleep", "tty": true, "yield_time_ms": 300}"#.to_owned());
    let bench = Bench::new(vec![
        Say::Calls(vec![sleep]),
        Say::Text("left it"),
        Say::Calls(vec![stdin("x\n")]),
        Say::Calls(vec![("write_stdin", r#"{"session_id": 9}"#.to_owned())]),
        Say::Text("ok"),
    ]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("start it");
    assert_eq!(thread.ended().await.content, "left it");
    assert!(bench.outputs()[0].starts_with("still running, session_id: 1\n"), "{:?}", bench.outputs());
    thread.prompt("type");
    thread.ended().await;
    let outputs = bench.outputs();
    assert!(outputs[1].contains("typed x"), "{outputs:?}");
    assert_eq!(outputs[2], "No command runs under session 9; running: 1.");
    assert_eq!(bench.commands(), ["spawn sleep"], "the end of a turn leaves it running");
    bench.manager.shutdown(&crate::Interruption::ServerStopped).await;
    assert!(bench.commands().contains(&"gone sleep".to_owned()));
}

#[tokio::test]
async fn what_a_command_leaves_behind_ends_with_an_interrupted_turn_or_the_thread() {
    let bench = Bench::new(vec![Say::Calls(vec![exec("daemon")]), Say::Hang(vec![])]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("go");
    bench.model.asked.notified().await;
    bench.model.asked.notified().await;
    assert_eq!(bench.commands(), ["spawn daemon"]);
    thread.thread.submit(Op::Interrupt { turn_id: None, why: crate::Interruption::Asked }).unwrap();
    thread.ended().await;
    assert!(bench.commands().contains(&"term daemon".to_owned()), "{:?}", bench.commands());
}

#[tokio::test(start_paused = true)]
async fn only_so_many_commands_stay_in_the_background() {
    let sleep = || ("exec_command", r#"{"cmd": "sleep", "yield_time_ms": 300}"#.to_owned());
    let bench = Bench::with(vec![Say::Calls(vec![sleep()]), Say::Calls(vec![sleep()])], |config| {
        config.limits.max_background_commands = 1;
    });
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("go");
    thread.ended().await;
    assert!(bench.outputs()[1].contains("session 1 was ended"), "{:?}", bench.outputs());
    assert!(bench.commands().contains(&"term sleep".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn typing_into_a_command_is_asked_and_names_the_command() {
    let sleep = ("exec_command", r#"{"cmd": "sleep", "tty": true, "yield_time_ms": 300}"#.to_owned());
    let typed = |text: &str| ("write_stdin", serde_json::json!({ "session_id": 1, "chars": text }).to_string());
    let bench = Bench::new(vec![
        Say::Calls(vec![sleep]),
        Say::Calls(vec![typed("\u{3}")]),
        Say::Calls(vec![typed("rm -rf x\n")]),
    ]);
    let mut thread = bench.thread(ApprovalPolicy::Untrusted);
    thread.prompt("go");
    let request = thread.asked().await;
    thread
        .thread
        .submit(Op::Approval { id: request.id, decision: Decision::Approve, by: Decider::Client(None) })
        .unwrap();
    let request = thread.asked().await;
    let crate::ApprovalAction::Input { command_id, argv, text, .. } = &request.action else { panic!("{request:?}") };
    assert_eq!((*command_id, text.as_str()), (1, "rm -rf x\n"), "the key that ends it went through unasked");
    assert!(argv.last().is_some_and(|line| line.contains("sleep")), "{argv:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_about_typing_into_a_command_that_does_not_run() {
    let typed = ("write_stdin", serde_json::json!({ "session_id": 1, "chars": "touch x\n" }).to_string());
    let bench = Bench::new(vec![Say::Calls(vec![typed])]);
    let mut thread = bench.thread(ApprovalPolicy::Untrusted);
    thread.prompt("go");
    thread.ended().await;
    assert!(bench.outputs()[0].starts_with("No command runs under session 1"), "{:?}", bench.outputs());
}
