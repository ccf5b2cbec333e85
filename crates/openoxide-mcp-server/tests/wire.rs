//! Drives `serve` over an in-memory duplex with a scripted model: what a client sees on the wire, in both eras.
#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped has failed the test")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use openoxide_test_support::{Say, ScriptedModel};
use serde_json::{Value, json};
use support::{add_file, ask_which, call, can_be_asked, exists, legacy, modern, start, start_with};
use tokio::sync::Notify;

#[tokio::test]
async fn a_legacy_accept_lets_the_patch_be_written_and_any_other_ending_does_not() {
    let approve = json!({ "result": { "action": "accept", "content": { "decision": "approve" } } });
    for (answer, written, reason) in [
        (approve, true, None),
        (json!({ "result": { "action": "accept", "content": {} } }), true, None),
        (json!({ "result": { "action": "decline" } }), false, Some("declined")),
        (json!({ "result": { "action": "cancel" } }), false, Some("cancelled")),
        (json!({ "result": { "foo": 1 } }), false, Some("error")),
        (json!({ "error": { "code": -32601, "message": "no" } }), false, Some("error")),
    ] {
        let model = ScriptedModel::new([Say::Patch(add_file("a.txt")), Say::Text("done")]);
        let mut server = legacy(model, can_be_asked()).await;
        server.client.request(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
        let question = server.client.until("elicitation/create").await;
        assert!(question["params"]["message"].as_str().unwrap().contains("a.txt"), "{question}");
        assert!(!exists(server.cwd.path(), "a.txt"), "nothing is written before the answer");
        let mut message = answer.clone();
        message["jsonrpc"] = json!("2.0");
        message["id"] = question["id"].clone();
        server.client.send(message).await;
        let reply = server.client.answer(1).await;
        assert_eq!(reply.output()["status"], "completed", "{answer}");
        assert_eq!(exists(server.cwd.path(), "a.txt"), written, "{answer}");
        assert_eq!(reply.output()["denials"][0]["reason"].as_str(), reason, "{answer}");
    }
}

#[tokio::test]
async fn deny_and_stop_ends_the_turn() {
    let model = ScriptedModel::new([Say::Patch(add_file("a.txt")), Say::Text("not reached")]);
    let mut server = legacy(model, can_be_asked()).await;
    server.client.request(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    let question = server.client.until("elicitation/create").await;
    let answer = json!({ "action": "accept", "content": { "decision": "deny_and_stop" } });
    server.client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
    assert_eq!(server.client.answer(1).await.output()["status"], "interrupted");
}

#[tokio::test]
async fn who_cannot_be_asked_is_not_asked_and_the_result_says_so() {
    let model = ScriptedModel::new([Say::Patch(add_file("a.txt")), Say::Text("done")]);
    let mut server = legacy(model, json!({})).await;
    let reply = server.client.ask(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    assert!(reply.before.iter().all(|message| message["method"] != "elicitation/create"));
    assert_eq!(reply.output()["denials"][0]["reason"], "not_askable");
    assert!(!exists(server.cwd.path(), "a.txt"));
}

#[tokio::test(start_paused = true)]
async fn a_question_nobody_answers_ends_by_its_time_out() {
    let model = ScriptedModel::new([Say::Patch(add_file("a.txt")), Say::Text("done")]);
    let mut server = start_with(model, |config| config.approval_timeout = Duration::from_secs(3)).await;
    server.client.initialize("2025-11-25", can_be_asked()).await;
    server.client.request(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    let question = server.client.until("elicitation/create").await;
    let reply = server.client.answer(1).await;
    assert_eq!(reply.output()["denials"][0]["reason"], "timed_out");
    let withdrawn = reply.before.iter().find(|message| message["method"] == "notifications/cancelled");
    assert_eq!(withdrawn.expect("the client is told")["params"]["requestId"], question["id"]);
}

#[tokio::test]
async fn a_modern_approval_parks_the_call_and_the_retry_finishes_the_same_turn() {
    let model = ScriptedModel::new([Say::Patch(add_file("a.txt")), Say::Text("done")]);
    let mut server = start(model).await;
    let params = modern(call("openoxide", json!({ "prompt": "p", "cwd": "." })), can_be_asked());
    let parked = server.client.ask(1, "tools/call", params.clone()).await;
    let result = parked.result();
    assert_eq!(result["resultType"], "input_required", "{result}");
    let requests = result["inputRequests"].as_object().unwrap();
    let (key, request) = requests.iter().next().unwrap();
    assert_eq!(request["method"], "elicitation/create");

    // A forged state is refused, and a retry without the answer is asked again.
    let mut forged = params.clone();
    forged["requestState"] = json!("forged");
    assert_eq!(server.client.ask(2, "tools/call", forged).await.error_code(), -32602);
    let mut empty = params.clone();
    empty["requestState"] = result["requestState"].clone();
    let again = server.client.ask(3, "tools/call", empty).await;
    assert!(again.result()["inputRequests"].get(key).is_some(), "the missing key is asked again");

    let mut retry = params.clone();
    // The same arguments in another order are the same call.
    retry["arguments"] = json!({ "cwd": ".", "prompt": "p" });
    retry["requestState"] = again.result()["requestState"].clone();
    retry["inputResponses"] = json!({ key: { "action": "accept", "content": { "decision": "approve" } } });
    let reply = server.client.ask(4, "tools/call", retry.clone()).await;
    assert_eq!(reply.result()["resultType"], "complete");
    assert_eq!(reply.output()["status"], "completed");
    assert!(exists(server.cwd.path(), "a.txt"));

    // A used state decides nothing and reports the turn.
    let used = server.client.ask(5, "tools/call", retry.clone()).await;
    assert_eq!(used.turn()["turnId"], reply.turn()["turnId"]);
    retry["arguments"]["prompt"] = json!("another");
    assert_eq!(server.client.ask(6, "tools/call", retry).await.error_code(), -32602);
}

#[tokio::test]
async fn approvals_of_one_response_go_out_together() {
    let patches = vec![add_file("a.txt"), add_file("b.txt")];
    let model = ScriptedModel::new([Say::Patches(patches), Say::Text("done")]);
    let mut server = start(model).await;
    let params = modern(call("openoxide", json!({ "prompt": "p" })), can_be_asked());
    let parked = server.client.ask(1, "tools/call", params.clone()).await;
    let keys: Vec<_> = parked.result()["inputRequests"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys.len(), 2, "{}", parked.message);
    let mut retry = params;
    retry["requestState"] = parked.result()["requestState"].clone();
    let yes = json!({ "action": "accept" });
    retry["inputResponses"] = json!({ keys[0].clone(): yes, keys[1].clone(): { "action": "decline" } });
    let reply = server.client.ask(2, "tools/call", retry).await;
    assert_eq!(reply.output()["denials"].as_array().unwrap().len(), 1);
    let written = [exists(server.cwd.path(), "a.txt"), exists(server.cwd.path(), "b.txt")];
    assert_eq!(written.iter().filter(|written| **written).count(), 1);
}

#[tokio::test]
async fn three_replies_at_once_are_each_answered_once_and_rightly() {
    let mut server = legacy(ScriptedModel::new([]), json!({})).await;
    let first = server.client.ask(1, "tools/call", call("openoxide", json!({ "prompt": "start" }))).await;
    let thread = first.output()["threadId"].clone();
    for id in 2..5 {
        let arguments = json!({ "thread_id": thread, "prompt": format!("question {id}") });
        server.client.request(id, "tools/call", call("openoxide-reply", arguments)).await;
    }
    for id in 2..5 {
        let reply = server.client.answer(id).await;
        assert_eq!(reply.output()["content"], format!("re: question {id}"));
    }
}

#[tokio::test]
async fn a_model_error_leaves_the_thread_usable_and_in_step() {
    let model = ScriptedModel::new([Say::Fail("mock boom"), Say::Text("fine")]);
    let mut server = legacy(model, json!({})).await;
    let failed = server.client.ask(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    assert_eq!((&failed.result()["isError"], &failed.output()["status"]), (&json!(true), &json!("failed")));
    assert!(failed.output()["content"].as_str().unwrap().contains("mock boom"));
    let arguments = json!({ "thread_id": failed.output()["threadId"], "prompt": "again" });
    let reply = server.client.ask(2, "tools/call", call("openoxide-reply", arguments)).await;
    assert_eq!(reply.output()["content"], "fine");
}

#[tokio::test]
async fn a_call_that_stops_waiting_leaves_its_turn_running_and_a_reply_fetches_the_result() {
    let go = Arc::new(Notify::new());
    let model = ScriptedModel::new([Say::Wait(Arc::clone(&go), "at last")]);
    let mut server = legacy(model, json!({})).await;
    let running =
        server.client.ask(1, "tools/call", call("openoxide", json!({ "prompt": "p", "wait_seconds": 0 }))).await;
    assert_eq!(running.output()["status"], "running");
    let arguments = json!({ "thread_id": running.output()["threadId"] });
    server.client.request(2, "tools/call", call("openoxide-reply", arguments.clone())).await;
    go.notify_one();
    assert_eq!(server.client.answer(2).await.output()["content"], "at last");
    let last = server.client.ask(3, "tools/call", call("openoxide-reply", arguments)).await;
    assert_eq!(last.output()["content"], "at last", "with no turn running, the last result at once");
}

#[tokio::test]
async fn a_cancelled_call_is_silent_its_turn_ends_and_the_thread_goes_on() {
    let never = Arc::new(Notify::new());
    let model = ScriptedModel::new([Say::Text("hello"), Say::Wait(never, "unreached"), Say::Text("still here")]);
    let mut server = legacy(model, json!({})).await;
    let first = server.client.ask(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    let thread = first.output()["threadId"].clone();
    let arguments = json!({ "thread_id": thread, "prompt": "hang" });
    server.client.request(2, "tools/call", call("openoxide-reply", arguments)).await;
    server.client.until("notifications/message").await;
    server.client.notify("notifications/cancelled", json!({ "requestId": 2 })).await;
    let arguments = json!({ "thread_id": thread, "prompt": "still there?" });
    let reply = server.client.ask(3, "tools/call", call("openoxide-reply", arguments)).await;
    assert_eq!(reply.output()["content"], "still here");
    assert!(reply.before.iter().all(|message| message.get("id") != Some(&json!(2))), "{:?}", reply.before);
}

#[tokio::test]
async fn interrupting_ends_the_turn_for_every_call_attached_to_it() {
    let never = Arc::new(Notify::new());
    let mut server = legacy(ScriptedModel::new([Say::Wait(never, "unreached")]), json!({})).await;
    server.client.request(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    let event = server.client.until("notifications/message").await;
    let thread = event["params"]["_meta"]["threadId"].clone();
    let arguments = json!({ "thread_id": thread, "interrupt": true });
    server.client.request(2, "tools/call", call("openoxide-reply", arguments)).await;
    let mut statuses = Vec::new();
    while statuses.len() < 2 {
        let message = server.client.next().await.unwrap();
        if message.get("result").is_some() {
            statuses.push(message["result"]["structuredContent"]["status"].clone());
        }
    }
    assert_eq!(statuses, ["interrupted", "interrupted"]);
}

#[tokio::test]
async fn a_query_reads_only_and_a_fork_leaves_the_thread_as_it_was() {
    let model =
        ScriptedModel::new([Say::Text("one"), Say::Patch(add_file("a.txt")), Say::Text("asked"), Say::Text("two")]);
    let mut server = legacy(model, can_be_asked()).await;
    let first = server.client.ask(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    let thread = first.output()["threadId"].clone();
    let arguments = json!({ "query": "q", "thread_id": thread });
    let query = server.client.ask(2, "tools/call", call("openoxide-query", arguments)).await;
    assert_ne!(query.output()["threadId"], thread);
    assert!(!exists(server.cwd.path(), "a.txt"), "a query has no tool that writes");
    let arguments = json!({ "query": "q", "thread_id": thread, "cwd": "/elsewhere" });
    let other = server.client.ask(3, "tools/call", call("openoxide-query", arguments)).await;
    assert_eq!(other.result()["isError"], true);
    let arguments = json!({ "thread_id": thread, "prompt": "go on" });
    let reply = server.client.ask(4, "tools/call", call("openoxide-reply", arguments)).await;
    assert_eq!(reply.output()["content"], "two");
}

#[tokio::test]
async fn the_eras_live_side_by_side_and_each_keeps_its_methods() {
    let mut server = start(ScriptedModel::new([])).await;
    assert_eq!(server.client.ask(1, "tools/list", json!({})).await.error_code(), -32602);
    assert!(server.client.ask(2, "ping", json!({})).await.result().is_object());
    let discover = server.client.ask(3, "server/discover", modern(json!({}), json!({}))).await;
    assert_eq!(discover.result()["supportedVersions"][0], "2026-07-28");
    let initialize = server.client.initialize("2026-07-28", json!({})).await;
    assert_eq!(initialize.result()["protocolVersion"], "2025-11-25");
    assert_eq!(server.client.initialize("2025-06-18", json!({})).await.error_code(), -32600);
    for method in ["ping", "logging/setLevel", "resources/subscribe", "no/such"] {
        assert_eq!(server.client.ask(4, method, modern(json!({}), json!({}))).await.error_code(), -32601, "{method}");
    }
    let list = server.client.ask(5, "tools/list", modern(json!({}), json!({}))).await;
    assert!(list.result()["ttlMs"].is_u64() && list.result()["cacheScope"].is_string());
    assert!(server.client.ask(6, "tools/list", json!({})).await.result().get("ttlMs").is_none());
    let read = json!({ "uri": "x://y" });
    assert_eq!(server.client.ask(7, "resources/read", read.clone()).await.error_code(), -32002);
    assert_eq!(server.client.ask(8, "resources/read", modern(read, json!({}))).await.error_code(), -32602);
}

#[tokio::test]
async fn batches_are_answered_where_they_exist_and_refused_elsewhere() {
    let batch =
        b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},7,{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"x\"}]\n";
    let mut old = start(ScriptedModel::new([])).await;
    old.client.initialize("2025-03-26", json!({})).await;
    old.client.send_raw(batch).await;
    let answers = old.client.next().await.unwrap();
    assert_eq!(answers.as_array().map(Vec::len), Some(3), "{answers}");
    let mut new = legacy(ScriptedModel::new([]), json!({})).await;
    new.client.send_raw(batch).await;
    let refused = new.client.next().await.unwrap();
    assert_eq!(refused["error"]["code"], -32600);
}

#[tokio::test]
async fn an_id_that_is_still_open_is_refused() {
    let never = Arc::new(Notify::new());
    let mut server = legacy(ScriptedModel::new([Say::Wait(never, "unreached")]), json!({})).await;
    server.client.request(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    let second = server.client.ask(1, "tools/call", call("openoxide", json!({ "prompt": "q" }))).await;
    assert_eq!(second.error_code(), -32600);
    let told = second.message["error"]["message"].as_str().unwrap();
    assert!(told.starts_with("id 1 belongs to a call that is still open"), "{told}");
}

#[tokio::test]
async fn the_end_of_input_ends_every_turn_and_every_call_is_still_answered() {
    let never = Arc::new(Notify::new());
    let mut server = legacy(ScriptedModel::new([Say::Wait(never, "unreached")]), json!({})).await;
    server.client.request(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    server.client.until("notifications/message").await;
    server.client.close().await;
    assert_eq!(server.client.answer(1).await.output()["status"], "interrupted");
    assert!(server.client.next().await.is_none(), "nothing comes after the end");
    server.task.await.unwrap();
}

#[tokio::test]
async fn progress_rises_and_log_messages_name_their_call() {
    let mut server = legacy(ScriptedModel::new([]), json!({})).await;
    let mut params = call("openoxide", json!({ "prompt": "p" }));
    params["_meta"] = json!({ "progressToken": "tok" });
    let reply = server.client.ask("call-1", "tools/call", params).await;
    let of = |method: &str| -> Vec<Value> {
        reply.before.iter().filter(|message| message["method"] == method).map(|m| m["params"].clone()).collect()
    };
    let progress: Vec<_> = of("notifications/progress").iter().map(|p| p["progress"].as_u64().unwrap()).collect();
    assert!(progress.len() >= 2 && progress.is_sorted_by(|a, b| a < b), "{progress:?}");
    let logs = of("notifications/message");
    assert!(logs.iter().all(|log| log["_meta"]["requestId"] == "call-1" && log["logger"] == "openoxide"));
    assert!(logs.iter().all(|log| log["data"]["type"] != "item_delta"), "deltas are for level debug");
    server.client.ask(2, "logging/setLevel", json!({ "level": "debug" })).await;
    let reply = server.client.ask(3, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    assert!(reply.before.iter().any(|message| message["params"]["data"]["type"] == "item_delta"));
    let quiet = modern(call("openoxide", json!({ "prompt": "p" })), json!({}));
    assert!(
        server.client.ask(4, "tools/call", quiet).await.before.is_empty(),
        "modern requests ask for logs or get none"
    );
}

#[tokio::test]
async fn nobody_answers_for_the_person() {
    // What stays in the sandbox is approved by the strategy; a question of the agent is not.
    let script = [Say::Call("request_user_input", ask_which("Which database?")), Say::Text("decided")];
    let mut server = legacy(ScriptedModel::new(script), json!({})).await;
    let arguments = json!({ "prompt": "p", "approval_policy": "on-request" });
    let reply = server.client.ask(1, "tools/call", call("openoxide", arguments)).await;
    let denial = &reply.output()["denials"][0];
    assert_eq!((&denial["what"], &denial["reason"]), (&json!("ask: Which database?"), &json!("not_askable")));
    assert_eq!(reply.output()["content"], "decided");
}
