//! Every request over HTTP has its answer when the server is told to end right behind it: every form of call, both eras, every
//! signal.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use support::listener::address_of;
use support::{PATIENCE, eventually, openoxide};

/// From the call to the signal, in milliseconds.
const DELAYS: [u64; 6] = [0, 1, 3, 10, 50, 300];
/// A prompt whose turn does not end by itself.
const LONG: &str = "run `sleep 300`";
/// By which the server is told to end.
const SIGNALS: [&str; 3] = ["TERM", "INT", "HUP"];

/// How a call gets to a turn.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Start,
    Query,
    ReplyFromDisk,
    /// A modern call that is answered with a task.
    Task,
}

struct Listener {
    child: Child,
    address: SocketAddr,
}

impl Listener {
    fn start(home: &Path) -> Self {
        let mut child = openoxide(home)
            .args(["mcp-server", "-c", "model_provider=\"offline\"", "-c", "mcp_server.task_after_ms=0"])
            .args(["--listen", "http://127.0.0.1:0"])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let address = address_of(&mut child);
        Self { child, address }
    }

    fn post(&self, headers: &str, message: &Value) -> TcpStream {
        let body = message.to_string();
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nConnection: close\r\n\
             Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        stream
    }

    /// Calls a tool, in a legacy session where one is given.
    fn call(&self, session: Option<&str>, tool: &str, arguments: &Value, extensions: &Value) -> TcpStream {
        let mut params = json!({ "name": tool, "arguments": arguments });
        let headers = match session {
            Some(session) => format!("Mcp-Session-Id: {session}\r\n"),
            None => {
                params["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": { "extensions": extensions },
                });
                format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n")
            }
        };
        self.post(&headers, &json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }))
    }

    fn session(&self) -> String {
        let info = json!({ "name": "shutdown", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        let begun =
            read(self.post("", &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })));
        let id = begun.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        id.unwrap_or_else(|| panic!("{begun}")).to_owned()
    }

    fn end_by(mut self, signal: &str) -> bool {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        let mut status = None;
        eventually("the server has ended", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().success()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All that comes; what a connection that is cut had brought by then.
fn read(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert!(error.kind() != std::io::ErrorKind::WouldBlock, "the request hangs");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether the call was answered. A request that was not taken any more is no open call: its connection has no answer.
fn is_answered(form: Form, is_modern: bool, delay: u64, signal: &str) -> bool {
    let what = format!("{form:?}, modern: {is_modern}, SIG{signal} after {delay} ms");
    let [home, work] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let begin = |prompt: &str| json!({ "prompt": prompt, "cwd": work.path(), "approval_policy": "never" });
    let none = json!({});
    let (tool, arguments, extensions) = match form {
        Form::Start => ("openoxide", begin(LONG), none),
        Form::Task => ("openoxide", begin(LONG), json!({ "io.modelcontextprotocol/tasks": {} })),
        Form::Query => ("openoxide-query", json!({ "query": LONG, "cwd": work.path() }), none),
        Form::ReplyFromDisk => {
            let earlier = Listener::start(home.path());
            let first = read(earlier.call(None, "openoxide", &begin("run `true`"), &none));
            assert!(earlier.end_by("TERM"), "{what}");
            let at = first.find("\"threadId\":\"").unwrap_or_else(|| panic!("{what}: {first}")) + 12;
            ("openoxide-reply", json!({ "thread_id": first[at..at + 36], "prompt": LONG }), none)
        }
    };
    let server = Listener::start(home.path());
    let session = (!is_modern).then(|| server.session());
    let stream = server.call(session.as_deref(), tool, &arguments, &extensions);
    // The moment is the case, not a wait for something.
    std::thread::sleep(Duration::from_millis(delay));
    assert!(server.end_by(signal), "{what}");
    let text = read(stream);
    let is_told = ["\"status\":\"interrupted\"", "the server is ending", "\"resultType\":\"task\"", "exit code"];
    assert!(text.is_empty() || is_told.iter().any(|told| text.contains(told)), "{what}: {text}");
    !text.is_empty()
}

#[test]
fn every_form_of_call_is_answered_at_the_end_of_a_server_over_http() {
    let forms = [Form::Start, Form::Query, Form::ReplyFromDisk, Form::Task];
    let mut signals = SIGNALS.into_iter().cycle();
    let mut answered = 0;
    for form in forms {
        for (at, delay) in DELAYS.into_iter().enumerate() {
            let is_modern = form == Form::Task || at % 2 == 0;
            answered += u32::from(is_answered(form, is_modern, delay, signals.next().unwrap()));
        }
    }
    // Under load the server may not get to a call before the signal.
    assert!(answered >= 8, "{answered} calls were taken");
}
