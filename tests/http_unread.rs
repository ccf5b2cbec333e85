//! Callers over HTTP that open many requests and read nothing: what they cost has a bound, nobody else waits for them, and in
//! the end their responses are given up.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use support::listener::address_of;
use support::model::Model;
use support::{PATIENCE, eventually, openoxide};

const ADA: &str = "ada-0123456789abcdefghijkl";
const BOB: &str = "bob-0123456789abcdefghijkl";
/// Bytes of the text that the model says.
const LONG: usize = 2 << 20;
/// Bytes that one caller may leave unread.
const BOUND: usize = 8 << 20;
/// Requests that nobody reads from. Their answers hold the long text twice, so that all of them are thirty times the bound.
const REQUESTS: usize = 60;

struct Listener {
    child: Child,
    address: SocketAddr,
    work: tempfile::TempDir,
    _home: tempfile::TempDir,
}

impl Listener {
    fn start(model: &Model) -> Self {
        let home = tempfile::tempdir().unwrap();
        let tokens = home.path().join("tokens");
        std::fs::write(&tokens, format!("ada {ADA}\nbob {BOB}\n")).unwrap();
        std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o600)).unwrap();
        let mut child = openoxide(home.path())
            .args(["mcp-server", "--listen", "http://127.0.0.1:0", "-c", "mcp_server.write_timeout_sec=1"])
            .args(["-c", &format!("mcp_server.http.max_unread_bytes={BOUND}"), "--token-file"])
            .arg(&tokens)
            .args(model.arguments())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let address = address_of(&mut child);
        Self { child, address, work: tempfile::tempdir().unwrap(), _home: home }
    }

    /// Sends a request of the modern era on a connection of its own, which ends with the answer.
    fn send(&self, token: &str, method: &str, mut params: Value) -> TcpStream {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let name = params["name"].as_str().map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        self.post(token, &format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}"), &body)
    }

    fn post(&self, token: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all((head + body).as_bytes()).unwrap();
        stream
    }

    fn call(&self, arguments: Value, tool: &str) -> TcpStream {
        self.send(ADA, "tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    fn is_served(&self, token: &str) -> bool {
        read(&mut self.send(token, "server/discover", json!({}))).starts_with("HTTP/1.1 200")
    }

    /// Runs the turn with the long answer and reads it; its thread.
    fn thread(&self) -> String {
        let arguments = json!({ "prompt": format!("say {LONG}"), "cwd": self.work.path() });
        let answer = read(&mut self.call(arguments, "openoxide"));
        assert!(answer.len() > 2 * LONG, "{}", &answer[..answer.len().min(2000)]);
        let at = answer.find("\"threadId\":\"").unwrap() + 12;
        answer[at..at + 36].to_owned()
    }

    /// Waits until some of the unread responses were given up, and their connections with them.
    fn gives_up(&self) {
        let directory = format!("/proc/{}/fd", self.child.id());
        let is_socket = |entry: std::fs::DirEntry| {
            std::fs::read_link(entry.path()).is_ok_and(|link| link.to_string_lossy().starts_with("socket:"))
        };
        let sockets = || std::fs::read_dir(&directory).unwrap().flatten().map(is_socket).filter(|is| *is).count();
        let mut most = 0;
        eventually("some were given up", || {
            let now = sockets();
            most = most.max(now);
            now + 4 < most
        });
    }

    /// The most memory that the server has had, in bytes.
    fn peak(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().trim().parse::<usize>().unwrap() << 10
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    ended.unwrap_or_else(|error| panic!("{error} after {} bytes: {}", text.len(), &text[..text.len().min(2000)]));
    text
}

#[test]
fn requests_that_nobody_reads_cost_a_bound_and_are_given_up() {
    let model = Model::start();
    let server = Listener::start(&model);
    let last = json!({ "thread_id": server.thread() });
    let before = server.peak();
    let unread: Vec<TcpStream> = (0..REQUESTS).map(|_| server.call(last.clone(), "openoxide-reply")).collect();
    assert!(server.is_served(BOB), "another caller is served at once");
    server.gives_up();
    assert!(server.is_served(BOB));
    assert!(server.is_served(ADA), "in its turn");
    let cost = server.peak() - before;
    assert!(cost < 6 * BOUND, "{REQUESTS} requests cost {} MiB", cost >> 20);
    // Who hangs up frees what was held for it.
    drop(unread);
    let answer = read(&mut server.call(last, "openoxide-reply"));
    assert!(answer.len() > 2 * LONG);
}

#[test]
fn a_session_whose_streams_nobody_reads_can_still_ping() {
    let model = Model::start();
    let server = Listener::start(&model);
    let last = json!({ "thread_id": server.thread() });
    let before = server.peak();
    let message = |id: usize, method: &str, params: Value| {
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
    };
    let info = json!({ "name": "unread", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
    let begun = read(&mut server.post(ADA, "", &message(0, "initialize", params)));
    let session =
        begun.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap_or_else(|| panic!("{begun}"));
    let header = format!("Mcp-Session-Id: {session}\r\n");
    let call = json!({ "name": "openoxide-reply", "arguments": last });
    let _unread: Vec<TcpStream> =
        (1..=REQUESTS).map(|id| server.post(ADA, &header, &message(id, "tools/call", call.clone()))).collect();
    server.gives_up();
    for id in 0..20 {
        let answer = read(&mut server.post(ADA, &header, &message(1000 + id, "ping", json!({}))));
        assert!(answer.contains("\"result\":{}"), "{answer}");
    }
    let tools = read(&mut server.post(ADA, &header, &message(2000, "tools/list", json!({}))));
    assert!(tools.contains("openoxide-query"), "served in its turn");
    let cost = server.peak() - before;
    assert!(cost < 6 * BOUND, "{REQUESTS} requests cost {} MiB", cost >> 20);
}
