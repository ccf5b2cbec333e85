//! What a listener does about connections that say nothing, say it slowly, or say it as somebody else: raw sockets against
//! the real server.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::listener::{ADA, BOB, Listener};
use support::{PATIENCE, eventually};

const DISCOVER: &str = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// Writes requests of ada.
trait Asks {
    fn head(&self, length: usize) -> String;
    fn request(&self) -> String;
    fn ask(&self, stream: &mut TcpStream) -> String;
}

impl Asks for Listener {
    fn head(&self, length: usize) -> String {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {ADA}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: server/discover\r\nContent-Length: {length}\r\n\r\n",
            self.address
        )
    }

    fn request(&self) -> String {
        self.head(DISCOVER.len()) + DISCOVER
    }

    /// Sends a whole request and reads the status of its answer.
    fn ask(&self, stream: &mut TcpStream) -> String {
        stream.write_all(self.request().as_bytes()).unwrap();
        status(stream)
    }
}

/// The three digits of an answer's status; empty where the connection was closed without one. Reads the answer to its end.
fn status(stream: &mut TcpStream) -> String {
    let (head, _) = answer(stream);
    head.split(' ').nth(1).unwrap_or_default().to_owned()
}

fn answer(stream: &mut TcpStream) -> (String, String) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line).unwrap_or(0) > 0 && line != "\r\n" {
        head.push_str(&std::mem::take(&mut line));
    }
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}

/// Whether the other end closes it within the time given.
fn is_closed_within(stream: &mut TcpStream, limit: Duration) -> bool {
    stream.set_read_timeout(Some(limit)).unwrap();
    match stream.read(&mut [0; 64]) {
        Ok(0) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
        Ok(_) => false,
    }
}

#[test]
fn a_head_that_does_not_come_ends_its_connection() {
    let server = Listener::start(&["-c", "mcp_server.http.head_timeout_sec=1"]);
    let began = Instant::now();
    let (mut silent, mut half) = (server.connect(), server.connect());
    let mut used = server.connect();
    half.write_all(b"POST /mcp HTTP/1.1\r\nHost: loc").unwrap();
    assert_eq!(server.ask(&mut used), "200");
    for stream in [&mut silent, &mut half, &mut used] {
        assert!(is_closed_within(stream, Duration::from_secs(3)), "after {:?}", began.elapsed());
    }
}

#[test]
fn a_head_that_comes_drop_by_drop_ends_its_connection() {
    let server = Listener::start(&["-c", "mcp_server.http.head_timeout_sec=1"]);
    let mut slow = server.connect();
    let (began, limit) = (Instant::now(), Duration::from_secs(3));
    slow.write_all(b"POST /mcp HTTP/1.1\r\nX-Slow: ").unwrap();
    while began.elapsed() < limit {
        // The pause between two drops is the wait for an end.
        if is_closed_within(&mut slow, Duration::from_millis(100)) || slow.write_all(b"x").is_err() {
            return;
        }
    }
    panic!("still open after {limit:?}");
}

#[test]
fn an_answer_may_take_longer_than_a_head() {
    let server = Listener::start(&["-c", "mcp_server.http.head_timeout_sec=1"]);
    let work = tempfile::tempdir().unwrap();
    let arguments = serde_json::json!({ "prompt": "run `sleep 2`", "cwd": work.path(), "approval_policy": "never" });
    let call = DISCOVER
        .replace("server/discover", "tools/call")
        .replace("\"params\":{", &format!("\"params\":{{\"name\":\"openoxide\",\"arguments\":{arguments},"));
    let head = server.head(call.len()).replace("server/discover", "tools/call\r\nMcp-Name: openoxide");
    let mut stream = server.connect();
    stream.write_all((head + &call).as_bytes()).unwrap();
    let mut answer = String::new();
    // The connection is idle after the answer, and ends by itself.
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"status\":\"completed\""), "{answer}");
}

#[test]
fn a_body_that_stands_still_ends_its_request_with_an_error() {
    let server = Listener::start(&["-c", "mcp_server.http.body_timeout_sec=1"]);
    let mut stream = server.connect();
    stream.write_all((server.head(100) + "{\"jsonrpc\":").as_bytes()).unwrap();
    let (head, body) = answer(&mut stream);
    assert!(head.starts_with("HTTP/1.1 408"), "{head}");
    assert!(body.contains("stood still for 1 s after 11 bytes") && body.contains("body_timeout_sec"), "{body}");
    assert!(is_closed_within(&mut stream, PATIENCE));
    assert_eq!(server.ask(&mut server.connect()), "200");
}

#[test]
fn what_one_caller_has_sent_by_halves_keeps_no_other_out() {
    let server = Listener::with_tokens(&["-c", "mcp_server.http.max_body_bytes=67108864"]);
    let half = server.head(16 << 20) + &" ".repeat(12 << 20);
    let mut halves = [server.connect(), server.connect()];
    for stream in &mut halves {
        // The server may refuse it while it is written.
        let _ = stream.write_all(half.as_bytes());
        stream.set_nonblocking(true).unwrap();
    }
    // Which of the two comes to the bound is the server's choice.
    let mut refused = None;
    eventually("one of them is refused", || {
        refused = halves.iter().position(|stream| stream.peek(&mut [0]).is_ok());
        refused.is_some()
    });
    let more = &mut halves[refused.unwrap()];
    more.set_nonblocking(false).unwrap();
    let (head, body) = answer(more);
    assert!(head.starts_with("HTTP/1.1 503") && head.contains("retry-after"), "{head}");
    assert!(body.contains("as many bytes as one caller may have beside others (16777216)"), "{body}");
    let mut other = server.connect();
    other.write_all(server.request().replace(ADA, BOB).as_bytes()).unwrap();
    assert_eq!(status(&mut other), "200");
}

#[test]
fn one_caller_does_not_take_the_connections_of_the_others() {
    let (eight, patient) = ("mcp_server.http.max_connections=8", "mcp_server.http.head_timeout_sec=3600");
    let server = Listener::with_tokens(&["-c", eight, "-c", patient]);
    let mut held: Vec<TcpStream> = (0..2).map(|_| server.connect()).collect();
    for stream in &mut held {
        assert_eq!(server.ask(stream), "200");
    }
    assert_eq!(server.ask(&mut server.connect()), "503", "a quarter of 8 is open");
    let mut other = server.connect();
    other.write_all(server.request().replace(ADA, BOB).as_bytes()).unwrap();
    assert_eq!(status(&mut other), "200");
    assert_eq!(server.ask(&mut held[0]), "200");
    drop(held.pop());
    eventually("a place is free again", || server.ask(&mut server.connect()) == "200");
}

#[test]
fn silent_connections_keep_nobody_out_and_end_no_connection_that_was_let_in() {
    let (few, patient) = ("mcp_server.http.max_unauthenticated_per_peer=8", "mcp_server.http.head_timeout_sec=3600");
    let server = Listener::start(&["-c", few, "-c", patient, "--token-env", "WORD"]);
    let mut known = server.connect();
    assert_eq!(server.ask(&mut known), "200");
    let mut silent: Vec<TcpStream> = (0..40).map(|_| server.connect()).collect();
    assert!(is_closed_within(&mut silent[0], PATIENCE), "the first gives way to the ninth");
    assert_eq!(server.ask(&mut server.connect()), "200", "a newcomer is served");
    assert_eq!(server.ask(&mut known), "200", "whoever was let in stays");
    let open = silent.iter_mut().skip(1).filter_map(|stream| {
        stream.set_nonblocking(true).unwrap();
        stream.read(&mut [0]).err().filter(|error| error.kind() == ErrorKind::WouldBlock)
    });
    assert!(open.count() <= 8);
}

#[test]
fn a_newcomer_is_served_where_silent_connections_hold_all_descriptors() {
    let (many, patient) =
        ("mcp_server.http.max_unauthenticated_per_peer=1000", "mcp_server.http.head_timeout_sec=3600");
    let server = Listener::start(&["-c", many, "-c", patient]);
    let mut known = server.connect();
    assert_eq!(server.ask(&mut known), "200");
    let pid = server.child.id().to_string();
    assert!(Command::new("prlimit").args(["--pid", &pid, "--nofile=64:64"]).status().unwrap().success());
    let _silent: Vec<TcpStream> = (0..200).map(|_| server.connect()).collect();
    assert_eq!(server.ask(&mut server.connect()), "200");
    assert_eq!(server.ask(&mut known), "200");
}

#[test]
fn a_connection_that_shows_no_token_ends_with_its_answer() {
    let server = Listener::start(&["--token-env", "WORD"]);
    let mut stream = server.connect();
    stream.write_all(server.request().replace(ADA, "wrong").as_bytes()).unwrap();
    let (head, _) = answer(&mut stream);
    assert!(head.starts_with("HTTP/1.1 401"), "{head}");
    assert!(is_closed_within(&mut stream, PATIENCE));
}

#[test]
fn a_place_that_can_be_read_in_two_ways_is_refused() {
    let server = Listener::start(&[]);
    let host = format!("Host: {}\r\n", server.address);
    for (from, to) in [
        (host.as_str(), format!("{host}Host: evil.example\r\n")),
        (host.as_str(), format!("Host: {}@evil.example\r\n", server.address)),
        (host.as_str(), format!("{host}Origin: http://localhost:1@evil.example\r\n")),
        (host.as_str(), format!("Host: {}:1\r\n", server.address)),
        ("POST /mcp", "POST http://evil.example/mcp".to_owned()),
        (host.as_str(), String::new()),
    ] {
        let mut stream = server.connect();
        stream.write_all(server.request().replacen(from, &to, 1).as_bytes()).unwrap();
        let (head, _) = answer(&mut stream);
        assert!(head.starts_with("HTTP/1.1 400"), "{to:?}: {head}");
    }
}

/// Only root can start a program as another user; run by anybody else, it shows that the same user is served.
#[test]
fn without_a_token_another_user_is_refused() {
    const NOBODY: u32 = 65534;
    let own = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
    let ask = |server: &Listener, user: u32| {
        let script = format!(
            "exec 3<>/dev/tcp/{}/{} && printf '%s' \"$REQUEST\" >&3 && read -r -t 60 line <&3 && echo \"$line\" && \
             timeout 2 cat <&3",
            server.address.ip(),
            server.address.port()
        );
        let request = server.request().replacen("\r\n", "\r\nConnection: close\r\n", 1);
        let mut command = Command::new("bash");
        command.args(["-c", &script]).current_dir("/").env("REQUEST", request);
        if user != own {
            command.uid(user).gid(user);
        }
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let server = Listener::start(&[]);
    let served = ask(&server, own);
    assert!(served.starts_with("HTTP/1.1 200"), "{served}");
    if own == 0 {
        let refused = ask(&server, NOBODY);
        assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
        assert!(refused.contains("user 65534") && refused.contains("--token-file"), "{refused}");
        let with_token = Listener::start(&["--token-env", "WORD"]);
        assert!(ask(&with_token, NOBODY).starts_with("HTTP/1.1 200"), "a token tells who it is");
    }
}

#[test]
fn the_server_takes_all_descriptors_it_may_have_and_commands_keep_the_usual_number() {
    let home = tempfile::tempdir().unwrap();
    let work = tempfile::tempdir().unwrap();
    let call = serde_json::json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "openoxide",
        "arguments": { "prompt": "run `ulimit -Sn; ulimit -Hn; grep 'open files' /proc/self/limits`", "cwd": work.path(), "approval_policy": "never" },
        "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} },
    } });
    let script = "ulimit -Sn 300 && exec \"$@\"";
    let mut server = Command::new("bash")
        .args(["-c", script, "bash", env!("CARGO_BIN_EXE_openoxide"), "mcp-server", "-c", "model_provider=\"offline\""])
        .env("OPENOXIDE_HOME", home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = server.stdin.take().unwrap();
    writeln!(stdin, "{call}").unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(server.stdout.take().unwrap());
    while !line.contains("\"id\":2") {
        line.clear();
        assert!(stdout.read_line(&mut line).unwrap() > 0, "no answer");
    }
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    drop(stdin);
    server.wait().unwrap();
    let limits: Vec<&str> =
        limits.lines().find(|line| line.contains("open files")).unwrap().split_whitespace().collect();
    assert_eq!(limits[3], limits[4], "soft and hard");
    assert!(line.contains("300\\n") && line.contains(&format!("{}\\n", limits[4])), "{line}");
}

#[test]
fn the_end_does_not_wait_for_silent_connections() {
    let mut server = Listener::start(&[]);
    let _silent: Vec<TcpStream> = (0..400).map(|_| server.connect()).collect();
    assert_eq!(server.ask(&mut server.connect()), "200");
    let began = Instant::now();
    server.terminate();
    eventually("the server has ended", || server.child.try_wait().unwrap().is_some());
    assert!(began.elapsed() < Duration::from_secs(7), "it promises 2.5 s");
}
