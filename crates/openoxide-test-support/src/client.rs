//! A small MCP client over a pair of byte streams, for tests: it sends what it is told and reads what comes.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, ReadHalf, WriteHalf};

/// A test that waits longer than this for one message has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// The client's end.
pub struct Client<S> {
    lines: tokio::io::Lines<BufReader<ReadHalf<S>>>,
    writer: Option<WriteHalf<S>>,
    /// Everything sent and received, with the direction.
    pub trace: Vec<(&'static str, Value)>,
}

/// An answer and what was told before it.
#[derive(Debug)]
pub struct Reply {
    /// The whole message.
    pub message: Value,
    /// Notifications and requests that came before it.
    pub before: Vec<Value>,
}

impl Reply {
    /// The result.
    ///
    /// # Panics
    /// Where the answer is an error.
    pub fn result(&self) -> &Value {
        self.message.get("result").unwrap_or_else(|| panic!("an error: {}", self.message))
    }

    /// The structured content of a tool result.
    pub fn output(&self) -> &Value {
        &self.result()["structuredContent"]
    }

    /// The turn behind a tool result.
    pub fn turn(&self) -> &Value {
        &self.result()["_meta"]["openoxide/turn"]
    }

    /// The code of an error.
    pub fn error_code(&self) -> i64 {
        self.message["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {}", self.message))
    }
}

impl<S: AsyncRead + AsyncWrite> Client<S> {
    /// Over this stream.
    pub fn new(stream: S) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self { lines: BufReader::new(reader).lines(), writer: Some(writer), trace: Vec::new() }
    }

    /// Sends raw bytes.
    pub async fn send_raw(&mut self, bytes: &[u8]) {
        let writer = self.writer.as_mut().expect("the input is open");
        writer.write_all(bytes).await.expect("the server reads");
    }

    /// Sends raw bytes to a server that may end meanwhile.
    pub async fn try_send_raw(&mut self, bytes: &[u8]) {
        let writer = self.writer.as_mut().expect("the input is open");
        drop(writer.write_all(bytes).await);
    }

    /// Sends a message.
    pub async fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.trace.push(("->", message));
        self.send_raw(line.as_bytes()).await;
    }

    /// Sends a request.
    pub async fn request(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })).await;
    }

    /// Sends a notification.
    pub async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// The next message; `None` at the end of the server's output.
    pub async fn next(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await.expect("a message in time");
        let message: Value = serde_json::from_str(&line.expect("readable")?).expect("JSON on each line");
        self.trace.push(("<-", message.clone()));
        Some(message)
    }

    /// Reads on until the answer to `id`.
    pub async fn answer(&mut self, id: impl Into<Value>) -> Reply {
        let id = id.into();
        let mut before = Vec::new();
        loop {
            let message = self.next().await.expect("an answer before the end");
            if message.get("method").is_none() && message.get("id") == Some(&id) {
                return Reply { message, before };
            }
            before.push(message);
        }
    }

    /// Reads on until a request or notification of this method.
    pub async fn until(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await.expect("a message before the end");
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Sends a request and reads its answer.
    pub async fn ask(&mut self, id: impl Into<Value>, method: &str, params: Value) -> Reply {
        let id = id.into();
        self.request(id.clone(), method, params).await;
        self.answer(id).await
    }

    /// Opens the legacy way with these capabilities.
    pub async fn initialize(&mut self, version: &str, capabilities: Value) -> Reply {
        let params = json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": { "name": "test", "version": "1" },
        });
        let reply = self.ask("init", "initialize", params).await;
        self.notify("notifications/initialized", json!({})).await;
        reply
    }

    /// Closes the server's input.
    pub async fn close(&mut self) {
        if let Some(mut writer) = self.writer.take() {
            writer.shutdown().await.expect("closable");
        }
    }
}
