//! The model server of all tests of the real binary, in the test's own process, by the Responses API. A prompt says what it
//! does: each line `call NAME ARGUMENTS` is a call, all of them in one response, and when their outputs are there it says
//! that it is done; a line `say N` has it say N bytes. One thread for each connection; it ends with the test program.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// See the module.
#[derive(Clone)]
pub(crate) struct Model {
    address: SocketAddr,
    /// What it was sent; none where that is not kept, and only the latest prompt is read.
    kept: Option<Arc<Mutex<Vec<Value>>>>,
}

impl Model {
    /// One that keeps nothing, for tests that send it a lot.
    pub(crate) fn start() -> Self {
        Self::listen(None)
    }

    /// One that keeps what it was sent; see [`Model::inputs`].
    pub(crate) fn recording() -> Self {
        Self::listen(Some(Arc::default()))
    }

    fn listen(kept: Option<Arc<Mutex<Vec<Value>>>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let model = Self { address, kept };
        let serving = model.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = serving.kept.clone();
                // A server that goes away in the middle is the test's business.
                std::thread::spawn(move || drop(answer(stream, kept.as_deref())));
            }
        });
        model
    }

    /// The input of each request so far, in order.
    pub(crate) fn inputs(&self) -> Vec<Vec<Value>> {
        let kept = self.kept.as_ref().expect("a model that keeps what it is sent").lock().unwrap();
        kept.iter().map(|request| request["input"].as_array().unwrap().clone()).collect()
    }

    /// The requests so far, in order.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.kept.as_ref().expect("a model that keeps what it is sent").lock().unwrap().clone()
    }

    /// What makes one server use it.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let url = format!("http://{}/v1", self.address);
        let set = [("model_provider", "scripted"), ("model", "scripted"), ("model_providers.scripted.base_url", &url)];
        set.iter().flat_map(|(key, value)| ["-c".to_owned(), format!("{key}=\"{value}\"")]).collect()
    }

    /// Makes it the provider of the servers of a home.
    pub(crate) fn configure(&self, home: &Path) {
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

fn answer(mut stream: TcpStream, kept: Option<&Mutex<Vec<Value>>>) -> std::io::Result<()> {
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
    let request = match kept {
        Some(_) => serde_json::from_str(&body)?,
        // What is long is only looked through: a storm has prompts of 8 MB.
        None => {
            let at = ["\"call ", "\"say "].iter().filter_map(|word| body.rfind(word)).max();
            let prompt = at.map_or("", |at| &body[at..]);
            let is_new = !prompt.is_empty() && !prompt.contains("\"function_call_output\"");
            if is_new { serde_json::from_str(&body)? } else { Value::Null }
        }
    };
    let said = items(&request);
    if let Some(kept) = kept {
        kept.lock().unwrap().push(request);
    }
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")?;
    let usage = json!({ "input_tokens": 1, "output_tokens": 1, "total_tokens": 2 });
    for item in said {
        send(&mut stream, &json!({ "type": "response.output_item.done", "item": item }))?;
    }
    send(&mut stream, &json!({ "type": "response.completed", "response": { "id": "r", "usage": usage } }))
}

fn send(stream: &mut TcpStream, event: &Value) -> std::io::Result<()> {
    write!(stream, "event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
}

/// What a response holds: what the latest prompt of a request asks for, or, once that is done, a message.
fn items(request: &Value) -> Vec<Value> {
    let message = |text: &str| json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": text }] });
    let input = request["input"].as_array().map_or(&[][..], Vec::as_slice);
    if input.last().is_none_or(|item| item["type"] == "function_call_output") {
        return vec![message("done")];
    }
    let text = |item: &Value| item["content"][0]["text"].as_str().filter(|_| item["role"] == "user").map(str::to_owned);
    let asks = |line: &str| line.starts_with("call ") || line.starts_with("say ");
    let prompt = input.iter().rev().filter_map(text).find(|text| text.lines().any(asks)).unwrap_or_default();
    let calls = prompt.lines().filter_map(|line| line.strip_prefix("call ")?.split_once(' '));
    let calls = calls.enumerate().map(|(at, (name, arguments))| {
        // Unique in a conversation, so that an output can belong to one call only.
        let id = format!("call_{}_{at}", input.len());
        json!({ "type": "function_call", "call_id": id, "name": name, "arguments": arguments })
    });
    let bytes = prompt.lines().filter_map(|line| line.strip_prefix("say ")?.parse().ok());
    let mut items: Vec<Value> = calls.chain(bytes.map(|bytes| message(&"x".repeat(bytes)))).collect();
    if items.is_empty() {
        items.push(message("done"));
    }
    items
}
