//! Every tool while somebody exchanges files, directories, links and pipes under its hands: nothing of what is hidden comes
//! out, nothing outside is written, and nothing hangs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openoxide_sandbox::{HostPaths, Launcher, SandboxMode};
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};

use super::support::Bench;
use crate::tools::before::Before;
use crate::tools::reads::tests::Threads;
use crate::tools::{PictureRoom, Reader, ToolCall, ToolHost as _};
use crate::tools::{ToolEnv, TurnEnv};
use crate::turn::ContextDue;
use crate::turn::context;
use crate::{ApprovalPolicy, Thread, ThreadConfig, TurnId};

const SECRET: &str = "SECRET-TOKEN";

/// Calls of each tool.
const ROUNDS: usize = 300;

/// The longest one call may take; far above what it needs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A thread whose server keeps a secret beside its workspace.
pub(super) struct House {
    pub(super) bench: Bench,
    pub(super) thread: Arc<Thread>,
    top: PathBuf,
}

impl House {
    pub(super) fn new(sandbox: SandboxMode) -> Self {
        let bench = Bench::with(Vec::new(), |config| {
            let top = config.cwd.parent().unwrap().canonicalize().unwrap();
            fs::create_dir_all(top.join("home/sub")).unwrap();
            for name in ["key", "AGENTS.md", "f", "sub/f"] {
                fs::write(top.join("home").join(name), format!("{SECRET}\n")).unwrap();
            }
            let host_paths =
                HostPaths { state: Some(top.join("home")), tmpdir: Some(top.clone()), ..HostPaths::default() };
            config.launcher = Launcher::new("/nowhere".into(), host_paths);
        });
        let defaults = bench.manager.config().thread_defaults();
        let model = "gpt-that-sees".to_owned();
        let config = ThreadConfig { sandbox, model, approval_policy: ApprovalPolicy::OnRequest, ..defaults };
        let thread = bench.manager.start_thread(config).unwrap();
        let top = thread.config().cwd.parent().unwrap().to_owned();
        Self { bench, thread, top }
    }

    /// Makes pairs of names in the workspace that are exchanged until the guard is dropped.
    fn exchange(&self) -> Exchange {
        let work = &self.thread.config().cwd;
        fs::write(work.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        for name in ["f", "AGENTS.md", "g"] {
            fs::write(work.join(name), "inside\n").unwrap();
        }
        fs::create_dir(work.join("d")).unwrap();
        fs::write(work.join("d/f"), "inside\n").unwrap();
        fs::write(work.join(".gitignore"), "nothing\n").unwrap();
        let link = |to: &str, name: &str| symlink(to, work.join(name)).unwrap();
        link("../home/key", "f2");
        link("../home/AGENTS.md", "AGENTS2");
        link("../home", "d2");
        link("/dev/zero", "ignore2");
        mknodat(CWD, work.join("g2"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let pairs = [("f", "f2"), ("AGENTS.md", "AGENTS2"), ("d", "d2"), (".gitignore", "ignore2"), ("g", "g2")];
        Exchange::new(pairs.map(|(a, b)| (work.join(a), work.join(b))).to_vec())
    }

    fn env(&self) -> ToolEnv {
        let turn = TurnEnv {
            host: Arc::clone(&self.thread) as Arc<dyn crate::tools::ToolHost>,
            turn_id: TurnId::new(),
            diff: &Arc::default(),
            starts: &Arc::default(),
            pictures: &Arc::new(PictureRoom::new(1 << 20)),
        };
        ToolEnv::new(turn, "c".to_owned())
    }

    /// Runs one call of a tool to its end, asking nobody.
    pub(super) async fn call(&self, name: &str, arguments: serde_json::Value) -> String {
        let (env, custom) = (self.env(), name == "apply_patch");
        let input = if custom { arguments.as_str().unwrap().to_owned() } else { arguments.to_string() };
        let call = ToolCall { call_id: "c".into(), name: name.into(), input, custom };
        let mut prepared = self.thread.core.tools(self.thread.config()).parse(&env, &call).unwrap();
        let done = async {
            if prepared.changes_files() {
                prepared.prepare(&env).await;
            }
            prepared.run(env, 1).await
        };
        let outcome = tokio::time::timeout(PATIENCE, done).await.unwrap_or_else(|_| panic!("{name} hangs"));
        format!("{}{:?}", outcome.output, outcome.image)
    }
}

/// Exchanges names as fast as it can until it is dropped.
struct Exchange {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Exchange {
    fn new(pairs: Vec<(PathBuf, PathBuf)>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !asked.load(Ordering::Relaxed) {
                for (a, b) in &pairs {
                    // A patch may have one of them under another name at this moment.
                    let _ = renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE);
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn secret(house: &House) -> Vec<String> {
    let read = |name: &str| fs::read_to_string(house.top.join("home").join(name)).unwrap();
    ["key", "AGENTS.md", "f", "sub/f"].map(read).to_vec()
}

async fn reading_tools_give_nothing_away(sandbox: SandboxMode) {
    reading_tools_of(&House::new(sandbox)).await;
}

async fn reading_tools_of(house: &House) {
    let _exchange = house.exchange();
    let calls = [
        ("read_file", serde_json::json!({"path": "f"})),
        ("read_file", serde_json::json!({"path": "d/f"})),
        ("read_file", serde_json::json!({"path": "g"})),
        ("grep", serde_json::json!({"pattern": "SECRET|inside"})),
        ("grep", serde_json::json!({"pattern": "SECRET|inside", "path": "d"})),
        ("grep", serde_json::json!({"pattern": "SECRET|inside", "path": "f"})),
        ("list_dir", serde_json::json!({"path": "d", "depth": 3})),
    ];
    let mut seen = 0;
    for round in 0..ROUNDS {
        for (name, arguments) in &calls {
            let output = house.call(name, arguments.clone()).await;
            assert!(!output.contains(SECRET), "{name} in round {round}: {output}");
            assert!(!output.contains("sub/"), "{name} in round {round} lists what is hidden: {output}");
            seen += usize::from(output.contains("inside"));
        }
    }
    assert!(seen > ROUNDS, "the tools saw next to nothing: {seen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_tools_give_nothing_away_in_workspace_write() {
    reading_tools_give_nothing_away(SandboxMode::WorkspaceWrite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_tools_give_nothing_away_in_full_access() {
    reading_tools_give_nothing_away(SandboxMode::DangerFullAccess).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_tools_give_nothing_away_where_a_helper_reads() {
    let house = House::new(SandboxMode::WorkspaceWrite);
    let helpers = Arc::new(Threads::serving());
    *house.bench.runner.helpers.lock().unwrap() = Some(Arc::clone(&helpers) as _);
    reading_tools_of(&house).await;
    assert_eq!(helpers.started.load(Ordering::SeqCst), 1, "one read after the other, by one helper");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn project_documents_and_the_record_of_changes_give_nothing_away() {
    let house = House::new(SandboxMode::WorkspaceWrite);
    let _exchange = house.exchange();
    let core = &house.thread.core;
    for round in 0..ROUNDS {
        let view = || house.thread.view(house.thread.hold_directory().unwrap(), Reader::Server);
        let shell = core.shell;
        let (items, _) = context::due(ContextDue::Everything, &core.config, shell, house.thread.config(), &[], &view());
        assert!(!format!("{items:?}").contains(SECRET), "AGENTS.md in round {round}");
        let (place, seen) = (Arc::clone(&house.thread).read_place(), view());
        let changes = match Before::look(&place, move || Ok(seen)).await {
            Some(before) => before.changes(&place).await,
            None => None,
        };
        assert!(!format!("{changes:?}").contains(SECRET), "the record of changes in round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patches_write_nothing_outside() {
    let house = House::new(SandboxMode::WorkspaceWrite);
    let before = secret(&house);
    let _exchange = house.exchange();
    let mut applied = 0;
    for _ in 0..ROUNDS {
        for patch in [
            "*** Begin Patch\n*** Update File: f\n@@\n-inside\n+inside\n+more\n*** End Patch",
            "*** Begin Patch\n*** Update File: f\n@@\n-inside\n-more\n+inside\n*** End Patch",
            "*** Begin Patch\n*** Update File: d/f\n@@\n-inside\n+inside\n+more\n*** End Patch",
            "*** Begin Patch\n*** Update File: d/f\n@@\n-inside\n-more\n+inside\n*** End Patch",
            "*** Begin Patch\n*** Delete File: d/f\n*** Add File: d/f\n+inside\n*** End Patch",
        ] {
            let output = house.call("apply_patch", patch.into()).await;
            assert!(!output.contains(SECRET), "{output}");
            applied += usize::from(output.starts_with("Success"));
        }
    }
    assert!(applied > 0, "no patch was ever applied");
    drop(_exchange);
    assert_eq!(secret(&house), before);
    // But for what the server itself writes there.
    let is_outside = |entry: &fs::DirEntry| entry.file_name() != "run";
    let names = |directory: &Path| fs::read_dir(directory).unwrap().flatten().filter(is_outside).count();
    assert_eq!((names(&house.top.join("home")), names(&house.top.join("home/sub"))), (4, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_was_exchanged_is_refused_with_a_way_on() {
    let house = House::new(SandboxMode::WorkspaceWrite);
    let work = house.thread.config().cwd.clone();
    fs::write(work.join("f"), "inside\n").unwrap();
    fs::rename(&work, house.top.join("moved")).unwrap();
    symlink("home", &work).unwrap();
    let patch = "*** Begin Patch\n*** Add File: new\n+x\n*** End Patch";
    for (name, arguments) in [
        ("read_file", serde_json::json!({"path": "f"})),
        ("list_dir", serde_json::json!({})),
        ("grep", serde_json::json!({"pattern": "."})),
        ("apply_patch", patch.into()),
        ("exec_command", serde_json::json!({"cmd": "echo hi"})),
    ] {
        let output = house.call(name, arguments).await;
        assert!(output.contains("was moved: a symbolic link"), "{name}: {output}");
    }
    assert!(house.bench.commands().is_empty(), "no command was started");
    let mut watched = super::support::Watched::new(Arc::clone(&house.thread));
    watched.prompt("go on");
    let result = watched.ended().await;
    assert!(result.content.contains("openoxide threads fork ID --cwd DIR"), "{}", result.content);
    assert!(house.bench.model.requests.lock().unwrap().is_empty(), "the model was asked nothing");
}

#[test]
fn a_thread_in_what_is_the_servers_own_is_refused_in_every_mode() {
    let house = House::new(SandboxMode::WorkspaceWrite);
    for sandbox in [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite, SandboxMode::DangerFullAccess] {
        for cwd in [house.top.join("home"), house.top.join("home/sub"), house.top.join("work/../home")] {
            let defaults = house.bench.manager.config().thread_defaults();
            let refused = house.bench.manager.start_thread(ThreadConfig { cwd, sandbox, ..defaults });
            let error = refused.err().expect("it is refused");
            assert!(error.to_string().contains("belongs to the agent itself"), "{error}");
        }
    }
}

#[test]
fn a_reader_stays_out_of_the_systems_tmp_where_the_threads_own_cannot_be_made() {
    let bench = Bench::with(Vec::new(), |config| {
        let top = config.cwd.parent().unwrap().canonicalize().unwrap();
        config.launcher = Launcher::new("/nowhere".into(), HostPaths { tmpdir: Some(top), ..HostPaths::default() });
        config.workspace_write.private_tmp = Some(true);
    });
    let defaults = bench.manager.config().thread_defaults();
    let config = ThreadConfig { sandbox: SandboxMode::WorkspaceWrite, ..defaults };
    let thread = bench.manager.start_thread(config).unwrap();
    let system = tempfile::NamedTempFile::new_in("/tmp").unwrap();
    let place = thread.temporary_directory().unwrap().unwrap();
    fs::remove_dir(&place).unwrap();
    fs::write(&place, "in the way").unwrap();
    assert!(thread.temporary_directory().is_err());
    for reader in [Reader::Tool, Reader::Server] {
        let view = thread.view(thread.hold_directory().unwrap(), reader);
        assert!(view.open(system.path()).is_err());
    }
}
