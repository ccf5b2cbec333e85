//! Threads that come back from their rollouts, and threads that leave memory.

use std::sync::Arc;
use std::time::Duration;

use super::support::*;
use crate::Decider;
use crate::{ApprovalPolicy, CoreError, Decision, Entrance, Op, ThreadConfig, ThreadManager, TurnStatus};

/// Another manager over the same home, as after a restart.
fn restarted(bench: &Bench) -> Arc<ThreadManager> {
    ThreadManager::with_runner(bench.manager.config().clone(), Arc::clone(&bench.runner) as _)
}

fn kept(steps: Vec<Say>) -> (Bench, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let bench = Bench::with(steps, |config| config.home = Some(home.path().to_path_buf()));
    (bench, home)
}

#[tokio::test(start_paused = true)]
async fn what_was_approved_for_a_thread_is_approved_after_a_restart() {
    let (bench, _home) =
        kept(vec![Say::Calls(vec![exec("later 1")]), Say::Text("done"), Say::Calls(vec![exec("later 1")])]);
    let mut thread = bench.thread(ApprovalPolicy::Untrusted);
    thread.prompt("begin");
    let request = thread.asked().await;
    thread
        .thread
        .submit(Op::Approval { id: request.id, decision: Decision::ApproveForThread, by: Decider::Client(None) })
        .unwrap();
    let first = thread.ended().await;
    let id = thread.thread.id();
    bench.manager.shutdown().await;
    drop(thread);

    let manager = restarted(&bench);
    let Entrance::Line(ticket) = manager.enter(id) else { panic!("it is not in memory") };
    let mut thread = Watched::new(ticket.open().await.0.unwrap());
    assert_eq!(thread.thread.result_of(first.turn_id).unwrap().content, "done");
    assert_eq!(thread.thread.config().approval_policy, ApprovalPolicy::Untrusted);
    thread.prompt("again");
    let second = thread.ended().await;
    assert_eq!(second.status, TurnStatus::Completed, "nobody was asked: {second:?}");
    assert_eq!(second.thread_usage.input_tokens, first.usage.input_tokens + second.usage.input_tokens);
    let history = thread.history();
    assert_eq!(history.iter().filter(|line| line.as_str() == "<environment_context>").count(), 1, "{history:?}");
}

#[tokio::test]
async fn a_turn_without_an_end_is_closed_when_its_thread_is_loaded() {
    let (bench, _home) = kept(vec![Say::Hang(vec!["half"])]);
    let thread = bench.thread(ApprovalPolicy::Never);
    let turn = thread.prompt("begin");
    bench.model.asked.notified().await;
    let id = thread.thread.id();
    // A copy of the file is what a crash would have left.
    let store = crate::JsonlStore::new(bench.manager.config().home.as_deref().unwrap());
    let fork = crate::fork_rollout(&store, id, None).unwrap();
    assert!(matches!(restarted(&bench).get_or_load(id), Err(CoreError::ThreadBusy { .. })));

    let manager = restarted(&bench);
    let mut loaded = Watched::new(manager.get_or_load(fork).unwrap());
    let last = loaded.thread.attach().snapshot.last.unwrap();
    assert_eq!((last.turn_id, last.status), (turn, TurnStatus::Interrupted));
    assert_eq!(loaded.history().last().unwrap(), "<turn_interrupted>");
    loaded.prompt("go on");
    assert_eq!(loaded.ended().await.status, TurnStatus::Completed);
    assert!(matches!(crate::fork_rollout(&store, id, Some(crate::TurnId::new())), Err(CoreError::TurnNotFound { .. })));
}

#[tokio::test(start_paused = true)]
async fn idle_threads_leave_memory_and_come_back() {
    let (bench, _home) = kept(vec![]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("one");
    thread.ended().await;
    let id = thread.thread.id();
    drop(thread);
    tokio::time::sleep(Duration::from_secs(20 * 60)).await;
    assert!(bench.manager.in_memory(id).is_some(), "not yet");
    tokio::time::sleep(Duration::from_secs(20 * 60)).await;
    assert!(bench.manager.in_memory(id).is_none());
    let Entrance::Line(ticket) = bench.manager.enter(id) else { panic!("it is not in memory") };
    let (thread, _pass) = ticket.open().await;
    let mut thread = Watched::new(thread.unwrap());
    thread.prompt("two");
    assert_eq!(thread.ended().await.content, "re: two");
    assert_eq!(thread.history().iter().filter(|line| line.starts_with("User: ")).count(), 2);
}

#[tokio::test]
async fn a_thread_that_is_kept_in_memory_alone_never_leaves_it() {
    let bench = Bench::with(vec![], |config| config.limits.idle_thread = Some(Duration::ZERO));
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("one");
    thread.ended().await;
    assert!(!thread.thread.is_idle_since(Duration::ZERO));
    assert!(matches!(bench.manager.get_or_load(crate::ThreadId::new()), Err(CoreError::ThreadNotFound { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_nobody_follows_ends_in_time() {
    let bench = Bench::with(vec![Say::Hang(vec!["half"])], |config| {
        config.limits.abandoned_turn = Some(Duration::from_secs(100));
    });
    let thread = bench.thread(ApprovalPolicy::Never);
    let turn = thread.prompt("begin");
    // While somebody follows it, it goes on.
    tokio::time::sleep(Duration::from_secs(500)).await;
    let Watched { thread, events } = thread;
    assert!(thread.result_of(turn).is_none());
    drop(events);
    tokio::time::sleep(Duration::from_secs(150)).await;
    assert_eq!(thread.result_of(turn).unwrap().status, TurnStatus::Interrupted);
}

#[tokio::test]
async fn idle_threads_make_room_for_new_ones() {
    let home = tempfile::tempdir().unwrap();
    let bench = Bench::with(vec![], |config| {
        config.home = Some(home.path().to_path_buf());
        config.limits.max_threads = 2;
    });
    for _ in 0..4 {
        let mut thread = bench.thread(ApprovalPolicy::Never);
        thread.prompt("one");
        thread.ended().await;
    }
    let held = [bench.thread(ApprovalPolicy::Never), bench.thread(ApprovalPolicy::Never)];
    let config = bench.manager.config().thread_defaults();
    assert!(matches!(bench.manager.start_thread(config), Err(CoreError::TooManyThreads { max: 2 })));
    drop(held);
}

#[tokio::test]
async fn so_many_turns_run_at_once_and_a_place_is_free_again() {
    let bench = Bench::with(vec![Say::Hang(vec![])], |config| config.limits.max_open_turns = 1);
    let mut busy = bench.thread(ApprovalPolicy::Never);
    let mut other = bench.thread(ApprovalPolicy::Never);
    busy.prompt("one");
    busy.prompt("waits behind it");
    let refused = other.thread.submit(Op::UserInput { text: "two".into() });
    assert!(matches!(refused, Err(CoreError::TooManyTurns { .. })));
    bench.model.asked.notified().await;
    busy.thread.submit(Op::Interrupt { turn_id: None }).unwrap();
    busy.ended().await;
    assert_eq!(busy.ended().await.content, "re: waits behind it");
    other.prompt("two");
    assert_eq!(other.ended().await.content, "re: two");
}

fn owned(bench: &Bench, owner: &str) -> Watched {
    let defaults = bench.manager.config().thread_defaults();
    let config = ThreadConfig { owner: Some(owner.into()), approval_policy: ApprovalPolicy::Never, ..defaults };
    Watched::new(bench.manager.start_thread(config).unwrap())
}

#[tokio::test]
async fn one_owner_leaves_turns_to_the_others() {
    let hang = || Say::Hang(vec![]);
    let bench = Bench::with(vec![hang(), hang()], |config| {
        (config.limits.max_open_turns, config.limits.owners, config.limits.share_percent) = (4, 2, 50);
    });
    let busy = [owned(&bench, "ada"), owned(&bench, "ada")];
    for thread in &busy {
        thread.prompt("go on and on");
        bench.model.asked.notified().await;
    }
    let refused = owned(&bench, "ada").thread.submit(Op::UserInput { text: "more".into() }).unwrap_err();
    assert_eq!(refused.to_string(), "as many turns run at this moment as one caller may have beside others (2)");
    let mut other = owned(&bench, "bob");
    other.prompt("hello");
    assert_eq!(other.ended().await.content, "re: hello");
}

#[tokio::test]
async fn one_owner_leaves_room_for_the_prompts_of_the_others_and_ended_turns_give_theirs_back() {
    let bench = Bench::with(vec![Say::Hang(vec![])], |config| {
        (config.limits.max_open_prompt_bytes, config.limits.owners, config.limits.share_percent) = (100, 2, 50);
    });
    let mut busy = owned(&bench, "ada");
    let submit = |thread: &Watched, op| thread.thread.submit(op).map(drop).map_err(|error| error.to_string());
    let text = |bytes: usize| "x".repeat(bytes);
    submit(&busy, Op::UserInput { text: text(20) }).unwrap();
    bench.model.asked.notified().await;
    submit(&busy, Op::UserInput { text: text(20) }).unwrap();
    submit(&busy, Op::Steer { text: text(10) }).unwrap();
    for op in [Op::Steer { text: text(1) }, Op::UserInput { text: text(1) }] {
        let refused = submit(&busy, op).unwrap_err();
        assert!(refused.contains("bytes as one caller may have beside others (50)"), "{refused}");
    }
    let mut other = owned(&bench, "bob");
    submit(&other, Op::UserInput { text: text(50) }).unwrap();
    other.ended().await;
    submit(&busy, Op::Interrupt { turn_id: None }).unwrap();
    busy.ended().await;
    busy.ended().await;
    submit(&busy, Op::UserInput { text: text(50) }).unwrap();
}
