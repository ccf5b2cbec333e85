//! What one owner of threads takes on disk and in memory is not taken from another.

use std::path::Path;
use std::sync::Arc;

use openoxide_sandbox::{HostPaths, Launcher};

use super::support::*;
use crate::tools::ToolHost as _;
use crate::turn::TurnHost as _;
use crate::{CoreError, JsonlStore, Op, ThreadConfig, ThreadStore as _, TurnStatus};

fn thread_of(bench: &Bench, owner: &str) -> Watched {
    let config = ThreadConfig { owner: Some(Arc::from(owner)), ..bench.manager.config().thread_defaults() };
    Watched::new(bench.manager.start_thread(config).unwrap())
}

fn kept_in(home: &Path, change: impl FnOnce(&mut crate::Config)) -> Bench {
    Bench::with(Vec::new(), |config| {
        config.home = Some(home.to_path_buf());
        let host_paths = HostPaths { tmpdir: Some(home.to_path_buf()), ..HostPaths::default() };
        config.launcher = Launcher::new("/nowhere".into(), host_paths);
        change(config);
    })
}

#[tokio::test]
async fn who_fills_the_disk_loses_its_own_oldest_threads_and_nobody_elses() {
    let home = tempfile::tempdir().unwrap();
    let bench = kept_in(home.path(), |config| config.limits.history_max_bytes_per_principal = Some(500_000));
    let store = JsonlStore::new(home.path());
    let mut bob = thread_of(&bench, "bob");
    bob.prompt("hello");
    bob.ended().await;
    let mut alice = Vec::new();
    for _ in 0..4 {
        let mut thread = thread_of(&bench, "alice");
        let place = thread.thread.temporary_directory().unwrap().unwrap();
        // The scripted model repeats it, so it is written three times.
        thread.prompt(&"a".repeat(60_000));
        assert_eq!(thread.ended().await.status, TurnStatus::Completed);
        bench.manager.look_at_history();
        alice.push((thread.thread.id(), place));
    }
    let left: Vec<bool> = alice.iter().map(|(id, _)| store.contains(*id)).collect();
    assert_eq!(left, [false, false, true, true]);
    let places: Vec<bool> = alice.iter().map(|(_, place)| place.exists()).collect();
    assert_eq!(places, left, "temporary files go with their thread");

    // One thread that takes more than the quota keeps what it has, and its owner begins nothing more.
    let mut thread = thread_of(&bench, "alice");
    thread.prompt(&"a".repeat(200_000));
    thread.ended().await;
    bench.manager.look_at_history();
    for next in [&thread, &thread_of(&bench, "alice")] {
        let refused = next.thread.submit(Op::UserInput { text: "more".into() }).unwrap_err();
        assert!(matches!(refused, CoreError::HistoryFull { max: 500_000, .. }), "{refused}");
        assert!(refused.to_string().contains("history.max_bytes_per_principal"), "{refused}");
    }
    assert!(store.contains(thread.thread.id()) && store.contains(bob.thread.id()));
    bob.prompt("still here?");
    assert_eq!(bob.ended().await.status, TurnStatus::Completed);
    // Room that somebody makes is found.
    store.delete(thread.thread.id()).unwrap();
    bench.manager.look_at_history();
    let mut thread = thread_of(&bench, "alice");
    thread.prompt("again");
    assert_eq!(thread.ended().await.status, TurnStatus::Completed);
}

#[tokio::test]
async fn turns_that_wait_are_held_to_what_those_before_them_have_written() {
    let home = tempfile::tempdir().unwrap();
    let bench = kept_in(home.path(), |config| config.limits.history_max_bytes_per_principal = Some(100_000));
    let mut thread = thread_of(&bench, "alice");
    thread.prompt(&"a".repeat(60_000));
    thread.prompt("behind it");
    assert_eq!(thread.ended().await.status, TurnStatus::Completed);
    let result = thread.ended().await;
    assert!(result.status == TurnStatus::Failed && result.content.contains("max_bytes_per_principal"), "{result:?}");
}

#[tokio::test]
async fn bounds_are_looked_after_while_the_server_runs() {
    let home = tempfile::tempdir().unwrap();
    let bench = kept_in(home.path(), |config| config.limits.history_max_bytes = Some(100_000));
    let store = JsonlStore::new(home.path());
    let mut ids = Vec::new();
    for _ in 0..2 {
        let mut thread = thread_of(&bench, "alice");
        thread.prompt(&"a".repeat(30_000));
        thread.ended().await;
        ids.push(thread.thread.id());
    }
    // Nobody but the server's own task looks; it has until the test's time limit.
    while store.contains(ids[0]) {
        tokio::task::yield_now().await;
    }
    assert!(store.contains(ids[1]), "the one used last stays");
}

/// A call that adds a file of so many bytes.
fn add_file(name: &str, bytes: usize) -> Say {
    let lines = "+0123456789012345678901234567890123456789012345678\n".repeat(bytes / 50);
    Say::Calls(vec![("apply_patch", format!("*** Begin Patch\n*** Add File: {name}\n{lines}*** End Patch\n"))])
}

#[tokio::test]
async fn a_thread_that_is_kept_on_disk_holds_no_diff_and_reads_it_back() {
    let home = tempfile::tempdir().unwrap();
    let bench = kept_in(home.path(), |_| {});
    bench.model.say(vec![add_file("a.txt", 10_000), Say::Text("done"), Say::Text("nothing changed")]);
    let mut thread = thread_of(&bench, "alice");
    thread.prompt("write");
    let told = thread.ended().await;
    assert!(told.diff.as_ref().is_some_and(|diff| diff.len() > 10_000), "{told:?}");
    thread.prompt("and then");
    let plain = thread.ended().await;
    let id = thread.thread.id();
    assert_eq!(thread.thread.kept_result(told.turn_id).unwrap().diff, None);
    assert_eq!(thread.thread.result_of(told.turn_id).unwrap(), told);
    assert_eq!(thread.thread.result_of(plain.turn_id).unwrap(), plain);
    assert_eq!(thread.thread.attach().snapshot.last.unwrap().turn_id, plain.turn_id);

    // So it is after the history was summed up, which repeats results without their diffs, and in another process.
    let claim = thread.thread.claim().unwrap();
    thread.thread.replace_history(thread.thread.history().to_vec());
    drop(claim);
    drop(thread);
    let again = kept_in(home.path(), |_| {});
    let loaded = again.manager.get_or_load(id).unwrap();
    assert_eq!(loaded.kept_result(told.turn_id).unwrap().diff, None);
    assert_eq!(loaded.result_of(told.turn_id).unwrap().diff, told.diff);

    // A file that has lost the diff is told in words.
    let store = JsonlStore::new(home.path());
    let path = store.path_of(id).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace(r#""diff":""#, r#""duff":""#)).unwrap();
    let poorer = loaded.result_of(told.turn_id).unwrap();
    assert!(poorer.diff.is_none() && poorer.warnings[0].contains("the thread's file"), "{:?}", poorer.warnings);
}

#[tokio::test]
async fn without_a_store_the_owner_with_most_diffs_loses_its_oldest_and_the_result_says_so() {
    let bench = Bench::with(Vec::new(), |config| config.limits.max_diff_bytes = 40_000);
    let (mut bob, mut alice) = (thread_of(&bench, "bob"), thread_of(&bench, "alice"));
    let mut turns = Vec::new();
    for at in 0..4 {
        let thread = if at == 0 { &mut bob } else { &mut alice };
        bench.model.say(vec![add_file(&format!("{at}.txt"), 10_000), Say::Text("done")]);
        thread.prompt("write");
        turns.push(thread.ended().await);
    }
    assert!(turns.iter().all(|told| told.diff.is_some()), "each is told once");
    let oldest = alice.thread.result_of(turns[1].turn_id).unwrap();
    assert!(oldest.diff.is_none() && oldest.files_changed == turns[1].files_changed);
    assert!(oldest.warnings[0].contains("40000 bytes together (mcp_server.max_diff_bytes)"), "{:?}", oldest.warnings);
    assert_eq!(bob.thread.result_of(turns[0].turn_id).unwrap(), turns[0]);
    assert_eq!(alice.thread.result_of(turns[3].turn_id).unwrap(), turns[3]);
}
