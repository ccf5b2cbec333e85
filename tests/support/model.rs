//! A model server in the test's own process, by the Responses API: it calls the tools that the prompt names, and then says
//! that it is done. One thread for each connection; it ends with the test program.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use serde_json::{Value, json};

/// Where it listens.
#[derive(Clone, Copy)]
pub(crate) struct Model {
    address: SocketAddr,
}

impl Model {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A server that goes away in the middle is the test's business.
                std::thread::spawn(move || drop(answer(stream)));
            }
        });
        Self { address }
    }

    /// Makes it the provider of the servers of a home.
    pub(crate) fn configure(self, home: &Path) {
        let text = format!(
            "model = \"scripted\"\nmodel_provider = \"scripted\"\n[model_providers.scripted]\nname = \"scripted\"\n\
             base_url = \"http://{}/v1\"\nwire_api = \"responses\"\nsupports_images = true\n",
            self.address
        );
        fs::write(home.join("config.toml"), text).unwrap();
    }
}

/// A prompt on which the model calls these tools, all in one response.
pub(crate) fn calls(calls: &[(&str, Value)]) -> String {
    calls.iter().map(|(name, arguments)| format!("call {name} {arguments}\n")).collect()
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line)? > 0 && line != "\r\n" {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8(body).unwrap();
    // What is long is only looked through: a storm has prompts of 8 MB.
    let prompt = body.rfind("\"call ").map_or("", |at| &body[at..]);
    let is_new = !prompt.is_empty() && !prompt.contains("\"function_call_output\"");
    let request = if is_new { serde_json::from_str(&body)? } else { Value::Null };
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")?;
    let usage = json!({ "input_tokens": 1, "output_tokens": 1, "total_tokens": 2 });
    for item in items(&request) {
        send(&mut stream, &json!({ "type": "response.output_item.done", "item": item }))?;
    }
    send(&mut stream, &json!({ "type": "response.completed", "response": { "id": "r", "usage": usage } }))
}

fn send(stream: &mut TcpStream, event: &Value) -> std::io::Result<()> {
    write!(stream, "event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
}

/// What a response holds: the calls of the latest prompt of a request, or a message.
fn items(request: &Value) -> Vec<Value> {
    let input = request["input"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |item: &Value| item["content"][0]["text"].as_str().filter(|_| item["role"] == "user").map(str::to_owned);
    let lines = input.iter().rev().filter_map(text).find(|text| text.starts_with("call ")).unwrap_or_default();
    let calls: Vec<Value> = lines
        .lines()
        .filter_map(|line| line.strip_prefix("call ")?.split_once(' '))
        .enumerate()
        .map(|(at, (name, arguments))| {
            let id = format!("call_{}_{at}", input.len());
            json!({ "type": "function_call", "call_id": id, "name": name, "arguments": arguments })
        })
        .collect();
    match calls.is_empty() {
        false => calls,
        true => vec![json!({ "type": "message", "role": "assistant", "content": [
            { "type": "output_text", "text": "done" }
        ] })],
    }
}
