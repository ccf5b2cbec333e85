//! What the model reads is read by a process in its thread's box, from the first call of a turn to the turn's end.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::fs;
use std::time::Instant;

use serde_json::{Value, json};
use support::kinds::{END, House, KINDS, status};
use support::model::{Model, calls};
use support::{Server, eventually};

/// The outputs of tools that the model was given last, sorted: calls end in any order.
fn outputs(model: &Model) -> Vec<String> {
    let inputs = model.inputs();
    let items = inputs.last().unwrap().iter().filter(|item| item["type"] == "function_call_output");
    let mut outputs: Vec<String> = items.map(|item| item["output"].as_str().unwrap().to_owned()).collect();
    outputs.sort();
    outputs
}

/// Every tool that reads.
fn every_tool(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("read_file", json!({ "path": path })),
        ("list_dir", json!({ "path": path })),
        ("grep", json!({ "pattern": "needle", "path": path })),
        ("list_dir", json!({})),
        ("grep", json!({ "pattern": "needle" })),
        ("view_image", json!({ "path": path })),
    ]
}

#[test]
fn the_same_is_read_in_the_box_and_in_the_server() {
    let home = tempfile::tempdir().unwrap();
    let model = Model::recording();
    model.configure(home.path());
    let mut server = Server::start_in(home.path(), json!({}), &["-c", "model_provider=\"scripted\""]);
    let house = House::new();
    let mut read = |sandbox: &str, path: &str| {
        let prompt = calls(&every_tool(path));
        let arguments = json!({
            "prompt": prompt, "cwd": house.work, "approval_policy": "never", "sandbox": sandbox,
        });
        let call = server.call("openoxide", arguments);
        server.result(call);
        outputs(&model)
    };
    for path in ["a.txt", "deep", ".", "nowhere"] {
        let by_server = read("danger-full-access", path);
        for sandbox in ["read-only", "workspace-write"] {
            assert_eq!(read(sandbox, path), by_server, "{path} in {sandbox}");
        }
    }
}

#[test]
fn every_kind_of_file_is_the_same_in_the_box() {
    let home = tempfile::tempdir().unwrap();
    let model = Model::recording();
    model.configure(home.path());
    let mut server = Server::start_in(home.path(), json!({}), &["-c", "model_provider=\"scripted\""]);
    for (kind, make) in KINDS {
        let house = House::new();
        make(&house.work.join("odd"));
        let mut read = |sandbox: &str| {
            let prompt = calls(&every_tool("odd"));
            let arguments = json!({
                "prompt": prompt, "cwd": house.work, "approval_policy": "never", "sandbox": sandbox,
            });
            let call = server.call("openoxide", arguments);
            let result = server.result(call);
            assert_eq!(status(&result), "completed", "{kind} in {sandbox}: {result:#}");
            outputs(&model)
        };
        assert_eq!(read("read-only"), read("danger-full-access"), "{kind}");
    }
}

/// How many processes there are that have a thread's name in their command line.
fn processes_of(thread: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(thread)).count()
}

#[test]
fn a_turn_that_is_stopped_in_the_middle_of_a_search_leaves_no_process_that_searches() {
    let home = tempfile::tempdir().unwrap();
    Model::start().configure(home.path());
    let mut server = Server::start_in(home.path(), json!({}), &["-c", "model_provider=\"scripted\""]);
    let house = House::new();
    let long = fs::File::create(house.work.join("long")).unwrap();
    std::io::Write::write_all(&mut &long, &b"no such thing in this line\n".repeat(1 << 20)).unwrap();
    // Searched many times over, which takes far longer than it takes to stop it.
    for at in 0..40 {
        fs::hard_link(house.work.join("long"), house.work.join(format!("long{at}"))).unwrap();
    }
    let arguments = json!({ "prompt": "say 1", "cwd": house.work, "approval_policy": "never", "sandbox": "read-only" });
    let call = server.call("openoxide", arguments);
    let thread = server.result(call)["threadId"].as_str().unwrap().to_owned();
    assert_eq!(processes_of(&thread), 0, "a turn without calls starts nothing");
    let prompt = calls(&[("grep", json!({ "pattern": "(a|b|c)[^x]*needle.*(x|y)" }))]);
    let call = server.call("openoxide-reply", json!({ "thread_id": thread, "prompt": prompt }));
    // Outside and inside the namespaces, what copies itself, what waits for the reader, and the reader.
    eventually("the search has begun", || processes_of(&thread) >= 5);
    let began = Instant::now();
    server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": call } }));
    eventually("the search is over", || processes_of(&thread) <= 3);
    assert!(began.elapsed() < END, "it took {:?}", began.elapsed());
}
