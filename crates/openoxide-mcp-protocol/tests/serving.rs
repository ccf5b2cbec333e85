//! The library for tool servers, driven over an in-memory duplex: each rule that its README states.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped has failed the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use openoxide_mcp_protocol::protocol::{Tool, ToolCallParams, ToolCallResult, ToolsListResult};
use openoxide_mcp_protocol::server::{CallContext, Eras, MAX_OPEN, McpHandler, ServerInfo, serve};
use openoxide_mcp_protocol::transport::LineTransport;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Far beyond what anything here takes: a hang fails.
const HANG: Duration = Duration::from_secs(30);

#[derive(Deserialize, JsonSchema)]
struct EchoArgs {
    /// What to say back.
    message: String,
}

/// A server with a tool for each way to end.
#[derive(Default)]
struct Bench {
    eras: Eras,
    /// Told when `wait` is called.
    called: Arc<Notify>,
    /// Lets one call of `wait` end.
    released: Arc<Notify>,
    /// Calls of `wait` that are open, and the most there were at once.
    open: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    /// Told when a call learns that it is cancelled.
    stopped: Arc<Notify>,
    /// What calls kept, to use behind their end.
    kept: Arc<std::sync::Mutex<Option<CallContext>>>,
}

impl McpHandler for Bench {
    async fn tools_list(&self) -> anyhow::Result<ToolsListResult> {
        Ok(ToolsListResult { tools: vec![Tool::typed::<EchoArgs>("echo", "Says the message back.")] })
    }

    async fn tools_call(&self, params: ToolCallParams) -> anyhow::Result<ToolCallResult> {
        match params.name.as_str() {
            "echo" => Ok(ToolCallResult::text(params.arguments_as::<EchoArgs>()?.message)),
            "fail" => Err(anyhow::anyhow!("disk full").context("cannot save")),
            "panic" => panic!("a tool that panics"),
            "wait" => {
                self.most.fetch_max(self.open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                self.called.notify_one();
                self.released.notified().await;
                self.open.fetch_sub(1, Ordering::SeqCst);
                Ok(ToolCallResult::text("waited"))
            }
            "spin" => {
                while self.open.load(Ordering::SeqCst) == 0 {
                    tokio::task::yield_now().await;
                }
                Ok(ToolCallResult::text("spun"))
            }
            other => Ok(ToolCallResult::unknown_tool(other)),
        }
    }

    async fn tools_call_with_context(
        &self,
        params: ToolCallParams,
        context: CallContext,
    ) -> anyhow::Result<ToolCallResult> {
        match params.name.as_str() {
            "count" => {
                for (step, word) in [(1.0, "one"), (2.0, "two"), (2.0, "again"), (1.0, "back"), (f64::NAN, "none")] {
                    context.progress(step, Some(3.0), Some(word));
                }
                *self.kept.lock().unwrap() = Some(context);
                Ok(ToolCallResult::text("counted"))
            }
            "late" => {
                let kept = self.kept.lock().unwrap().take().expect("count was called");
                kept.progress(9.0, None, None);
                Ok(ToolCallResult::text("late"))
            }
            "stop" => {
                self.called.notify_one();
                let work = context.unless_cancelled(std::future::pending::<()>()).await;
                assert!(work.is_none() && context.is_cancelled());
                self.stopped.notify_one();
                Ok(ToolCallResult::text("stopped"))
            }
            _ => self.tools_call(params).await,
        }
    }

    fn eras(&self) -> Eras {
        self.eras
    }
}

/// A client of one served connection.
struct Client {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    to: WriteHalf<DuplexStream>,
    serving: JoinHandle<anyhow::Result<()>>,
}

impl Client {
    fn of(handler: impl McpHandler + 'static) -> Self {
        let (client, server) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(server);
        let serving = tokio::spawn(async move { serve(LineTransport::new(reader, writer), &handler).await });
        let (from, to) = tokio::io::split(client);
        Self { lines: BufReader::new(from).lines(), to, serving }
    }

    async fn line(&mut self, line: &str) {
        self.to.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn send(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let id = id.into();
        self.line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()).await;
    }

    async fn call(&mut self, id: impl Into<Value>, tool: &str, arguments: Value) {
        self.send(id, "tools/call", json!({ "name": tool, "arguments": arguments })).await;
    }

    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(HANG, self.lines.next_line()).await.expect("an answer comes");
        serde_json::from_str(&line.unwrap().expect("the server has not ended")).unwrap()
    }

    async fn answer(&mut self, id: impl Into<Value>, method: &str, params: Value) -> Value {
        self.send(id, method, params).await;
        self.next().await
    }

    /// Ends the input; what is still said.
    async fn end(mut self) -> Vec<Value> {
        self.to.shutdown().await.unwrap();
        let mut rest = Vec::new();
        tokio::time::timeout(HANG, async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                rest.push(serde_json::from_str(&line).unwrap());
            }
            self.serving.await.unwrap().expect("the end of input is no error");
        })
        .await
        .expect("the server ends");
        rest
    }
}

fn text_of(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"))
}

#[tokio::test]
async fn the_handshake_agrees_on_a_revision_and_names_the_server() {
    let mut client = Client::of(Bench::default());
    let bare = client.answer(1, "initialize", json!({})).await;
    assert_eq!(
        bare,
        json!({ "jsonrpc": "2.0", "id": 1, "result": {
            "protocolVersion": "2025-11-25",
            "serverInfo": { "name": "openoxide-mcp-protocol", "version": env!("CARGO_PKG_VERSION") },
            "capabilities": { "tools": {} },
        }})
    );
    let older = client.answer("a", "initialize", json!({ "protocolVersion": "2025-06-18" })).await;
    assert_eq!((&older["id"], &older["result"]["protocolVersion"]), (&json!("a"), &json!("2025-06-18")));
    client.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    assert_eq!(client.answer(2, "ping", json!({})).await["result"], json!({}));
    assert_eq!(client.end().await, [] as [Value; 0]);
}

#[tokio::test]
async fn an_overridden_initialize_is_given_the_params_and_its_answer_is_sent_as_it_is() {
    struct Own;
    impl McpHandler for Own {
        async fn initialize(&self, params: Value) -> anyhow::Result<Value> {
            Ok(json!({ "given": params }))
        }
        async fn tools_list(&self) -> anyhow::Result<ToolsListResult> {
            Err(anyhow::anyhow!("no list today"))
        }
        async fn tools_call(&self, _: ToolCallParams) -> anyhow::Result<ToolCallResult> {
            Ok(ToolCallResult::text(""))
        }
    }
    let mut client = Client::of(Own);
    assert_eq!(client.answer(1, "initialize", json!([7])).await["result"], json!({ "given": [7] }));
    let failed = client.answer(2, "tools/list", json!({})).await;
    assert_eq!(
        failed["error"],
        json!({ "code": -32000, "message": "tools/list failed", "data": { "error": "no list today" } })
    );
}

#[tokio::test]
async fn tools_are_listed_and_called_with_the_names_of_mcp() {
    let mut client = Client::of(Bench::default());
    let listed = client.answer(1, "tools/list", Value::Null).await;
    let tool = &listed["result"]["tools"][0];
    assert_eq!((&tool["name"], &tool["inputSchema"]["required"]), (&json!("echo"), &json!(["message"])));
    assert!(listed["result"].get("resultType").is_none(), "a legacy result: {listed}");
    client.call(2, "echo", json!({ "message": "hi" })).await;
    assert_eq!(
        client.next().await,
        json!({ "jsonrpc": "2.0", "id": 2, "result": { "content": [{ "type": "text", "text": "hi" }], "isError": false } })
    );
}

#[tokio::test]
async fn each_failure_has_its_answer_and_the_next_request_is_served() {
    let mut client = Client::of(Bench::default());
    client.call(1, "echo", json!({ "message": 7 })).await;
    let wrong = client.next().await;
    assert_eq!(wrong["result"]["isError"], true);
    assert!(text_of(&wrong).starts_with("invalid arguments for echo: message: "), "{wrong}");

    client.call(2, "nothing", json!({})).await;
    let unknown = client.next().await;
    assert!(unknown["result"]["isError"] == true && text_of(&unknown).contains("nothing"), "{unknown}");

    client.call(3, "fail", json!({})).await;
    assert_eq!(
        client.next().await["error"],
        json!({ "code": -32000, "message": "tools/call failed", "data": { "error": "cannot save: disk full" } })
    );

    let undecodable = client.answer(4, "tools/call", json!({ "arguments": {} })).await;
    assert_eq!(
        (&undecodable["error"]["code"], &undecodable["error"]["message"]),
        (&json!(-32000), &json!("tools/call failed"))
    );
    assert!(undecodable["error"]["data"]["error"].as_str().unwrap().contains("name"), "{undecodable}");

    for method in ["resources/list", "server/discover", ""] {
        let answer = client.answer(5, method, json!({})).await;
        assert_eq!(
            (&answer["error"]["code"], &answer["error"]["message"]),
            (&json!(-32601), &json!("Method not found"))
        );
    }

    client.call(6, "panic", json!({})).await;
    let panicked = client.next().await;
    assert_eq!((&panicked["id"], &panicked["error"]["code"]), (&json!(6), &json!(-32603)));

    client.call(7, "echo", json!({ "message": "still here" })).await;
    assert_eq!(text_of(&client.next().await), "still here");
}

#[tokio::test]
async fn a_bad_line_is_answered_and_never_fatal() {
    let mut client = Client::of(Bench::default());
    for (line, code, id) in [
        ("hello", -32700, Value::Null),
        ("{\"jsonrpc\":\"2.0\",", -32700, Value::Null),
        (r#"{"id":3,"method":"ping"}"#, -32600, json!(3)),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, Value::Null),
        (r#"[{"jsonrpc":"2.0","id":4,"method":"ping"}]"#, -32600, Value::Null),
        (
            r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":1e999}}"#,
            -32600,
            json!(5),
        ),
    ] {
        client.line(line).await;
        let answer = client.next().await;
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{line}: {answer}");
    }
    client.line("").await;
    client.line("  ").await;
    assert_eq!(client.answer(6, "ping", json!({})).await["id"], 6, "blank lines say nothing");
}

#[tokio::test]
async fn notifications_are_called_and_not_answered() {
    let bench = Bench::default();
    let (called, released) = (Arc::clone(&bench.called), Arc::clone(&bench.released));
    let mut client = Client::of(bench);
    for method in ["initialize", "tools/list", "nothing/of/the/kind", ""] {
        client.line(&json!({ "jsonrpc": "2.0", "method": method }).to_string()).await;
    }
    for name in ["panic", "fail", "wait"] {
        let params = json!({ "name": name });
        client.line(&json!({ "jsonrpc": "2.0", "method": "tools/call", "params": params }).to_string()).await;
    }
    // A response of the client's to nothing.
    client.line(r#"{"jsonrpc":"2.0","id":9,"result":{}}"#).await;
    tokio::time::timeout(HANG, called.notified()).await.expect("the handler is called");
    released.notify_one();
    assert_eq!(client.end().await, [] as [Value; 0]);
}

#[tokio::test]
async fn calls_run_at_the_same_time_and_are_answered_as_they_end() {
    let bench = Bench::default();
    let (called, released) = (Arc::clone(&bench.called), Arc::clone(&bench.released));
    let mut client = Client::of(bench);
    client.call("slow", "wait", json!({})).await;
    called.notified().await;
    client.call("quick", "echo", json!({ "message": "first" })).await;
    assert_eq!(client.next().await["id"], "quick");
    released.notify_one();
    assert_eq!(client.next().await["id"], "slow");
}

#[tokio::test]
async fn a_call_that_is_always_ready_to_run_keeps_no_other_waiting() {
    let mut client = Client::of(Bench::default());
    client.call("spins", "spin", json!({})).await;
    client.call("ends it", "wait", json!({})).await;
    assert_eq!(client.next().await["id"], "spins");
}

#[tokio::test]
async fn the_end_of_input_ends_the_server_once_open_calls_are_answered() {
    let bench = Bench::default();
    let (called, released) = (Arc::clone(&bench.called), Arc::clone(&bench.released));
    let mut client = Client::of(bench);
    client.call(1, "wait", json!({})).await;
    called.notified().await;
    client.call(2, "echo", json!({ "message": "and this" })).await;
    // The last line comes with the end, and has no newline.
    client.to.write_all(br#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#).await.unwrap();
    client.to.shutdown().await.unwrap();
    let mut ids = vec![client.next().await["id"].clone(), client.next().await["id"].clone()];
    released.notify_one();
    ids.extend(client.end().await.iter().map(|answer| answer["id"].clone()));
    assert_eq!(ids, [2, 3, 1]);
}

#[tokio::test]
async fn more_requests_than_may_be_open_wait_and_are_all_answered() {
    let bench = Bench::default();
    let (called, released) = (Arc::clone(&bench.called), Arc::clone(&bench.released));
    let most = Arc::clone(&bench.most);
    let mut client = Client::of(bench);
    let count = MAX_OPEN + 20;
    for id in 0..count {
        client.call(id, "wait", json!({})).await;
    }
    client.to.shutdown().await.unwrap();
    // As many as may be are open before the first ends.
    while most.load(Ordering::SeqCst) < MAX_OPEN {
        called.notified().await;
    }
    let releasing = tokio::spawn(async move {
        loop {
            released.notify_one();
            tokio::task::yield_now().await;
        }
    });
    let mut ids: Vec<u64> = client.end().await.iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
    releasing.abort();
    ids.sort_unstable();
    assert_eq!(ids, (0..count as u64).collect::<Vec<_>>());
    assert!(most.load(Ordering::SeqCst) <= MAX_OPEN, "{most:?} calls were open at once");
}

#[tokio::test]
async fn a_closed_output_ends_the_server_with_an_error_though_a_call_is_open() {
    let (mut to, reader) = tokio::io::duplex(1 << 10);
    let (writer, output) = tokio::io::duplex(1 << 10);
    drop(output);
    let bench = Bench::default();
    let called = Arc::clone(&bench.called);
    let serving = tokio::spawn(async move { serve(LineTransport::new(reader, writer), &bench).await });
    to.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"wait\"}}\n")
        .await
        .unwrap();
    called.notified().await;
    to.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n").await.unwrap();
    let ended = tokio::time::timeout(HANG, serving).await.expect("the server ends");
    assert!(ended.unwrap().is_err());
}

#[tokio::test]
async fn progress_is_told_where_it_is_asked_for_rises_and_comes_before_the_answer() {
    let mut client = Client::of(Bench::default());
    let params = json!({ "name": "count", "_meta": { "progressToken": "t" } });
    client.send(1, "tools/call", params).await;
    for (progress, message) in [(1.0, "one"), (2.0, "two")] {
        assert_eq!(
            client.next().await,
            json!({ "jsonrpc": "2.0", "method": "notifications/progress",
                "params": { "progressToken": "t", "progress": progress, "total": 3.0, "message": message } })
        );
    }
    assert_eq!(client.next().await["id"], 1);
    // A context that outlives its call says nothing more.
    client.call(2, "late", json!({})).await;
    assert_eq!(client.next().await["id"], 2);
    client.call(3, "count", json!({})).await;
    assert_eq!(client.next().await["id"], 3, "nobody has asked for progress");
}

#[tokio::test]
async fn a_cancelled_call_is_not_answered_and_one_with_a_context_learns_of_it() {
    let bench = Bench::default();
    let (called, released) = (Arc::clone(&bench.called), Arc::clone(&bench.released));
    let stopped = Arc::clone(&bench.stopped);
    let mut client = Client::of(bench);
    let cancel =
        |id: Value| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    client.call("a", "stop", json!({})).await;
    called.notified().await;
    client.line(&cancel(json!("b")).to_string()).await;
    client.line(&cancel(json!({})).to_string()).await;
    client.line(&cancel(json!("a")).to_string()).await;
    tokio::time::timeout(HANG, stopped.notified()).await.expect("the call learns of it");
    // One without a context runs to its end.
    client.call(2, "wait", json!({})).await;
    called.notified().await;
    client.line(&cancel(json!(2)).to_string()).await;
    assert_eq!(client.answer(3, "ping", json!({})).await["id"], 3);
    released.notify_one();
    assert_eq!(client.end().await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_call_that_is_cancelled_in_the_same_write_is_not_answered() {
    let mut client = Client::of(Bench::default());
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "stop" } });
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    client.line(&format!("{call}\n{cancel}")).await;
    assert_eq!(client.end().await, [] as [Value; 0]);
}

fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

#[tokio::test]
async fn the_modern_era_is_spoken_by_those_who_opt_in() {
    struct Own(Bench);
    impl McpHandler for Own {
        async fn tools_list(&self) -> anyhow::Result<ToolsListResult> {
            self.0.tools_list().await
        }
        async fn tools_call(&self, params: ToolCallParams) -> anyhow::Result<ToolCallResult> {
            self.0.tools_call(params).await
        }
        fn eras(&self) -> Eras {
            Eras::All
        }
        fn info(&self) -> ServerInfo {
            ServerInfo::new("own", "1.2.3").with_instructions("echo, and no more")
        }
    }
    let server = json!({ "io.modelcontextprotocol/serverInfo": { "name": "own", "version": "1.2.3" } });
    let mut client = Client::of(Own(Bench::default()));
    let discovered = client.answer(1, "server/discover", modern(json!({}))).await;
    let result = &discovered["result"];
    assert_eq!(result["supportedVersions"][0], "2026-07-28");
    assert_eq!(
        (&result["capabilities"], &result["instructions"]),
        (&json!({ "tools": {} }), &json!("echo, and no more"))
    );
    assert_eq!((&result["resultType"], &result["_meta"]), (&json!("complete"), &server));

    let listed = client.answer(2, "tools/list", modern(json!({}))).await;
    assert_eq!((&listed["result"]["ttlMs"], &listed["result"]["cacheScope"]), (&json!(0), &json!("private")));
    assert_eq!(listed["result"]["resultType"], "complete");

    let called =
        client.answer(3, "tools/call", modern(json!({ "name": "echo", "arguments": { "message": "hi" } }))).await;
    assert_eq!((text_of(&called), &called["result"]["_meta"]), ("hi", &server));

    for (params, code) in [
        (json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } }), -32602),
        (json!({ "_meta": { "io.modelcontextprotocol/clientCapabilities": {} } }), -32602),
        (json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": 7 } }), -32602),
        (json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "2031-01-01" } }), -32022),
    ] {
        assert_eq!(client.answer(4, "tools/list", params.clone()).await["error"]["code"], code, "{params}");
    }
    // Each era has its own handshake, and both are served on one connection.
    assert_eq!(client.answer(5, "initialize", modern(json!({}))).await["error"]["code"], -32601);
    let legacy = client.answer(6, "initialize", json!({})).await;
    assert_eq!(
        (&legacy["result"]["serverInfo"]["name"], &legacy["result"]["instructions"]),
        (&json!("own"), &json!("echo, and no more"))
    );
    assert!(client.answer(7, "tools/list", json!({})).await["result"].get("resultType").is_none());
}

/// A line, and whether it is answered under its number.
fn line(kind: u8, id: usize) -> (String, bool) {
    let request =
        |method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    let call = |tool: &str| request("tools/call", json!({ "name": tool, "arguments": { "message": "m" } }));
    match kind {
        0 => (call("echo").to_string(), true),
        1 => (call("panic").to_string(), true),
        2 => (call("fail").to_string(), true),
        3 => (call("nothing").to_string(), true),
        4 => (request("tools/list", json!({})).to_string(), true),
        5 => (request("no/such", json!(7)).to_string(), true),
        6 => (request("tools/call", json!({})).to_string(), true),
        7 => (json!({ "jsonrpc": "2.0", "method": "tools/call", "params": { "name": "panic" } }).to_string(), false),
        8 => (json!({ "jsonrpc": "2.0", "method": "" }).to_string(), false),
        9 => (json!({ "jsonrpc": "2.0", "id": id, "result": {} }).to_string(), false),
        _ => (String::new(), false),
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(32))]
    #[test]
    fn whatever_comes_with_the_end_of_input_each_request_is_answered_once(
        kinds in proptest::collection::vec(0u8..11, 0..60),
    ) {
        let (lines, answered): (Vec<String>, Vec<bool>) =
            kinds.iter().enumerate().map(|(id, kind)| line(*kind, id)).unzip();
        let expected: Vec<usize> = (0..kinds.len()).filter(|id| answered[*id]).collect();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let mut ids = runtime.block_on(async {
            let mut client = Client::of(Bench::default());
            client.to.write_all((lines.join("\n") + "\n").as_bytes()).await.unwrap();
            let answers = client.end().await;
            answers.iter().map(|answer| answer["id"].as_u64().unwrap() as usize).collect::<Vec<_>>()
        });
        ids.sort_unstable();
        proptest::prop_assert_eq!(ids, expected);
    }
}
