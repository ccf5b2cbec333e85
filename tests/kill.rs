//! kill -9 at random moments of turns with commands and patches: nothing runs on, nothing that was announced is lost,
//! nothing is half written, and every thread goes on.
//!
//! `OPENOXIDE_KILL_ROUNDS` sets the number of rounds; a round takes about a third of a second.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use support::Server;

const ROUNDS: u32 = 24;
/// The latest moment of a kill after the call was sent, in ms: about when the turn is over.
const LATEST: u64 = 350;
/// Bytes of a file that patches write and replace.
const LONG: usize = 3000;

/// A round's turn: commands, one in a session of its own, and patches of a file between them.
fn prompt(round: u32) -> String {
    let (old, new) = ("y".repeat(LONG), "z".repeat(LONG));
    format!(
        "run `seq 1 200 > out{round}.txt; sleep 0.02; setsid sleep 306 & sleep 0.05; echo done`; create `f{round}.txt` \
         with `{old}`; run `touch t{round}`; replace `{old}` by `{new}` in f{round}.txt; run `sleep 0.05`"
    )
}

/// What the client was told is complete: the ids of calls, and the texts of messages.
fn announced(messages: &[Value]) -> (BTreeSet<String>, Vec<String>) {
    let (mut calls, mut texts) = (BTreeSet::new(), Vec::new());
    for message in messages {
        let data = &message["params"]["data"];
        if data["type"] != "item_completed" {
            continue;
        }
        calls.extend(data["item"]["callId"].as_str().map(str::to_owned));
        if data["item"]["type"] == "message" {
            texts.extend(data["item"]["text"].as_str().map(str::to_owned));
        }
    }
    (calls, texts)
}

fn rollout_of(home: &Path, thread: &str) -> String {
    let mut waiting = vec![home.join("sessions")];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                waiting.push(entry.path());
            } else if entry.file_name().to_string_lossy().contains(thread) {
                return String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned();
            }
        }
    }
    panic!("thread {thread} was announced and has no rollout");
}

#[test]
fn kill_at_any_moment_leaves_nothing_running_and_loses_nothing_that_was_told() {
    let (home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let rounds = std::env::var("OPENOXIDE_KILL_ROUNDS").map_or(ROUNDS, |text| text.parse().unwrap());
    let mut threads: Vec<String> = Vec::new();
    for round in 0..rounds {
        let mut server = Server::start_in(home.path(), json!({}), &[]);
        if round % 3 == 2 && !threads.is_empty() {
            let thread = &threads[round as usize % threads.len()];
            server.call("openoxide-reply", json!({ "thread_id": thread, "prompt": prompt(round) }));
        } else {
            server.call("openoxide", json!({ "prompt": prompt(round), "cwd": work.path() }));
        }
        // Moments spread over the turn in an order without a pattern (the golden ratio's multiples).
        std::thread::sleep(Duration::from_millis(u64::from(round.wrapping_mul(2_654_435_769)) % LATEST));
        server.kill();
        server.expect_nothing_left();

        let told = server.all_that_came();
        let thread = told.iter().rev().find_map(|message| message["params"]["_meta"]["threadId"].as_str());
        let Some(thread) = thread.map(str::to_owned) else { continue };
        let rollout = rollout_of(home.path(), &thread);
        let (calls, texts) = announced(&told);
        for call in calls {
            assert!(rollout.matches(&call).count() >= 2, "round {round}: call {call} and its output in {rollout}");
        }
        for text in texts {
            assert!(rollout.contains(&json!(text).to_string()), "round {round}: {text} in {rollout}");
        }
        if !threads.contains(&thread) {
            threads.push(thread);
        }
        expect_whole(work.path(), round);
    }
    assert!(!threads.is_empty(), "no round got far enough to say which thread it works on");

    let mut server = Server::start_in(home.path(), json!({}), &[]);
    for thread in &threads {
        let reply = server.call("openoxide-reply", json!({ "thread_id": thread, "prompt": "run `true`" }));
        assert_eq!(server.result(reply)["status"], "completed");
    }
    server.close_input();
    assert!(server.wait_exit().success());
    // What a killed sandbox kept a place with goes with the next command.
    for entry in std::fs::read_dir(work.path()).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(!name.starts_with('.'), "{name} is left behind");
    }
}

/// No file is half written.
fn expect_whole(work: &Path, round: u32) {
    for entry in std::fs::read_dir(work).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('f') {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            let text = text.trim_end();
            assert!(text == "y".repeat(LONG) || text == "z".repeat(LONG), "round {round}: {name} is half written");
        }
    }
}
