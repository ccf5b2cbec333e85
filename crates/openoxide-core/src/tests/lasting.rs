//! Threads that come back from their rollouts, and threads that leave memory.

use std::sync::Arc;
use std::time::Duration;

use super::support::*;
use crate::Decider;
use crate::{ApprovalPolicy, CoreError, Decision, Entrance, Interruption, Op, ThreadManager, TurnStatus};

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
    bench.manager.shutdown(&Interruption::ServerStopped).await;
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
async fn after_the_end_has_begun_nothing_is_taken_and_what_ran_says_why_it_ended() {
    let (bench, _home) = kept(vec![Say::Text("one"), Say::Hang(vec!["half"])]);
    let mut idle = bench.thread(ApprovalPolicy::Never);
    idle.prompt("begin");
    idle.ended().await;
    let mut busy = bench.thread(ApprovalPolicy::Never);
    busy.prompt("begin");
    bench.model.asked.notified().await;
    // Closed by a caller a moment ago: its turn is still awaited, though the thread is not in memory any more.
    busy.thread.submit(Op::Shutdown).unwrap();
    let id = idle.thread.id();
    bench.manager.shutdown(&Interruption::InputEnded).await;
    let ended = busy.ended().await;
    assert_eq!(ended.content, Interruption::ThreadClosed.sentence(), "the first reason counts");
    let refused = [
        bench.manager.start_thread(bench.manager.config().thread_defaults()).map(drop),
        bench.manager.get_or_load(id).map(drop),
        idle.thread.submit(Op::UserInput { text: "more".into() }).map(drop),
    ];
    assert!(refused.iter().all(|result| matches!(result, Err(CoreError::Ending))), "{refused:?}");
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
    assert!(matches!(refused, Err(CoreError::TooManyTurns { max: 1 })));
    bench.model.asked.notified().await;
    busy.thread.submit(Op::Interrupt { turn_id: None, why: Interruption::Asked }).unwrap();
    busy.ended().await;
    assert_eq!(busy.ended().await.content, "re: waits behind it");
    other.prompt("two");
    assert_eq!(other.ended().await.content, "re: two");
}
