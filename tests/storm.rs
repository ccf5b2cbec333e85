//! Callers who ask for everything at once do not keep another from being served, nor take more memory and disk than their
//! shares: sessions, turns, long prompts, pictures, bodies sent by halves and rollouts, against the real server with small
//! limits. `OPENOXIDE_LONG=1` goes on for five minutes.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Client, Request, RequestBuilder, Response};
use serde_json::json;
use support::house::{House, initialize, result_of};
use support::listener::{Listener, token_of};
use support::model::{Model, calls};
use tokio::runtime::Runtime;

/// What the quiet caller waits for an answer at most, where nothing is lost. The machine of a test is as busy with sending the
/// storm as the server is with serving it; docs/performance.md says what a release build takes.
const PROMPT: Duration = Duration::from_secs(30);

/// Rounds of the quiet caller before the storm, and at least while it goes on.
const ROUNDS: usize = 6;

const MIB: usize = 1 << 20;

/// The limits of the server, small ones, so that a storm of seconds comes to each of them.
const LIMITS: [&str; 10] = [
    "model_provider=\"scripted\"",
    "mcp_server.max_threads=60",
    "mcp_server.max_history_bytes=67108864",
    "mcp_server.max_open_turns=20",
    "mcp_server.max_open_prompt_bytes=67108864",
    "mcp_server.http.max_sessions=40",
    "mcp_server.http.max_connections=200",
    "mcp_server.http.max_body_bytes=67108864",
    "mcp_server.max_picture_bytes=8388608",
    "history.max_bytes_per_principal=50331648",
];

/// What one caller may have on disk: its quota, and what its share of the turns writes before that is counted.
const DISK_OF_ONE: usize = 48 * MIB + 5 * 9 * MIB;

/// MiB of memory at most: what bodies may hold together; prompts, and the requests to the model that hold them; histories; pictures
/// of all turns that run, in the history and in the request; and the program.
const MEMORY: usize = 64 + 2 * 64 + 64 + 20 * 2 * 8 + 100;

struct Storm {
    house: House,
    /// The client of the caller who asks for little: a new connection for each request, and a thread of its own, so that it
    /// waits for the server alone.
    quiet: Client,
    is_over: AtomicBool,
    /// What the storm has been answered, and what it was refused.
    served: AtomicUsize,
    refused: AtomicUsize,
}

impl Storm {
    fn start(names: &[&str]) -> Arc<Self> {
        let home = tempfile::tempdir().unwrap();
        Model::start().configure(home.path());
        let arguments: Vec<&str> =
            LIMITS.iter().flat_map(|limit| ["-c", limit]).chain(["--rate-limit", "1000"]).collect();
        let house = House::of(Listener::with_tokens_in(home, names, &arguments));
        let quiet = Client::builder().pool_max_idle_per_host(0).no_proxy().tls_certs_only([]).build().unwrap();
        for at in 0..4 {
            let mut picture = b"\x89PNG\r\n\x1a\n".to_vec();
            picture.resize(MIB, at);
            std::fs::write(house.work.path().join(format!("{at}.png")), picture).unwrap();
        }
        let (served, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { house, quiet, is_over: AtomicBool::new(false), served, refused })
    }

    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn count(&self, answer: &Result<Response, reqwest::Error>) {
        let counter =
            if answer.as_ref().is_ok_and(|answer| answer.status() == 200) { &self.served } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// One request after the other, all the same.
    async fn repeat(self: Arc<Self>, request: Request) {
        while self.goes_on() {
            let answer = self.house.client.execute(request.try_clone().unwrap()).await;
            self.count(&answer);
            if let Ok(answer) = answer {
                drop(answer.bytes().await);
            }
        }
    }

    /// Sessions that are read from as long as they are let.
    async fn sessions(self: Arc<Self>, name: String) {
        let mut readers = Vec::new();
        while self.goes_on() {
            let answer = self.house.post(&initialize(json!({}))).bearer_auth(token_of(&name)).send().await;
            self.count(&answer);
            let Some(id) = answer.ok().and_then(|answer| answer.headers().get("mcp-session-id").cloned()) else {
                // Nothing more is let in, so it begins anew.
                readers.clear();
                continue;
            };
            let get = self.house.client.get(&self.house.url).header("accept", "text/event-stream");
            readers.extend(get.bearer_auth(token_of(&name)).header("mcp-session-id", id).send().await);
        }
    }

    /// Bodies of which the second half never comes. Blocks.
    fn halves(&self, name: &str) {
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n",
            self.house.listener.address,
            token_of(name),
            8 * MIB
        );
        let half = head + &" ".repeat(4 * MIB);
        let mut held = Vec::new();
        while self.goes_on() {
            let Ok(mut stream) = TcpStream::connect(self.house.listener.address) else { continue };
            // The server refuses what is more than the share, also while it is written.
            let _ = stream.write_all(half.as_bytes());
            held.push(stream);
            if held.len() > 30 {
                held.clear();
            }
        }
    }

    /// Everything at once, for one caller.
    fn unleash(self: &Arc<Self>, runtime: &Runtime, name: &str) {
        let look = |at: usize| ("view_image", json!({ "path": format!("{}.png", at % 4) }));
        let write = "head -c 400000 /dev/urandom | base64 > $$.txt; sleep 0.1; rm $$.txt";
        for (at_once, prompt) in [
            (12, calls(&[("exec_command", json!({ "cmd": "sleep 0.3", "yield_time_ms": 1000 }))])),
            (6, "x".repeat(8 * 1000 * 1000)),
            (4, calls(&(0..16).map(look).collect::<Vec<_>>())),
            (4, calls(&[("exec_command", json!({ "cmd": write })), ("list_dir", json!({ "path": "." }))])),
        ] {
            let request = self.house.start_turn(&prompt).bearer_auth(token_of(name)).build().unwrap();
            for _ in 0..at_once {
                runtime.spawn(Arc::clone(self).repeat(request.try_clone().unwrap()));
            }
        }
        runtime.spawn(Arc::clone(self).sessions(name.to_owned()));
        let (storm, name) = (Arc::clone(self), name.to_owned());
        std::thread::spawn(move || storm.halves(&name));
    }

    /// Sends a request of the caller who asks for little.
    async fn ask(&self, request: RequestBuilder) -> Response {
        let answer = self.quiet.execute(request.bearer_auth(token_of("bob")).build().unwrap()).await.unwrap();
        assert_eq!(answer.status(), 200);
        answer
    }

    /// One round of that caller: how long each of its calls took.
    async fn round(&self, session: &str) -> [Duration; 3] {
        let mut took = [Duration::ZERO; 3];
        for (at, method) in ["ping", "tools/list"].into_iter().enumerate() {
            let request = self.house.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": method }));
            let began = Instant::now();
            let result = result_of(self.ask(request.header("mcp-session-id", session)).await).await;
            took[at] = began.elapsed();
            assert!(result.is_object(), "{method}: {result}");
        }
        let began = Instant::now();
        let result = result_of(self.ask(self.house.start_turn("hello")).await).await;
        took[2] = began.elapsed();
        assert_eq!(result["structuredContent"]["status"], "completed", "{result}");
        took
    }

    /// A session of that caller.
    async fn session(&self) -> String {
        let answer = self.ask(self.house.post(&initialize(json!({})))).await;
        answer.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    }

    fn memory_mib(&self, which: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.house.listener.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(which)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
    }
}

/// Bytes of all files below a directory.
fn bytes_in(place: &Path) -> u64 {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
        // One that has gone since takes nothing.
        metadata => metadata.map_or(0, |metadata| metadata.len()),
    });
    sizes.sum()
}

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort();
    values[values.len() / 2]
}

fn show(rounds: &[[Duration; 3]]) -> [Duration; 3] {
    [0, 1, 2].map(|at| median(rounds.iter().map(|round| round[at]).collect()))
}

/// Storms with these callers, while bob goes on asking.
fn storm(greedy: &[&str]) {
    let names: Vec<&str> = greedy.iter().copied().chain(["bob"]).collect();
    let storm = Storm::start(&names);
    let own = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let session = own.block_on(storm.session());
    let quiet: Vec<_> = (0..ROUNDS).map(|_| own.block_on(storm.round(&session))).collect();
    let runtime = Runtime::new().unwrap();
    greedy.iter().for_each(|name| storm.unleash(&runtime, name));
    let long = std::env::var_os("OPENOXIDE_LONG").is_some();
    let lasts = Duration::from_secs(if long { 300 } else { 9 });
    let began = Instant::now();
    let (mut busy, mut most_on_disk) = (Vec::new(), 0);
    while busy.len() < ROUNDS || began.elapsed() < lasts {
        let took = own.block_on(storm.round(&session));
        assert!(took.iter().all(|one| *one < PROMPT), "round {}: {took:?}", busy.len());
        busy.push(took);
        most_on_disk = most_on_disk.max(bytes_in(&storm.house.listener.home.path().join("sessions")) as usize);
        assert_eq!(own.block_on(storm.session()).len(), session.len());
    }
    let (served, refused) = (storm.served.load(Ordering::Relaxed), storm.refused.load(Ordering::Relaxed));
    let (now, peak) = (storm.memory_mib("VmRSS:"), storm.memory_mib("VmHWM:"));
    storm.is_over.store(true, Ordering::Relaxed);
    eprintln!(
        "{} greedy: ping, tools/list, turn: quiet {:?}, in the storm {:?} ({} rounds), worst {:?}; {served} served, \
         {refused} refused; {now} MiB, at most {peak} MiB; {} MiB on disk",
        greedy.len(),
        show(&quiet),
        show(&busy),
        busy.len(),
        busy.iter().flatten().max().unwrap(),
        most_on_disk >> 20
    );
    assert!(served > 20 && refused > 20, "it came to the limits: {served} served, {refused} refused");
    assert!(most_on_disk < greedy.len() * DISK_OF_ONE, "{most_on_disk} bytes on disk");
    assert!(peak < MEMORY, "{peak} MiB");
    storm.house.listener.terminate();
    runtime.shutdown_background();
    support::eventually("the storm is over", || Arc::strong_count(&storm) == 1);
}

#[test]
fn one_caller_in_a_storm_keeps_no_other_from_being_served() {
    storm(&["ada"]);
}

#[test]
fn four_callers_in_a_storm_keep_no_other_from_being_served() {
    storm(&["ada", "eve", "ivo", "ute"]);
}
