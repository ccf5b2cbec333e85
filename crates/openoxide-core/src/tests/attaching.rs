//! Several attachments of one thread, attaching again from a cursor, and the ids of items over the life of a thread.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::support::*;
use crate::{
    ApprovalPolicy, Decider, Decision, Event, EventReceiver, Interruption, JsonlStore, Op, Resumed, ThreadManager,
    TurnItemKind,
};

fn kept(steps: Vec<Say>) -> (Bench, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let bench = Bench::with(steps, |config| config.home = Some(home.path().to_path_buf()));
    (bench, home)
}

/// Another manager over the same home, as after a restart.
fn restarted(bench: &Bench) -> Arc<ThreadManager> {
    ThreadManager::with_runner(bench.manager.config().clone(), Arc::clone(&bench.runner) as _)
}

/// The next event in a line; deltas come merged or not, so they are left out.
async fn told(events: &mut EventReceiver) -> String {
    loop {
        return match events.next().await.expect("the thread is open") {
            Event::ItemDelta { .. } => continue,
            Event::ItemStarted { item, .. } => format!("start {}", item.id),
            Event::ItemCompleted { item, .. } => format!("complete {}", item.id),
            Event::ApprovalRequested { request, .. } => format!("ask {}", request.id),
            Event::ApprovalSettled { id, .. } => format!("settled {id}"),
            Event::TurnStarted { .. } => "begin".to_owned(),
            Event::TurnEnded { .. } => "end".to_owned(),
            Event::Usage { .. } => "usage".to_owned(),
            other => format!("{other:?}"),
        };
    }
}

async fn all_told(events: &mut EventReceiver) -> Vec<String> {
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line| line != "end") {
        lines.push(told(events).await);
    }
    lines
}

#[tokio::test]
async fn each_attachment_is_told_the_same_and_one_that_comes_back_misses_nothing() {
    let calls = vec![exec("touch a"), exec("touch b")];
    let bench = Bench::new(vec![Say::Calls(calls), Say::Text("done")]);
    let mut thread = bench.thread(ApprovalPolicy::Untrusted);
    let (mut first, mut second) = (thread.thread.attach().events, thread.thread.attach().events);
    let start = first.cursor();
    thread.prompt("go");
    let asked = thread.asked().await;
    // One leaves after each of its events and comes back; the turn stands still and goes on meanwhile.
    let mut lines = vec![told(&mut first).await];
    let cursor = first.cursor();
    drop(first);
    let decide = |id| Op::Approval { id, decision: Decision::Approve, by: Decider::Client(None) };
    thread.thread.submit(decide(asked.id)).unwrap();
    let next = thread.asked().await;
    let Resumed::Covered(mut first) = thread.thread.attach_from(cursor) else { panic!("a turn runs") };
    thread.thread.submit(decide(next.id)).unwrap();
    let whole = all_told(&mut second).await;
    lines.extend(all_told(&mut first).await);
    assert_eq!(lines, whole);
    assert!(whole.iter().filter(|line| line.starts_with("complete")).count() >= 3, "{whole:?}");
    // Nobody runs any more: what was told is not kept, and that is said.
    let Resumed::Gap(again) = thread.thread.attach_from(start) else { panic!("an idle thread keeps no events") };
    assert_eq!(again.snapshot.last.unwrap().content, "done");
    assert!(matches!(thread.thread.attach_from(first.cursor()), Resumed::Covered(_)), "it knows all there is");
}

#[tokio::test]
async fn one_that_missed_too_much_is_told_and_given_what_is_open() {
    let bench = Bench::with(vec![Say::Hang(vec!["half ", "a sentence"])], |config| config.limits.event_log_bytes = 0);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    let early = thread.thread.attach().events.cursor();
    thread.prompt("go");
    let mut text = String::new();
    while text != "half a sentence" {
        if let Event::ItemDelta { delta, .. } = thread.next().await {
            text.push_str(&delta);
        }
    }
    let Resumed::Gap(whole) = thread.thread.attach_from(early) else { panic!("nothing is kept") };
    let [open] = whole.open_items.as_slice() else { panic!("one message is open: {:?}", whole.open_items) };
    // The text was read by all and is not kept either, which is said; with room for it, it is there.
    assert!(open.is_cut && open.text.is_empty());
    assert!(matches!(open.item.kind, TurnItemKind::Message { .. }));

    let bench = Bench::new(vec![Say::Hang(vec!["half ", "a sentence"])]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("go");
    let mut told = 0;
    while told < text.len() {
        if let Event::ItemDelta { delta, .. } = thread.next().await {
            told += delta.len();
        }
    }
    let [open] = <[_; 1]>::try_from(thread.thread.attach().open_items).unwrap();
    assert_eq!((open.text, open.is_cut), (text, false));
    let other = thread.thread.attach_from(early);
    assert!(matches!(other, Resumed::Gap(_)), "a cursor of another thread is no place in this one");
}

/// The ids of the items of the next turn.
async fn ids_of_a_turn(thread: &mut Watched) -> BTreeSet<u64> {
    thread.prompt("more");
    let mut ids = BTreeSet::new();
    loop {
        match thread.next().await {
            Event::ItemStarted { item, .. } | Event::ItemCompleted { item, .. } => drop(ids.insert(item.id)),
            Event::TurnEnded { .. } => return ids,
            _ => {}
        }
    }
}

#[tokio::test]
async fn no_item_id_comes_twice_over_restarts_crashes_and_other_processes() {
    let (bench, _home) =
        kept(vec![Say::Text("one"), Say::Text("two"), Say::Text("three"), Say::Text("four"), Say::Hang(vec!["half"])]);
    let mut used = BTreeSet::new();
    let mut none_twice = |ids: BTreeSet<u64>| {
        assert!(!ids.is_empty() && used.last().is_none_or(|last| last < ids.first().unwrap()), "{used:?} {ids:?}");
        used.extend(ids);
    };
    let mut thread = bench.thread(ApprovalPolicy::Never);
    let id = thread.thread.id();
    let before = thread.thread.attach().events.cursor();
    none_twice(ids_of_a_turn(&mut thread).await);
    none_twice(ids_of_a_turn(&mut thread).await);
    let manager = restarted(&bench);
    let mut loaded = Watched::new(manager.get_or_load(id).unwrap());
    assert!(matches!(loaded.thread.attach_from(before), Resumed::Gap(_)), "a cursor of before the restart");
    none_twice(ids_of_a_turn(&mut loaded).await);
    // The first process goes on with what the second has written.
    let (current, _claim) = bench.manager.claim(id).unwrap();
    let mut thread = Watched::new(current);
    none_twice(ids_of_a_turn(&mut thread).await);
    // A turn that is cut off has used ids that nobody wrote down.
    thread.prompt("begin");
    let begun = loop {
        if let Event::ItemStarted { item, .. } = thread.next().await {
            break item.id;
        }
    };
    none_twice(BTreeSet::from([begun]));
    let store = JsonlStore::new(bench.manager.config().home.as_deref().unwrap());
    let copy = crate::fork_rollout(&store, id, None, None).unwrap();
    let mut crashed = Watched::new(restarted(&bench).get_or_load(copy).unwrap());
    none_twice(ids_of_a_turn(&mut crashed).await);
    thread.thread.submit(Op::Interrupt { turn_id: None, why: Interruption::InputEnded }).unwrap();
}
