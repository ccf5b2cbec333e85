//! Every request has its answer when the real server ends, at the worst moment: the call and the end of input in one write,
//! a signal right behind the call, every form of call, both eras.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use support::{PATIENCE, eventually, openoxide};

/// From the call to the end of input, in milliseconds. Nought is the same write.
const DELAYS: [u64; 6] = [0, 1, 3, 10, 50, 300];
/// A prompt whose turn does not end by itself.
const LONG: &str = "run `sleep 300`";
/// The id of the call under test.
const CALL: u64 = 77;

/// How a call gets to a turn.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Start,
    Query,
    /// A reply to a thread that this server has in memory.
    Reply,
    /// A reply to a thread that an earlier server has written.
    ReplyFromDisk,
    /// A call that is answered with a task.
    Task,
    /// A call that would be answered with one if its turn lasted.
    TaskToBe,
}

const FORMS: [Form; 6] = [Form::Start, Form::Query, Form::Reply, Form::ReplyFromDisk, Form::Task, Form::TaskToBe];
/// Has tasks made at once.
const AT_ONCE: [&str; 2] = ["-c", "mcp_server.task_after_ms=0"];

/// A server on raw pipes.
struct Raw {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Raw {
    fn start(home: &Path, arguments: &[&str]) -> Self {
        let mut child = openoxide(home)
            .args(["mcp-server", "-c", "model_provider=\"offline\""])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// Writes all of it at once.
    fn write(&mut self, lines: &str) {
        self.child.stdin.as_mut().unwrap().write_all(lines.as_bytes()).unwrap();
    }

    fn close(&mut self) {
        self.child.stdin = None;
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Reads on until the answer to `id`.
    fn answer(&mut self, id: u64) -> Value {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "no answer to {id}");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// All that comes until the server's end.
    fn rest(mut self) -> (Vec<Value>, ExitStatus) {
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        let mut status = None;
        eventually("the server has ended", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), status.unwrap())
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One home, one directory, and the requests of one era.
struct House {
    home: tempfile::TempDir,
    work: tempfile::TempDir,
    is_modern: bool,
}

impl House {
    fn new(is_modern: bool) -> Self {
        Self { home: tempfile::tempdir().unwrap(), work: tempfile::tempdir().unwrap(), is_modern }
    }

    fn start(&self, arguments: &[&str]) -> Raw {
        Raw::start(self.home.path(), arguments)
    }

    /// What a connection of the era opens with.
    fn opening(&self) -> String {
        if self.is_modern {
            return String::new();
        }
        let info = json!({ "name": "shutdown", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        format!(
            "{}\n{}\n",
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
        )
    }

    fn request(&self, id: u64, tool: &str, arguments: Value, with_tasks: bool) -> String {
        let mut params = json!({ "name": tool, "arguments": arguments });
        if self.is_modern {
            let extensions = if with_tasks { json!({ "io.modelcontextprotocol/tasks": {} }) } else { json!({}) };
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": { "extensions": extensions },
                "io.modelcontextprotocol/clientInfo": { "name": "shutdown", "version": "1" },
            });
        }
        format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
    }

    fn begin(&self, id: u64, prompt: &str, with_tasks: bool) -> String {
        let arguments = json!({ "prompt": prompt, "cwd": self.work.path(), "approval_policy": "never" });
        self.request(id, "openoxide", arguments, with_tasks)
    }

    /// A server that is ready for the call under test, what was not written to it yet, and the call.
    fn prepare(&self, form: Form, prompt: &str) -> (Raw, String, String) {
        let first = self.opening() + &self.begin(1, "run `true`", false);
        let reply = |answer: Value| {
            let thread = &answer["result"]["structuredContent"]["threadId"];
            self.request(CALL, "openoxide-reply", json!({ "thread_id": thread, "prompt": prompt }), false)
        };
        match form {
            Form::Start => (self.start(&[]), self.opening(), self.begin(CALL, prompt, false)),
            Form::Task => (self.start(&AT_ONCE), self.opening(), self.begin(CALL, prompt, true)),
            Form::TaskToBe => (self.start(&[]), self.opening(), self.begin(CALL, prompt, true)),
            Form::Query => {
                let call = json!({ "query": prompt, "cwd": self.work.path() });
                (self.start(&[]), self.opening(), self.request(CALL, "openoxide-query", call, false))
            }
            Form::Reply => {
                let mut server = self.start(&[]);
                server.write(&first);
                let call = reply(server.answer(1));
                (server, String::new(), call)
            }
            Form::ReplyFromDisk => {
                let mut earlier = self.start(&[]);
                earlier.write(&first);
                let call = reply(earlier.answer(1));
                earlier.close();
                assert!(earlier.rest().1.success());
                (self.start(&[]), self.opening(), call)
            }
        }
    }

    /// Every turn that has begun has its end in its rollout.
    fn expect_ended_turns(&self, what: &str) {
        let mut directories = vec![self.home.path().join("sessions")];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    directories.push(entry.path());
                    continue;
                }
                let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
                let count = |word: &str| text.lines().filter(|line| line.contains(word)).count();
                let (begun, ended) = (count("\"type\":\"turn_context\""), count("\"type\":\"turn_ended\""));
                assert_eq!(begun, ended, "{what}: {text}");
            }
        }
    }
}

fn expect_interrupted(what: &str, messages: &[Value]) {
    let answers: Vec<&Value> = messages.iter().filter(|message| message["id"] == CALL).collect();
    let [answer] = answers[..] else { panic!("{what}: one answer, not {}: {messages:#?}", answers.len()) };
    if answer["result"]["resultType"] == "task" {
        return;
    }
    let (structured, text) = (&answer["result"]["structuredContent"], &answer["result"]["content"][0]["text"]);
    assert_eq!(structured["status"], "interrupted", "{what}: {answer:#}");
    let first = |value: &Value| value.as_str().unwrap().split(". ").next().unwrap().contains("interrupted");
    assert!(first(&structured["content"]) && first(text), "{what}: {answer:#}");
}

fn end_of_input_at(is_modern: bool, forms: &[Form]) {
    for form in forms {
        for delay in DELAYS {
            let what = format!("{form:?}, {delay} ms, modern: {is_modern}");
            let house = House::new(is_modern);
            let (mut server, opening, call) = house.prepare(*form, LONG);
            server.write(&(opening + &call));
            // The moment is the case, not a wait for something.
            std::thread::sleep(Duration::from_millis(delay));
            server.close();
            let (messages, status) = server.rest();
            expect_interrupted(&what, &messages);
            assert!(status.success(), "{what}");
            house.expect_ended_turns(&what);
        }
    }
}

#[test]
fn a_call_and_the_end_of_input_in_one_write_are_answered_legacy() {
    end_of_input_at(false, &FORMS[..4]);
}

#[test]
fn a_call_and_the_end_of_input_in_one_write_are_answered_modern() {
    end_of_input_at(true, &FORMS);
}

/// Each form with each signal at once, and with one of them at each later moment.
fn signals() -> impl Iterator<Item = (Form, u64, &'static str)> {
    const SIGNALS: [&str; 3] = ["TERM", "INT", "HUP"];
    let at_once = SIGNALS.into_iter().flat_map(|signal| FORMS.map(|form| (form, 0, signal)));
    let later = DELAYS[1..].iter().flat_map(|delay| FORMS.map(|form| (form, *delay)));
    let later = later.zip(SIGNALS.into_iter().cycle()).map(|((form, delay), signal)| (form, delay, signal));
    at_once.chain(later)
}

#[test]
fn a_call_right_before_a_signal_is_answered() {
    for (form, delay, signal) in signals() {
        let what = format!("{form:?}, SIG{signal} after {delay} ms");
        let house = House::new(matches!(form, Form::Task | Form::TaskToBe));
        let (mut server, opening, call) = house.prepare(form, LONG);
        // Handlers of signals stand when the first answer is there.
        let list = json!({ "jsonrpc": "2.0", "id": 5, "method": "ping" });
        server.write(&format!("{opening}{list}\n"));
        server.answer(5);
        server.write(&call);
        // The moment is the case, not a wait for something.
        std::thread::sleep(Duration::from_millis(delay));
        server.signal(signal);
        let (messages, status) = server.rest();
        expect_interrupted(&what, &messages);
        assert!(status.success(), "{what}");
        house.expect_ended_turns(&what);
    }
}

#[test]
fn on_eof_finish_lets_calls_and_tasks_end_first() {
    let forms = [Form::Start, Form::Query].map(|form| (form, false));
    for (form, is_modern) in forms.into_iter().chain([Form::Start, Form::Task, Form::TaskToBe].map(|form| (form, true)))
    {
        let house = House::new(is_modern);
        let mut arguments = vec!["--on-eof", "finish"];
        arguments.extend(AT_ONCE.iter().filter(|_| form == Form::Task));
        let mut server = house.start(&arguments);
        let call = match form {
            Form::Query => {
                let arguments = json!({ "query": "run `sleep 0.3; echo done`", "cwd": house.work.path() });
                house.request(CALL, "openoxide-query", arguments, false)
            }
            _ => house.begin(CALL, "run `sleep 0.3; touch done.txt`", matches!(form, Form::Task | Form::TaskToBe)),
        };
        server.write(&(house.opening() + &call));
        server.close();
        let (messages, status) = server.rest();
        let answer = messages.iter().find(|message| message["id"] == CALL).unwrap();
        match form {
            Form::Task => assert_eq!(answer["result"]["resultType"], "task"),
            _ => assert_eq!(answer["result"]["structuredContent"]["status"], "completed", "{answer:#}"),
        }
        assert!(status.success());
        assert_eq!(house.work.path().join("done.txt").exists(), form != Form::Query, "{form:?}");
    }
}

#[test]
fn on_eof_finish_waits_for_nobody_who_could_answer() {
    let house = House::new(true);
    let mut server = house.start(&["--on-eof", "finish", AT_ONCE[0], AT_ONCE[1]]);
    let arguments =
        json!({ "prompt": "run `touch asked.txt`", "cwd": house.work.path(), "approval_policy": "untrusted" });
    let mut call: Value = serde_json::from_str(&house.request(CALL, "openoxide", arguments, true)).unwrap();
    call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["elicitation"] = json!({});
    server.write(&format!("{call}\n"));
    server.close();
    let (messages, status) = server.rest();
    assert!(status.success() && messages.iter().any(|message| message["result"]["resultType"] == "task"));
    let tasks: Vec<_> = std::fs::read_dir(house.home.path().join("tasks")).unwrap().flatten().collect();
    let [task] = &tasks[..] else { panic!("one task: {tasks:?}") };
    let task: Value = serde_json::from_slice(&std::fs::read(task.path()).unwrap()).unwrap();
    let result = &task["result"]["structuredContent"];
    assert_eq!((&result["status"], &result["denials"][0]["reason"]), (&json!("completed"), &json!("disconnected")));
    assert!(!house.work.path().join("asked.txt").exists());

    // A call that could be asked in its answer is not: nobody would come back.
    let mut server = house.start(&["--on-eof", "finish"]);
    let arguments = json!({
        "prompt": "run `sleep 0.5; touch asked.txt`", "cwd": house.work.path(), "approval_policy": "untrusted"
    });
    let mut call: Value = serde_json::from_str(&house.request(CALL, "openoxide", arguments, false)).unwrap();
    call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["elicitation"] = json!({});
    server.write(&format!("{call}\n"));
    server.close();
    let (messages, status) = server.rest();
    let answer = messages.iter().find(|message| message["id"] == CALL).unwrap();
    let result = &answer["result"]["structuredContent"];
    assert!(status.success() && result["denials"][0]["reason"] == "disconnected", "{answer:#}");
    assert!(!house.work.path().join("asked.txt").exists());
}

#[test]
fn a_server_that_was_started_to_outlive_its_terminal_does() {
    let house = House::new(false);
    let script =
        format!("trap '' HUP; exec '{}' mcp-server -c 'model_provider=\"offline\"'", env!("CARGO_BIN_EXE_openoxide"));
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .env("OPENOXIDE_HOME", house.home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut server = Raw { child, output };
    server.write(&house.opening());
    server.answer(0);
    server.signal("HUP");
    server.write(&house.begin(CALL, "run `true`", false));
    assert_eq!(server.answer(CALL)["result"]["structuredContent"]["status"], "completed");
    server.close();
    assert!(server.rest().1.success());
}

#[test]
fn on_eof_finish_can_still_be_told_to_end() {
    let house = House::new(false);
    let mut server = house.start(&["--on-eof", "finish"]);
    server.write(&(house.opening() + &house.begin(CALL, LONG, false)));
    server.answer(0);
    server.close();
    server.signal("TERM");
    let (messages, status) = server.rest();
    expect_interrupted("finish, then SIGTERM", &messages);
    assert!(status.success());
}

#[test]
fn a_closed_output_ends_the_server_and_its_commands_though_nothing_is_written() {
    let house = House::new(false);
    let mut server = house.start(&[]);
    let mark = house.work.path().join("began");
    server.write(&(house.opening() + &house.begin(CALL, "run `touch began; sleep 300`", false)));
    eventually("the command runs", || mark.exists());
    let Raw { child, output } = &mut server;
    // Its input stays open; only nobody reads any more.
    let (_, gone) = (child.stdin.as_ref().unwrap(), std::mem::replace(output.get_mut(), spare_output()));
    drop(gone);
    let deadline = std::time::Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        assert!(std::time::Instant::now() < deadline, "the server goes on without a reader");
        std::thread::sleep(Duration::from_millis(20));
    }
    house.expect_ended_turns("closed output");
}

/// An output to put in another's place.
fn spare_output() -> ChildStdout {
    let mut other = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
    let output = other.stdout.take().unwrap();
    other.wait().unwrap();
    output
}
