//! The spans of a call, as a collector gets them: part of the caller's trace. Built with `--features otel`.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc::sync_channel;

use serde_json::{Value, json};
use support::{PATIENCE, openoxide};

/// Takes exports and gives their bodies.
fn collector() -> (String, std::sync::mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, bodies) = sync_channel(64);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let (mut length, mut line) = (0, String::new());
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let answer =
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
            if sender.send(serde_json::from_slice(&body).unwrap()).is_err() {
                return;
            }
        }
    });
    (address, bodies)
}

#[test]
fn a_call_continues_the_trace_of_its_caller() {
    let (address, bodies) = collector();
    let (home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut server = openoxide(home.path())
        .args(["mcp-server", "-c", "model_provider=\"offline\""])
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        "traceparent": format!("00-{trace}-00f067aa0ba902b7-01"),
    });
    let arguments = json!({ "prompt": "run `true`", "cwd": work.path() });
    let params = json!({ "name": "openoxide", "arguments": arguments, "_meta": meta });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    writeln!(server.stdin.as_mut().unwrap(), "{call}").unwrap();
    let mut answer = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    assert!(answer.contains("\"completed\""), "{answer}");
    // What is left is sent at the end.
    drop(server.stdin.take());
    assert!(server.wait().unwrap().success());
    let mut spans = Vec::new();
    while let Ok(body) = bodies.recv_timeout(if spans.is_empty() { PATIENCE } else { std::time::Duration::ZERO }) {
        for scope in
            body["resourceSpans"].as_array().unwrap().iter().flat_map(|one| one["scopeSpans"].as_array().unwrap())
        {
            spans.extend(scope["spans"].as_array().unwrap().iter().cloned());
        }
    }
    let span = |name: &str| {
        spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("no span {name} in {spans:#?}"))
    };
    assert_eq!(
        (&span("tools/call")["traceId"], &span("tools/call")["parentSpanId"]),
        (&json!(trace), &json!("00f067aa0ba902b7"))
    );
    assert_eq!(span("turn")["parentSpanId"], span("tools/call")["spanId"]);
    for name in ["model", "tool"] {
        assert_eq!((&span(name)["traceId"], &span(name)["parentSpanId"]), (&json!(trace), &span("turn")["spanId"]));
    }
}
