//! A server over in-memory duplexes with a scripted model, and the messages a test sends it.

#![allow(dead_code, reason = "each test program uses its part of this module")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use openoxide_app_server::{AppServer, AppServerConfig, ApprovalFallback, serve};
use openoxide_core::{ApprovalPolicy, Config, SandboxMode, ThreadManager};
use openoxide_test_support::ScriptedModel;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

/// Longer than anything takes that works.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// One server for any number of clients.
pub(crate) struct Shared {
    pub(crate) server: Arc<AppServer>,
    pub(crate) cwd: tempfile::TempDir,
}

impl Shared {
    pub(crate) fn new(model: Arc<ScriptedModel>) -> Self {
        Self::with(model, |_| {})
    }

    pub(crate) fn with(model: Arc<ScriptedModel>, adjust: impl FnOnce(&mut Config)) -> Self {
        let cwd = tempfile::tempdir().unwrap();
        // No test here starts a command, so the program that would is none.
        let launcher = openoxide_core::Launcher::new("/nonexistent/helper".into(), Default::default());
        let mut config = Config::new(cwd.path().canonicalize().unwrap(), "scripted".to_owned(), model, launcher);
        (config.default_sandbox, config.default_approval_policy) =
            (SandboxMode::DangerFullAccess, ApprovalPolicy::Untrusted);
        adjust(&mut config);
        let server = AppServer::new(AppServerConfig {
            manager: ThreadManager::new(config),
            fallback: ApprovalFallback::default(),
            write_timeout: Duration::from_secs(1),
            home: "/home/of/it".into(),
            codex_version: "0.169.0",
        });
        Self { server, cwd }
    }

    /// A connection that has said nothing yet.
    pub(crate) fn connect(&self) -> Client {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(theirs);
        let task = tokio::spawn(serve(reader, writer, Arc::clone(&self.server), std::future::pending()));
        let (reader, writer) = tokio::io::split(ours);
        Client { lines: BufReader::new(reader).lines(), writer: Some(writer), task, last: 0, held: VecDeque::new() }
    }

    /// A connection that has said who it is.
    pub(crate) async fn client(&self) -> Client {
        let mut client = self.connect();
        client.request("initialize", json!({ "clientInfo": { "name": "test", "version": "1" } })).await;
        client.send(&json!({ "method": "initialized" })).await;
        client
    }
}

pub(crate) struct Client {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: Option<WriteHalf<DuplexStream>>,
    pub(crate) task: JoinHandle<()>,
    last: i64,
    /// Messages that came before the answer that was waited for.
    held: VecDeque<Value>,
}

impl Client {
    pub(crate) async fn raw(&mut self, bytes: &[u8]) {
        if self.writer.as_mut().unwrap().write_all(bytes).await.is_err() {
            // The server has ended; whoever waits for it says so.
            std::future::pending::<()>().await;
        }
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes()).await;
    }

    /// Sends a request without waiting for its answer.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> i64 {
        self.last += 1;
        self.send(&json!({ "id": self.last, "method": method, "params": params })).await;
        self.last
    }

    async fn read(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.expect("no message came in time").unwrap().expect("the server has ended");
        let message: Value = serde_json::from_str(&line).unwrap();
        assert!(message.get("jsonrpc").is_none(), "{message}");
        message
    }

    /// The next message in the order in which they came.
    pub(crate) async fn next(&mut self) -> Value {
        match self.held.pop_front() {
            Some(message) => message,
            None => self.read().await,
        }
    }

    /// The answer to a request, whole. What comes before it is held.
    pub(crate) async fn answer(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        loop {
            let message = self.read().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.held.push_back(message);
        }
    }

    /// The result of a request.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params).await;
        answer.get("result").unwrap_or_else(|| panic!("{method}: {answer}")).clone()
    }

    /// The error of a request: its code and message.
    pub(crate) async fn error(&mut self, method: &str, params: Value) -> (i64, String) {
        let answer = self.answer(method, params).await;
        let error = answer.get("error").unwrap_or_else(|| panic!("{method}: {answer}"));
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    /// All messages up to and with the first of this method.
    pub(crate) async fn until(&mut self, method: &str) -> Vec<Value> {
        let mut messages = Vec::new();
        loop {
            messages.push(self.next().await);
            if messages.last().is_some_and(|message| message["method"] == method) {
                return messages;
            }
        }
    }

    /// A new thread in the server's directory.
    pub(crate) async fn thread(&mut self) -> String {
        let started = self.request("thread/start", json!({})).await;
        started["thread"]["id"].as_str().unwrap().to_owned()
    }

    /// A turn's id, once it is begun.
    pub(crate) async fn turn(&mut self, thread: &str, text: &str) -> String {
        let params = json!({ "threadId": thread, "input": [{ "type": "text", "text": text }] });
        let started = self.request("turn/start", params).await;
        started["turn"]["id"].as_str().unwrap().to_owned()
    }

    /// Ends the input and reads what still comes.
    pub(crate) async fn end(mut self) -> Vec<Value> {
        drop(self.writer.take().unwrap().shutdown().await);
        let mut rest: Vec<Value> = self.held.drain(..).collect();
        while let Ok(Some(line)) = tokio::time::timeout(PATIENCE, self.lines.next_line()).await.unwrap() {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap();
        rest
    }
}

/// What each message is, in short: its method, with the type of its item or status.
pub(crate) fn short(messages: &[Value]) -> Vec<String> {
    let one = |message: &Value| {
        let params = &message["params"];
        let more = params["item"]["type"].as_str().or(params["status"]["type"].as_str());
        let flags = params["status"]["activeFlags"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let status = params["item"]["status"].as_str().or(params["turn"]["status"].as_str());
        let words = message["method"].as_str().into_iter().chain(more).chain(flags).chain(status);
        words.collect::<Vec<_>>().join(" ")
    };
    messages.iter().map(one).collect()
}

/// A patch that adds a file.
pub(crate) fn adds(file: &str) -> String {
    format!("*** Begin Patch\n*** Add File: {file}\n+one\n+two\n*** End Patch\n")
}
