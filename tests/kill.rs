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

/// Files of a patch.
const FILES: usize = 40;
/// Kills of patches, and of undos. `OPENOXIDE_LONG` has fifty times as many.
const PATCH_ROUNDS: u32 = 8;

fn patch_rounds() -> u32 {
    PATCH_ROUNDS * if std::env::var_os("OPENOXIDE_LONG").is_some() { 50 } else { 1 }
}

fn write_files(work: &Path) {
    for i in 0..FILES {
        std::fs::write(work.join(format!("f{i}")), "old\n").unwrap();
    }
}

/// A prompt for a patch that changes all files, half of them by a move into a directory.
fn patch_prompt() -> String {
    let change = |i: usize| {
        let to = if i.is_multiple_of(2) { String::new() } else { format!("*** Move to: d/f{i}\n") };
        format!("*** Update File: f{i}\n{to}@@\n-old\n+new\n")
    };
    let changes: String = (0..FILES).map(change).collect();
    format!("run\n```\napply_patch <<'EOF'\n*** Begin Patch\n{changes}*** End Patch\nEOF\n```")
}

fn ledgers(home: &Path) -> usize {
    std::fs::read_dir(home.join("run/patches")).map_or(0, |entries| {
        entries
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "ledger"))
            .count()
    })
}

/// A moment within the work on all files; the first round's is its beginning.
fn pass_some_of_it(round: u32) {
    std::thread::sleep(Duration::from_micros(u64::from(round.wrapping_mul(2_654_435_769)) % 12_000));
}

/// Waits for the ledger of a patch, or until nothing is to be waited for any more.
fn await_ledger(home: &Path, mut is_over: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while ledgers(home) == 0 && !is_over() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no patch is applied");
        std::thread::yield_now();
    }
}

/// Whether all files are new; all are new or all old, and there is nothing else.
fn expect_all_or_nothing(work: &Path, round: u32) -> bool {
    let mut found = BTreeSet::new();
    for directory in [work.to_path_buf(), work.join("d")] {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(work).unwrap().to_string_lossy().into_owned();
            let text = if path.is_dir() { "directory".to_owned() } else { std::fs::read_to_string(&path).unwrap() };
            found.insert((name, text));
        }
    }
    let old: BTreeSet<_> = (0..FILES).map(|i| (format!("f{i}"), "old\n".to_owned())).collect();
    let moved = |i: usize| if i.is_multiple_of(2) { format!("f{i}") } else { format!("d/f{i}") };
    let mut new: BTreeSet<_> = (0..FILES).map(|i| (moved(i), "new\n".to_owned())).collect();
    new.insert(("d".to_owned(), "directory".to_owned()));
    // What is left of directories is the undo's to leave: it has no record of them.
    let files: BTreeSet<_> = found.iter().filter(|(name, _)| name != "d").cloned().collect();
    assert!(found == new || files == old, "round {round}: {found:?}");
    found == new
}

/// A place with files to change, a server on the home, and the call of a turn that changes them.
fn begin_patch(home: &Path) -> (tempfile::TempDir, Server, u64) {
    let work = tempfile::tempdir().unwrap();
    write_files(work.path());
    let mut server = Server::start_in(home, json!({}), &[]);
    let call = server.call("openoxide", json!({ "prompt": patch_prompt(), "cwd": work.path() }));
    (work, server, call)
}

/// The next server on the home, which puts right what was left before it answers anything.
fn next_server(home: &Path) -> Server {
    let server = Server::start_in(home, json!({}), &[]);
    assert_eq!(ledgers(home), 0);
    server
}

#[test]
fn kill_within_a_patch_of_many_files_leaves_all_of_it_or_nothing() {
    let home = tempfile::tempdir().unwrap();
    for round in 0..patch_rounds() {
        let (work, mut server, call) = begin_patch(home.path());
        // It may be over before this looks.
        let is_over = || work.path().join(format!("d/f{}", FILES - 1)).exists();
        await_ledger(home.path(), is_over);
        pass_some_of_it(round);
        server.kill();
        server.expect_nothing_left();
        let told = server.all_that_came();
        let thread = told.iter().rev().find_map(|message| message["params"]["_meta"]["threadId"].as_str());
        let thread = thread.expect("the turn is announced before its patch").to_owned();
        let is_answered = told.iter().any(|message| message["id"] == json!(call));

        let mut server = next_server(home.path());
        let is_new = expect_all_or_nothing(work.path(), round);
        assert!(is_new || !is_answered, "round {round}: what was answered is gone");
        let reply = server.call("openoxide-reply", json!({ "thread_id": thread, "prompt": "run `true`" }));
        assert_eq!(server.result(reply)["status"], "completed");
        server.close_input();
        assert!(server.wait_exit().success());

        // What was done is known, and nothing else.
        let undo = support::openoxide(home.path()).args(["threads", "undo", &thread]).output().unwrap();
        assert_eq!(undo.status.success(), is_new, "round {round}: {undo:?}");
        assert!(!expect_all_or_nothing(work.path(), round));
    }
}

#[test]
fn kill_within_an_undo_leaves_all_of_it_or_nothing() {
    let home = tempfile::tempdir().unwrap();
    for round in 0..patch_rounds() {
        let (work, mut server, call) = begin_patch(home.path());
        let thread = server.result(call)["threadId"].as_str().unwrap().to_owned();
        server.close_input();
        assert!(server.wait_exit().success());
        assert!(expect_all_or_nothing(work.path(), round));

        let mut undo = support::openoxide(home.path());
        let mut undo = undo.args(["threads", "undo", &thread]).stdout(std::process::Stdio::null()).spawn().unwrap();
        await_ledger(home.path(), || undo.try_wait().unwrap().is_some());
        pass_some_of_it(round);
        undo.kill().unwrap();
        undo.wait().unwrap();
        let mut server = next_server(home.path());
        let is_new = expect_all_or_nothing(work.path(), round);
        server.close_input();
        assert!(server.wait_exit().success());
        // The model is told of an undo that was done, and only of that.
        let notes = rollout_of(home.path(), &thread).matches("<changes_undone>").count();
        assert_eq!(notes, usize::from(!is_new), "round {round}");
    }
}
