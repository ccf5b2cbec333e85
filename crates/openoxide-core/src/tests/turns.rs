//! Turns: order, steering, interruption, failure, and what is written.

use std::sync::atomic::Ordering;

use openoxide_sandbox::SandboxMode;

use super::support::*;

use crate::{
    ApprovalPolicy, Attachment, CoreError, ErrorKind, Event, JsonlStore, Op, RolloutItem, Submitted, ThreadConfig,
    ThreadId, ThreadStore, TurnStatus,
};

#[tokio::test]
async fn three_replies_at_once_are_answered_each_and_in_order() {
    let bench = Bench::new(vec![]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    let turns = [thread.prompt("one"), thread.prompt("two"), thread.prompt("three")];
    for (turn, answer) in turns.into_iter().zip(["re: one", "re: two", "re: three"]) {
        let result = thread.ended().await;
        assert_eq!((result.turn_id, result.content.as_str()), (turn, answer));
        assert_eq!(result.status, TurnStatus::Completed);
        assert_eq!(thread.thread.result_of(turn).unwrap().content, answer);
    }
    let snapshot = thread.thread.attach().snapshot;
    assert_eq!((snapshot.running, snapshot.last.unwrap().turn_id), (None, turns[2]));
}

#[tokio::test]
async fn the_first_turn_tells_where_it_works_and_later_ones_do_not() {
    let bench = Bench::with(vec![], |config| config.user_instructions = Some("be brief".into()));
    std::fs::write(bench.cwd().join("AGENTS.md"), "use tabs").unwrap();
    let config =
        ThreadConfig { developer_instructions: Some("obey".into()), ..bench.manager.config().thread_defaults() };
    let mut thread = Watched::new(bench.manager.start_thread(config).unwrap());
    thread.prompt("one");
    thread.ended().await;
    thread.prompt("two");
    thread.ended().await;
    let history = thread.history();
    assert_eq!(history[0], "Developer: obey");
    assert!(history[1].contains("be brief") && history[1].contains("use tabs"), "{history:?}");
    assert_eq!(
        history[2..],
        ["<environment_context>", "User: one", "Assistant: re: one", "User: two", "Assistant: re: two"]
    );
}

#[tokio::test]
async fn events_of_a_turn_come_in_order_with_nothing_missed() {
    let bench = Bench::new(vec![Say::Text("hello")]);
    let thread = bench.thread(ApprovalPolicy::Never).thread;
    let (submitted, Attachment { snapshot, mut events, .. }) =
        thread.submit_and_attach(Op::UserInput { text: "hi".into() }).unwrap();
    assert!(matches!(submitted, Submitted::Turn(_)) && snapshot.running.is_none());
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(match &event {
            Event::TurnStarted { .. } => "turn",
            Event::ItemStarted { .. } => "started",
            Event::ItemDelta { .. } => "delta",
            Event::ItemCompleted { .. } => "completed",
            Event::Usage { .. } => "usage",
            Event::TurnEnded { .. } => break,
            other => panic!("unexpected {other:?}"),
        });
    }
    assert_eq!(seen, ["turn", "started", "delta", "completed", "usage"]);
}

#[tokio::test]
async fn steering_reaches_the_running_turn_and_gets_its_result() {
    let bench = Bench::new(vec![Say::Calls(vec![exec("later 5")])]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    tokio::time::pause();
    let turn = thread.prompt("begin");
    bench.runner.spawned.notified().await;
    let steered = thread.thread.submit(Op::Steer { text: "and this".into() }).unwrap();
    assert!(matches!(steered, Submitted::Steered(at, _) if at == turn));
    let regretted = thread.thread.submit(Op::Steer { text: "not this".into() }).unwrap();
    let Submitted::Steered(_, steer) = regretted else { panic!("{regretted:?}") };
    thread.thread.submit(Op::Withdraw { steer }).unwrap();
    let result = thread.ended().await;
    assert_eq!((result.turn_id, result.content.as_str()), (turn, "re: and this"));

    let alone = thread.thread.submit(Op::Steer { text: "alone".into() }).unwrap();
    assert!(matches!(alone, Submitted::Turn(_)));
    assert_eq!(thread.ended().await.content, "re: alone");
}

#[tokio::test]
async fn a_silent_or_streaming_model_is_dropped_when_interrupted() {
    for deltas in [vec![], vec!["he", "llo"]] {
        let bench = Bench::new(vec![Say::Hang(deltas)]);
        let mut thread = bench.thread(ApprovalPolicy::Never);
        thread.prompt("one");
        bench.model.asked.notified().await;
        thread.thread.submit(Op::Interrupt { turn_id: None, why: crate::Interruption::Asked }).unwrap();
        let result = thread.ended().await;
        assert_eq!(result.status, TurnStatus::Interrupted);
        assert_eq!(bench.model.dropped.load(Ordering::SeqCst), 1, "the connection is closed");
        thread.prompt("two");
        assert_eq!(thread.ended().await.content, "re: two");
        assert!(thread.history().contains(&"<turn_interrupted>".to_owned()));
    }
}

#[tokio::test]
async fn a_queued_turn_can_be_withdrawn() {
    let bench = Bench::new(vec![Say::Hang(vec![])]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    let first = thread.prompt("one");
    let second = thread.prompt("two");
    thread.thread.submit(Op::Interrupt { turn_id: Some(second), why: crate::Interruption::Asked }).unwrap();
    let withdrawn = thread.ended().await;
    assert_eq!((withdrawn.turn_id, withdrawn.status), (second, TurnStatus::Interrupted));
    assert_eq!(thread.thread.attach().snapshot.running, Some(first));
    thread.thread.submit(Op::Interrupt { turn_id: Some(second), why: crate::Interruption::Asked }).unwrap();
    assert_eq!(thread.thread.attach().snapshot.running, Some(first), "an ended turn is ended");
}

#[tokio::test]
async fn a_model_error_leaves_the_thread_usable_and_in_step() {
    let cut = openoxide_llm::ModelEvent::TextDelta("cut".into());
    let bench = Bench::new(vec![Say::Fail("no credit"), Say::Events(vec![cut])]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("one");
    let failed = thread.ended().await;
    assert_eq!((failed.status, failed.content.as_str()), (TurnStatus::Failed, "no credit"));
    thread.prompt("two");
    let failed = thread.ended().await;
    assert!(failed.content.contains("ended before it was complete"), "{failed:?}");
    for text in ["three", "four"] {
        thread.prompt(text);
        assert_eq!(thread.ended().await.content, format!("re: {text}"));
    }
}

#[tokio::test]
async fn a_panic_fails_the_turn_and_not_the_thread() {
    let bench = Bench::new(vec![Say::Panic]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("one");
    assert_eq!(thread.ended().await.status, TurnStatus::Failed);
    thread.prompt("two");
    assert_eq!(thread.ended().await.content, "re: two");
}

#[tokio::test]
async fn what_is_announced_is_in_the_rollout_already() {
    let home = tempfile::tempdir().unwrap();
    let bench = Bench::with(vec![Say::Calls(vec![exec("echo hi")]), Say::Text("done")], |config| {
        config.home = Some(home.path().into());
    });
    let mut thread = bench.thread(ApprovalPolicy::Never);
    let store = JsonlStore::new(home.path());
    let id = thread.thread.id();
    assert!(store.load(id).is_err(), "nothing is written before the first turn");
    let turn = thread.prompt("go");
    let first = store.load(id).unwrap();
    assert!(matches!(&first[0].item, RolloutItem::SessionMeta(_)), "whoever is told of the thread finds it");
    let written = |text: &str| {
        let lines = store.load(id).unwrap();
        lines.iter().any(|line| crate::store::text_of(line).contains(text))
    };
    loop {
        match thread.next().await {
            Event::TurnStarted { .. } => assert!(written("turn_context") && written(&turn.to_string())),
            Event::ItemCompleted { item, .. } => match &item.kind {
                crate::TurnItemKind::Message { text } => assert!(written(text)),
                crate::TurnItemKind::Command { .. } => assert!(written("exit code: 0")),
                other => panic!("unexpected {other:?}"),
            },
            Event::TurnEnded { .. } => break,
            _ => {}
        }
    }
    assert!(written("turn_ended"));
    let lines = store.load(id).unwrap();
    assert!(matches!(&lines[0].item, RolloutItem::SessionMeta(meta) if meta.id == id));
    let replayed: Vec<String> = lines
        .iter()
        .filter_map(|line| match &line.item {
            RolloutItem::ResponseItem(item) => Some(short(item)),
            _ => None,
        })
        .collect();
    assert_eq!(replayed, thread.history());
}

#[tokio::test]
async fn a_thread_whose_first_line_cannot_be_written_is_not_announced() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("sessions"), "in the way").unwrap();
    let bench = Bench::with(vec![], |config| config.home = Some(home.path().into()));
    let mut thread = bench.thread(ApprovalPolicy::Never);
    let refused = thread.thread.submit(Op::UserInput { text: "one".into() });
    assert!(matches!(refused, Err(CoreError::Rollout { .. })), "{refused:?}");
    assert!(thread.thread.attach().snapshot.running.is_none() && thread.history().is_empty());
    std::fs::remove_file(home.path().join("sessions")).unwrap();
    thread.prompt("two");
    assert_eq!(thread.ended().await.content, "re: two");
    assert_eq!(thread.history()[0], "<environment_context>");
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused_before_a_thread_exists() {
    let bench = Bench::new(vec![]);
    let start = |change: &dyn Fn(&mut ThreadConfig)| {
        let mut config = bench.manager.config().thread_defaults();
        change(&mut config);
        bench.manager.start_thread(config).err().unwrap()
    };
    bench.runner.refuses.store(true, Ordering::SeqCst);
    let sandbox = start(&|config| config.sandbox = SandboxMode::WorkspaceWrite);
    assert_eq!(sandbox.kind(), ErrorKind::Denied);
    assert!(sandbox.to_string().contains("`workspace-write`") && sandbox.to_string().contains("can hold it"));
    assert!(matches!(start(&|config| config.cwd = "missing".into()), CoreError::CwdUnusable { .. }));
    assert!(matches!(start(&|config| config.cwd = "../work/.git/../x".into()), CoreError::CwdUnusable { .. }));
    std::fs::write(bench.cwd().join("file"), "").unwrap();
    assert!(matches!(start(&|config| config.cwd = "file".into()), CoreError::CwdNotADirectory { .. }));
    assert!(matches!(start(&|config| config.model = " ".into()), CoreError::EmptyModel));
    let unknown = bench.manager.get_or_load(ThreadId::new()).err().unwrap();
    assert!(matches!(unknown, CoreError::ThreadNotFound { .. }) && unknown.hint().is_some());
}

#[tokio::test]
async fn prompts_and_threads_are_bounded() {
    let bench = Bench::with(vec![Say::Hang(vec![])], |config| {
        config.limits.max_queued_turns = 2;
        config.limits.max_prompt_bytes = 10;
        config.limits.max_threads = 1;
    });
    let thread = bench.thread(ApprovalPolicy::Never);
    let submit = |text: &str| thread.thread.submit(Op::UserInput { text: text.into() });
    assert!(matches!(submit(" \n"), Err(CoreError::EmptyPrompt)));
    assert!(matches!(submit("01234567890"), Err(CoreError::PromptTooLong { bytes: 11, max: 10 })));
    for _ in 0..3 {
        submit("x").unwrap();
    }
    assert!(matches!(submit("x"), Err(CoreError::QueueFull { waiting: 2, .. })));
    let second = bench.manager.start_thread(bench.manager.config().thread_defaults());
    assert!(matches!(second, Err(CoreError::TooManyThreads { exceeded: crate::Exceeded::Limit(1) })));
}

#[tokio::test]
async fn a_closed_thread_ends_its_turns_and_its_readers_and_is_forgotten() {
    let bench = Bench::new(vec![Say::Hang(vec![])]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("one");
    thread.prompt("two");
    bench.model.asked.notified().await;
    thread.thread.submit(Op::Shutdown).unwrap();
    assert_eq!(thread.ended().await.status, TurnStatus::Interrupted);
    assert_eq!(thread.ended().await.status, TurnStatus::Interrupted);
    assert!(thread.events.next().await.is_none());
    let late = thread.thread.submit(Op::UserInput { text: "x".into() });
    assert!(matches!(late, Err(CoreError::ThreadClosed { .. })));
    assert!(bench.manager.get_or_load(thread.thread.id()).is_err());
    assert!(thread.thread.attach().events.next().await.is_none());
}

#[tokio::test]
async fn a_query_fork_knows_what_was_finished_and_leaves_the_thread_as_it_is() {
    let bench = Bench::new(vec![Say::Text("first"), Say::Hang(vec![])]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("one");
    thread.ended().await;
    thread.prompt("under way");
    bench.model.asked.notified().await;
    bench.model.asked.notified().await;
    let before = thread.history();

    let fork = bench.manager.fork_for_query(thread.thread.id()).unwrap();
    assert!(fork.config().read_only_tools && fork.id() != thread.thread.id());
    let mut fork = Watched::new(fork);
    fork.prompt("what did you do?");
    assert_eq!(fork.ended().await.content, "re: what did you do?");
    assert!(!fork.history().contains(&"User: under way".to_owned()));
    assert!(fork.history().contains(&"Assistant: first".to_owned()));
    assert_eq!(thread.history(), before);
    assert_eq!(
        *bench.model.tools.lock().unwrap(),
        [
            "exec_command",
            "write_stdin",
            "apply_patch",
            "read_file",
            "list_dir",
            "grep",
            "update_plan",
            "request_user_input"
        ],
        "a query begins as the thread does"
    );
    bench
        .model
        .say(vec![Say::Calls(vec![("apply_patch", "*** Begin Patch\n*** Add File: x\n+x\n*** End Patch".into())])]);
    fork.prompt("change it");
    fork.ended().await;
    let outputs = bench.outputs();
    assert!(outputs.last().unwrap().starts_with("`apply_patch` was not run: this is a question"), "{outputs:?}");
    assert!(!bench.cwd().join("x").exists());

    // Where no command can be held to reading, there is none.
    let bench = Bench::new(vec![]);
    bench.runner.refuses.store(true, Ordering::SeqCst);
    let config = ThreadConfig {
        read_only_tools: true,
        sandbox: SandboxMode::ReadOnly,
        ..bench.manager.config().thread_defaults()
    };
    let mut query = Watched::new(bench.manager.start_thread(config).unwrap());
    query.prompt("what is here?");
    query.ended().await;
    assert_eq!(*bench.model.tools.lock().unwrap(), ["read_file", "list_dir", "grep", "update_plan"]);
}
