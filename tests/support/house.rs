//! A client of the real server over Streamable HTTP: writes requests of both eras, and reads answers and event streams.

use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};

use super::listener::Listener;

/// A listener, a directory to work in, and a client of it.
pub(crate) struct House {
    pub(crate) listener: Listener,
    pub(crate) work: tempfile::TempDir,
    pub(crate) url: String,
    pub(crate) client: Client,
}

impl House {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::of(Listener::start(arguments))
    }

    pub(crate) fn with_tokens() -> Self {
        Self::of(Listener::with_tokens(&[]))
    }

    pub(crate) fn of(listener: Listener) -> Self {
        // The client wants a provider of cryptography even where it needs none. A second installation is left alone.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        Self { work: tempfile::tempdir().unwrap(), url: listener.url(), client, listener }
    }

    pub(crate) fn post(&self, message: &Value) -> RequestBuilder {
        let accept = "application/json, text/event-stream";
        self.client
            .post(&self.url)
            .header("content-type", "application/json")
            .header("accept", accept)
            .body(message.to_string())
    }

    /// A request of the modern era with the headers it must have.
    pub(crate) fn modern(&self, method: &str, mut params: Value) -> RequestBuilder {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        if params["_meta"]["io.modelcontextprotocol/clientCapabilities"].is_null() {
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": {} });
        }
        let name = params["name"].as_str().or(params["uri"].as_str()).or(params["taskId"].as_str()).map(str::to_owned);
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = self.post(&message).header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
        match name {
            Some(name) => request.header("mcp-name", name),
            None => request,
        }
    }

    pub(crate) fn arguments(&self, prompt: &str) -> Value {
        json!({ "prompt": prompt, "cwd": self.work.path(), "approval_policy": "never" })
    }

    pub(crate) fn start_turn(&self, prompt: &str) -> RequestBuilder {
        self.modern("tools/call", json!({ "name": "openoxide", "arguments": self.arguments(prompt) }))
    }

    /// Begins a legacy session; its id.
    pub(crate) async fn session(&self, capabilities: Value) -> String {
        let answer = self.post(&initialize(capabilities)).send().await.unwrap();
        let id = answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        assert!(id.bytes().all(|byte| byte.is_ascii_graphic()));
        assert_eq!(json_of(answer).await["result"]["serverInfo"]["name"], "openoxide");
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let told = self.post(&told).header("mcp-session-id", &id).send().await.unwrap();
        assert_eq!(told.status(), 202);
        id
    }
}

pub(crate) fn initialize(capabilities: Value) -> Value {
    let info = json!({ "name": "http", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

pub(crate) async fn json_of(response: Response) -> Value {
    let text = response.text().await.unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Reads an event stream.
pub(crate) struct Events {
    response: Response,
    buffer: String,
    pub(crate) last_id: Option<String>,
}

impl Events {
    pub(crate) fn of(response: Response) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Self { response, buffer: String::new(), last_id: None }
    }

    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some(end) = self.buffer.find("\n\n") {
                let frame: String = self.buffer.drain(..end + 2).collect();
                let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
                if let Some(id) = field("id: ") {
                    self.last_id = Some(id);
                }
                if let Some(data) = field("data: ") {
                    return Some(serde_json::from_str(&data).unwrap());
                }
            }
            let chunk = self.response.chunk().await.unwrap()?;
            self.buffer.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    pub(crate) async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next().await.expect("the stream ended before");
            if wanted(&message) {
                return message;
            }
        }
    }
}

/// The result of a call, whether it came alone or on a stream.
pub(crate) async fn result_of(response: Response) -> Value {
    if response.headers()["content-type"] == "application/json" {
        return json_of(response).await["result"].clone();
    }
    let mut events = Events::of(response);
    let answer = events.until(|message| message.get("method").is_none()).await;
    assert!(events.next().await.is_none(), "the answer is the end");
    answer["result"].clone()
}
