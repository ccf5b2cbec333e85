//! Public programs that were built on `codex mcp-server`: how each starts it, asks it, answers its questions and reads what it
//! says. A row is what the program's source does, and `--compat codex` has to satisfy all of them.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use support::model::{Model, calls};

/// A link named `codex` to the program, in a directory of its own.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("work")).unwrap();
        let home = directory.path().join("home");
        std::fs::create_dir(&home).unwrap();
        Model::start().configure(&home);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_openoxide"), directory.path().join("codex")).unwrap();
        Self { directory }
    }

    fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    /// A program of this place: the link, or our own name.
    fn command(&self, program: &str) -> Command {
        let mut command = support::openoxide(&self.home());
        if program == "codex" {
            let mut link = Command::new(self.directory.path().join("codex"));
            for (name, value) in command.get_envs() {
                match value {
                    Some(value) => link.env(name, value),
                    None => link.env_remove(name),
                };
            }
            command = link;
        }
        command.current_dir(self.work());
        command
    }
}

/// A host's connection to the server.
struct Host {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    seen: Vec<Value>,
}

impl Host {
    fn start(mut command: Command, arguments: &[&str]) -> Self {
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut host = Self { input: child.stdin.take(), child, lines, seen: Vec::new() };
        let info = json!({ "name": "host", "version": "1" });
        let params =
            json!({ "protocolVersion": "2024-11-05", "capabilities": { "elicitation": {} }, "clientInfo": info });
        host.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }));
        host.answer(1);
        host.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        host
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn next(&mut self) -> Value {
        let line = self.lines.next().expect("the server goes on").unwrap();
        let message: Value = serde_json::from_str(&line).unwrap();
        self.seen.push(message.clone());
        message
    }

    fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// A whole call; each question gets this answer.
    fn call(&mut self, id: u64, tool: &str, arguments: &Value, answer: &Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
        loop {
            let message = self.next();
            if message["method"] == "elicitation/create" {
                assert!(message["id"].as_i64().is_some(), "there are hosts that read 64 bits: {message}");
                self.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": answer }));
            } else if message["id"] == id {
                return message["result"].clone();
            }
        }
    }

    /// The events of a kind so far.
    fn events(&self, kind: &str) -> Vec<&Value> {
        self.seen.iter().filter(|message| message["params"]["msg"]["type"] == kind).collect()
    }

    /// Closes the input, and gives what was said on standard error.
    fn end(mut self) -> String {
        drop(self.input.take());
        let output = self.child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// What happens to the command that the model wants to run outside of the sandbox.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Runs,
    IsDenied,
    IsNotAskedFor,
}

struct Program {
    name: &'static str,
    /// `codex` where its name is fixed in the program's code.
    program: &'static str,
    arguments: &'static [&'static str],
    /// Beside `prompt` and `cwd`.
    sends: Value,
    answers: Value,
    fate: Fate,
    /// Where a reply's thread stands, beside `prompt`.
    replies: fn(&str) -> Value,
    /// Fields that it reads: the kind of event, and where in its `params`.
    reads: &'static [(&'static str, &'static str)],
    ignored: &'static [&'static str],
}

fn thread_id(thread: &str) -> Value {
    json!({ "threadId": thread })
}

const COMPAT: &[&str] = &["mcp-server", "--compat", "codex"];
const PLAIN: &[&str] = &["mcp-server"];

fn programs() -> Vec<Program> {
    let base = |name: &'static str, program: &'static str, arguments: &'static [&'static str]| Program {
        name,
        program,
        arguments,
        sends: json!({ "approval-policy": "on-request", "sandbox": "read-only" }),
        answers: json!({ "decision": "approved" }),
        fate: Fate::Runs,
        replies: thread_id,
        reads: &[],
        ignored: &[],
    };
    let never = json!({ "approval-policy": "never", "sandbox": "danger-full-access" });
    vec![
        Program {
            answers: json!({ "action": "accept", "decision": "approved" }),
            replies: |thread| json!({ "sessionId": thread, "conversationId": thread }),
            reads: &[
                ("session_configured", "/msg/session_id"),
                ("exec_command_begin", "/msg/command"),
                ("exec_command_end", "/msg/exit_code"),
                ("exec_approval_request", "/msg/call_id"),
                ("task_complete", "/msg/last_agent_message"),
            ],
            ..base("happy", "codex", PLAIN)
        },
        Program {
            answers: json!({ "action": "decline", "decision": "denied" }),
            fate: Fate::IsDenied,
            replies: |thread| json!({ "sessionId": thread, "conversationId": thread }),
            ..base("happy, denying", "codex", PLAIN)
        },
        Program {
            sends: json!({ "approval-policy": "on-request", "sandbox": "read-only", "config": { "mcp_servers": {} } }),
            answers: json!({ "decision": { "denied": { "rejection": "not today" } } }),
            fate: Fate::IsDenied,
            reads: &[
                ("session_configured", "/_meta/requestId"),
                ("exec_approval_request", "/msg/command"),
                ("warning", "/msg/message"),
            ],
            ..base("pockode", "codex", PLAIN)
        },
        Program {
            reads: &[("exec_command_end", "/msg/formatted_output"), ("exec_command_end", "/msg/aggregated_output")],
            ..base("pockode, approving", "codex", PLAIN)
        },
        Program {
            sends: json!({
                "approval-policy": "on-request", "sandbox": "read-only", "model": "scripted", "base-instructions": "b",
                "developer-instructions": "d", "compact-prompt": "c", "config": {},
            }),
            ..base("norma codex-acp-bridge", "codex", PLAIN)
        },
        Program {
            arguments: &[
                "-c",
                "model_reasoning_effort=high",
                "--enable",
                "web",
                "--disable",
                "shell_snapshot",
                "mcp-server",
            ],
            ignored: &["--enable web", "--disable shell_snapshot"],
            reads: &[
                ("token_count", "/msg/info/total_token_usage/total_tokens"),
                ("agent_message", "/msg/message"),
                ("task_complete", "/_meta/threadId"),
            ],
            ..base("blemees-agent", "codex", PLAIN)
        },
        Program { sends: never.clone(), fate: Fate::IsNotAskedFor, ..base("Hegelion", "openoxide", COMPAT) },
        Program {
            sends: json!({ "approval-policy": "never", "sandbox": "workspace-write" }),
            fate: Fate::IsNotAskedFor,
            ..base("the cookbook", "openoxide", COMPAT)
        },
        Program {
            reads: &[
                ("exec_approval_request", "/msg/call_id"),
                ("exec_approval_request", "/msg/available_decisions/0"),
                ("exec_approval_request", "/msg/proposed_execpolicy_amendment/0"),
                ("exec_approval_request", "/msg/kind"),
            ],
            ..base("keryx-like supervisor", "openoxide", COMPAT)
        },
        Program {
            sends: json!({
                "approval-policy": "never", "sandbox": "danger-full-access", "base-instructions": "b",
                "config": { "model_reasoning_effort": "xhigh" },
            }),
            fate: Fate::IsNotAskedFor,
            reads: &[("session_configured", "/msg/reasoning_effort")],
            ..base("foundry gm-bridge", "codex", PLAIN)
        },
        Program {
            arguments: &["-c", "mcp_servers={}", "mcp-server"],
            sends: never.clone(),
            fate: Fate::IsNotAskedFor,
            ..base("Zotero llm-proxy", "codex", PLAIN)
        },
        Program {
            sends: json!({
                "approval-policy": "on-request", "sandbox": "read-only", "config": { "approvals_reviewer": "user" },
            }),
            reads: &[("session_configured", "/msg/approvals_reviewer")],
            ..base("a delegate in Tauri", "codex", PLAIN)
        },
        Program {
            arguments: &["--dangerously-bypass-approvals-and-sandbox", "mcp-server"],
            ignored: &["--dangerously-bypass-approvals-and-sandbox"],
            sends: never,
            fate: Fate::IsNotAskedFor,
            ..base("yolo-codex-mcp", "codex", PLAIN)
        },
        Program {
            arguments: &["-s", "read-only", "-a", "on-request", "mcp-server"],
            sends: json!({}),
            ..base("codex-bridge-mcp", "codex", PLAIN)
        },
        Program {
            arguments: &["-m", "scripted", "-c", "model_reasoning_effort=xhigh", "mcp-server"],
            sends: json!({
                "approval-policy": "on-request", "sandbox": "read-only", "config": { "model_reasoning_effort": "high" },
            }),
            ..base("skills in Claude Code", "codex", PLAIN)
        },
    ]
}

#[test]
fn each_program_starts_asks_answers_and_reads_as_it_did() {
    for program in programs() {
        let place = Place::new();
        let mut host = Host::start(place.command(program.program), program.arguments);
        host.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {} }));
        let list = host.answer(2);
        let names: Vec<&str> =
            list["result"]["tools"].as_array().unwrap().iter().filter_map(|t| t["name"].as_str()).collect();
        assert_eq!(names, ["codex", "codex-reply"], "{}", program.name);

        let outside =
            json!({ "cmd": "echo ran > made.txt", "sandbox_permissions": "require_escalated", "justification": "j" });
        let mut arguments = program.sends.clone();
        arguments["prompt"] = json!(calls(&[("exec_command", outside)]));
        arguments["cwd"] = json!(place.work());
        let result = host.call(3, "codex", &arguments, &program.answers);
        let thread =
            result["structuredContent"]["threadId"].as_str().unwrap_or_else(|| panic!("{}: {result}", program.name));
        assert_eq!(result["content"][0]["text"], result["structuredContent"]["content"], "{}", program.name);
        // What shows its model texts alone finds the thread there.
        assert_eq!(result["content"][1]["text"], format!("threadId: {thread}"), "{}", program.name);
        expect_fate(&program, &host, &place.work());
        for (kind, field) in program.reads {
            let events = host.events(kind);
            assert!(!events.is_empty(), "{}: no {kind}", program.name);
            let read = events[0]["params"].pointer(field);
            assert!(
                read.is_some_and(|value| !value.is_null()),
                "{}: {kind} has no {field}: {}",
                program.name,
                events[0]
            );
        }

        let mut reply = (program.replies)(thread);
        reply["prompt"] = json!("say 5");
        let replied = host.call(4, "codex-reply", &reply, &program.answers);
        assert_eq!(replied["structuredContent"]["threadId"], thread, "{}", program.name);
        let said = host.end();
        for flag in program.ignored {
            assert!(
                said.contains(&format!("{flag} is a flag of Codex that has no effect here")),
                "{}: {said}",
                program.name
            );
        }
    }
}

fn expect_fate(program: &Program, host: &Host, work: &Path) {
    let asked = host.seen.iter().filter(|message| message["method"] == "elicitation/create").count();
    let ran = work.join("made.txt").exists();
    match program.fate {
        Fate::Runs => assert!(asked == 1 && ran, "{}: asked {asked} times, ran: {ran}", program.name),
        Fate::IsDenied => assert!(asked == 1 && !ran, "{}: asked {asked} times, ran: {ran}", program.name),
        Fate::IsNotAskedFor => assert_eq!(asked, 0, "{}", program.name),
    }
}

#[test]
fn a_link_named_codex_says_which_codex_it_stands_in_for() {
    let place = Place::new();
    let told = place.command("codex").arg("--version").output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    let expected = format!("codex-cli 0.153.4 (openoxide {})\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(told, expected);
    let own = place.command("openoxide").arg("--version").output().unwrap();
    assert!(String::from_utf8(own.stdout).unwrap().starts_with("openoxide "));
}

#[test]
fn both_families_of_tools_are_there_when_both_are_named() {
    let place = Place::new();
    let mut host = Host::start(place.command("openoxide"), &["mcp-server", "--compat", "codex,native"]);
    host.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {} }));
    assert_eq!(host.answer(2)["result"]["tools"].as_array().unwrap().len(), 5);
    host.end();
}

#[test]
fn how_much_to_reason_reaches_the_model_and_what_is_not_read_is_named() {
    let place = Place::new();
    let model = Model::recording();
    model.configure(&place.home());
    let mut host = Host::start(place.command("codex"), PLAIN);
    let config = json!({ "model_reasoning_effort": "high", "model_reasoning_summary": "detailed", "no_such_key": 1 });
    let result = host.call(2, "codex", &json!({ "prompt": "say 5", "config": config, "model": "gpt-5" }), &json!({}));
    assert!(result.get("isError").is_none(), "{result}");
    let asked = model.requests();
    assert_eq!(asked[0]["reasoning"], json!({ "effort": "high", "summary": "detailed" }));
    let warnings = host.events("warning");
    assert!(warnings.len() == 1 && warnings[0].to_string().contains("no_such_key"), "{warnings:?}");
    assert!(!warnings[0].to_string().contains("model_reasoning"), "{warnings:?}");
    // The thread keeps it, in another process too.
    let thread = result["structuredContent"]["threadId"].clone();
    host.end();
    let mut later = Host::start(place.command("codex"), PLAIN);
    later.call(2, "codex-reply", &json!({ "prompt": "say 6", "threadId": thread }), &json!({}));
    assert_eq!(model.requests()[1]["reasoning"], json!({ "effort": "high", "summary": "detailed" }));
    later.end();
}
