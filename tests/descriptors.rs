//! A server that may open few files: what is asked of it at once is done or refused with the limit's name, nothing hangs, and
//! all is done again when the load has gone.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use support::listener::address_of;
use support::{PATIENCE, Server, eventually, openoxide};

/// What names the limit.
const NAMED: &str = "`ulimit -n`";

/// Has the command start under these limits of open files.
fn limit(command: &mut Command, soft: u32, hard: u32) {
    let mut limited = Command::new("bash");
    limited.args(["-c", &format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$@\""), "bash"]);
    limited.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    *command = limited;
}

struct House {
    work: tempfile::TempDir,
    home: tempfile::TempDir,
}

impl House {
    fn new() -> Self {
        Self { work: tempfile::tempdir().unwrap(), home: tempfile::tempdir().unwrap() }
    }

    fn server(&self, soft: u32, hard: u32) -> Server {
        Server::start_as(self.home.path(), json!({}), &[], |command| {
            limit(command, soft, hard);
            command.stderr(Stdio::null());
        })
    }

    fn start(&self, server: &mut Server, prompt: &str) -> u64 {
        server.call("openoxide", json!({ "prompt": prompt, "cwd": self.work.path(), "approval_policy": "never" }))
    }

    /// Asks for all of it at once. Each is answered: done, or refused for the limit. How many were done.
    fn storm(&self, server: &mut Server, turns: usize) -> usize {
        let mut calls: Vec<u64> = (0..turns).map(|_| self.start(server, "run `echo done-it; sleep 0.2`")).collect();
        for _ in 0..turns / 2 {
            let query = json!({ "query": "list the files", "cwd": self.work.path() });
            calls.push(server.call("openoxide-query", query));
        }
        let done = calls.into_iter().filter(|call| {
            let result = server.answer(*call)["result"].clone();
            let text = result["content"][0]["text"].as_str().unwrap();
            let is_done = text.contains("done-it\n") || text.contains("\nhere.txt");
            assert!(is_done || text.contains(NAMED) || text.contains("Too many open files"), "{result:#}");
            // Nobody is sent to mend what is not broken.
            for wrong in ["name an existing directory", "put the directory back", "free space", "doctor"] {
                assert!(!text.contains(wrong), "{result:#}");
            }
            assert!(result["isError"] != true || text.contains(NAMED), "{result:#}");
            is_done
        });
        done.count()
    }
}

#[test]
fn few_descriptors_serve_what_they_can_and_refuse_the_rest_by_name() {
    for (soft, hard, turns) in [(64, 64, 60), (256, 256, 150), (64, 4096, 60)] {
        let house = House::new();
        std::fs::write(house.work.path().join("here.txt"), "x").unwrap();
        let mut server = house.server(soft, hard);
        let done = house.storm(&mut server, turns);
        assert!(done > 0, "some of it is done with {hard}");
        if hard > 1024 {
            assert_eq!(done, turns + turns / 2, "the soft limit is raised");
        }
        // The load has gone; idle threads, more than there are descriptors, hold none.
        for round in 0..20 {
            for prompt in ["run `echo again`", "run `sleep 0.01 & echo again`"] {
                let call = house.start(&mut server, prompt);
                let result = server.result(call);
                assert!(result["content"].as_str().unwrap().contains("again"), "{round}: {result:#}");
            }
        }
        server.close_input();
        assert!(server.wait_exit().success());
        server.expect_nothing_left();
    }
}

struct Listener {
    child: std::process::Child,
    address: SocketAddr,
}

impl Listener {
    fn start(house: &House, soft: u32, hard: u32) -> Self {
        let mut command = openoxide(house.home.path());
        command.args(["mcp-server", "-c", "model_provider=\"offline\"", "--listen", "http://127.0.0.1:0"]);
        command.args(["-c", "mcp_server.http.head_timeout_sec=1"]);
        limit(&mut command, soft, hard);
        let mut child = command.spawn().unwrap();
        let address = address_of(&mut child);
        Self { child, address }
    }

    /// Sends a request; its connection stays open behind the answer where `keep` says so.
    fn send(&self, method: &str, mut params: Value, keep: bool) -> std::io::Result<TcpStream> {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let name = params["name"].as_str().map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: application/json, \
             text/event-stream\r\nConnection: {}\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}\
             Content-Length: {}\r\n\r\n",
            self.address,
            if keep { "keep-alive" } else { "close" },
            body.len()
        );
        stream.write_all((head + &body).as_bytes())?;
        Ok(stream)
    }

    /// What is answered on a connection of its own; empty where that was closed.
    fn ask(&self, method: &str, params: Value) -> String {
        let mut text = String::new();
        match self.send(method, params, false).and_then(|mut stream| stream.read_to_string(&mut text)) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("{method} hangs; so far {text:?}"),
            _ => text,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn connections_beyond_the_descriptors_go_when_they_are_idle_and_the_rest_is_served() {
    for (soft, hard) in [(64, 64), (256, 256), (64, 4096)] {
        let house = House::new();
        let server = Listener::start(&house, soft, hard);
        let call = || {
            let arguments =
                json!({ "prompt": "run `echo done-it`", "cwd": house.work.path(), "approval_policy": "never" });
            json!({ "name": "openoxide", "arguments": arguments })
        };
        // More than there may be, and each of them has shown itself.
        let held: Vec<_> = (0..300).map(|_| server.send("server/discover", json!({}), true)).collect();
        let served = held.iter().flatten().filter(|stream| stream.peek(&mut [0]).is_ok_and(|count| count > 0)).count();
        assert!(served > 0, "some were answered with {hard}");
        let answer = server.ask("tools/call", call());
        let is_named = answer.contains(NAMED) || answer.contains("Too many open files");
        assert!(answer.is_empty() || answer.contains("done-it") || is_named, "{answer}");
        // Idle connections end by themselves, so that all of it is done again, with the held ones left to the server.
        eventually("a turn is served", || server.ask("tools/call", call()).contains("done-it"));
        drop(held);
        assert!(server.ask("tools/call", call()).contains("done-it"));
    }
}
