//! Patches whose process was killed in the middle, as the next process finds them. What a kill at each step leaves is the
//! patch crate's; here a ledger is left with nothing done, or with all done.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use openoxide_apply_patch::{Committed, VerifiedPatch};
use openoxide_llm::{HistoryItem, Role};
use openoxide_sandbox::{SandboxMode, Workspace};

use super::support::*;
use crate::store::hash;
use crate::store::{RolloutItem, SessionMeta, TurnContext};
use crate::{
    ApprovalPolicy, EventRecord, FileRecord, JsonlStore, PatchLedger, PatchNote, ThreadId, ThreadManager, ThreadStore,
    TurnId, TurnStatus,
};

/// A thread with a turn that never ended.
struct House {
    bench: Bench,
    _home: tempfile::TempDir,
    _work: tempfile::TempDir,
    cwd: PathBuf,
    store: JsonlStore,
    id: ThreadId,
    turn: TurnId,
}

const PATCH: &str =
    "*** Begin Patch\n*** Update File: a\n@@\n-old\n+new\n*** Delete File: b\n*** Add File: d/c\n+x\n*** End Patch";

impl House {
    fn new() -> Self {
        let (home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let bench = Bench::with(vec![], |config| config.home = Some(home.path().to_path_buf()));
        let (store, id, turn) = (JsonlStore::new(home.path()), ThreadId::new(), TurnId::new());
        let cwd = work.path().canonicalize().unwrap();
        fs::write(cwd.join("a"), "old\n").unwrap();
        fs::write(cwd.join("b"), "gone\n").unwrap();
        let mut writer = store.lock(id).unwrap();
        let meta = SessionMeta { id, cwd: cwd.clone(), ..SessionMeta::sample() };
        writer.append(&RolloutItem::SessionMeta(meta)).unwrap();
        let context = TurnContext {
            turn_id: turn,
            cwd: cwd.clone(),
            directory: None,
            model: "m".into(),
            sandbox: SandboxMode::DangerFullAccess,
            approval_policy: ApprovalPolicy::Never,
        };
        writer.append(&RolloutItem::TurnContext(context)).unwrap();
        let message = HistoryItem::Message { role: Role::User, text: "begin".into(), carried: None };
        writer.append(&RolloutItem::ResponseItem(message.into())).unwrap();
        drop(writer);
        Self { bench, _home: home, _work: work, cwd, store, id, turn }
    }

    fn verified(&self) -> VerifiedPatch {
        openoxide_apply_patch::parse(PATCH).unwrap().verify(&self.cwd).unwrap()
    }

    /// What the rollout is to say of the patch.
    fn line(&self) -> RolloutItem {
        let file = |name: &str, before: Option<&str>, after: Option<&str>| FileRecord {
            path: self.cwd.join(name),
            before: before.map(str::to_owned),
            after: after.map(hash),
            mode: before.map(|_| 0o640),
            is_kept: true,
        };
        let files = vec![
            file("a", Some("old\n"), Some("new\n")),
            file("b", Some("gone\n"), None),
            file("d/c", None, Some("x\n")),
        ];
        let diff = Some("the diff\n".to_owned());
        RolloutItem::EventMsg(EventRecord::Patched { turn_id: self.turn, call_id: "c".into(), files, diff })
    }

    fn ledger(&self) -> PatchLedger {
        let workspace = Workspace::open(&self.cwd, None).unwrap();
        let directory_id = workspace.id().as_str().to_owned();
        let note = PatchNote { directory: self.cwd.clone(), directory_id, line: self.line() };
        self.store.ledger(self.id, &note).unwrap().unwrap()
    }

    /// All files in place and nothing noted, as right before a kill.
    fn done(&self) -> (PatchLedger, Committed) {
        let mut ledger = self.ledger();
        let committed = self.verified().commit(ledger.take()).unwrap();
        (ledger, committed)
    }

    fn restarted(&self) -> Arc<ThreadManager> {
        ThreadManager::with_runner(self.bench.manager.config().clone(), Arc::clone(&self.bench.runner) as _)
    }

    fn noted(&self) -> usize {
        self.store.load(self.id).unwrap().iter().filter(|line| line.item == self.line()).count()
    }

    fn ledgers(&self) -> usize {
        fs::read_dir(self.bench.manager.config().home.as_deref().unwrap().join("run/patches")).unwrap().count()
    }
}

fn names(cwd: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(cwd).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_patch_that_was_done_is_finished_noted_and_can_be_undone() {
    for at_start in [true, false] {
        let house = House::new();
        let manager = house.restarted();
        // The process is gone, and with it its locks.
        drop(house.done());
        assert_eq!(names(&house.cwd).len(), 4, "copies of the old files are still there");
        let manager = if at_start { house.restarted() } else { manager };
        if at_start {
            assert_eq!((names(&house.cwd), house.noted(), house.ledgers()), (vec!["a".into(), "d".into()], 1, 0));
        }
        let thread = manager.get_or_load(house.id).unwrap();
        assert_eq!((names(&house.cwd), house.noted(), house.ledgers()), (vec!["a".into(), "d".into()], 1, 0));
        let last = thread.attach().snapshot.last.unwrap();
        assert_eq!((last.turn_id, last.status), (house.turn, TurnStatus::Interrupted));
        assert_eq!(last.files_changed, ["a", "b", "d/c"].map(PathBuf::from));
        assert_eq!(thread.result_of(house.turn).unwrap().diff.as_deref(), Some("the diff\n"));
        // Another turn that changes nothing follows.
        let mut thread = Watched::new(thread);
        thread.prompt("go on");
        thread.ended().await;
        manager.shutdown(&crate::Interruption::ServerStopped).await;
        drop((thread, manager));

        let undone = crate::undo_turn(&house.store, house.id, None, false).unwrap();
        assert_eq!((undone.turn_id, undone.restored.len(), undone.left), (house.turn, 3, Vec::new()));
        assert_eq!(fs::read_to_string(house.cwd.join("a")).unwrap(), "old\n");
        assert_eq!(fs::read_to_string(house.cwd.join("b")).unwrap(), "gone\n");
        assert!(!house.cwd.join("d/c").exists());
        assert_eq!(house.ledgers(), 0);
    }
}

#[tokio::test]
async fn what_was_noted_before_the_kill_is_noted_once() {
    let house = House::new();
    let (ledger, committed) = house.done();
    house.store.claim(house.id).unwrap().append(&house.line()).unwrap();
    drop((ledger, committed));
    house.restarted();
    assert_eq!((names(&house.cwd), house.noted(), house.ledgers()), (vec!["a".into(), "d".into()], 1, 0));
}

#[tokio::test]
async fn a_patch_that_was_not_done_is_no_change() {
    let house = House::new();
    drop(house.ledger());
    let manager = house.restarted();
    assert_eq!((names(&house.cwd), house.noted(), house.ledgers()), (vec!["a".into(), "b".into()], 0, 0));
    let thread = manager.get_or_load(house.id).unwrap();
    assert_eq!(thread.attach().snapshot.last.unwrap().files_changed, Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_patch_under_way_is_left_alone() {
    let house = House::new();
    let (ledger, committed) = house.done();
    // By the start of another server, and by whoever takes the thread into use.
    house.restarted();
    drop(house.store.claim(house.id).unwrap());
    assert_eq!((names(&house.cwd).len(), house.noted(), house.ledgers()), (4, 0, 1));
    let _ = committed.finish();
    ledger.remove();
    assert_eq!((names(&house.cwd).len(), house.ledgers()), (2, 0));
}

#[tokio::test]
async fn a_ledger_waits_for_its_directory_and_goes_with_a_deleted_thread() {
    let house = House::new();
    drop(house.done());
    let away = house.cwd.with_extension("away");
    fs::rename(&house.cwd, &away).unwrap();
    fs::create_dir(&house.cwd).unwrap();
    house.restarted();
    assert_eq!((names(&away).len(), house.ledgers(), house.noted()), (4, 1, 1));
    fs::remove_dir(&house.cwd).unwrap();
    fs::rename(&away, &house.cwd).unwrap();
    house.store.delete(house.id).unwrap();
    assert_eq!((names(&house.cwd), house.ledgers()), (vec!["a".into(), "d".into()], 0));
}
