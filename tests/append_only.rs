//! Conversations only grow: what a provider was sent before is sent again as it was, whatever happens in between. The model server
//! keeps its maker's rules to the letter and refuses whatever breaks one.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::path::PathBuf;

use openoxide_test_support::strict::{Dialect, StrictModel, table};
use serde_json::{Value, json};
use support::{Server, eventually};

struct House {
    home: tempfile::TempDir,
    work: tempfile::TempDir,
    model: StrictModel,
    arguments: Vec<String>,
}

impl House {
    fn new(dialect: Dialect, set: &[&str]) -> Self {
        let model = StrictModel::start(dialect);
        // The rules hold whatever the model is called; that Claude thinks is known by its name alone.
        let name = if dialect == Dialect::Messages { "claude-opus-4-7" } else { "my-deployment" };
        let mut arguments = model.arguments(name);
        arguments.extend(set.iter().flat_map(|set| ["-c".to_owned(), (*set).to_owned()]));
        let work = tempfile::tempdir().unwrap();
        std::fs::write(work.path().join("notes.txt"), "one\n").unwrap();
        Self { home: tempfile::tempdir().unwrap(), work, model, arguments }
    }

    fn server(&self) -> Server {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        Server::start_in(self.home.path(), json!({}), &arguments)
    }

    fn start(&self, server: &mut Server, prompt: &str) -> Value {
        let call =
            server.call("openoxide", json!({ "prompt": prompt, "cwd": self.work.path(), "approval_policy": "never" }));
        server.result(call)
    }

    fn rollout(&self) -> PathBuf {
        fn below(directory: PathBuf) -> Option<PathBuf> {
            let entries: Vec<PathBuf> =
                std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
            entries.into_iter().find_map(|path| match path.is_dir() {
                true => below(path),
                false => path.file_name().unwrap().to_string_lossy().starts_with("rollout-").then_some(path),
            })
        }
        below(self.home.path().join("sessions")).expect("a rollout")
    }

    /// Changes the thread's instructions on disk, which is to its requests what a release with another text is.
    fn change_instructions(&self) {
        let path = self.rollout();
        let text = std::fs::read_to_string(&path).unwrap();
        let (first, rest) = text.split_once('\n').unwrap();
        let mut first: Value = serde_json::from_str(first).unwrap();
        first["payload"]["base_instructions"] = json!("You work on code, as of the next release.");
        std::fs::write(&path, format!("{first}\n{rest}")).unwrap();
    }

    /// Fails where a rule was broken.
    fn expect_no_refusal(&self, when: &str) {
        let (refusals, dropped) = (self.model.refusals(), self.model.dropped());
        assert!(refusals.is_empty() && dropped.is_empty(), "{when}: {refusals:#?} {dropped:?}");
    }
}

fn reply(server: &mut Server, thread: &Value, prompt: &str) -> Value {
    let call = server.call("openoxide-reply", json!({ "thread_id": thread, "prompt": prompt }));
    server.result(call)
}

/// The prompt of a turn with thoughts and without, commentary, parallel calls and a patch.
const FIRST: &str = r#"Look around.
model: think | comment I look. | call read_file {"path":"notes.txt"} | call list_dir {"path":"."}
model: call exec_command {"cmd":"echo two"}
model: think | call apply_patch *** Begin Patch\n*** End Patch
model: comment Nearly.
model: think | call exec_command {"cmd": "echo three", "yield_time_ms": 1000}
model: think | say Done."#;

fn every_kind_of_step(dialect: Dialect) {
    let house = House::new(dialect, &[]);
    let mut server = house.server();
    let first = house.start(&mut server, FIRST);
    house.expect_no_refusal("a turn");
    let thread = &first["threadId"];
    reply(&mut server, thread, "Say something.\nmodel: say Words alone.");
    reply(&mut server, thread, "Go on.\nmodel: call exec_command {\"cmd\":\"true\"}\nmodel: think | say Here.");
    house.expect_no_refusal("further turns");

    let patch = "*** Begin Patch\\n*** Add File: new.txt\\n+x\\n*** End Patch";
    let question = format!(
        "What is it?\nmodel: think | call apply_patch {patch}\nmodel: think | call exec_command {{\"cmd\":\"touch new.txt\"}}\nmodel: say It is one."
    );
    let call = server.call("openoxide-query", json!({ "thread_id": thread, "query": question }));
    assert_eq!(server.result(call)["content"], "It is one.");
    house.expect_no_refusal("a query");
    assert!(!house.work.path().join("new.txt").exists(), "a query changes nothing");
    reply(&mut server, thread, "After the query.\nmodel: think | say Still here.");
    house.expect_no_refusal("a turn after a query");

    let until = "until [ -e go ]; do sleep 0.02; done";
    let prompt = format!(
        "Wait.\nmodel: think | call exec_command {{\"cmd\":\"{until}\",\"yield_time_ms\":30000}}\nmodel: think | say Waited."
    );
    let waiting = server.call("openoxide-reply", json!({ "thread_id": thread, "prompt": prompt }));
    eventually("the command runs", || server.processes().iter().any(|line| line.contains("-e go")));
    let steering = server.call("openoxide-reply", json!({ "thread_id": thread, "prompt": "be quick", "steer": true }));
    server.result(steering);
    std::fs::write(house.work.path().join("go"), "").unwrap();
    server.result(waiting);
    house.expect_no_refusal("steering");

    let prompt =
        "Stop.\nmodel: think | call exec_command {\"cmd\":\"sleep 321\",\"yield_time_ms\":30000}\nmodel: say no";
    let stopped = server.call("openoxide-reply", json!({ "thread_id": thread, "prompt": prompt }));
    eventually("the command runs", || server.runs("sleep 321"));
    server.call("openoxide-reply", json!({ "thread_id": thread, "interrupt": true }));
    assert_eq!(server.result(stopped)["status"], "interrupted");
    reply(&mut server, thread, "After the stop.\nmodel: think | say Going on.");
    house.expect_no_refusal("an interrupt");

    server.close_input();
    server.wait_exit();
    let mut server = house.server();
    reply(
        &mut server,
        thread,
        "After the restart.\nmodel: think | call exec_command {\"cmd\":\"true\"}\nmodel: think | say Restarted.",
    );
    house.expect_no_refusal("a restart");
    // From the second request on, all but the news comes from the cache.
    for (at, row) in house.model.rows().iter().enumerate().skip(1) {
        let before = &house.model.rows()[at - 1];
        assert!(row.cached + 256 >= before.tokens.min(row.tokens) * 9 / 10, "request {at}: {row:?} after {before:?}");
    }
    let sent = house.model.rows()[0].bytes;
    assert!(sent < 20_000, "the first request has {sent} bytes");

    server.close_input();
    server.wait_exit();
    house.change_instructions();
    house.model.upgrade();
    let mut server = house.server();
    for prompt in ["New text.", "Newer prompt."] {
        reply(
            &mut server,
            thread,
            &format!("{prompt}\nmodel: think | call exec_command {{\"cmd\":\"true\"}}\nmodel: think | say Yes."),
        );
        house.expect_no_refusal("an upgrade of the instructions");
    }
    server.close_input();
    server.wait_exit();
    let mut server = house.server();
    reply(&mut server, thread, "And again.\nmodel: think | say Yes.");
    house.expect_no_refusal("a restart after the upgrade");
    println!("{}", table(dialect.word(), &house.model.rows()));
}

#[test]
fn responses_are_sent_back_as_they_came() {
    every_kind_of_step(Dialect::Responses);
}

#[test]
fn messages_are_sent_back_as_they_came() {
    every_kind_of_step(Dialect::Messages);
}

#[test]
fn completions_are_sent_back_as_they_came() {
    every_kind_of_step(Dialect::Chat);
}
