//! What a read costs that a process in the thread's box does, beside one that the server does: turns of each kind in turn, so
//! that whatever else the machine does meets all of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openoxide_core::{
    Attachment, Config, Event, HostPaths, Interruption, Launcher, Op, SandboxMode, ThreadConfig, ThreadManager,
    TurnItemKind,
};
use openoxide_test_support::{Say, ScriptedModel};

/// Turns of each kind.
const TURNS: usize = 60;

/// Reads of each turn, one after the other.
const READS: usize = 20;

const MODES: [(&str, SandboxMode); 3] = [
    ("in the server (full access)", SandboxMode::DangerFullAccess),
    ("in the box (read-only)", SandboxMode::ReadOnly),
    ("in the box (workspace-write)", SandboxMode::WorkspaceWrite),
];

struct Kind {
    name: &'static str,
    manager: Arc<ThreadManager>,
    thread: Arc<openoxide_core::Thread>,
    first: Vec<Duration>,
    others: Vec<Duration>,
    _workspace: tempfile::TempDir,
}

fn main() {
    openoxide_sandbox::dispatch_helper_with(Some(openoxide_core::serve_reads));
    tokio::runtime::Runtime::new().expect("a runtime can be made").block_on(run());
}

async fn run() {
    let mut kinds: Vec<Kind> = MODES.into_iter().map(|(name, mode)| kind(name, mode)).collect();
    for turn in 0..TURNS {
        for kind in &mut kinds {
            let took = reads_of_a_turn(kind).await;
            assert_eq!(took.len(), READS, "{}: not every read was done", kind.name);
            // The first turn starts the keeper as well.
            if turn > 0 {
                kind.first.push(took[0]);
                kind.others.extend(&took[1..]);
            }
        }
    }
    for kind in &mut kinds {
        let (first, others) = (told(&mut kind.first), told(&mut kind.others));
        eprintln!("{:30} first of a turn {first}, others {others}", kind.name);
        kind.manager.shutdown(&Interruption::ServerStopped).await;
    }
}

fn kind(name: &'static str, sandbox: SandboxMode) -> Kind {
    let workspace = tempfile::tempdir_in("/var/tmp").expect("a directory can be made");
    std::fs::write(workspace.path().join("a.txt"), "a line of text\n".repeat(200)).expect("a file can be written");
    let turn = || {
        let read = || Say::Call("read_file", r#"{"path": "a.txt"}"#.to_owned());
        (0..READS).map(move |_| read()).chain([Say::Text("done")])
    };
    let model = ScriptedModel::new((0..TURNS).flat_map(|_| turn()));
    let launcher = Launcher::new(std::env::current_exe().expect("this program has a path"), HostPaths::default());
    let manager = ThreadManager::new(Config::new(workspace.path().to_owned(), "script".to_owned(), model, launcher));
    let config = ThreadConfig { sandbox, ..manager.config().thread_defaults() };
    let thread = manager.start_thread(config).expect("a thread can be started");
    Kind { name, manager, thread, first: Vec::new(), others: Vec::new(), _workspace: workspace }
}

async fn reads_of_a_turn(kind: &Kind) -> Vec<Duration> {
    let (_, attachment) = kind.thread.submit_and_attach(Op::UserInput { text: "read".to_owned() }).expect("it is open");
    let Attachment { mut events, .. } = attachment;
    let (mut began, mut took) = (None, Vec::new());
    while let Some(event) = events.next().await {
        match event {
            Event::ItemStarted { item, .. } if matches!(item.kind, TurnItemKind::Tool { .. }) => {
                began = Some(Instant::now())
            }
            Event::ItemCompleted { item, .. } => {
                if let TurnItemKind::Tool { status, .. } = &item.kind {
                    assert_eq!(*status, openoxide_core::ItemStatus::Completed, "{item:?}");
                    took.extend(began.take().map(|began| began.elapsed()));
                }
            }
            Event::TurnEnded { .. } => break,
            _ => {}
        }
    }
    took
}

fn told(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e3;
    format!("{:.3} ms (p25 {:.3}, p75 {:.3})", at(50), at(25), at(75))
}
