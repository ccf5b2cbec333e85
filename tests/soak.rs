//! A server under mixed load for a while: turns, replies, queries, cancels, background commands, deletions. What it holds does not grow
//! with what it has done.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Server, eventually, openoxide};

/// How long it goes on, in seconds; in the long form (`OPENOXIDE_LONG=1`) two minutes.
const SHORT: u64 = 24;
const LONG: u64 = 120;
/// Threads in memory. More than these are begun in the settling quarter, so that their memory is in the first figure.
const THREADS: usize = 24;
/// Descriptors that come and go.
const SPARE: usize = 4;
/// KiB that the server may hold at the end beyond what it held after the settling quarter.
const GROWTH: u64 = 4 << 10;

struct House {
    home: tempfile::TempDir,
    work: tempfile::TempDir,
    server: Server,
    rounds: usize,
    /// The threads of the rounds before, oldest first.
    threads: std::collections::VecDeque<String>,
}

/// What a server holds with nothing to do.
#[derive(Debug, Clone, Copy)]
struct Held {
    descriptors: usize,
    kib: u64,
}

impl House {
    fn new() -> Self {
        let [home, work] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let most = format!("mcp_server.max_threads={THREADS}");
        let mut server = Server::start_in(home.path(), json!({}), &["-c", &most]);
        // What nobody asks for would fill this side.
        let level = server.request("logging/setLevel", json!({ "level": "emergency" }));
        server.answer(level);
        Self { home, work, server, rounds: 0, threads: std::collections::VecDeque::new() }
    }

    fn start(&mut self, prompt: &str) -> u64 {
        let arguments = json!({ "prompt": prompt, "cwd": self.work.path(), "approval_policy": "never" });
        self.server.call("openoxide", arguments)
    }

    fn completed(&mut self, call: u64) -> Value {
        let result = self.server.result(call);
        assert_eq!(result["status"], "completed", "{result:#}");
        result
    }

    /// Everything once, side by side.
    fn round(&mut self) {
        self.rounds += 1;
        let marker = self.work.path().join("runs");
        let query = json!({ "query": "list the files", "cwd": self.work.path() });
        let started = self.start("run `echo hello > greeting.txt; seq 2000`");
        let asked = self.server.call("openoxide-query", query);
        let given_up = self.start("run `touch runs; sleep 314`");
        let behind = self.start("run `sleep 314 >/dev/null 2>&1 & echo started`");
        let replied = self.threads.back().map(|thread| {
            self.server.call("openoxide-reply", json!({ "thread_id": thread, "prompt": "run `rm -f greeting.txt`" }))
        });
        eventually("the command runs", || marker.exists());
        let cancelled =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": given_up } });
        self.server.send(&cancelled);
        self.completed(asked);
        if let Some(call) = replied {
            self.completed(call);
        }
        let thread = self.completed(started)["threadId"].as_str().unwrap().to_owned();
        let close = json!({ "thread_id": self.completed(behind)["threadId"], "close": true });
        let close = self.server.call("openoxide-reply", close);
        self.server.answer(close);
        std::fs::remove_file(marker).unwrap();
        self.threads.push_back(thread);
        if self.threads.len() > 4 {
            let oldest = self.threads.pop_front().unwrap();
            let done = openoxide(self.home.path()).args(["threads", "delete", &oldest]).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
    }

    /// Goes on for this long, and for as many rounds at least.
    fn go_on(&mut self, time: Duration, least: usize) {
        let (end, enough) = (Instant::now() + time, self.rounds + least);
        while Instant::now() < end || self.rounds < enough {
            self.round();
        }
    }

    /// What is held when all that was begun has ended.
    fn held(&self) -> Held {
        eventually("no command is left", || !self.server.runs("sleep 314"));
        let pid = self.server.pid();
        let locks = || std::fs::read_dir(self.home.path().join("run/threads")).unwrap().flatten();
        let is_lock = |entry: &std::fs::DirEntry| entry.path().extension().is_some_and(|extension| extension == "lock");
        eventually("no thread is in use", || !locks().any(|entry| is_lock(&entry)));
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        Held { descriptors, kib: line.trim().strip_suffix(" kB").unwrap().trim().parse().unwrap() }
    }
}

#[test]
fn what_the_server_holds_does_not_grow_with_what_it_has_done() {
    let time = Duration::from_secs(if std::env::var_os("OPENOXIDE_LONG").is_some() { LONG } else { SHORT });
    let mut house = House::new();
    house.go_on(time / 4, THREADS);
    let (settled, rounds) = (house.held(), house.rounds);
    house.go_on(time * 3 / 4, 3 * THREADS);
    let ended = house.held();
    let figures = format!("{settled:?} after {rounds} rounds, {ended:?} after {}", house.rounds);
    eprintln!("{figures}");
    assert!(ended.descriptors <= settled.descriptors + SPARE, "{figures}");
    assert!(ended.kib <= settled.kib + GROWTH, "{figures}");
    house.server.close_input();
    assert!(house.server.wait_exit().success());
    house.server.expect_nothing_left();
}
