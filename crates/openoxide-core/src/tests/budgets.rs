//! Long threads, runaway turns and pictures, through the driver: what the model is asked, and what is written.

use std::time::Duration;

use openoxide_llm::{HistoryItem, ModelEvent, Role, Usage};

use super::support::*;
use crate::{ApprovalPolicy, Event, RolloutItem, ThreadConfig, ThreadStore, TurnStatus};

/// A message and what the response has cost.
fn said(text: &str, tokens: u64) -> Say {
    Say::Events(vec![
        ModelEvent::ItemDone(HistoryItem::Message { role: Role::Assistant, text: text.to_owned(), carried: None }),
        ModelEvent::Completed { usage: Usage { input_tokens: tokens, ..Usage::default() } },
    ])
}

#[tokio::test]
async fn a_long_thread_goes_on_with_a_summary_that_is_in_the_rollout() {
    let home = tempfile::tempdir().unwrap();
    let steps = vec![said("first answer", 100), said("the summary", 5), said("second answer", 10)];
    let bench = Bench::with(steps, |config| {
        config.auto_compact_token_limit = Some(100);
        config.home = Some(home.path().to_path_buf());
    });
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("one");
    thread.ended().await;
    thread.prompt("two");
    let mut warned = false;
    let result = loop {
        match thread.next().await {
            Event::Warning { message, .. } => warned |= message.contains("100 tokens"),
            Event::TurnEnded { result, .. } => break result,
            _ => {}
        }
    };
    assert!(warned && result.content == "second answer");
    assert_eq!(result.usage.input_tokens, 15, "the summary counts");
    let kept = ["<environment_context>", "User: one", "<compacted_conversation>", "User: two"];
    {
        let requests = bench.model.requests.lock().unwrap();
        let lines = |at: usize| requests[at].iter().map(|item| short(item)).collect::<Vec<_>>();
        assert!(lines(1).last().unwrap().contains("about to be shortened") && lines(1).len() == 4, "{:?}", lines(1));
        assert_eq!(lines(2), kept);
    }
    assert_eq!(thread.history()[..4], kept);
    let store = crate::JsonlStore::new(home.path());
    let lines = store.load(thread.thread.id()).unwrap();
    assert!(lines.iter().any(|line| matches!(&line.item, RolloutItem::Compacted(items) if items.len() == 3)));
}

#[tokio::test]
async fn a_thread_is_summed_up_with_its_callers_words_also_after_it_was_loaded_again() {
    let home = tempfile::tempdir().unwrap();
    let steps = vec![said("first answer", 100), said("the summary", 5), said("second answer", 10)];
    let bench = Bench::with(steps, |config| {
        config.auto_compact_token_limit = Some(100);
        config.home = Some(home.path().to_path_buf());
        config.compact_prompt = Some("the operator's words".to_owned());
    });
    let config = ThreadConfig {
        compact_prompt: Some("the caller's words".to_owned()),
        approval_policy: ApprovalPolicy::Never,
        ..bench.manager.config().thread_defaults()
    };
    let mut thread = Watched::new(bench.manager.start_thread(config).unwrap());
    thread.prompt("one");
    thread.ended().await;
    thread.prompt("two");
    thread.ended().await;
    let asked = short(bench.model.requests.lock().unwrap()[1].last().unwrap());
    assert!(asked.contains("the caller's words"), "{asked}");
    let id = thread.thread.id();
    thread.thread.submit(crate::Op::Shutdown).unwrap();
    drop(thread);
    let loaded = bench.manager.get_or_load(id).unwrap();
    assert_eq!(loaded.config().compact_prompt.as_deref(), Some("the caller's words"));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_takes_too_long_ends_and_its_commands_with_it() {
    let bench = Bench::new(vec![Say::Calls(vec![exec("stubborn")]), Say::Hang(vec!["half way"])]);
    let config = ThreadConfig {
        max_turn_seconds: Some(60),
        approval_policy: ApprovalPolicy::Never,
        ..bench.manager.config().thread_defaults()
    };
    let mut thread = Watched::new(bench.manager.start_thread(config).unwrap());
    thread.prompt("begin");
    let result = thread.ended().await;
    assert_eq!(result.status, TurnStatus::Failed);
    assert!(result.content.contains("60 s (max_turn_seconds)"), "{}", result.content);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(bench.commands().contains(&"gone stubborn".to_owned()), "{:?}", bench.commands());
}

#[tokio::test(start_paused = true)]
async fn the_operators_limit_holds_where_a_call_asks_for_more() {
    let steps = vec![Say::Calls(vec![exec("echo")]), Say::Calls(vec![exec("echo")]), Say::Text("never")];
    let bench = Bench::with(steps, |config| config.limits.max_steps = 2);
    let config = ThreadConfig {
        max_steps: Some(9),
        approval_policy: ApprovalPolicy::Never,
        ..bench.manager.config().thread_defaults()
    };
    let mut thread = Watched::new(bench.manager.start_thread(config).unwrap());
    thread.prompt("begin");
    let result = thread.ended().await;
    assert!(result.content.contains("all of its 2 model requests"), "{}", result.content);
}

#[tokio::test]
async fn a_picture_comes_after_the_last_output_and_only_models_that_see_are_offered_it() {
    let view = |path: &str| ("view_image", serde_json::json!({ "path": path }).to_string());
    let steps = vec![Say::Calls(vec![view("a.png"), ("list_dir", "{}".to_owned())])];
    let bench = Bench::new(steps);
    std::fs::write(bench.cwd().join("a.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    let config = ThreadConfig { model: "gpt-5.2".to_owned(), ..bench.manager.config().thread_defaults() };
    let mut thread = Watched::new(bench.manager.start_thread(config).unwrap());
    thread.prompt("look");
    thread.ended().await;
    assert!(bench.model.tools.lock().unwrap().contains(&"view_image".to_owned()));
    {
        let requests = bench.model.requests.lock().unwrap();
        let last = requests.last().unwrap();
        assert!(matches!(&**last.last().unwrap(), HistoryItem::Image { media_type, .. } if media_type == "image/png"));
        assert!(matches!(&*last[last.len() - 2], HistoryItem::ToolOutput { .. }));
    }
    let mut blind = bench.thread(ApprovalPolicy::Never);
    blind.prompt("look");
    blind.ended().await;
    assert!(!bench.model.tools.lock().unwrap().contains(&"view_image".to_owned()));
}

#[tokio::test]
async fn pictures_beyond_the_bound_give_way_to_text_once_and_the_rest_of_the_beginning_stays() {
    let home = tempfile::tempdir().unwrap();
    let look = || Say::Calls(vec![("view_image", serde_json::json!({ "path": "a.png" }).to_string())]);
    let bench = Bench::with((0..7).map(|_| look()).collect(), |config| {
        config.home = Some(home.path().to_path_buf());
        config.limits.max_picture_bytes = 4000;
    });
    // 1000 bytes in base64.
    std::fs::write(bench.cwd().join("a.png"), [b"\x89PNG\r\n\x1a\n".as_slice(), &[0; 742]].concat()).unwrap();
    let config = ThreadConfig { model: "gpt-5.2".to_owned(), ..bench.manager.config().thread_defaults() };
    let mut thread = Watched::new(bench.manager.start_thread(config).unwrap());
    thread.prompt("look");
    assert_eq!(thread.ended().await.status, TurnStatus::Completed);
    {
        let requests = bench.model.requests.lock().unwrap();
        let pictures = |items: &Vec<std::sync::Arc<HistoryItem>>| {
            items.iter().filter(|item| matches!(&***item, HistoryItem::Image { .. })).count()
        };
        assert_eq!(requests.iter().map(pictures).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 2, 3, 4]);
        let changed = requests.windows(2).filter(|two| two[1][..two[0].len()] != two[0][..]).count();
        assert_eq!(changed, 1, "the beginning changes once");
        assert!(requests[5].iter().any(|item| short(item) == "<picture_removed>"));
    }
    // It is loaded as it was.
    let (id, history) = (thread.thread.id(), thread.history());
    drop(thread);
    let again = Bench::with(Vec::new(), |config| config.home = Some(home.path().to_path_buf()));
    assert_eq!(Watched::new(again.manager.get_or_load(id).unwrap()).history(), history);
}
