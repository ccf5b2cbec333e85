//! The official Rust SDK, rmcp: both eras over stdio and over Streamable HTTP, tasks, and a turn that outlasts its limit.
//!
//! usage: client legacy|modern SERVER...            the steps of scenario.rs
//!        client slow-task LIMIT_SECONDS SERVER...  one turn as a task; prints what it saw as JSON
//!
//! SERVER is a command line, or the one address of a server that listens, whose token is in OPENOXIDE_TOKEN.

#![allow(clippy::disallowed_methods, reason = "a test client starts programs and reads its environment")]

mod scenario;

use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientCapabilities, ClientConfig, ElicitRequestParams,
    ElicitResult, ElicitationAction, ErrorData, GetTaskParams, Implementation, ProgressNotificationParam,
    ProtocolVersion, TaskPayload, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::{Value, json};

/// Answers the server's questions as told, remembers them, and counts the progress it is told of.
pub(crate) struct Person {
    pub(crate) questions: Mutex<Vec<String>>,
    pub(crate) declines: Mutex<bool>,
    pub(crate) progress: AtomicUsize,
    declares_tasks: bool,
}

impl Person {
    fn new(declares_tasks: bool) -> Self {
        Self { questions: Mutex::default(), declines: Mutex::default(), progress: AtomicUsize::new(0), declares_tasks }
    }

    pub(crate) fn questions(&self) -> Vec<String> {
        self.questions.lock().unwrap().clone()
    }

    fn answer(&self, request: ElicitRequestParams) -> ElicitResult {
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = request else {
            panic!("no form: {request:?}");
        };
        assert!(requested_schema.properties.contains_key("decision"), "{requested_schema:?}");
        self.questions.lock().unwrap().push(message);
        if *self.declines.lock().unwrap() {
            return ElicitResult::new(ElicitationAction::Decline);
        }
        ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "decision": "approve" }))
    }
}

impl ClientHandler for Person {
    fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> impl Future<Output = Result<ElicitResult, ErrorData>> + Send + '_ {
        std::future::ready(Ok(self.answer(request)))
    }

    fn on_progress(
        &self,
        _params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) -> impl Future<Output = ()> + Send + '_ {
        self.progress.fetch_add(1, Ordering::Relaxed);
        std::future::ready(())
    }

    fn get_info(&self) -> ClientConfig {
        let capabilities = if self.declares_tasks {
            ClientCapabilities::builder().enable_elicitation().enable_tasks().build()
        } else {
            ClientCapabilities::builder().enable_elicitation().build()
        };
        ClientConfig::new(capabilities, Implementation::new("rmcp", "1"))
    }
}

/// A connection, and what the steps of a scenario ask of it.
pub(crate) struct Client {
    service: RunningService<RoleClient, Person>,
}

impl Client {
    /// `server` is a command line, or the address of one that listens.
    async fn connect(server: &[String], lifecycle: ClientLifecycleMode, person: Person) -> Self {
        let service = if server[0].starts_with("http://") {
            let token = std::env::var("OPENOXIDE_TOKEN").expect("OPENOXIDE_TOKEN");
            let config = StreamableHttpClientTransportConfig::with_uri(server[0].as_str()).auth_header(token);
            let http = reqwest::Client::builder().no_proxy().build().unwrap();
            person.serve_with_lifecycle(StreamableHttpClientTransport::with_client(http, config), lifecycle).await
        } else {
            let mut command = tokio::process::Command::new(&server[0]);
            command.args(&server[1..]);
            person.serve_with_lifecycle(TokioChildProcess::new(command).unwrap(), lifecycle).await
        };
        Self { service: service.expect("the connection opens") }
    }

    async fn close(mut self) {
        self.service.close().await.unwrap();
    }

    fn version(&self) -> ProtocolVersion {
        self.service.peer_info().expect("the server said what it is").protocol_version.clone()
    }

    pub(crate) fn person(&self) -> &Person {
        self.service.service()
    }

    pub(crate) async fn tools(&self) -> Vec<String> {
        let tools = self.service.list_all_tools().await.unwrap();
        tools.into_iter().map(|tool| tool.name.into_owned()).collect()
    }

    /// Calls a tool and has the SDK answer what is asked in between; the result as it is on the wire.
    pub(crate) async fn call(&self, tool: &'static str, arguments: Value) -> Value {
        let result = self.service.call_tool(parameters(tool, arguments)).await;
        serde_json::to_value(result.unwrap()).unwrap()
    }

    /// Calls a tool as a task: its id.
    pub(crate) async fn begin_task(&self, tool: &'static str, arguments: Value) -> String {
        match self.service.call_tool_once(parameters(tool, arguments)).await.unwrap() {
            CallToolResponse::Task(created) => created.task.task_id,
            other => panic!("no task: {other:?}"),
        }
    }

    /// Asks for a task until its state is wanted.
    pub(crate) async fn task_until(&self, id: &str, wanted: impl Fn(&TaskPayload) -> bool) -> TaskPayload {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let shown = self.service.get_task(GetTaskParams::new(id)).await.unwrap();
            if wanted(&shown.task.payload) {
                return shown.task.payload;
            }
            assert!(Instant::now() < deadline, "the task stays {:?}", shown.task);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits for a task to be completed: the structured result of its call.
    pub(crate) async fn task_result(&self, id: &str) -> Value {
        match self.task_until(id, |payload| !matches!(payload, TaskPayload::Working)).await {
            TaskPayload::Completed { result } => result["structuredContent"].clone(),
            other => panic!("not completed: {other:?}"),
        }
    }

    /// Answers every question of a task.
    pub(crate) async fn answer_task(&self, id: &str, answer: Value) {
        let asks = |payload: &TaskPayload| matches!(payload, TaskPayload::InputRequired { .. });
        let TaskPayload::InputRequired { input_requests } = self.task_until(id, asks).await else { unreachable!() };
        let answers = input_requests.into_keys().map(|key| (key, answer.clone())).collect();
        self.service.update_task(UpdateTaskParams::new(id, answers)).await.unwrap();
    }

    pub(crate) async fn cancel_task(&self, id: &str) {
        self.service.cancel_task(CancelTaskParams::new(id)).await.unwrap();
    }
}

fn parameters(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { panic!("no object: {arguments}") };
    CallToolRequestParams::new(tool).with_arguments(arguments)
}

fn discover() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

fn auto() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto { preferred_versions: vec![ProtocolVersion::V_2026_07_28], legacy_version: None }
}

async fn legacy(server: &[String], transport: &str) {
    // That it declares tasks changes nothing in this era.
    let client = Client::connect(server, ClientLifecycleMode::Initialize, Person::new(true)).await;
    let version = client.version();
    assert!(version.has_initialize(), "{version}");
    scenario::converse(&client).await;
    eprintln!("ok: rmcp, {version}, {transport}: {}", scenario::STEPS);
    client.close().await;
}

async fn modern(server: &[String], transport: &str) {
    let client = Client::connect(server, discover(), Person::new(false)).await;
    let version = client.version();
    assert_eq!(version, ProtocolVersion::V_2026_07_28);
    scenario::converse(&client).await;
    eprintln!("ok: rmcp, {version}, {transport}: {}", scenario::STEPS);
    client.close().await;

    let client = Client::connect(server, auto(), Person::new(true)).await;
    assert_eq!(client.version(), version);
    scenario::tasks(&client).await;
    eprintln!("ok: rmcp, {version}, {transport}: {}", scenario::TASK_STEPS);
    client.close().await;
}

/// A turn of any length, of which no request waits longer than the limit.
async fn slow_task(limit: Duration, server: &[String]) {
    let client = Client::connect(server, auto(), Person::new(true)).await;
    let begun = Instant::now();
    let call = client.begin_task("openoxide", json!({ "prompt": "take your time" }));
    let id = tokio::time::timeout(limit, call).await.expect("the task is there within the limit");
    let mut longest = begun.elapsed();
    let mut polls = 0;
    let result = loop {
        let begun = Instant::now();
        let get = client.service.get_task(GetTaskParams::new(id.as_str()));
        let shown = tokio::time::timeout(limit, get).await.expect("the task is shown within the limit").unwrap();
        longest = longest.max(begun.elapsed());
        polls += 1;
        match shown.task.payload {
            TaskPayload::Working => {}
            TaskPayload::Completed { result } => break result,
            other => panic!("not working: {other:?}"),
        }
        let pause = shown.task.task.poll_interval_ms.expect("the server says how often to ask");
        tokio::time::sleep(Duration::from_millis(pause)).await;
    };
    client.close().await;
    let structured = &result["structuredContent"];
    println!(
        "{}",
        json!({ "structured": structured, "turn": result["_meta"]["openoxide/turn"], "polls": polls, "longestRequest": longest.as_secs_f64() })
    );
}

#[tokio::main]
async fn main() {
    // The HTTP client wants a provider of cryptography even for plain HTTP.
    rustls::crypto::ring::default_provider().install_default().unwrap();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (mode, server) = arguments.split_first().expect("a mode");
    let transport = if server[0].starts_with("http://") { "http" } else { "stdio" };
    match mode.as_str() {
        "legacy" => legacy(server, transport).await,
        "modern" => modern(server, transport).await,
        "slow-task" => slow_task(Duration::from_secs_f64(server[0].parse().unwrap()), &server[1..]).await,
        other => panic!("no mode {other}"),
    }
}
