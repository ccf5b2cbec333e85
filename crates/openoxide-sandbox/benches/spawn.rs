//! What the supervisor costs: `true` run plainly, through it, and through it in each confined mode; and in the box of a thread, as
//! its first command and as a later one.

use std::collections::BTreeMap;
use std::time::Duration;

use openoxide_sandbox::{
    CommandSpec, DEFAULT_OUTPUT_LIMIT, HostPaths, Launcher, SandboxMode, SandboxPolicy, WorkspaceWrite,
};

const HELPER: &str = env!("CARGO_BIN_EXE_sandbox-test-helper");

fn main() {
    divan::main();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime can be made")
}

#[divan::bench(sample_count = 300, sample_size = 1)]
fn plain(bencher: divan::Bencher) {
    bencher.bench(|| {
        #[expect(clippy::disallowed_methods, reason = "the floor to compare with")]
        let mut command = std::process::Command::new("/bin/true");
        command.env_clear().output().expect("it runs")
    });
}

#[divan::bench(sample_count = 300, sample_size = 1)]
fn helper_alone(bencher: divan::Bencher) {
    bencher.bench(|| {
        #[expect(clippy::disallowed_methods, reason = "what starting the supervisor's program costs by itself")]
        let mut command = std::process::Command::new(HELPER);
        command.env_clear().output().expect("it runs")
    });
}

#[divan::bench(sample_count = 300, sample_size = 1)]
fn supervised(bencher: divan::Bencher) {
    supervise(bencher, false);
}

/// As for a server with a home: the command is in the ledger, and in a control group where one can be had.
#[divan::bench(sample_count = 300, sample_size = 1)]
fn supervised_and_written_down(bencher: divan::Bencher) {
    let home = tempfile::tempdir_in("/var/tmp").expect("a directory can be made");
    let host_paths = HostPaths { state: Some(home.path().into()), ..HostPaths::default() };
    start_and_wait(bencher, SandboxPolicy::full_access(), host_paths, false, None);
}

#[divan::bench(sample_count = 300, sample_size = 1)]
fn read_only(bencher: divan::Bencher) {
    confine(bencher, SandboxMode::ReadOnly);
}

#[divan::bench(sample_count = 300, sample_size = 1)]
fn workspace_write(bencher: divan::Bencher) {
    confine(bencher, SandboxMode::WorkspaceWrite);
}

#[divan::bench(sample_count = 300, sample_size = 1)]
fn workspace_write_first_of_a_thread(bencher: divan::Bencher) {
    confine_in(bencher, SandboxMode::WorkspaceWrite, Some(true));
}

#[divan::bench(sample_count = 300, sample_size = 1)]
fn workspace_write_in_a_thread(bencher: divan::Bencher) {
    confine_in(bencher, SandboxMode::WorkspaceWrite, Some(false));
}

#[divan::bench(sample_count = 300, sample_size = 1)]
fn read_only_in_a_thread(bencher: divan::Bencher) {
    confine_in(bencher, SandboxMode::ReadOnly, Some(false));
}

#[divan::bench(sample_count = 300, sample_size = 1)]
fn supervised_on_a_terminal(bencher: divan::Bencher) {
    supervise(bencher, true);
}

/// With 256 MiB of this process in use, as a server may have.
#[divan::bench(sample_count = 100, sample_size = 1)]
fn supervised_from_a_large_server(bencher: divan::Bencher) {
    let ballast = vec![1_u8; 256 << 20];
    supervise(bencher, false);
    divan::black_box(ballast);
}

fn supervise(bencher: divan::Bencher, tty: bool) {
    start_and_wait(bencher, SandboxPolicy::full_access(), HostPaths::default(), tty, None);
}

/// In a workspace with a repository, below a home with secrets, as it is for most commands.
fn confine(bencher: divan::Bencher, mode: SandboxMode) {
    confine_in(bencher, mode, None);
}

/// The same for a thread: each command the first of another one, or all of one.
fn confine_in(bencher: divan::Bencher, mode: SandboxMode, is_first: Option<bool>) {
    let house = tempfile::tempdir_in("/var/tmp").expect("a directory can be made");
    let (workspace, home) = (house.path().join("workspace"), house.path().join("home"));
    for path in [workspace.join(".git"), workspace.join("src"), home.join(".ssh"), home.join(".openoxide")] {
        std::fs::create_dir_all(path).expect("a directory can be made");
    }
    let policy = SandboxPolicy::new(mode, workspace, WorkspaceWrite::default());
    let state = Some(home.join(".openoxide"));
    start_and_wait(bencher, policy, HostPaths { home: Some(home), state, ..HostPaths::default() }, false, is_first);
}

fn start_and_wait(
    bencher: divan::Bencher,
    policy: SandboxPolicy,
    host_paths: HostPaths,
    tty: bool,
    is_first: Option<bool>,
) {
    let runtime = runtime();
    let launcher = Launcher::new(HELPER.into(), host_paths);
    let spec = CommandSpec {
        argv: vec!["/bin/true".to_owned()],
        cwd: policy.workspace.clone(),
        env: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
        tty,
        policy,
        git_from: Vec::new(),
        output_limit: DEFAULT_OUTPUT_LIMIT,
        thread_marker: None,
    };
    let number = std::cell::Cell::new(0);
    let thread = || {
        number.set(number.get() + u32::from(is_first == Some(true)));
        is_first.map(|_| number.get().to_string())
    };
    bencher.with_inputs(|| CommandSpec { thread_marker: thread(), ..spec.clone() }).bench_local_values(|spec| {
        runtime.block_on(async {
            let command = launcher.spawn(spec).await.expect("it starts");
            command.wait(Duration::from_secs(60)).await
        })
    });
}
