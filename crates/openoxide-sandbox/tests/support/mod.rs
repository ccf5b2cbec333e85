//! What the integration tests share: specs, and looks at the process table.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "tests, which are functions of their own here")]

#[cfg(target_os = "linux")]
pub mod attempts;
#[cfg(target_os = "linux")]
pub mod checks;
#[cfg(target_os = "linux")]
pub mod house;

use std::collections::BTreeMap;
use std::time::Duration;

use openoxide_sandbox::{
    CommandSpec, DEFAULT_OUTPUT_LIMIT, ExitStatus, HostPaths, Launcher, SandboxPolicy, WaitOutcome,
};

/// The program that is the supervisor here.
pub const HELPER: &str = env!("CARGO_BIN_EXE_sandbox-test-helper");

/// Longer than any command here takes on a busy machine.
pub const LONG: Duration = Duration::from_secs(60);

pub fn launcher() -> Launcher {
    Launcher::new(HELPER.into(), HostPaths::default())
}

pub fn spec(argv: &[&str]) -> CommandSpec {
    CommandSpec {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        cwd: "/".into(),
        env: BTreeMap::from([("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())]),
        tty: false,
        policy: SandboxPolicy::full_access(),
        git_from: Vec::new(),
        output_limit: DEFAULT_OUTPUT_LIMIT,
        thread_marker: None,
    }
}

pub fn script(script: &str) -> CommandSpec {
    spec(&["bash", "-c", script])
}

pub fn code(code: i32) -> ExitStatus {
    ExitStatus { code: Some(code), signal: None }
}

/// Runs to the exit.
pub async fn finish(spec: CommandSpec) -> (ExitStatus, String) {
    let command = launcher().spawn(spec).await.expect("it starts");
    match command.wait(LONG).await {
        WaitOutcome::Exited(exit) => (exit, command.take_output().text),
        other => panic!("{other:?}"),
    }
}

/// A number of seconds to sleep that no other process sleeps, by which processes are found again.
pub fn mark() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("3{:07}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The processes, zombies left out, that have the mark as a word of their command line.
pub fn marked(mark: &str) -> Vec<u32> {
    let has_mark = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
    };
    pids().filter(has_mark).collect()
}

pub fn pids() -> impl Iterator<Item = u32> {
    std::fs::read_dir("/proc")
        .expect("/proc is there")
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// State letter and parent of a process.
pub fn state(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Looks again and again until it holds, within a bound.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + LONG;
    while !holds() {
        assert!(tokio::time::Instant::now() < deadline, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub mod scope {
    /// Makes `to` a copy of `from` that survives exec.
    #[allow(unsafe_code)]
    pub fn inheritable(from: i32, to: i32) {
        // SAFETY: both are plain numbers; the tests use no descriptor in that range.
        unsafe {
            if from == to {
                assert_eq!(libc::fcntl(from, libc::F_SETFD, 0), 0);
            } else {
                assert_eq!(libc::dup2(from, to), to);
            }
        }
    }
}
