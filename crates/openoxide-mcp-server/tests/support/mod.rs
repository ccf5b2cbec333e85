//! A server over an in-memory duplex with a scripted model, and the requests a test sends it.

#![allow(dead_code, reason = "each test program uses its part of this module")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use openoxide_core::{ApprovalPolicy, Config, SandboxMode, ThreadManager};
use openoxide_mcp_server::{ApprovalStrategy, OnEof, Server as Agent, ServerConfig, ToolFamilies, serve};
use openoxide_test_support::{Client, ScriptedModel};
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::task::JoinHandle;

/// How long a client may read nothing while its queue is full.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// When answers come that nobody has asked to come early, and when tasks are made.
#[derive(Clone, Copy)]
pub(crate) struct Waits {
    pub(crate) answer_within: Option<Duration>,
    pub(crate) task_after: Duration,
}

impl Default for Waits {
    /// Each answer is that of its turn, and each task is there at once.
    fn default() -> Self {
        Self { answer_within: None, task_after: Duration::ZERO }
    }
}

/// Longer than anything takes that works.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    pub(crate) client: Client<DuplexStream>,
    pub(crate) cwd: tempfile::TempDir,
    pub(crate) task: JoinHandle<()>,
}

pub(crate) async fn start(model: Arc<ScriptedModel>) -> Server {
    start_with(model, |_| {}).await
}

pub(crate) async fn start_with(model: Arc<ScriptedModel>, adjust: impl FnOnce(&mut Config)) -> Server {
    start_as(model, adjust, false, OnEof::default(), WRITE_TIMEOUT).await
}

/// With the tools of Codex as well.
pub(crate) async fn start_codex(model: Arc<ScriptedModel>) -> Server {
    start_as(model, |_| {}, true, OnEof::default(), WRITE_TIMEOUT).await
}

/// At the end of input calls finish first.
pub(crate) async fn start_finishing(model: Arc<ScriptedModel>) -> Server {
    start_as(model, |_| {}, false, OnEof::Finish, WRITE_TIMEOUT).await
}

/// A client that does not read is waited for longer than any test takes.
pub(crate) async fn start_patient(model: Arc<ScriptedModel>) -> Server {
    start_as(model, |_| {}, false, OnEof::default(), 10 * PATIENCE).await
}

/// Answers come and tasks are made as `waits` says.
pub(crate) async fn start_waiting(model: Arc<ScriptedModel>, waits: Waits, codex: bool, on_eof: OnEof) -> Server {
    let (agent, cwd) = agent_waiting(model, |_| {}, codex, on_eof, WRITE_TIMEOUT, waits);
    let (client, task) = connect(agent);
    Server { client, cwd, task }
}

/// One agent for any number of connections of one user.
pub(crate) struct Shared {
    agent: Arc<Agent>,
    pub(crate) cwd: tempfile::TempDir,
}

impl Shared {
    pub(crate) fn new(model: Arc<ScriptedModel>) -> Self {
        let (agent, cwd) = agent(model, |_| {}, false, OnEof::default(), WRITE_TIMEOUT);
        Self { agent, cwd }
    }

    /// A connection that has said nothing yet.
    pub(crate) fn connect(&self) -> Client<DuplexStream> {
        connect(Arc::clone(&self.agent)).0
    }

    /// A connection of the legacy era.
    pub(crate) async fn legacy(&self, capabilities: Value) -> Client<DuplexStream> {
        let mut client = self.connect();
        client.initialize("2025-06-18", capabilities).await;
        client
    }
}

fn agent(
    model: Arc<ScriptedModel>,
    adjust: impl FnOnce(&mut Config),
    codex: bool,
    on_eof: OnEof,
    write_timeout: Duration,
) -> (Arc<Agent>, tempfile::TempDir) {
    agent_waiting(model, adjust, codex, on_eof, write_timeout, Waits::default())
}

fn agent_waiting(
    model: Arc<ScriptedModel>,
    adjust: impl FnOnce(&mut Config),
    codex: bool,
    on_eof: OnEof,
    write_timeout: Duration,
    waits: Waits,
) -> (Arc<Agent>, tempfile::TempDir) {
    let cwd = tempfile::tempdir().unwrap();
    // No test here starts a command, so the program that would is none.
    let launcher = openoxide_core::Launcher::new("/nonexistent/helper".into(), Default::default());
    let mut config = Config::new(cwd.path().to_owned(), "scripted".to_owned(), model, launcher);
    (config.default_sandbox, config.default_approval_policy) =
        (SandboxMode::DangerFullAccess, ApprovalPolicy::Untrusted);
    adjust(&mut config);
    let agent = Agent::new(ServerConfig {
        manager: ThreadManager::new(config),
        state_key_file: None,
        tasks: None,
        approval_strategy: ApprovalStrategy::default(),
        max_wait: None,
        answer_within: waits.answer_within,
        task_after: waits.task_after,
        on_eof,
        write_timeout,
        families: if codex { ToolFamilies::All } else { ToolFamilies::Native },
        on_trace: None,
    });
    (agent, cwd)
}

fn connect(agent: Arc<Agent>) -> (Client<DuplexStream>, JoinHandle<()>) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(theirs);
    let task = tokio::spawn(serve(reader, writer, agent, std::future::pending()));
    (Client::new(ours), task)
}

async fn start_as(
    model: Arc<ScriptedModel>,
    adjust: impl FnOnce(&mut Config),
    codex: bool,
    on_eof: OnEof,
    write_timeout: Duration,
) -> Server {
    let (agent, cwd) = agent(model, adjust, codex, on_eof, write_timeout);
    let (client, task) = connect(agent);
    Server { client, cwd, task }
}

pub(crate) async fn legacy(model: Arc<ScriptedModel>, capabilities: Value) -> Server {
    let mut server = start(model).await;
    server.client.initialize("2025-06-18", capabilities).await;
    server
}

pub(crate) fn call(tool: &str, arguments: Value) -> Value {
    json!({ "name": tool, "arguments": arguments })
}

pub(crate) fn modern(mut params: Value, capabilities: Value) -> Value {
    let meta = &mut params["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": "test", "version": "1" });
    params
}

pub(crate) fn add_file(name: &str) -> String {
    format!("*** Begin Patch\n*** Add File: {name}\n+hello\n*** End Patch\n")
}

pub(crate) fn can_be_asked() -> Value {
    json!({ "elicitation": {} })
}

pub(crate) fn exists(cwd: &Path, name: &str) -> bool {
    cwd.join(name).exists()
}

/// A question of the model's to the person.
pub(crate) fn ask_which(question: &str) -> String {
    let options = json!([{ "label": "SQLite", "description": "One file." }, { "label": "Postgres" }]);
    json!({ "questions": [{ "id": "db", "question": question, "options": options }] }).to_string()
}
