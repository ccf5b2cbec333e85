//! Turns against a scripted server on an in-memory duplex: what the client says in both eras, and what is shown.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use super::client::{Client, Era, ServerInfo};
use super::screen::Screen;
use super::session::{Outcome, Session};
use super::terminal::Asker;

/// The other end of the wire, played by a test.
struct Script {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Script {
    async fn read(&mut self) -> Value {
        serde_json::from_str(&self.lines.next_line().await.unwrap().expect("the client says something")).unwrap()
    }

    async fn write(&mut self, message: Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn answer(&mut self, request: &Value, result: Value) {
        self.write(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
    }
}

fn finished(status: &str) -> Value {
    json!({ "content": [], "isError": false, "structuredContent": { "threadId": "t-1", "content": "done", "status": status } })
}

fn form(message: &str) -> Value {
    json!({ "mode": "form", "message": message, "requestedSchema": { "type": "object", "properties": {} } })
}

/// Runs one turn against `script` and returns what came of it and what was shown.
async fn play<F, S>(era: Era, asker: Asker, script: S) -> (anyhow::Result<Outcome>, String)
where
    S: FnOnce(Script) -> F,
    F: Future<Output = ()>,
{
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(ours);
    let mut client = Client::new(reader, writer, era, false);
    let (their_reader, their_writer) = tokio::io::split(theirs);
    let other = Script { lines: BufReader::new(their_reader).lines(), writer: their_writer };
    let mut out = Vec::new();
    let mut screen = Screen::new(&mut out, false, false);
    let turn = async {
        client.connect().await?;
        Session::new(&mut client, &mut screen, asker).run(json!({ "prompt": "p" })).await
    };
    let (outcome, ()) = tokio::join!(turn, script(other));
    (outcome, String::from_utf8(out).unwrap())
}

async fn legacy_handshake(script: &mut Script) {
    let initialize = script.read().await;
    assert_eq!(initialize["method"], "initialize");
    assert_eq!(initialize["params"]["capabilities"]["elicitation"], json!({ "form": {} }));
    script
        .answer(&initialize, json!({ "protocolVersion": "2025-11-25", "serverInfo": { "name": "s", "version": "1" } }))
        .await;
    assert_eq!(script.read().await["method"], "notifications/initialized");
}

async fn modern_handshake(script: &mut Script) {
    let discover = script.read().await;
    assert_eq!(discover["method"], "server/discover");
    assert_eq!(discover["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    script.answer(&discover, json!({ "supportedVersions": ["2026-07-28"] })).await;
}

#[tokio::test]
async fn a_legacy_question_is_answered_by_its_id() {
    let (outcome, shown) = play(Era::Legacy, Asker::ApproveAll, |mut script| async move {
        legacy_handshake(&mut script).await;
        let call = script.read().await;
        assert_eq!(call["params"]["name"], "openoxide");
        let token = &call["params"]["_meta"]["progressToken"];
        script
            .write(json!({ "jsonrpc": "2.0", "method": "notifications/progress",
                "params": { "progressToken": token, "progress": 1, "message": "thinking" } }))
            .await;
        script
            .write(json!({ "jsonrpc": "2.0", "id": "q-7", "method": "elicitation/create", "params": form("Run `x`?") }))
            .await;
        let answer = script.read().await;
        assert_eq!(answer["id"], "q-7");
        assert_eq!(answer["result"], json!({ "action": "accept", "content": { "decision": "approve" } }));
        let item = json!({ "id": 1, "type": "command", "argv": ["bash", "-c", "x --all"], "exitCode": 3,
            "output": "line\n", "status": "completed" });
        script
            .write(json!({ "jsonrpc": "2.0", "method": "notifications/message",
                "params": { "level": "info", "data": { "type": "item_completed", "item": item } } }))
            .await;
        script.answer(&call, finished("completed")).await;
    })
    .await;
    let outcome = outcome.unwrap();
    assert!(outcome.is_completed());
    assert_eq!(outcome.last_command, Some(("x --all".to_owned(), 3)));
    for expected in [". thinking\n", "    Run `x`?\n", "  approved (--yes)\n", "* x --all: exit code 3\n    line\n"] {
        assert!(shown.contains(expected), "{shown}");
    }
}

#[tokio::test]
async fn modern_questions_go_back_together_with_the_state() {
    let (sender, lines) = mpsc::channel(4);
    for line in ["what?", "T", "d"] {
        sender.send(line.to_owned()).await.unwrap();
    }
    let (outcome, shown) = play(Era::Modern, Asker::Lines(lines), |mut script| async move {
        modern_handshake(&mut script).await;
        let call = script.read().await;
        assert_eq!(call["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "info");
        let request = |message| json!({ "method": "elicitation/create", "params": form(message) });
        let asked = json!({ "resultType": "input_required", "requestState": "sealed",
            "inputRequests": { "k1": request("first"), "k2": request("second") } });
        script.answer(&call, asked).await;
        let retry = script.read().await;
        assert_ne!(retry["id"], call["id"]);
        assert_eq!(retry["params"]["name"], call["params"]["name"]);
        assert_eq!(retry["params"]["arguments"], call["params"]["arguments"]);
        assert_eq!(retry["params"]["requestState"], "sealed");
        let responses = &retry["params"]["inputResponses"];
        assert_eq!(responses["k1"]["content"]["decision"], "approve_for_thread");
        assert_eq!(responses["k2"]["content"]["decision"], "deny");
        script.answer(&retry, finished("completed")).await;
    })
    .await;
    assert!(outcome.unwrap().is_completed());
    assert!(shown.find("first").unwrap() < shown.find("second").unwrap(), "{shown}");
}

#[tokio::test]
async fn a_question_that_nobody_can_answer_is_cancelled() {
    let (sender, lines) = mpsc::channel(1);
    drop(sender);
    let (outcome, _) = play(Era::Legacy, Asker::Lines(lines), |mut script| async move {
        legacy_handshake(&mut script).await;
        let call = script.read().await;
        script.write(json!({ "jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": form("?") })).await;
        assert_eq!(script.read().await["result"], json!({ "action": "cancel" }));
        script.answer(&call, finished("interrupted")).await;
    })
    .await;
    assert!(!outcome.unwrap().is_completed());
}

#[tokio::test]
async fn a_withdrawn_question_gives_way_to_the_next() {
    let (sender, lines) = mpsc::channel(1);
    let (outcome, shown) = play(Era::Legacy, Asker::Lines(lines), |mut script| async move {
        legacy_handshake(&mut script).await;
        let call = script.read().await;
        for (id, message) in [(1, "first"), (2, "second")] {
            script
                .write(json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": form(message) }))
                .await;
        }
        script
            .write(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }))
            .await;
        // A request that needs no person is the proof that what came before it was handled.
        script.write(json!({ "jsonrpc": "2.0", "id": 3, "method": "ping" })).await;
        assert_eq!(script.read().await, json!({ "jsonrpc": "2.0", "id": 3, "result": {} }));
        sender.send("s".to_owned()).await.unwrap();
        let answer = script.read().await;
        assert_eq!((&answer["id"], &answer["result"]["content"]["decision"]), (&json!(2), &json!("deny_and_stop")));
        script.answer(&call, finished("interrupted")).await;
    })
    .await;
    assert!(outcome.is_ok());
    assert!(shown.contains("withdrawn"), "{shown}");
}

#[tokio::test]
async fn a_call_that_still_runs_is_followed() {
    let (outcome, _) = play(Era::Legacy, Asker::ApproveAll, |mut script| async move {
        legacy_handshake(&mut script).await;
        let call = script.read().await;
        script.answer(&call, finished("running")).await;
        let reply = script.read().await;
        assert_eq!(reply["params"]["name"], "openoxide-reply");
        assert_eq!(reply["params"]["arguments"], json!({ "thread_id": "t-1" }));
        script.answer(&reply, finished("completed")).await;
    })
    .await;
    assert!(outcome.unwrap().is_completed());
}

#[tokio::test]
async fn what_is_not_offered_is_refused_and_the_turn_goes_on() {
    let (outcome, _) = play(Era::Legacy, Asker::ApproveAll, |mut script| async move {
        legacy_handshake(&mut script).await;
        let call = script.read().await;
        script.write(json!({ "jsonrpc": "2.0", "id": 9, "method": "roots/list" })).await;
        assert_eq!(script.read().await["error"]["code"], -32601);
        script.answer(&call, finished("completed")).await;
    })
    .await;
    assert!(outcome.is_ok());
}

#[tokio::test]
async fn a_server_that_goes_away_or_refuses_is_an_error() {
    let (outcome, _) = play(Era::Legacy, Asker::ApproveAll, |mut script| async move {
        legacy_handshake(&mut script).await;
        script.read().await;
    })
    .await;
    assert!(outcome.unwrap_err().to_string().contains("went away"));

    let (outcome, _) = play(Era::Modern, Asker::ApproveAll, |mut script| async move {
        let discover = script.read().await;
        script.answer(&discover, json!({ "supportedVersions": ["2025-11-25"] })).await;
    })
    .await;
    assert!(outcome.unwrap_err().to_string().contains("--era legacy"));

    let (outcome, _) = play(Era::Legacy, Asker::ApproveAll, |mut script| async move {
        legacy_handshake(&mut script).await;
        let call = script.read().await;
        let error = json!({ "code": -32602, "message": "no such tool" });
        script.write(json!({ "jsonrpc": "2.0", "id": call["id"], "error": error })).await;
    })
    .await;
    assert!(outcome.unwrap_err().to_string().contains("no such tool (-32602)"));
}

#[tokio::test]
async fn connecting_reads_who_the_server_is() {
    let (ours, theirs) = tokio::io::duplex(4096);
    let (reader, writer) = tokio::io::split(ours);
    let (their_reader, their_writer) = tokio::io::split(theirs);
    let mut script = Script { lines: BufReader::new(their_reader).lines(), writer: their_writer };
    let mut client = Client::new(reader, writer, Era::Legacy, false);
    let (info, ()) = tokio::join!(client.connect(), legacy_handshake(&mut script));
    assert_eq!(info.unwrap(), ServerInfo { name: "s 1".to_owned(), protocol: "2025-11-25".to_owned() });
}

#[tokio::test]
async fn a_question_of_the_agent_is_answered_in_words_and_by_nobody_with_yes() {
    let schema = json!({ "type": "object", "properties": {
        "db": { "type": "string", "title": "Which database?", "enum": ["SQLite", "Postgres"] },
        "name": { "type": "string", "title": "Which name?" } } });
    let form = json!({ "mode": "form", "message": "OpenOxide asks:", "requestedSchema": schema });
    let ask = json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form });
    for by_person in [true, false] {
        let (sender, lines) = mpsc::channel(4);
        for line in ["SQLite", " shop "] {
            sender.send(line.to_owned()).await.unwrap();
        }
        let asker = if by_person { Asker::Lines(lines) } else { Asker::ApproveAll };
        let ask = ask.clone();
        let (outcome, shown) = play(Era::Legacy, asker, |mut script| async move {
            legacy_handshake(&mut script).await;
            let call = script.read().await;
            script.write(ask).await;
            let answer = script.read().await["result"].clone();
            let expected = json!({ "action": "accept", "content": { "db": "SQLite", "name": "shop" } });
            assert_eq!(answer, if by_person { expected } else { json!({ "action": "decline" }) });
            script.answer(&call, finished("completed")).await;
        })
        .await;
        assert!(outcome.unwrap().is_completed());
        assert_eq!(shown.contains("Which database? (SQLite, Postgres): "), by_person, "{shown}");
    }
}
