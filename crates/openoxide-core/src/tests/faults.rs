//! A disk that fails: the write of any line of a thread, whole or after half of it, once or for a while. Whatever fails, a
//! healthy disk afterwards holds all of the thread, and so does the next process.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use openoxide_llm::HistoryItem;

use super::support::*;
use crate::store::{Disk, RealDisk};
use crate::{
    ApprovalPolicy, CoreError, Decider, Decision, Event, JsonlStore, Op, Submitted, ThreadManager, ThreadStore,
    TurnStatus,
};
use crate::{EventRecord, RolloutItem};

/// How a write fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Nothing is written.
    Refused,
    /// Half a line is written and taken back.
    Half,
    /// Half a line is written and stays.
    HalfThatStays,
}

/// Fails writes `first..first + count`, counted from 1.
#[derive(Debug)]
struct Failing {
    fault: Fault,
    first: usize,
    count: usize,
    writes: AtomicUsize,
    healed: std::sync::atomic::AtomicBool,
}

impl Failing {
    fn new(fault: Fault, first: usize, count: usize) -> Arc<Self> {
        let (writes, healed) = (AtomicUsize::new(0), std::sync::atomic::AtomicBool::new(false));
        Arc::new(Self { fault, first, count, writes, healed })
    }

    fn fails(&self) -> bool {
        let write = self.writes.load(Ordering::SeqCst);
        !self.healed.load(Ordering::SeqCst) && (self.first..self.first + self.count).contains(&write)
    }
}

impl Disk for Failing {
    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        if !self.fails() {
            return RealDisk.write(file, bytes);
        }
        if self.fault == Fault::Refused {
            return Err(io::Error::from_raw_os_error(5));
        }
        file.write_all(&bytes[..bytes.len() / 2])?;
        Err(io::ErrorKind::StorageFull.into())
    }

    fn cut(&self, file: &File, length: u64) -> io::Result<()> {
        if self.fails() && self.fault == Fault::HalfThatStays {
            return Err(io::Error::from_raw_os_error(5));
        }
        RealDisk.cut(file, length)
    }
}

struct House {
    bench: Bench,
    home: tempfile::TempDir,
    disk: Arc<Failing>,
}

impl House {
    fn new(disk: Arc<Failing>, steps: Vec<Say>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut bench = Bench::with(steps, |config| config.home = Some(home.path().into()));
        let store = Arc::new(JsonlStore::on(home.path(), Arc::clone(&disk) as Arc<dyn Disk>));
        let config = bench.manager.config().clone();
        bench.manager = ThreadManager::with_store(config, Arc::clone(&bench.runner) as _, Some(store));
        Self { bench, home, disk }
    }

    fn restarted(&self) -> Arc<ThreadManager> {
        ThreadManager::with_runner(self.bench.manager.config().clone(), Arc::clone(&self.bench.runner) as _)
    }
}

/// Two calls, then an answer.
fn turn() -> Vec<Say> {
    vec![Say::Calls(vec![exec("echo a"), exec("echo b")]), Say::Text("done")]
}

/// Two turns on a failing disk, one on a healthy one, a restart, and one more: nothing is missing and nothing is told that
/// did not happen.
async fn one_story(fault: Fault, first: usize, count: usize) {
    let story = format!("{fault:?}, {count} from write {first} on");
    let house =
        House::new(Failing::new(fault, first, count), [turn(), turn(), turn(), turn()].into_iter().flatten().collect());
    let mut thread = house.bench.thread(ApprovalPolicy::Never);
    let id = thread.thread.id();
    let mut ends = Vec::new();
    for prompt in ["one", "two", "three"] {
        if prompt == "three" {
            house.disk.healed.store(true, Ordering::SeqCst);
        }
        // Where not even the first line can be written, there is no thread yet, and the caller is told.
        let submitted = loop {
            match thread.thread.submit(Op::UserInput { text: prompt.into() }) {
                Err(CoreError::Rollout { .. }) => {
                    assert!(!house.bench.manager.config().home.as_ref().unwrap().join("sessions/index.jsonl").exists())
                }
                other => break other.unwrap(),
            }
        };
        let Submitted::Turn(turn) = submitted else { panic!("{submitted:?}") };
        let mut told = 0;
        let end = loop {
            match thread.next().await {
                Event::Warning { .. } => told += 1,
                Event::TurnEnded { result, .. } => break result,
                _ => {}
            }
        };
        assert_eq!((end.turn_id, end.status), (turn, TurnStatus::Completed), "{story}");
        assert!(told <= 1 && end.warnings.len() <= told, "{story}: {told} {:?}", end.warnings);
        let on_disk = JsonlStore::new(house.home.path()).load(id).unwrap();
        let is_whole = on_disk.iter().any(|line| ends_turn(&line.item, turn));
        assert!(is_whole || !end.warnings.is_empty(), "{story}: a result that is not saved warns");
        assert!(count > 1 || end.warnings.is_empty(), "{story}: one failure is made good before the end");
        ends.push(end);
    }
    assert!(ends[2].warnings.is_empty(), "{story}: the disk is healthy again");
    let before = thread.history();
    house.bench.manager.shutdown(&crate::Interruption::ServerStopped).await;

    let manager = house.restarted();
    let mut again = Watched::new(manager.get_or_load(id).unwrap());
    assert_eq!(again.history(), before, "{story}");
    assert!(!before.iter().any(|line| line == "<turn_interrupted>"), "{story}: {before:?}");
    for end in &ends {
        assert_eq!(again.thread.result_of(end.turn_id).unwrap().content, end.content, "{story}");
    }
    again.prompt("four");
    let end = again.ended().await;
    assert_eq!((end.status, end.warnings.as_slice()), (TurnStatus::Completed, &[][..]), "{story}");
    assert_eq!(end.thread_usage.input_tokens, ends[2].thread_usage.input_tokens + end.usage.input_tokens, "{story}");
    let requests = house.bench.model.requests.lock().unwrap();
    requests.iter().for_each(|request| assert_paired(request, &story));
    let reading = JsonlStore::new(house.home.path()).read(id).unwrap();
    assert_eq!(reading.damage, [], "{story}");
}

fn ends_turn(item: &RolloutItem, turn: crate::TurnId) -> bool {
    matches!(item, RolloutItem::EventMsg(EventRecord::TurnEnded { turn_id, status: TurnStatus::Completed, .. }) if *turn_id == turn)
}

fn assert_paired(items: &[Arc<HistoryItem>], story: &str) {
    let mut open = Vec::new();
    for item in items {
        match &**item {
            HistoryItem::FunctionCall { call_id, .. } => open.push(call_id),
            HistoryItem::ToolOutput { call_id, .. } => {
                let at = open.iter().position(|open| *open == call_id);
                open.remove(at.unwrap_or_else(|| panic!("{story}: an output without a call")));
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "{story}: calls without outputs {open:?}");
}

/// Writes of the first two turns of a healthy story.
async fn writes_of_two_turns() -> usize {
    let house =
        House::new(Failing::new(Fault::Refused, usize::MAX - 100, 0), [turn(), turn()].into_iter().flatten().collect());
    let mut thread = house.bench.thread(ApprovalPolicy::Never);
    for prompt in ["one", "two"] {
        thread.prompt(prompt);
        thread.ended().await;
    }
    house.disk.writes.load(Ordering::SeqCst)
}

/// Every position in its long form (`OPENOXIDE_LONG=1`); in the short one every position of one failing write, and a
/// sample of longer failures.
#[tokio::test]
async fn whatever_write_fails_the_thread_is_whole_once_the_disk_is() {
    #[allow(clippy::disallowed_methods, reason = "a test reads which form of it is wanted")]
    let is_long = std::env::var_os("OPENOXIDE_LONG").is_some();
    let writes = writes_of_two_turns().await;
    assert!(writes > 12, "{writes}");
    for fault in [Fault::Refused, Fault::Half, Fault::HalfThatStays] {
        for (count, step) in [(1, 1), (2, 3), (50, 5)] {
            for first in (1..=writes).step_by(if is_long { 1 } else { step }) {
                one_story(fault, first, count).await;
            }
        }
    }
}

/// More lines wait than may: then the thread's state is written, which says the same.
#[tokio::test]
async fn a_thread_that_was_not_saved_for_long_is_saved_as_it_stands() {
    let house = House::new(Failing::new(Fault::Refused, 8, usize::MAX - 8), vec![]);
    let mut thread = house.bench.thread(ApprovalPolicy::Never);
    let id = thread.thread.id();
    let long = "x".repeat(14 << 10);
    let warned = Mutex::new(0);
    for _ in 0..6 {
        thread.prompt(&long);
        *warned.lock().unwrap() += thread.ended().await.warnings.len();
    }
    assert!(*warned.lock().unwrap() >= 5);
    house.disk.healed.store(true, Ordering::SeqCst);
    thread.prompt("last");
    let last = thread.ended().await;
    assert!(last.warnings.is_empty(), "{:?}", last.warnings);
    let (before, usage) = (thread.history(), last.thread_usage);
    house.bench.manager.shutdown(&crate::Interruption::ServerStopped).await;
    let manager = house.restarted();
    let again = Watched::new(manager.get_or_load(id).unwrap());
    assert!(again.history() == before, "{} items of {}", again.history().len(), before.len());
    assert_eq!(again.thread.result_of(last.turn_id).unwrap().thread_usage, usage);
}

#[tokio::test]
async fn whoever_settles_a_question_does_not_wait_for_the_disk() {
    let steps = vec![Say::Calls(vec![exec("make")]), Say::Text("done")];
    let house = House::new(Failing::new(Fault::Refused, 0, 0), steps);
    let mut thread = house.bench.thread(ApprovalPolicy::Untrusted);
    thread.prompt("go");
    let request = thread.asked().await;
    let writes = || house.disk.writes.load(Ordering::SeqCst);
    let before = writes();
    let by = Decider::Client(Some("tester".to_owned()));
    thread.thread.submit(Op::Approval { id: request.id, decision: Decision::Approve, by }).unwrap();
    // The turn's own task has not run yet: there is one worker, and it is here.
    assert_eq!(writes(), before);
    thread.ended().await;
    let lines = JsonlStore::new(house.home.path()).load(thread.thread.id()).unwrap();
    let decided = lines.iter().filter(|line| {
        matches!(&line.item, RolloutItem::EventMsg(EventRecord::ApprovalDecided { id, by, .. })
            if *id == request.id && by == "client tester")
    });
    assert_eq!(decided.count(), 1);
}
