//! What one owner of threads takes on disk and in memory is not taken from another.

use std::path::Path;
use std::sync::Arc;

use openoxide_sandbox::{Launcher, Surroundings};

use super::support::*;
use crate::{CoreError, JsonlStore, Op, ThreadConfig, ThreadStore as _, TurnStatus};

fn thread_of(bench: &Bench, owner: &str) -> Watched {
    let config = ThreadConfig { owner: Some(Arc::from(owner)), ..bench.manager.config().thread_defaults() };
    Watched::new(bench.manager.start_thread(config).unwrap())
}

fn kept_in(home: &Path, change: impl FnOnce(&mut crate::Config)) -> Bench {
    Bench::with(Vec::new(), |config| {
        config.home = Some(home.to_path_buf());
        let surroundings = Surroundings { tmpdir: Some(home.to_path_buf()), ..Surroundings::default() };
        config.launcher = Launcher::new("/nowhere".into(), surroundings);
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
