//! Threads that come back from their rollouts, and threads that leave memory.

use std::sync::Arc;
use std::time::Duration;

use openoxide_llm::{HistoryItem, ModelEvent, Role, Usage};

use super::support::*;
use crate::Decider;
use crate::turn::TurnHost as _;
use crate::{
    ApprovalPolicy, CoreError, Decision, Exceeded, Interruption, Op, ThreadAccess, ThreadConfig, ThreadManager,
    TurnStatus,
};

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
    let ThreadAccess::Queued(ticket) = manager.enter(id) else { panic!("it is not in memory") };
    let mut thread = Watched::new(ticket.open(Duration::ZERO).await.0.unwrap());
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
    let fork = crate::fork_rollout(&store, id, None, None).unwrap();
    assert!(matches!(restarted(&bench).get_or_load(id), Err(CoreError::ThreadBusy { .. })));

    let manager = restarted(&bench);
    let mut loaded = Watched::new(manager.get_or_load(fork).unwrap());
    let last = loaded.thread.attach().snapshot.last.unwrap();
    assert_eq!((last.turn_id, last.status), (turn, TurnStatus::Interrupted));
    assert_eq!(loaded.history().last().unwrap(), "<turn_interrupted>");
    loaded.prompt("go on");
    assert_eq!(loaded.ended().await.status, TurnStatus::Completed);
    assert!(matches!(
        crate::fork_rollout(&store, id, Some(crate::TurnId::new()), None),
        Err(CoreError::TurnNotFound { .. })
    ));
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
    let ThreadAccess::Queued(ticket) = bench.manager.enter(id) else { panic!("it is not in memory") };
    let (thread, _pass) = ticket.open(Duration::ZERO).await;
    let mut thread = Watched::new(thread.unwrap());
    thread.prompt("two");
    assert_eq!(thread.ended().await.content, "re: two");
    assert_eq!(thread.history().iter().filter(|line| line.starts_with("User: ")).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_thread_that_is_kept_in_memory_alone_expires_and_its_commands_end() {
    let calls = vec![("exec_command", r#"{"cmd":"sleep","yield_time_ms":250}"#.to_owned())];
    let bench = Bench::with(vec![Say::Calls(calls), Say::Text("left")], |config| {
        config.limits.idle_thread = Some(Duration::from_secs(60));
    });
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("one");
    thread.ended().await;
    let id = thread.thread.id();
    let sessions = Arc::downgrade(&thread.thread.commands);
    drop(thread);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(sessions.upgrade().is_none(), "the commands end with their registry");
    let error = bench.manager.get_or_load(id).err().unwrap();
    assert!(matches!(error, CoreError::ThreadExpired { .. }), "{error}");
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
    assert!(matches!(
        bench.manager.start_thread(config),
        Err(CoreError::TooManyThreads { exceeded: Exceeded::Limit(2) })
    ));
    drop(held);
}

#[tokio::test]
async fn at_the_bound_queries_go_first_then_the_thread_idle_longest_and_what_is_in_use_stays() {
    let calls = vec![("exec_command", r#"{"cmd":"sleep","yield_time_ms":250}"#.to_owned())];
    let bench = Bench::with(vec![Say::Calls(calls), Say::Text("left")], |config| config.limits.max_threads = 4);
    let mut in_use = bench.thread(ApprovalPolicy::Never);
    in_use.prompt("leave a command behind");
    in_use.ended().await;
    let in_use = in_use.thread.id();
    let run = async |is_query: bool| {
        let config = ThreadConfig { read_only_tools: is_query, ..bench.manager.config().thread_defaults() };
        let mut thread = Watched::new(bench.manager.start_thread(config).unwrap());
        thread.prompt("one");
        thread.ended().await;
        thread.thread.id()
    };
    let (old, middle, query) = (run(false).await, run(false).await, run(true).await);
    let here = |id| bench.manager.in_memory(id).is_some();
    let one_more = run(false).await;
    assert!(!here(query) && here(old) && here(middle) && here(in_use), "a query has its answer");
    assert!(matches!(bench.manager.get_or_load(query), Err(CoreError::ThreadExpired { .. })));
    let two_more = run(false).await;
    assert!(!here(old) && here(middle) && here(in_use) && here(one_more) && here(two_more));
    // A background command is use, and so is somebody who holds the thread.
    let held: Vec<_> = [middle, one_more, two_more].into_iter().filter_map(|id| bench.manager.in_memory(id)).collect();
    let config = bench.manager.config().thread_defaults();
    assert!(matches!(
        bench.manager.start_thread(config),
        Err(CoreError::TooManyThreads { exceeded: Exceeded::Limit(4) })
    ));
    drop(held);
}

#[tokio::test]
async fn a_thread_whose_only_call_was_cancelled_leaves_memory_and_can_be_loaded() {
    let (bench, _home) = kept(vec![Say::Hang(vec!["half"]), Say::Text("two"), Say::Hang(vec![])]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    let turn = thread.prompt("begin");
    bench.model.asked.notified().await;
    thread.thread.submit(Op::Abandon { turn_id: turn, why: crate::Interruption::Cancelled }).unwrap();
    assert_eq!(thread.ended().await.status, TurnStatus::Interrupted);
    let id = thread.thread.id();
    assert!(bench.manager.in_memory(id).is_none());
    let mut thread = Watched::new(bench.manager.get_or_load(id).unwrap());
    thread.prompt("two");
    thread.ended().await;
    // One with a turn that somebody has the result of stays.
    let turn = thread.prompt("three");
    bench.model.asked.notified().await;
    bench.model.asked.notified().await;
    thread.thread.submit(Op::Abandon { turn_id: turn, why: crate::Interruption::Cancelled }).unwrap();
    thread.ended().await;
    assert!(bench.manager.in_memory(id).is_some());
}

/// A message and what the response has cost.
fn said(text: &str, tokens: u64) -> Say {
    Say::Events(vec![
        ModelEvent::ItemDone(HistoryItem::Message { role: Role::Assistant, text: text.to_owned(), carried: None }),
        ModelEvent::Completed { usage: Usage { input_tokens: tokens, ..Usage::default() } },
    ])
}

#[tokio::test]
async fn loading_reads_back_to_the_last_summary_and_no_further() {
    let home = tempfile::tempdir().unwrap();
    let steps = vec![
        Say::Calls(vec![exec("later 0")]),
        said("first answer", 100),
        said("the summary", 5),
        said("second answer", 10),
        said("third answer", 10),
    ];
    let bench = Bench::with(steps, |config| {
        config.auto_compact_token_limit = Some(100);
        config.home = Some(home.path().to_path_buf());
    });
    let mut thread = bench.thread(ApprovalPolicy::Untrusted);
    thread.prompt("one");
    let request = thread.asked().await;
    let approval = Op::Approval { id: request.id, decision: Decision::ApproveForThread, by: Decider::Client(None) };
    thread.thread.submit(approval).unwrap();
    let mut ends = vec![thread.ended().await];
    for prompt in ["two", "three"] {
        thread.prompt(prompt);
        ends.push(thread.ended().await);
    }
    let (id, history) = (thread.thread.id(), thread.history());
    assert!(history.contains(&"<compacted_conversation>".to_owned()), "{history:?}");
    // What stands before the summary cannot be read any more, but for the first line.
    let store = crate::JsonlStore::new(home.path());
    let path = store.path_of(id).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let summary = lines.iter().position(|line| line.contains("\"compacted\"")).unwrap();
    let spoiled: Vec<String> = lines
        .iter()
        .enumerate()
        .map(|(at, line)| match at {
            0 => (*line).to_owned(),
            at if at < summary - 1 => "x".repeat(line.len()),
            _ => (*line).to_owned(),
        })
        .collect();
    std::fs::write(&path, spoiled.join("\n") + "\n").unwrap();
    let mut config = bench.manager.config().clone();
    config.limits.max_load_bytes = (text.len() - spoiled[..summary - 1].join("\n").len()) as u64;
    let manager = ThreadManager::with_runner(config.clone(), Arc::clone(&bench.runner) as _);
    let mut loaded = Watched::new(manager.get_or_load(id).unwrap());
    assert_eq!(loaded.history(), history);
    for end in &ends {
        let kept = loaded.thread.result_of(end.turn_id).unwrap();
        assert_eq!((&kept.content, kept.thread_usage), (&end.content, end.thread_usage));
    }
    bench.model.say(vec![Say::Calls(vec![exec("later 0")]), Say::Text("not asked")]);
    loaded.prompt("four");
    let end = loaded.ended().await;
    assert_eq!((end.content.as_str(), end.warnings.len()), ("not asked", 0), "what was approved is approved");

    // A little less may be read, and nothing can be left out: refused, with a way out.
    config.limits.max_load_bytes = 100;
    let manager = ThreadManager::with_runner(config, Arc::clone(&bench.runner) as _);
    let error = manager.get_or_load(id).err().unwrap();
    assert!(matches!(error, CoreError::ThreadTooLarge { max: 100, .. }), "{error}");
    assert!(error.to_string().contains("history.max_load_bytes") && error.hint().unwrap().contains("--turn"));
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
    busy.thread.submit(Op::Interrupt { turn_id: None, why: Interruption::Asked }).unwrap();
    busy.ended().await;
    assert_eq!(busy.ended().await.content, "re: waits behind it");
    other.prompt("two");
    assert_eq!(other.ended().await.content, "re: two");
}

#[tokio::test]
async fn a_loaded_thread_refuses_a_link_in_its_path_and_tells_the_model_of_a_directory_made_anew() {
    let (bench, _home) = kept(vec![Say::Text("one"), Say::Text("two")]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("begin");
    thread.ended().await;
    let (id, cwd) = (thread.thread.id(), thread.thread.config().cwd.clone());
    bench.manager.shutdown(&crate::Interruption::ServerStopped).await;
    drop(thread);

    let away = cwd.with_file_name("away");
    std::fs::rename(&cwd, &away).unwrap();
    std::os::unix::fs::symlink(&away, &cwd).unwrap();
    let error = restarted(&bench).get_or_load(id).err().expect("a link is refused");
    assert!(matches!(error, CoreError::DirectoryChanged { .. }), "{error}");
    assert!(error.hint().unwrap().contains("threads fork ID --cwd DIR"));

    let store = crate::JsonlStore::new(bench.manager.config().home.as_deref().unwrap());
    let fork = |cwd, host_paths| crate::fork_rollout(&store, id, None, Some((cwd, host_paths)));
    let own = openoxide_sandbox::HostPaths { state: Some(cwd.clone()), ..Default::default() };
    let refused = fork(&cwd, &own).unwrap_err();
    assert!(matches!(refused, CoreError::CwdHidden { .. }), "{refused}");
    let fork = fork(&cwd, &Default::default()).unwrap();
    let forked = Watched::new(restarted(&bench).get_or_load(fork).unwrap());
    assert_eq!(forked.thread.config().cwd, away, "where the link leads, once and for all");
    assert!(forked.history().last().unwrap().starts_with("<directory_changed>"));
    drop(forked);

    std::fs::remove_file(&cwd).unwrap();
    std::fs::create_dir(&cwd).unwrap();
    let mut loaded = Watched::new(restarted(&bench).get_or_load(id).unwrap());
    loaded.prompt("go on");
    assert_eq!(loaded.ended().await.status, TurnStatus::Completed);
    let told = |lines: Vec<String>| lines.iter().filter(|line| line.starts_with("<directory_remade>")).count();
    assert_eq!(told(loaded.history()), 1);
    loaded.prompt("and on");
    loaded.ended().await;
    assert_eq!(told(loaded.history()), 1, "once");
}

#[tokio::test]
async fn undo_follows_no_link_at_its_root_and_gives_permissions_back() {
    use std::os::unix::fs::PermissionsExt as _;
    let delete = "*** Begin Patch\n*** Delete File: key\n*** End Patch";
    let (bench, _home) = kept(vec![Say::Calls(vec![("apply_patch", delete.into())]), Say::Text("done")]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    let cwd = thread.thread.config().cwd.clone();
    std::fs::write(cwd.join("key"), "mine\n").unwrap();
    std::fs::set_permissions(cwd.join("key"), std::fs::Permissions::from_mode(0o640)).unwrap();
    thread.prompt("begin");
    thread.ended().await;
    assert!(!cwd.join("key").exists());
    let id = thread.thread.id();
    bench.manager.shutdown(&crate::Interruption::ServerStopped).await;
    drop(thread);
    // It waits for the lock that the last of the first manager's work still has.
    drop(restarted(&bench).get_or_load(id).unwrap());

    let store = crate::JsonlStore::new(bench.manager.config().home.as_deref().unwrap());
    let (away, victim) = (cwd.with_file_name("away"), cwd.with_file_name("victim"));
    std::fs::rename(&cwd, &away).unwrap();
    std::fs::create_dir(&victim).unwrap();
    std::os::unix::fs::symlink(&victim, &cwd).unwrap();
    let error = crate::undo_turn(&store, id, None, false).unwrap_err();
    assert!(matches!(error, CoreError::DirectoryChanged { .. }), "{error}");
    assert!(!victim.join("key").exists());

    std::fs::remove_file(&cwd).unwrap();
    std::fs::rename(&away, &cwd).unwrap();
    let undone = crate::undo_turn(&store, id, None, false).unwrap();
    assert_eq!((undone.restored, undone.left), (vec![cwd.join("key")], Vec::new()));
    assert_eq!(std::fs::metadata(cwd.join("key")).unwrap().permissions().mode() & 0o777, 0o640);
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
async fn many_greedy_owners_together_leave_turns_and_threads_to_one_that_has_few() {
    let bench = Bench::with((0..20).map(|_| Say::Hang(vec![])).collect(), |config| {
        (config.limits.max_open_turns, config.limits.max_threads, config.limits.owners) = (20, 40, 5);
    });
    let mut busy = Vec::new();
    let mut refused = Vec::new();
    for at in 0..40 {
        let thread = owned(&bench, ["ada", "eve", "ivo", "ute"][at % 4]);
        match thread.thread.submit(Op::UserInput { text: "go on and on".into() }) {
            Ok(_) => busy.push(thread),
            Err(error) => refused.push(error.to_string()),
        }
    }
    assert_eq!(busy.len(), 18, "two are kept for the fifth");
    assert!(refused.iter().all(|why| why.starts_with("as many turns run at this moment as one caller may have")));
    let more = |owner: &str| {
        let config = ThreadConfig { owner: Some(owner.into()), ..bench.manager.config().thread_defaults() };
        bench.manager.start_thread(config).map(Watched::new)
    };
    let idle: Vec<_> = (0..40).filter_map(|at| more(["ada", "eve", "ivo", "ute"][at % 4]).ok()).collect();
    assert_eq!(busy.len() + idle.len(), 36, "four threads are kept for the fifth");
    assert!(matches!(more("ada"), Err(CoreError::TooManyThreads { .. })));
    let fifth: Vec<_> = (0..4).map(|_| more("bob").expect("what is kept for it")).collect();
    for thread in &fifth[..2] {
        thread.thread.submit(Op::UserInput { text: "hello".into() }).unwrap();
    }
}

#[tokio::test]
async fn at_the_bound_an_idle_thread_of_whoever_has_most_goes() {
    let bench = Bench::with(vec![], |config| {
        (config.limits.max_threads, config.limits.owners, config.limits.share_percent) = (8, 2, 100);
    });
    let one = async |owner: &str| {
        let mut thread = owned(&bench, owner);
        thread.prompt("one");
        thread.ended().await;
        thread.thread.id()
    };
    let bob = one("bob").await;
    let mut ada = Vec::new();
    for _ in 0..7 {
        ada.push(one("ada").await);
    }
    let here = |id: &crate::ThreadId| bench.manager.in_memory(*id).is_some();
    assert!(here(&bob), "six are all that one may have, and its own oldest goes");
    assert_eq!(ada.iter().filter(|id| here(id)).count(), 6);
    for _ in 0..2 {
        one("bob").await;
    }
    assert!(here(&bob), "another has more");
    assert_eq!(ada.iter().filter(|id| here(id)).count(), 5);
}

#[tokio::test]
async fn long_histories_leave_memory_and_those_of_others_stay() {
    let home = tempfile::tempdir().unwrap();
    let bench = Bench::with(vec![], |config| {
        config.home = Some(home.path().to_path_buf());
        (config.limits.max_history_bytes, config.limits.owners, config.limits.share_percent) = (400_000, 2, 50);
    });
    let one = async |owner: &str, bytes: usize| {
        let mut thread = owned(&bench, owner);
        thread.prompt(&"x".repeat(bytes));
        thread.ended().await;
        thread.thread.id()
    };
    let bob = one("bob", 10_000).await;
    let mut ada = Vec::new();
    for _ in 0..6 {
        // The scripted model repeats it.
        ada.push(one("ada", 30_000).await);
    }
    // What ended last may be counted a moment after it was told.
    let here = |id: &crate::ThreadId| bench.manager.in_memory(*id).is_some();
    while ada.iter().filter(|id| here(id)).count() > 3 {
        tokio::task::yield_now().await;
    }
    assert!(here(&bob) && here(&ada[5]) && !here(&ada[0]));
    let again = bench.manager.get_or_load(ada[0]).unwrap();
    assert!(again.history().len() > 1, "it is on disk");
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
    submit(&busy, Op::Interrupt { turn_id: None, why: crate::Interruption::Asked }).unwrap();
    busy.ended().await;
    busy.ended().await;
    submit(&busy, Op::UserInput { text: text(50) }).unwrap();
}
