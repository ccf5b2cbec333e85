//! Turns whose reads are done by a helper: the same comes out as where the server reads, on every kind of file; nothing of
//! a helper outlives its turn, or exists without a reason.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use openoxide_sandbox::SandboxMode;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use super::exchanges::House;
use super::support::*;
use crate::tools::reads::Helpers;
use crate::tools::reads::tests::{Processes, Threads};
use crate::{ApprovalPolicy, Interruption, Op, TurnStatus};

fn give(bench: &Bench, helpers: &Arc<impl Helpers + 'static>) {
    *bench.runner.helpers.lock().unwrap() = Some(Arc::clone(helpers) as Arc<dyn Helpers>);
}

/// Makes a thing at a path.
type Make = fn(&Path);

/// What a name may stand for.
const KINDS: [(&str, Make); 14] = [
    ("text", |path| fs::write(path, "a needle\nand more\n").unwrap()),
    ("a picture", |path| fs::write(path, b"\x89PNG\r\n\x1a\n needle").unwrap()),
    ("no text", |path| fs::write(path, b"\xff\xfe\0\xff").unwrap()),
    ("text in no encoding", |path| fs::write(path, b"needle \xff\n").unwrap()),
    ("nothing", |path| fs::write(path, "").unwrap()),
    ("a long text", |path| fs::write(path, "a needle in a line\n".repeat(20_000)).unwrap()),
    ("a large file without text", |path| fs::File::create(path).unwrap().set_len(20 << 20).unwrap()),
    ("a directory", |path| fs::create_dir_all(path.join("in/it")).unwrap()),
    ("a pipe", |path| mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap()),
    ("a socket", |path| drop(UnixListener::bind(path).unwrap())),
    ("a device", |path| symlink("/dev/zero", path).unwrap()),
    ("the kernel's", |path| symlink("/proc/self/status", path).unwrap()),
    ("a link in a circle", |path| symlink(path.file_name().unwrap(), path).unwrap()),
    ("a link to what is hidden", |path| symlink("../home/key", path).unwrap()),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_tool_says_the_same_of_every_kind_of_file_whoever_reads() {
    let helpers = Arc::new(Processes::new("serves"));
    for (kind, make) in KINDS {
        let house = House::new(SandboxMode::WorkspaceWrite);
        let work = house.thread.config().cwd.clone();
        fs::write(work.join(".gitignore"), "ignored\n").unwrap();
        make(&work.join("odd"));
        for (name, arguments) in [
            ("read_file", json!({ "path": "odd" })),
            ("read_file", json!({ "path": "odd", "offset": 2, "limit": 1 })),
            ("list_dir", json!({ "path": "odd" })),
            ("list_dir", json!({})),
            ("grep", json!({ "pattern": "needle", "path": "odd" })),
            ("grep", json!({ "pattern": "needle" })),
            ("view_image", json!({ "path": "odd" })),
        ] {
            *house.bench.runner.helpers.lock().unwrap() = None;
            let by_server = house.call(name, arguments.clone()).await;
            house.thread.end_readers();
            give(&house.bench, &helpers);
            let by_helper = house.call(name, arguments.clone()).await;
            house.thread.end_readers();
            assert_eq!(by_helper, by_server, "{name} {arguments} of {kind}");
            assert!(!by_helper.contains("gave nothing"), "{name} {arguments} of {kind}: {by_helper}");
        }
    }
    assert_eq!(helpers.ids.lock().unwrap().len(), KINDS.len() * 7);
    assert!(helpers.are_gone());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_needs_too_much_memory_ends_its_helper_and_not_the_next_read() {
    let house = House::new(SandboxMode::ReadOnly);
    let helpers = Arc::new(Processes::new("serves with little memory"));
    give(&house.bench, &helpers);
    let work = house.thread.config().cwd.clone();
    fs::write(work.join("long"), "a".repeat(40 << 20)).unwrap();
    fs::write(work.join("short"), "a needle\n").unwrap();
    let said = house.call("grep", json!({ "pattern": "needle", "path": "long" })).await;
    assert!(said.contains("`grep` gave nothing: the process that reads for this thread ended before it"), "{said}");
    let said = house.call("grep", json!({ "pattern": "needle", "path": "short" })).await;
    assert!(said.starts_with("short:1: a needle\n"), "{said}");
    assert!(!helpers.are_gone(), "one waits for the next read of the turn");
    house.thread.end_readers();
    assert!(helpers.are_gone());
}

#[tokio::test]
async fn an_interrupted_turn_takes_its_helpers_along() {
    let call = |path: &str| ("read_file", json!({ "path": path }).to_string());
    let bench = Bench::new(vec![Say::Calls(vec![call("a"), call("b")])]);
    let helpers = Arc::new(Processes::new("never answers"));
    give(&bench, &helpers);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("go");
    while helpers.ids.lock().unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    thread.thread.submit(Op::Interrupt { turn_id: None, why: Interruption::Asked }).unwrap();
    assert_eq!(thread.ended().await.status, TurnStatus::Interrupted);
    assert!(helpers.are_gone());
}

#[tokio::test]
async fn a_turn_without_calls_starts_no_helper_and_full_access_never_does() {
    let read = || Say::Calls(vec![("read_file", json!({ "path": "AGENTS.md" }).to_string())]);
    let bench = Bench::new(vec![Say::Text("done"), read(), Say::Text("done"), read(), Say::Text("done")]);
    let helpers = Arc::new(Threads::serving());
    give(&bench, &helpers);
    fs::write(bench.cwd().join("AGENTS.md"), "be brief\n").unwrap();
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("go");
    thread.ended().await;
    let told = format!("{:?}", bench.model.requests.lock().unwrap()[0]);
    assert!(told.contains("be brief"), "the server read it: {told}");
    let started = || helpers.started.load(Ordering::SeqCst);
    assert_eq!(started(), 0);
    thread.prompt("read");
    thread.ended().await;
    assert_eq!((started(), bench.outputs()), (1, vec!["L1: be brief\n".to_owned()]));
    let sandbox = SandboxMode::DangerFullAccess;
    let config =
        crate::ThreadConfig { sandbox, approval_policy: ApprovalPolicy::Never, ..thread.thread.config().clone() };
    let mut full = Watched::new(bench.manager.start_thread(config).unwrap());
    full.prompt("read");
    full.ended().await;
    assert_eq!((started(), bench.outputs()), (1, vec!["L1: be brief\n".to_owned()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_record_of_changes_is_made_by_helpers_too() {
    let bench = Bench::new(vec![Say::Calls(vec![exec("later 0")]), Say::Text("done")]);
    let helpers = Arc::new(Threads::serving());
    give(&bench, &helpers);
    fs::write(bench.cwd().join("a.txt"), "old\n").unwrap();
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("go");
    bench.runner.spawned.notified().await;
    // What the command does. It was looked at before the command was started.
    fs::write(bench.cwd().join("a.txt"), "new\n").unwrap();
    let result = thread.ended().await;
    let diff = result.diff.as_deref().unwrap_or_default();
    assert!(diff.contains("-old") && diff.contains("+new"), "{result:?}");
    assert_eq!(helpers.started.load(Ordering::SeqCst), 1, "one look before and one after, by one helper");
}

#[tokio::test]
async fn a_turn_that_ends_leaves_no_helper_and_one_that_was_killed_while_it_waited_is_replaced() {
    let read = || Say::Calls(vec![("read_file", json!({ "path": "a.txt" }).to_string())]);
    let bench = Bench::new(vec![read(), read(), Say::Text("done"), read(), Say::Text("done")]);
    let helpers = Arc::new(Processes::new("serves once"));
    give(&bench, &helpers);
    fs::write(bench.cwd().join("a.txt"), "alpha\n").unwrap();
    let mut thread = bench.thread(ApprovalPolicy::Never);
    for (prompt, started) in [("go", 2), ("again", 3)] {
        thread.prompt(prompt);
        thread.ended().await;
        assert!(bench.outputs().iter().all(|output| output == "L1: alpha\n"), "{:?}", bench.outputs());
        assert_eq!(helpers.ids.lock().unwrap().len(), started);
        assert!(helpers.are_gone());
    }
}
