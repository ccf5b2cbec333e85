//! Conversations only grow: what a provider was sent before is sent again as it was, whatever happens in between. The model server
//! keeps its maker's rules to the letter and refuses whatever breaks one.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]
#![allow(clippy::print_stdout, reason = "the tables are for whoever asks for them")]

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
        std::fs::write(work.path().join("AGENTS.md"), "notes.txt is here.\n").unwrap();
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
    // Nothing of what was sealed got lost on the way: two thoughts of the first turn, and eight later ones but for the query's.
    let last = house.model.requests().last().unwrap().to_string();
    let sealed = ["\"signature\":", "\"encrypted_content\":", "\"reasoning.encrypted\""];
    let sealed: usize = sealed.iter().map(|mark| last.matches(mark).count()).sum();
    assert!(sealed >= 8, "{sealed} sealed thoughts: {last}");
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

/// A thread that is summed up in the middle of its turns, and one on which a summary helps nothing.
fn summed_up(dialect: Dialect) {
    // The beginning has about 2,700 tokens.
    let house = House::new(dialect, &["model_auto_compact_token_limit=4000"]);
    let mut server = house.server();
    let plan = r#"{"plan":[{"step":"look","status":"completed"},{"step":"mend","status":"in_progress"}]}"#;
    let prompt = format!(
        "Work.\nmodel: think | call update_plan {plan}\nmodel: think | pad 6000 | call exec_command {{\"cmd\":\"true\"}}\nmodel: think | call \
         exec_command {{\"cmd\":\"true\"}}\nmodel: think | say Done."
    );
    let first = house.start(&mut server, &prompt);
    house.expect_no_refusal("a summary within a turn");
    assert_eq!(first["content"], "Done.");
    let text = house.model.requests().last().unwrap().to_string();
    assert!(text.contains("<compacted_conversation>") && text.contains("[in_progress] mend"), "{text}");
    let thread = &first["threadId"];
    reply(&mut server, thread, "More.\nmodel: think | call exec_command {\"cmd\":\"true\"}\nmodel: think | say Yes.");
    server.close_input();
    server.wait_exit();
    let mut server = house.server();
    reply(&mut server, thread, "And more.\nmodel: think | say Yes.");
    house.expect_no_refusal("turns and a restart after a summary");

    let house = House::new(dialect, &["model_auto_compact_token_limit=2000"]);
    let mut server = house.server();
    let step = "model: think | call exec_command {\"cmd\":\"true\"}\n";
    house.start(&mut server, &format!("Work.\n{}model: say Done.", step.repeat(12)));
    house.expect_no_refusal("a summary that helps nothing");
    let summaries = house.model.requests().iter().filter(|request| asks_for_a_summary(request)).count();
    assert!(summaries <= 2, "{summaries} summaries of {} requests", house.model.requests().len());
}

fn asks_for_a_summary(request: &Value) -> bool {
    let messages = request["messages"].as_array().or(request["input"].as_array()).unwrap();
    messages.last().unwrap().to_string().contains("The conversation is about to be shortened")
}

/// A model that announces, that is cut off, and that says nothing.
fn unfinished(dialect: Dialect) {
    let house = House::new(dialect, &[]);
    let mut server = house.server();
    let first = house.start(&mut server, "Begin.\nmodel: think | say Half of | cut\nmodel: think | say the rest.");
    house.expect_no_refusal("a response that was cut");
    assert_eq!(first["content"], "the rest.");
    let thread = &first["threadId"];
    let empty = reply(&mut server, thread, "Again.\nmodel:  \nmodel: say Something.");
    assert_eq!(empty["content"], "Something.");
    if dialect == Dialect::Responses {
        let announced = reply(
            &mut server,
            thread,
            "Do it.\nmodel: think | comment I will.\nmodel: think | say One. | goon\nmodel: think | say Two.",
        );
        assert_eq!(announced["content"], "Two.");
    }
    reply(&mut server, thread, "And on.\nmodel: think | say Yes.");
    house.expect_no_refusal("responses that end no turn");
}

#[test]
fn summaries_keep_the_rules() {
    Dialect::ALL.into_iter().for_each(summed_up);
}

#[test]
fn what_ends_no_turn_keeps_the_rules() {
    Dialect::ALL.into_iter().for_each(unfinished);
}

/// A thread whose beginning has changed without its rollout saying so, at a gateway that knows no `drop_block`.
#[test]
fn thinking_that_is_refused_is_left_out_and_the_thread_goes_on() {
    let house = House::new(Dialect::Messages, &[]);
    let mut server = house.server();
    let first = house
        .start(&mut server, "Begin.\nmodel: think | call exec_command {\"cmd\":\"true\"}\nmodel: think | say Yes.");
    server.close_input();
    server.wait_exit();
    let path = house.rollout();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("notes.txt is here"), "{text}");
    std::fs::write(&path, text.replace("notes.txt is here", "notes.txt was here")).unwrap();
    let mut server = house.server();
    let thread = &first["threadId"];
    for prompt in ["Second.", "Third."] {
        let said = reply(
            &mut server,
            thread,
            &format!("{prompt}\nmodel: think | call exec_command {{\"cmd\":\"true\"}}\nmodel: think | say Yes."),
        );
        assert_eq!(said["content"], "Yes.");
    }
    let refusals = house.model.refusals();
    assert!(refusals.len() == 1 && refusals[0].contains("bound to a different conversation"), "{refusals:?}");
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
