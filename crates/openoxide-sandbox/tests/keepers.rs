//! One box for each thread: what its commands have in common, what they have not, and how the box ends.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::path::PathBuf;
use std::time::Duration;

use openoxide_sandbox::{
    CommandSpec, ExitStatus, HostPaths, Launcher, RunningCommand, SandboxMode, SandboxPolicy, WaitOutcome,
    WorkspaceWrite,
};
use support::{HELPER, LONG, code, mark, marked, script, until};

struct House {
    dir: tempfile::TempDir,
    launcher: Launcher,
}

impl House {
    fn new() -> Self {
        Self::keeping(LONG)
    }

    fn keeping(idle: Duration) -> Self {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        for name in ["ws/.git", "ws/src", "home/.ssh", "home/.openoxide"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("home/.ssh/id"), "secret-key").unwrap();
        let home = dir.path().join("home");
        let host_paths = HostPaths { state: Some(home.join(".openoxide")), home: Some(home), ..HostPaths::default() };
        Self { launcher: Launcher::new(HELPER.into(), host_paths).keeping(idle), dir }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn policy(&self, mode: SandboxMode) -> SandboxPolicy {
        SandboxPolicy::new(mode, self.at("ws"), WorkspaceWrite::default())
    }

    fn spec(&self, thread: &str, text: &str) -> CommandSpec {
        CommandSpec {
            cwd: self.at("ws"),
            policy: self.policy(SandboxMode::WorkspaceWrite),
            thread_marker: Some(thread.to_owned()),
            ..script(text)
        }
    }

    async fn start(&self, thread: &str, text: &str) -> RunningCommand {
        self.launcher.spawn(self.spec(thread, text)).await.unwrap()
    }

    async fn run(&self, thread: &str, text: &str) -> (ExitStatus, String) {
        finish(self.start(thread, text).await).await
    }

    /// The processes of the keepers, by what they are called with.
    fn keepers(&self, thread: &str) -> Vec<u32> {
        marked(thread)
    }
}

async fn finish(command: RunningCommand) -> (ExitStatus, String) {
    match command.wait(LONG).await {
        WaitOutcome::Exited(exit) => (exit, command.take_output().text),
        other => panic!("{other:?}: {}", command.take_output().text),
    }
}

/// Waits until the command has printed this.
async fn printed(command: &RunningCommand, what: &str) {
    let mut text = String::new();
    while !text.contains(what) {
        tokio::time::timeout(LONG, command.changed()).await.unwrap_or_else(|_| panic!("{what} never came: {text}"));
        text.push_str(&command.take_output().text);
        assert!(text.contains(what) || command.exit_status().is_none(), "{text}");
    }
}

const SERVER: &str = "exec python3 -u -c '
import http.server
server = http.server.HTTPServer((\"127.0.0.1\", 8123), http.server.SimpleHTTPRequestHandler)
print(\"listening\", flush=True)
server.serve_forever()' MARK";

const REQUEST: &str =
    "python3 -c 'import urllib.request; print(urllib.request.urlopen(\"http://127.0.0.1:8123/\", timeout=5).status)'";

#[tokio::test]
async fn a_server_is_started_reached_and_stopped_by_three_commands() {
    let (house, mark, thread) = (House::new(), mark(), mark());
    let server = house.start(&thread, &SERVER.replace("MARK", &mark)).await;
    printed(&server, "listening").await;
    let (exit, text) = house.run(&thread, REQUEST).await;
    assert_eq!((exit, text.trim()), (code(0), "200"));
    let (exit, text) =
        house.run(&thread, &format!("pkill -f {mark}\\$ ; sleep 0.01; pgrep -f {mark}\\$ | wc -l")).await;
    assert_eq!(exit, code(0), "{text}");
    assert_eq!(server.wait(LONG).await, WaitOutcome::Exited(ExitStatus { code: None, signal: Some(15) }));
    assert_eq!(house.launcher.kept(), 1);
}

#[tokio::test]
async fn two_threads_do_not_see_each_other() {
    let (house, mark, one, two) = (House::new(), mark(), mark(), mark());
    let server = house.start(&one, &SERVER.replace("MARK", &mark)).await;
    printed(&server, "listening").await;
    assert_ne!(house.run(&two, REQUEST).await.0, code(0));
    let (_, text) = house.run(&two, &format!("pgrep -f {mark}\\$; pkill -f {mark}\\$; kill -9 -1; true")).await;
    assert!(!text.contains(char::is_numeric), "{text}");
    assert_eq!(house.run(&one, REQUEST).await.0, code(0));
}

#[tokio::test]
async fn what_may_be_written_is_each_commands_own() {
    let house = House::new();
    let thread = mark();
    let text =
        "echo x > made && cat made; echo x > .git/config; echo x > .codex/x; cat ../home/.ssh/id; echo x > ../out";
    let (_, text) = house.run(&thread, text).await;
    assert!(text.starts_with("x\n") && !text.contains("secret"), "{text}");
    assert_eq!(text.matches("Read-only file system").count() + text.matches("Permission denied").count(), 4, "{text}");
    // What was made since is protected in the next command, and was not in the one that made it.
    assert_eq!(house.run(&thread, "mkdir -p sub/.git && echo x > sub/.git/config").await.0, code(0));
    let (exit, text) = house.run(&thread, "echo y > sub/.git/config; touch ../made; echo z > made").await;
    assert_eq!(exit, code(0), "{text}");
    assert!(text.contains("sub/.git/config: Read-only"), "{text}");
    // What has taken the place of something hidden is as hidden.
    std::fs::write(house.at("home/new"), "secret-new").unwrap();
    std::fs::rename(house.at("home/.ssh"), house.at("home/old")).unwrap();
    std::fs::rename(house.at("home/new"), house.at("home/.ssh")).unwrap();
    let (_, text) = house.run(&thread, "cat ../home/.ssh; cat ../home/old/id").await;
    assert!(!text.contains("secret-new"), "{text}");
    assert_eq!(house.launcher.kept(), 1);
    assert!(house.at("ws/.codex").symlink_metadata().is_err(), "a placeholder is left");
}

#[tokio::test]
async fn a_command_has_its_own_session_and_nothing_open() {
    let house = House::new();
    let thread = mark();
    let (exit, text) =
        house.run(&thread, "ls -l /proc/self/fd | wc -l; cut -d' ' -f5,6 /proc/$$/stat; echo $$; readlink /proc/1/fd/0 || cat /proc/1/environ || ls /proc/1/root/ || readlink /proc/$PPID/fd/0").await;
    let lines: Vec<&str> = text.lines().collect();
    // The total, the standard three, and the listing itself.
    assert_eq!(lines[0], "5", "{text}");
    assert_eq!(lines[1], format!("{0} {0}", lines[2]), "{text}");
    assert_ne!(exit, code(0), "{text}");
}

#[tokio::test]
async fn killing_everything_within_reach_ends_the_box_and_no_more() {
    let house = House::new();
    let (thread, mark) = (mark(), mark());
    let sleeper = house.start(&thread, &format!("sleep {mark}; true")).await;
    let killer = house.start(&thread, "kill -9 -1; sleep 100; true").await;
    assert_eq!(killer.wait(LONG).await, WaitOutcome::Exited(ExitStatus { code: None, signal: Some(9) }));
    assert!(killer.take_output().text.contains(" ended: a command"));
    assert_eq!(sleeper.wait(LONG).await, WaitOutcome::Exited(ExitStatus { code: None, signal: Some(9) }));
    until("nothing runs", || marked(&mark).is_empty()).await;
    assert_eq!(house.run(&thread, "echo again").await, (code(0), "again\n".to_owned()));
    assert!(!house.at("ws/.codex").exists());
}

#[tokio::test]
async fn a_killed_subreaper_takes_its_tree_along_and_no_other() {
    let house = House::new();
    let (thread, mark, other) = (mark(), mark(), mark());
    let kept = house.start(&thread, &format!("echo ready; sleep {other}; true")).await;
    printed(&kept, "ready").await;
    let command = house
        .start(&thread, &format!("(setsid sleep {mark} &) ; sleep {mark} & kill -9 $PPID; sleep {mark}; true"))
        .await;
    assert_eq!(command.wait(LONG).await, WaitOutcome::Exited(ExitStatus { code: None, signal: Some(9) }));
    until("nothing runs", || marked(&mark).is_empty()).await;
    assert_eq!((marked(&other).len(), kept.exit_status()), (1, None));
    kept.terminate().await;
    assert!(!kept.tree_alive() && marked(&other).is_empty());
}

#[tokio::test]
async fn a_command_is_interrupted_without_a_terminal() {
    let house = House::new();
    let command = house.start(&mark(), "echo ready; sleep 100").await;
    printed(&command, "ready").await;
    command.write_stdin(b"\x04").await.unwrap();
    command.write_stdin(b"\x03").await.unwrap();
    assert_eq!(command.wait(LONG).await, WaitOutcome::Exited(ExitStatus { code: None, signal: Some(2) }));
}

#[tokio::test]
async fn the_box_ends_when_nothing_has_run_for_a_while() {
    let house = House::keeping(Duration::from_millis(1));
    let thread = mark();
    let command = house.start(&thread, "echo ready; sleep 100").await;
    printed(&command, "ready").await;
    assert!(!house.keepers(&thread).is_empty());
    command.terminate().await;
    until("it is gone", || house.launcher.kept() == 0 && house.keepers(&thread).is_empty()).await;
    let house = House::new();
    assert_eq!(house.run(&thread, "true").await.0, code(0));
    assert!(!house.keepers(&thread).is_empty());
    house.launcher.release(&thread);
    until("it is gone", || house.launcher.kept() == 0 && house.keepers(&thread).is_empty()).await;
}

#[tokio::test]
async fn under_another_policy_the_thread_has_another_box() {
    let (house, mark) = (House::new(), mark());
    let thread = support::mark();
    let old = house.start(&thread, &format!("echo ready; sleep {mark}; true")).await;
    printed(&old, "ready").await;
    let read_only =
        CommandSpec { policy: house.policy(SandboxMode::ReadOnly), ..house.spec(&thread, "pgrep sleep; touch x") };
    let (exit, text) = finish(house.launcher.spawn(read_only.clone()).await.unwrap()).await;
    assert_eq!(exit, code(1), "{text}");
    assert!(text.contains("Read-only"), "{text}");
    assert_eq!((house.launcher.kept(), old.exit_status()), (2, None));
    old.terminate().await;
    until("the old one is gone", || house.launcher.kept() == 1).await;
}

#[tokio::test]
async fn a_wider_command_is_in_the_same_box() {
    let (house, mark, thread) = (House::new(), mark(), mark());
    let old = house.start(&thread, &format!("echo ready; sleep {mark}; true")).await;
    printed(&old, "ready").await;
    std::fs::create_dir(house.at("more")).unwrap();
    let mut wider = house.spec(&thread, "touch ../more/x && pgrep -f ^sleep && ls /sys/class/net | wc -l");
    wider.policy.widening.writable_roots = vec![house.at("more")];
    let (exit, text) = finish(house.launcher.spawn(wider.clone()).await.unwrap()).await;
    assert_eq!(exit, code(0), "{text}");
    assert_eq!(house.launcher.kept(), 1);
    assert_ne!(house.run(&thread, "touch ../more/y").await.0, code(0));
    // In the machine's network, and not in the thread's.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    let mut reaching = house.spec(&thread, &connect);
    reaching.policy.widening.network = true;
    assert_eq!(finish(house.launcher.spawn(reaching).await.unwrap()).await.0, code(0));
    assert_ne!(house.run(&thread, &connect).await.0, code(0));
    assert_eq!(house.launcher.kept(), 1);
}

#[tokio::test]
async fn a_reader_sees_what_commands_see_and_writes_nothing() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let house = House::new();
    std::fs::write(house.at("ws/file"), "text").unwrap();
    let spec = house.spec(&mark(), "");
    let mut reader = house.launcher.reader(spec, 256 << 20).await.unwrap();
    for (path, expected) in [("ws/file", "4"), ("home/.ssh/id", "none"), ("ws/none", "none")] {
        let line = format!("{}\n", house.at(path).display());
        reader.socket().write_all(line.as_bytes()).await.unwrap();
        let mut answer = [0; 64];
        let read = reader.socket().read(&mut answer).await.unwrap();
        assert_eq!(std::str::from_utf8(&answer[..read]).unwrap().trim(), expected, "{path}");
    }
    let line = format!("+{}\n", house.at("ws/written").display());
    reader.socket().write_all(line.as_bytes()).await.unwrap();
    let mut answer = [0; 64];
    let read = reader.socket().read(&mut answer).await.unwrap();
    assert_eq!(std::str::from_utf8(&answer[..read]).unwrap().trim(), "none");
    assert!(!house.at("ws/written").exists());
    reader.kill();
    assert_eq!(reader.socket().read(&mut answer).await.unwrap_or(0), 0);
}

/// Who is killed, from outside, in one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Outside,
    Keeper,
    Forker,
    Subreaper,
    Server,
}

/// The processes of a box whose server is a process of its own, as the host numbers them.
fn processes_of(server: u32, thread: &str) -> Option<[u32; 5]> {
    let boxed = marked(thread);
    let child_of =
        |parent: u32| boxed.iter().copied().filter(move |pid| support::state(*pid).is_some_and(|(_, of)| of == parent));
    let outside = child_of(server).next()?;
    let keeper = child_of(outside).next()?;
    // The forker is the keeper's first child; the subreaper is told by having a child.
    let mut children: Vec<u32> = child_of(keeper).collect();
    children.sort_unstable();
    let has_child = |parent: u32| support::pids().any(|pid| support::state(pid).is_some_and(|(_, of)| of == parent));
    let subreaper = children.iter().copied().find(|pid| has_child(*pid))?;
    let forker = children.iter().copied().find(|pid| *pid != subreaper)?;
    Some([outside, keeper, forker, subreaper, server])
}

/// Whichever two are killed in the same instant, nothing is left, and nothing of it in the workspace once the next command has run.
#[tokio::test]
async fn nothing_is_left_whoever_is_killed() {
    let all = [Victim::Outside, Victim::Keeper, Victim::Forker, Victim::Subreaper, Victim::Server];
    let pairs: Vec<(Victim, Victim)> =
        all.iter().enumerate().flat_map(|(at, one)| all[at..].iter().map(move |two| (*one, *two))).collect();
    let is_long = std::env::var_os("OPENOXIDE_LONG").is_some();
    let rounds = if is_long { 200 } else { pairs.len() };
    for round in 0..rounds {
        let (one, two) = pairs[round % pairs.len()];
        let house = House::new();
        let mark = mark();
        let text =
            format!("(setsid sleep {mark} &) ; nohup sleep {mark} >/dev/null 2>&1 & echo x > made; sleep {mark}; true");
        let path = |name: &str| house.at(name).to_str().unwrap().to_owned();
        let mut server = std::process::Command::new(HELPER)
            .args(["run", "workspace-write@namespaces+kept", &path("ws"), &path("home"), "bash", "-c", &text])
            .env_clear()
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut found = None;
        until("the box runs", || {
            found = processes_of(server.id(), "kept").filter(|_| marked(&mark).len() == 3);
            found.is_some()
        })
        .await;
        let found = found.unwrap();
        for victim in [one, two] {
            let pid = found[all.iter().position(|known| *known == victim).unwrap()];
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let _ = server.wait();
        until(&format!("all are gone after {one:?} and {two:?}"), || {
            marked(&mark).is_empty()
                && found[..4].iter().all(|pid| support::state(*pid).is_none_or(|(state, _)| state == 'Z'))
        })
        .await;
        assert_eq!(house.run(&support::mark(), "true").await.0, code(0));
        let mut names: Vec<_> = std::fs::read_dir(house.at("ws"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, [".git", "made", "src"], "after {one:?} and {two:?}");
    }
}
