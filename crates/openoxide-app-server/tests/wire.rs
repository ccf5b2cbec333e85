//! Conversations over an in-memory duplex: the order of what is told, questions and their answers, and bad input.
#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped has failed the test")]

mod support;

use std::sync::Arc;

use openoxide_test_support::{Say, ScriptedModel};
use serde_json::{Value, json};
use support::{Shared, adds, short};
use tokio::sync::Notify;

#[tokio::test]
async fn a_turn_is_told_in_the_order_that_clients_rely_on() {
    let shared = Shared::new(ScriptedModel::new([Say::Text("hello")]));
    let mut client = shared.client().await;
    let thread = client.thread().await;
    assert_eq!(short(&[client.next().await]), ["thread/started"]);
    let turn = client.turn(&thread, "hi").await;
    let told = client.until("turn/completed").await;
    assert_eq!(
        short(&told),
        [
            "thread/status/changed active",
            "turn/started inProgress",
            "item/started userMessage",
            "item/completed userMessage",
            "item/started agentMessage",
            "item/agentMessage/delta",
            "item/completed agentMessage",
            "thread/tokenUsage/updated",
            "thread/status/changed idle",
            "turn/completed completed",
        ]
    );
    assert_eq!(told[2]["params"]["item"]["content"][0]["text"], "hi");
    let ended = &told.last().unwrap()["params"]["turn"];
    assert_eq!((&ended["id"], &ended["items"][0]["text"]), (&json!(turn), &json!("hello")));
    assert_eq!(ended["items"][0]["id"], told[6]["params"]["item"]["id"]);
}

#[tokio::test]
async fn a_patch_is_shown_and_asked_and_done_once_accepted() {
    let shared = Shared::new(ScriptedModel::new([Say::Patch(adds("a.txt")), Say::Text("done")]));
    let mut client = shared.client().await;
    let thread = client.thread().await;
    client.next().await;
    client.turn(&thread, "go").await;
    let asked = client.until("item/fileChange/requestApproval").await;
    let words = short(&asked);
    assert_eq!(words[words.len() - 2..], ["item/started fileChange inProgress", "item/fileChange/requestApproval"]);
    let (item, question) = (&asked[asked.len() - 2]["params"]["item"], asked.last().unwrap());
    assert_eq!(
        (&item["changes"][0]["diff"], &item["changes"][0]["kind"]),
        (&json!("one\ntwo\n"), &json!({ "type": "add" }))
    );
    assert_eq!(question["params"]["itemId"], item["id"]);
    assert_eq!(short(&[client.next().await]), ["thread/status/changed active waitingOnApproval"]);
    assert!(!shared.cwd.path().join("a.txt").exists(), "nothing is done before the decision");
    client.send(&json!({ "id": question["id"], "result": { "decision": "accept" } })).await;
    // A second answer changes nothing.
    client.send(&json!({ "id": question["id"], "result": { "decision": "cancel" } })).await;
    let told = client.until("turn/completed").await;
    let words = short(&told);
    let (resolved, completed) = ("serverRequest/resolved".to_owned(), "item/completed fileChange completed".to_owned());
    assert_eq!(words[..2], [resolved, "thread/status/changed active".to_owned()]);
    assert_eq!(told[0]["params"]["requestId"], question["id"]);
    let at = words.iter().position(|word| *word == completed).unwrap();
    assert_eq!((&told[at]["params"]["item"]["id"], &words[at + 1]), (&item["id"], &"turn/diff/updated".to_owned()));
    assert_eq!(
        words.iter().filter(|word| word.starts_with("item/started fileChange")).count(),
        0,
        "it was told before"
    );
    assert_eq!(words.last().unwrap(), "turn/completed completed");
    assert_eq!(std::fs::read_to_string(shared.cwd.path().join("a.txt")).unwrap(), "one\ntwo\n");
}

#[tokio::test]
async fn whatever_is_no_yes_leaves_the_patch_undone_and_says_how() {
    for (answer, item, turn) in [
        (json!({ "result": { "decision": "decline" } }), "declined", "completed"),
        (json!({ "result": { "decision": "cancel" } }), "declined", "interrupted"),
        (json!({ "result": { "decision": "whatever" } }), "declined", "completed"),
        (json!({ "error": { "code": -32601, "message": "?" } }), "declined", "completed"),
    ] {
        let shared = Shared::new(ScriptedModel::new([Say::Patch(adds("a.txt")), Say::Text("left undone")]));
        let mut client = shared.client().await;
        let thread = client.thread().await;
        client.turn(&thread, "go").await;
        let asked = client.until("item/fileChange/requestApproval").await;
        let mut message = answer.clone();
        message["id"] = asked.last().unwrap()["id"].clone();
        client.send(&message).await;
        let told = client.until("turn/completed").await;
        let words = short(&told);
        assert!(words.contains(&format!("item/completed fileChange {item}")), "{answer}: {words:?}");
        assert_eq!(words.last().unwrap(), &format!("turn/completed {turn}"), "{answer}");
        assert!(words.contains(&"serverRequest/resolved".to_owned()), "{answer}: {words:?}");
        assert!(!shared.cwd.path().join("a.txt").exists());
    }
}

#[tokio::test]
async fn of_two_clients_each_is_asked_and_one_decides() {
    let shared = Shared::new(ScriptedModel::new([Say::Patch(adds("a.txt")), Say::Text("done")]));
    let (mut one, mut two) = (shared.client().await, shared.client().await);
    let thread = one.thread().await;
    two.request("thread/resume", json!({ "threadId": thread })).await;
    one.turn(&thread, "go").await;
    let first = one.until("item/fileChange/requestApproval").await.pop().unwrap();
    let second = two.until("item/fileChange/requestApproval").await.pop().unwrap();
    assert_eq!(first["params"]["itemId"], second["params"]["itemId"]);
    two.send(&json!({ "id": second["id"], "result": { "decision": "decline" } })).await;
    let told = one.until("turn/completed").await;
    assert!(short(&told).contains(&"item/completed fileChange declined".to_owned()));
    let resolved = told.iter().find(|message| message["method"] == "serverRequest/resolved").unwrap();
    assert_eq!(resolved["params"]["requestId"], first["id"]);
    // Too late: it changes nothing, and the connection lives.
    one.send(&json!({ "id": first["id"], "result": { "decision": "accept" } })).await;
    one.request("model/list", json!({})).await;
    assert!(!shared.cwd.path().join("a.txt").exists());
}

#[tokio::test]
async fn a_client_that_goes_while_it_is_asked_settles_the_question_where_nobody_else_can() {
    let shared = Shared::new(ScriptedModel::new([Say::Patch(adds("a.txt")), Say::Text("left undone")]));
    let (mut one, mut two) = (shared.client().await, shared.client().await);
    let thread = one.thread().await;
    two.request("thread/resume", json!({ "threadId": thread })).await;
    one.turn(&thread, "go").await;
    one.until("item/fileChange/requestApproval").await;
    two.until("item/fileChange/requestApproval").await;
    // Not the last: the question stays.
    assert_eq!(two.request("thread/unsubscribe", json!({ "threadId": thread })).await["status"], "unsubscribed");
    assert_eq!(one.request("thread/unsubscribe", json!({ "threadId": thread })).await["status"], "unsubscribed");
    // Nobody is left, so that it is denied and the turn goes on.
    let resumed = two.request("thread/resume", json!({ "threadId": thread })).await;
    if resumed["thread"]["status"]["type"] == "active" {
        two.until("turn/completed").await;
    }
    assert!(!shared.cwd.path().join("a.txt").exists());
}

#[tokio::test]
async fn who_resumes_is_told_what_is_under_way_and_asked_what_waits() {
    let shared = Shared::new(ScriptedModel::new([Say::Patch(adds("a.txt")), Say::Text("done")]));
    let (mut one, mut two) = (shared.client().await, shared.client().await);
    let thread = one.thread().await;
    one.turn(&thread, "go").await;
    one.until("item/fileChange/requestApproval").await;
    let resumed = two.request("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(resumed["thread"]["status"], json!({ "type": "active", "activeFlags": ["waitingOnApproval"] }));
    let asked = two.until("item/fileChange/requestApproval").await;
    assert_eq!(short(&asked), ["item/started fileChange inProgress", "item/fileChange/requestApproval"]);
    two.send(&json!({ "id": asked[1]["id"], "result": { "decision": "accept" } })).await;
    for client in [&mut one, &mut two] {
        assert_eq!(short(&client.until("turn/completed").await).last().unwrap(), "turn/completed completed");
    }
    assert!(shared.cwd.path().join("a.txt").exists());
}

#[tokio::test]
async fn questions_of_the_model_are_put_and_answered() {
    let questions = json!({ "questions": [
        { "id": "db", "question": "Which?", "options": [{ "label": "one" }, { "label": "two", "description": "more" }] },
    ] });
    let say = [Say::Call("request_user_input", questions.to_string()), Say::Text("thanks")];
    let shared = Shared::new(ScriptedModel::new(say));
    let mut client = shared.client().await;
    let thread = client.thread().await;
    client.turn(&thread, "go").await;
    let asked = client.until("item/tool/requestUserInput").await.pop().unwrap();
    let question = &asked["params"]["questions"][0];
    assert_eq!((&question["id"], &question["options"][1]["description"]), (&json!("db"), &json!("more")));
    assert_eq!(short(&[client.next().await]), ["thread/status/changed active waitingOnUserInput"]);
    client.send(&json!({ "id": asked["id"], "result": { "answers": { "db": { "answers": ["two"] } } } })).await;
    let told = short(&client.until("turn/completed").await);
    assert!(told.contains(&"item/completed dynamicToolCall completed".to_owned()), "{told:?}");
}

#[tokio::test]
async fn a_running_turn_is_joined_steered_by_its_id_and_interrupted() {
    let until = Arc::new(Notify::new());
    let model = ScriptedModel::new([Say::Wait(Arc::clone(&until), "waited")]);
    let shared = Shared::new(Arc::clone(&model));
    let mut client = shared.client().await;
    let thread = client.thread().await;
    let turn = client.turn(&thread, "go").await;
    model.asked().await;
    assert_eq!(client.turn(&thread, "and this").await, turn, "it joins the turn");
    let input = json!([{ "type": "text", "text": "more" }]);
    let steer = |turn: &str| json!({ "threadId": thread, "expectedTurnId": turn, "input": input });
    let (code, message) = client.error("turn/steer", steer("other")).await;
    assert_eq!((code, message), (-32600, format!("expected active turn id `other` but found `{turn}`")));
    assert_eq!(client.request("turn/steer", steer(&turn)).await["turnId"], turn.as_str());
    let interrupt = json!({ "threadId": thread, "turnId": turn });
    assert_eq!(client.request("turn/interrupt", interrupt.clone()).await, json!({}));
    let told = client.until("turn/completed").await;
    assert_eq!(told.last().unwrap()["params"]["turn"]["status"], "interrupted");
    let said = short(&told).iter().filter(|word| *word == "item/completed userMessage").count();
    assert_eq!(said, 3, "what joined and what steered is told as well");
    assert_eq!(client.error("turn/interrupt", interrupt).await.0, -32600);
    assert_eq!(client.error("turn/steer", steer(&turn)).await.0, -32600);
}

#[tokio::test]
async fn what_a_turns_end_cuts_off_is_completed_before_it() {
    let until = Arc::new(Notify::new());
    let model = ScriptedModel::new([Say::Patch(adds("a.txt")), Say::Wait(until, "never")]);
    let shared = Shared::new(model);
    let mut client = shared.client().await;
    let thread = client.thread().await;
    let turn = client.turn(&thread, "go").await;
    client.until("item/fileChange/requestApproval").await;
    client.request("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    let told = short(&client.until("turn/completed").await);
    assert!(told.contains(&"item/completed fileChange declined".to_owned()), "{told:?}");
    assert!(told.contains(&"serverRequest/resolved".to_owned()), "{told:?}");
}

#[tokio::test]
async fn a_failure_is_told_with_its_reason() {
    let shared = Shared::new(ScriptedModel::new([Say::Fail("no such model")]));
    let mut client = shared.client().await;
    let thread = client.thread().await;
    client.turn(&thread, "go").await;
    let told = client.until("turn/completed").await;
    let error = told.iter().find(|message| message["method"] == "error").unwrap();
    assert_eq!(error["params"]["willRetry"], false);
    let ended = &told.last().unwrap()["params"]["turn"];
    assert_eq!((&ended["status"], &ended["error"]), (&json!("failed"), &error["params"]["error"]));
}

#[tokio::test]
async fn the_end_of_input_ends_the_turn_and_says_so() {
    let until = Arc::new(Notify::new());
    let model = ScriptedModel::new([Say::Wait(until, "never")]);
    let shared = Shared::new(Arc::clone(&model));
    let mut client = shared.client().await;
    let thread = client.thread().await;
    client.turn(&thread, "go").await;
    model.asked().await;
    client.ask("turn/start", json!({ "threadId": thread, "input": [{ "type": "text", "text": "late" }] })).await;
    let rest = client.end().await;
    let ended = rest.iter().rfind(|message| message["method"] == "turn/completed").unwrap();
    assert_eq!(ended["params"]["turn"]["status"], "interrupted");
    assert!(rest.iter().any(|message| message["id"] == 4), "the last request is answered: {rest:?}");
}

#[tokio::test]
async fn bad_input_of_every_kind_is_answered_and_the_connection_lives() {
    let shared = Shared::new(ScriptedModel::new([]));
    let mut client = shared.connect();
    assert_eq!(client.error("thread/list", json!({})).await, (-32600, "Not initialized".to_owned()));
    assert_eq!(client.error("bogus", json!({})).await, (-32600, "Not initialized".to_owned()));
    let who = json!({ "clientInfo": { "name": "a b/c", "version": "1" }, "capabilities": null });
    let agreed = client.request("initialize", who.clone()).await;
    assert!(agreed["userAgent"].as_str().unwrap().starts_with("abc/0.169.0 ("), "{agreed}");
    assert_eq!(client.error("initialize", who).await, (-32600, "Already initialized".to_owned()));
    for (line, code) in [
        (&b"hello\n"[..], -32700),
        (b"[1,2]\n", -32600),
        (b"42\n", -32600),
        (b"\xff\xfe\n", -32700),
        (b"{\"id\":null,\"method\":\"model/list\"}\n", -32600),
        (b"{\"method\":7}\n", -32600),
    ] {
        client.raw(line).await;
        let answer = client.next().await;
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &Value::Null), "{answer}");
        assert!(answer.as_object().unwrap().contains_key("id"), "{answer}");
    }
    let (code, message) = client.error("account/logout", json!({})).await;
    assert_eq!((code, message.as_str()), (-32601, "account/logout is not supported by OpenOxide"));
    assert_eq!(
        client.error("thread/read", json!({ "threadId": "x" })).await,
        (-32600, "thread not found: x".to_owned())
    );
    let (code, message) = client.error("turn/start", json!({ "threadId": 7, "input": [] })).await;
    assert!(code == -32600 && message.starts_with("Invalid request: threadId"), "{message}");
    let unknown = "01900000-0000-7000-8000-000000000000";
    for (method, params) in [
        ("turn/start", json!({ "threadId": unknown, "input": [{ "type": "text", "text": "x" }] })),
        ("thread/resume", json!({ "threadId": unknown })),
        ("thread/read", json!({ "threadId": unknown })),
    ] {
        assert_eq!(client.error(method, params).await, (-32600, format!("thread not found: {unknown}")), "{method}");
    }
    // An answer to nothing, and a message that carries the header.
    client.send(&json!({ "id": 99, "result": {} })).await;
    client.send(&json!({ "jsonrpc": "2.0", "id": "s", "method": "getAuthStatus" })).await;
    assert_eq!(client.next().await["id"], "s");
}

#[tokio::test]
async fn what_a_thread_runs_with_is_within_the_ceiling_and_does_not_change() {
    use openoxide_core::SandboxMode;
    let shared = Shared::with(ScriptedModel::new([]), |config| {
        config.ceiling.limit_sandbox(SandboxMode::WorkspaceWrite, "--max-sandbox");
        config.default_sandbox = SandboxMode::ReadOnly;
    });
    let mut client = shared.client().await;
    let beyond = client.error("thread/start", json!({ "sandbox": "danger-full-access" })).await;
    assert!(beyond.0 == -32600 && beyond.1.contains("--max-sandbox"), "{beyond:?}");
    for (params, part) in [
        (json!({ "sandbox": "bogus" }), "bogus"),
        (json!({ "approvalPolicy": { "granular": {} } }), "granular"),
        (json!({ "permissions": ":mine" }), ":workspace"),
        (json!({ "modelProvider": "other" }), "other"),
        (json!({ "dynamicTools": [{}] }), "dynamicTools"),
    ] {
        let (code, message) = client.error("thread/start", params).await;
        assert!(code == -32600 && message.contains(part), "{message}");
    }
    let requirements = client.request("configRequirements/read", json!({})).await;
    assert_eq!(requirements["requirements"]["allowedSandboxModes"], json!(["read-only", "workspace-write"]));
}

#[tokio::test]
async fn a_client_that_never_reads_costs_a_bound_and_counts_as_lost() {
    let shared = Shared::new(ScriptedModel::new([]));
    let mut client = shared.client().await;
    let task = std::mem::replace(&mut client.task, tokio::spawn(async {}));
    // More than any queue holds; the server stops to read, and then takes the client for lost.
    let long = "x".repeat(60_000);
    let asking = async {
        loop {
            // The answer repeats the name.
            client.ask(&long, json!({})).await;
        }
    };
    tokio::select! {
        () = asking => unreachable!(),
        ended = tokio::time::timeout(support::PATIENCE, task) => ended.unwrap().unwrap(),
    }
}

#[tokio::test]
async fn notifications_that_are_not_wanted_are_not_told() {
    let shared = Shared::new(ScriptedModel::new([Say::Text("hello")]));
    let mut client = shared.connect();
    let unwanted = json!({ "optOutNotificationMethods": ["item/agentMessage/delta", "thread/started"] });
    let who = json!({ "clientInfo": { "name": "t", "version": "1" }, "capabilities": unwanted });
    client.request("initialize", who).await;
    let thread = client.thread().await;
    client.turn(&thread, "hi").await;
    let told = short(&client.until("turn/completed").await);
    assert!(!told.iter().any(|word| word.starts_with("item/agentMessage") || word == "thread/started"), "{told:?}");
}
