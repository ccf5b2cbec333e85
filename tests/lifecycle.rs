//! What the real server leaves behind: nothing, in whichever way it or a turn ends (law 3).
//!
//! Each test runs a command with a child, and one in a session of its own, and then takes away the input, the server, or
//! the call.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use serde_json::{Value, json};
use support::{Server, eventually};

/// A command whose parts can be told apart; one escapes the process group and the session.
const TREE: &str = "run `setsid sleep 301 & sleep 302 & sleep 303`";

fn arguments(prompt: &str, cwd: &tempfile::TempDir) -> Value {
    json!({ "prompt": prompt, "cwd": cwd.path(), "approval_policy": "never" })
}

/// A server in whose turn the tree runs, and the call's id.
fn with_tree(cwd: &tempfile::TempDir) -> (Server, u64) {
    let mut server = Server::start(json!({}));
    let call = server.call("openoxide", arguments(TREE, cwd));
    eventually("the whole tree runs", || ["sleep 301", "sleep 302", "sleep 303"].iter().all(|one| server.runs(one)));
    (server, call)
}

#[test]
fn end_of_input_ends_the_server_and_all_it_started() {
    let cwd = tempfile::tempdir().unwrap();
    let (mut server, _) = with_tree(&cwd);
    server.close_input();
    assert!(server.wait_exit().success());
    server.expect_nothing_left();
}

#[test]
fn a_killed_server_leaves_nothing_running() {
    let cwd = tempfile::tempdir().unwrap();
    let (mut server, _) = with_tree(&cwd);
    server.kill();
    server.expect_nothing_left();
}

#[test]
fn a_cancelled_call_takes_its_processes_along_and_the_thread_goes_on() {
    let cwd = tempfile::tempdir().unwrap();
    let (mut server, call) = with_tree(&cwd);
    let thread = server.thread_of(call);
    server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": call } }));
    eventually("the tree is gone", || !server.processes().iter().any(|line| line.contains("sleep 30")));

    let reply = server.call("openoxide-reply", json!({ "thread_id": thread, "prompt": "run `touch alive.txt`" }));
    let result = server.result(reply);
    assert_eq!((&result["status"], &result["threadId"]), (&json!("completed"), &json!(thread)));
    assert!(cwd.path().join("alive.txt").exists());
    assert!(!server.has_answered(call), "a cancelled request gets no answer");

    server.close_input();
    assert!(server.wait_exit().success());
    server.expect_nothing_left();
}

#[test]
fn the_end_of_an_interrupted_turn_is_told_when_its_commands_are_gone() {
    let cwd = tempfile::tempdir().unwrap();
    let mut server = Server::start(json!({}));
    let call = server
        .call("openoxide", arguments("run `trap 'sleep 0.3; touch late.txt; exit' TERM; sleep 311 & wait`", &cwd));
    let thread = server.thread_of(call);
    eventually("the command runs", || server.runs("sleep 311"));
    let interrupt = server.call("openoxide-reply", json!({ "thread_id": thread, "interrupt": true }));
    let result = server.result(interrupt);
    assert!(!server.processes().iter().any(|line| line.contains("sleep")), "{:?}", server.processes());
    assert_eq!((&result["status"], &result["filesChanged"]), (&json!("interrupted"), &json!(["late.txt"])));
    let names: Vec<_> = std::fs::read_dir(cwd.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["late.txt"], "the sandbox leaves no placeholder");
    assert_eq!(server.result(call)["status"], "interrupted");
}

#[test]
fn what_ignores_a_polite_signal_is_ended_all_the_same() {
    let cwd = tempfile::tempdir().unwrap();
    let mut server = Server::start(json!({}));
    let call = server.call("openoxide", arguments("run `trap '' TERM; sleep 304 & sleep 305`", &cwd));
    eventually("both run", || server.runs("sleep 304") && server.runs("sleep 305"));
    server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": call } }));
    eventually("both are gone", || !server.processes().iter().any(|line| line.contains("sleep 30")));
    server.close_input();
    assert!(server.wait_exit().success());
    server.expect_nothing_left();
}

#[test]
fn an_open_question_does_not_hold_up_the_end() {
    let cwd = tempfile::tempdir().unwrap();
    let mut server = Server::start(json!({ "elicitation": {} }));
    let arguments = json!({ "prompt": "run `touch asked.txt`", "cwd": cwd.path(), "approval_policy": "untrusted" });
    server.call("openoxide", arguments);
    server.wait_for("the question", |message| message["method"] == "elicitation/create");
    server.close_input();
    assert!(server.wait_exit().success());
    assert!(!cwd.path().join("asked.txt").exists());
    server.expect_nothing_left();
}

#[test]
fn each_signal_ends_the_server_and_answers_what_is_open() {
    use rustix::process::Signal;
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let cwd = tempfile::tempdir().unwrap();
        let (mut server, call) = with_tree(&cwd);
        server.signal(signal);
        assert_eq!(server.result(call)["status"], "interrupted", "{signal:?}");
        assert!(server.wait_exit().success(), "{signal:?}: the end is the graceful one");
        server.expect_nothing_left();
    }
}

#[test]
fn a_server_that_one_turn_starts_is_reached_by_the_next_and_stopped_by_the_third() {
    let cwd = tempfile::tempdir().unwrap();
    let mut server = Server::start(json!({}));
    let serve =
        "import http.server as h\nh.HTTPServer(('127.0.0.1', 8217), h.SimpleHTTPRequestHandler).serve_forever()\n";
    let ask = "import urllib.request as u\nopen('reached', 'wb').write(u.urlopen('http://127.0.0.1:8217/hello.txt').read())\n";
    let wait = "import socket, time\nwhile socket.socket().connect_ex(('127.0.0.1', 8217)): time.sleep(0.01)\n";
    let elsewhere = tempfile::tempdir().unwrap();
    for (name, text) in [("serve.py", serve), ("ask.py", ask), ("wait.py", wait), ("hello.txt", "hello\n")] {
        std::fs::write(cwd.path().join(name), text).unwrap();
        std::fs::write(elsewhere.path().join(name), text).unwrap();
    }
    let call = server.call("openoxide", arguments("run `python3 serve.py >log 2>&1 & python3 wait.py`", &cwd));
    let result = server.result(call);
    let thread = result["threadId"].as_str().unwrap().to_owned();
    let listens = |server: &Server| server.processes().iter().any(|line| line.contains("serve.py"));
    assert!(listens(&server), "{result}");

    let reply = |prompt: String| json!({ "thread_id": thread, "prompt": prompt });
    let call = server.call("openoxide-reply", reply("run `python3 ask.py`".to_owned()));
    server.result(call);
    assert_eq!(std::fs::read_to_string(cwd.path().join("reached")).unwrap(), "hello\n");
    // Another thread sees neither the server nor its process.
    let call = server.call("openoxide", arguments("run `python3 ask.py || pkill -f serve.py`", &elsewhere));
    server.result(call);
    assert!(listens(&server));
    assert_eq!(std::fs::read(elsewhere.path().join("reached")).unwrap_or_default(), b"");

    let call = server.call("openoxide-reply", reply("run `pkill -f serve.p[y]`".to_owned()));
    server.result(call);
    eventually("it is stopped", || !listens(&server));
    server.close_input();
    assert!(server.wait_exit().success());
    server.expect_nothing_left();
}
