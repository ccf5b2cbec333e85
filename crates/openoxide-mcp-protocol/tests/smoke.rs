//! The example `greet` as a host starts it: a child, its standard streams, three lines.
//!
//! `cargo test` builds the examples; `cargo test --test smoke` alone does not.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

/// Far beyond what anything here takes: a hang fails.
const HANG: Duration = Duration::from_secs(30);

/// Beside the directory that this test lies in.
fn greet() -> PathBuf {
    let test = std::env::current_exe().expect("a test is a file");
    let path = test.ancestors().nth(2).expect("two directories up").join("examples").join("greet");
    assert!(
        path.exists(),
        "{} is not built; run `cargo build -p openoxide-mcp-protocol --example greet`",
        path.display()
    );
    path
}

#[allow(clippy::disallowed_methods, reason = "the test is the host")]
fn start() -> Child {
    Command::new(greet()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the example starts")
}

#[test]
fn three_lines_in_three_answers_out_and_the_end() {
    let mut child = start();
    let lines = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hi"}}}"#,
    ];
    // All of it and the end of input at once, as `printf | greet` has it.
    child.stdin.take().unwrap().write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success());
    let answers: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.iter().map(|answer| &answer["id"]).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-11-25");
    let names: Vec<_> = answers[1]["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["echo", "greet"]);
    assert_eq!(answers[2]["result"], json!({ "content": [{ "type": "text", "text": "hi" }], "isError": false }));
}

#[test]
fn a_closed_output_ends_it_though_its_input_is_open() {
    let mut child = start();
    let mut input = child.stdin.take().unwrap();
    drop(child.stdout.take());
    // The first answer finds the output closed. What is written behind it may find the input closed, too.
    input.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").unwrap();
    let (ended, has_ended) = mpsc::sync_channel(1);
    std::thread::spawn(move || ended.send(child.wait()));
    let status = has_ended.recv_timeout(HANG).expect("it ends");
    assert!(!status.unwrap().success(), "it says that it could not go on");
    // Held until here: a hang ends with it.
    drop(input);
}
