//! A model server on loopback that speaks Responses: each prompt is answered with two commands and, when their outputs are
//! there, with a text; the prompt `long` with a long text at once. It keeps what it was sent.

#![allow(dead_code, reason = "each test program uses its part of this module")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// Bytes of the long text.
pub(crate) const LONG: usize = 2 << 20;

/// See the module. Its threads end with the test program.
pub(crate) struct Model {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Model {
    /// One that listens.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, kept) = (stream.unwrap(), Arc::clone(&kept));
                // A client that goes away in the middle ends its thread.
                std::thread::spawn(move || serve(&stream, &kept));
            }
        });
        Self { address, requests }
    }

    /// What makes a server use it.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let url = format!("http://{}", self.address);
        let set = [("model_provider", "scripted"), ("model", "scripted"), ("model_providers.scripted.base_url", &url)];
        set.iter().flat_map(|(key, value)| ["-c".to_owned(), format!("{key}=\"{value}\"")]).collect()
    }

    /// The input of each request so far, in order.
    pub(crate) fn inputs(&self) -> Vec<Vec<Value>> {
        let requests = self.requests.lock().unwrap();
        requests.iter().map(|request| request["input"].as_array().unwrap().clone()).collect()
    }
}

fn serve(stream: &TcpStream, kept: &Mutex<Vec<Value>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        let mut line = String::new();
        while reader.read_line(&mut line).ok()? > 2 {
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok()?;
            }
            line.clear();
        }
        if line.is_empty() {
            return None;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let request: Value = serde_json::from_slice(&body).ok()?;
        let items = answer(&request);
        kept.lock().ok()?.push(request);
        let mut events: Vec<Value> =
            items.into_iter().map(|item| json!({ "type": "response.output_item.done", "item": item })).collect();
        let usage = json!({ "input_tokens": 3, "output_tokens": 1 });
        events.push(json!({ "type": "response.completed", "response": { "usage": usage } }));
        let text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let length = text.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {length}\r\n\r\n");
        (&*stream).write_all((head + &text).as_bytes()).ok()?;
    }
}

fn answer(request: &Value) -> Vec<Value> {
    let input = request["input"].as_array().unwrap();
    let text = |text: &str| vec![json!({ "type": "message", "content": [{ "type": "output_text", "text": text }] })];
    match input.last() {
        Some(item) if item["type"] == "function_call_output" => return text("done"),
        Some(item) if item["content"][0]["text"] == "long" => return text(&"x".repeat(LONG)),
        _ => {}
    }
    // Unique in a conversation, so that an output can belong to one call only.
    let number = input.len();
    let call = |name: &str| {
        let arguments = json!({ "cmd": format!("echo {name}") }).to_string();
        json!({ "type": "function_call", "call_id": format!("{name}{number}"), "name": "exec_command", "arguments": arguments })
    };
    vec![call("a"), call("b")]
}
