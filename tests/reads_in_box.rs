//! What the model reads is read by a process in its thread's box, from the first call of a turn to the turn's end.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::fs;

use serde_json::{Value, json};
use support::Server;
use support::kinds::House;
use support::model::{Model, calls};

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
    fs::write(house.work.join("p.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    let mut read = |sandbox: &str, path: &str| {
        let prompt = calls(&every_tool(path));
        let arguments = json!({
            "prompt": prompt, "cwd": house.work, "approval_policy": "never", "sandbox": sandbox,
        });
        let call = server.call("openoxide", arguments);
        server.result(call);
        outputs(&model)
    };
    for path in ["a.txt", "p.png", ".", "nowhere"] {
        let by_server = read("danger-full-access", path);
        for sandbox in ["read-only", "workspace-write"] {
            assert_eq!(read(sandbox, path), by_server, "{path} in {sandbox}");
        }
    }
}
