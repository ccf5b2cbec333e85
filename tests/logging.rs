//! Standard error never holds the real server up and never ends it: closed, full, gone, or a pipe that nobody reads.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use support::{eventually, openoxide};

/// Requests of one session. At the highest level each writes more than one line to standard error.
const REQUESTS: u64 = 2000;

fn lines(work: &tempfile::TempDir) -> String {
    let info = json!({ "name": "logging", "version": "1" });
    let initialize = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
    let arguments = json!({ "prompt": "run `echo hello`", "cwd": work.path(), "approval_policy": "never" });
    let mut lines = format!("{}\n", json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize }));
    let call = json!({ "name": "openoxide", "arguments": arguments });
    lines += &format!("{}\n", json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call }));
    for id in 2..REQUESTS {
        // An unknown notification and a wrong request are each logged.
        lines += &format!("{}\n", json!({ "jsonrpc": "2.0", "method": "notifications/unknown" }));
        lines += &format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
    }
    lines
}

/// Gives a server its requests, reads every answer, closes its input, and waits for its end.
fn expect_served(what: &str, mut child: Child, work: &tempfile::TempDir) {
    let mut stdin = child.stdin.take().unwrap();
    let text = lines(work);
    let writing = std::thread::spawn(move || {
        stdin.write_all(text.as_bytes()).unwrap();
        stdin
    });
    let mut open = REQUESTS;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if message.get("id").is_some() && message.get("method").is_none() {
            assert!(message.get("result").is_some(), "{what}: {message}");
            open -= 1;
        }
        if open == 0 {
            break;
        }
    }
    assert_eq!(open, 0, "{what}: requests without an answer");
    drop(writing.join().unwrap());
    let mut status = None;
    eventually("the server has ended", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert!(status.unwrap().success(), "{what}");
}

fn server(home: &tempfile::TempDir, verbosity: &str, stderr: Stdio) -> Command {
    let mut command = openoxide(home.path());
    command.args(["mcp-server", "-c", "model_provider=\"offline\""]).args(verbosity.split_whitespace());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
    command
}

#[test]
fn a_standard_error_that_takes_nothing_hurts_nobody() {
    for verbosity in ["", "-v", "-vv"] {
        let (home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
        expect_served("/dev/full", server(&home, verbosity, full().into()).spawn().unwrap(), &work);

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let gone: OwnedFd = writer.into();
        expect_served("reader gone", server(&home, verbosity, gone.into()).spawn().unwrap(), &work);

        // The reader is there until the end and reads nothing.
        let (unread, writer) = std::io::pipe().unwrap();
        let stuck: OwnedFd = writer.into();
        expect_served("nobody reads", server(&home, verbosity, stuck.into()).spawn().unwrap(), &work);
        drop(unread);

        let program = env!("CARGO_BIN_EXE_openoxide");
        let script = format!("exec '{program}' mcp-server -c 'model_provider=\"offline\"' {verbosity} 2>&-");
        let closed = Command::new("sh")
            .args(["-c", &script])
            .env("OPENOXIDE_HOME", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        expect_served("closed", closed.unwrap(), &work);
    }
}

#[test]
fn the_http_server_says_where_it_listens_only_if_somebody_hears_it() {
    let home = tempfile::tempdir().unwrap();
    // Free at this moment; nobody else takes a port that the system has just given out.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut child = openoxide(home.path())
        .args(["mcp-server", "-c", "model_provider=\"offline\"", "--listen", &format!("http://{address}")])
        .stdin(Stdio::null())
        .stderr(full)
        .spawn()
        .unwrap();
    let mut said = String::new();
    eventually("the server answers", || {
        said.clear();
        let Ok(mut stream) = std::net::TcpStream::connect(address) else { return false };
        write!(stream, "GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        stream.read_to_string(&mut said).is_ok() && said.contains("ready")
    });
    assert!(child.try_wait().unwrap().is_none(), "{said}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_level_comes_from_the_flag_else_from_the_variable() {
    let home = tempfile::tempdir().unwrap();
    let said = |verbosity: &str, variable: Option<&str>| {
        let mut command = server(&home, verbosity, Stdio::piped());
        if let Some(value) = variable {
            command.env("RUST_LOG", value);
        }
        command.stdin(Stdio::null());
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    assert_eq!(said("", None), "");
    assert!(said("", Some("info")).contains("the server ends"));
    assert!(said("", Some("openoxide_mcp_server=info")).contains("the server ends"));
    assert_eq!(said("", Some("openoxide_core=info")), "");
    assert!(said("-v", Some("error")).contains("the server ends"));
    assert!(said("", Some("a=b=c")).contains("RUST_LOG"));
}
