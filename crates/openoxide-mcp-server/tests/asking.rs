//! One question, several connections: each that can be asked is asked once, the first answer settles it, and the others
//! are told. Tested where two things happen at once.
#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped has failed the test")]

mod support;

use std::sync::Arc;

use openoxide_test_support::{Client, Reply, Say, ScriptedModel};
use serde_json::{Value, json};
use support::{Shared, add_file, call, can_be_asked, exists, modern};
use tokio::io::DuplexStream;
use tokio::sync::Notify;

type Connection = Client<DuplexStream>;

const ELICIT: &str = "elicitation/create";

fn patch_and(last: Say) -> Arc<ScriptedModel> {
    ScriptedModel::new([Say::Patch(add_file("a.txt")), last])
}

/// A call that starts a turn and is answered at once; the id of its thread.
async fn start_and_leave(client: &mut Connection) -> Value {
    let arguments = json!({ "prompt": "p", "wait_seconds": 0 });
    let reply = client.ask("start", "tools/call", call("openoxide", arguments)).await;
    assert_eq!(reply.output()["status"], "running");
    reply.output()["threadId"].clone()
}

/// Attaches a call to the running turn of a thread, by call id 1.
async fn join(client: &mut Connection, thread: &Value) {
    client.request(1, "tools/call", call("openoxide-reply", json!({ "thread_id": thread }))).await;
}

/// Waits until a call is attached: it tells something of the thread only then.
async fn joined(client: &mut Connection, thread: &Value) {
    let mut params = call("openoxide-reply", json!({ "thread_id": thread }));
    params["_meta"] = json!({ "progressToken": "t" });
    client.request(1, "tools/call", params).await;
    client.until("notifications/progress").await;
}

async fn answer(client: &mut Connection, question: &Value, result: Value) {
    client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })).await;
}

fn approve() -> Value {
    json!({ "action": "accept", "content": { "decision": "approve" } })
}

fn decline() -> Value {
    json!({ "action": "decline" })
}

/// The questions that were taken back.
fn withdrawn(reply: &Reply) -> Vec<Value> {
    let all = reply.before.iter().filter(|message| message["method"] == "notifications/cancelled");
    all.map(|message| message["params"]["requestId"].clone()).collect()
}

fn asked(client: &Connection) -> usize {
    client.trace.iter().filter(|(way, message)| *way == "<-" && message["method"] == ELICIT).count()
}

#[tokio::test]
async fn each_connection_is_asked_once_and_the_first_answer_takes_the_question_back_from_exactly_the_others() {
    let shared = Shared::new(patch_and(Say::Text("done")));
    let mut first = shared.legacy(can_be_asked()).await;
    first.request(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    let first_question = first.until(ELICIT).await;
    let thread = first_question["params"]["_meta"]["openoxide/approval"]["threadId"].clone();
    // They attach between the question and its answer.
    let mut second = shared.legacy(can_be_asked()).await;
    join(&mut second, &thread).await;
    let second_question = second.until(ELICIT).await;
    let mut third = shared.legacy(can_be_asked()).await;
    join(&mut third, &thread).await;
    let third_question = third.until(ELICIT).await;
    let mut deaf = shared.legacy(json!({})).await;
    joined(&mut deaf, &thread).await;
    // Another call of a connection that was asked.
    let again = call("openoxide-reply", json!({ "thread_id": thread, "wait_seconds": 0 }));
    assert_eq!(third.ask(2, "tools/call", again).await.output()["status"], "running");
    assert!(!exists(shared.cwd.path(), "a.txt"));

    answer(&mut second, &second_question, approve()).await;
    let replies = [first.answer(1).await, second.answer(1).await, third.answer(1).await, deaf.answer(1).await];
    for reply in &replies {
        assert_eq!(reply.output()["status"], "completed", "{reply:?}");
    }
    assert!(exists(shared.cwd.path(), "a.txt"));
    let taken_back = replies.each_ref().map(withdrawn);
    let (first_id, third_id) = (first_question["id"].clone(), third_question["id"].clone());
    assert_eq!(taken_back, [vec![first_id], vec![], vec![third_id], vec![]]);
    assert_eq!([asked(&first), asked(&second), asked(&third), asked(&deaf)], [1, 1, 1, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_answers_in_the_same_instant_one_settles_and_the_other_is_told() {
    for _ in 0..20 {
        // The turn ends when both answers were taken: nothing is told of a call behind its answer.
        let are_taken = Arc::new(Notify::new());
        let shared = Shared::new(patch_and(Say::Wait(Arc::clone(&are_taken), "done")));
        let mut ada = shared.legacy(can_be_asked()).await;
        ada.request(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
        let ada_question = ada.until(ELICIT).await;
        let thread = ada_question["params"]["_meta"]["openoxide/approval"]["threadId"].clone();
        let mut bob = shared.legacy(can_be_asked()).await;
        join(&mut bob, &thread).await;
        let bob_question = bob.until(ELICIT).await;
        tokio::join!(answer(&mut ada, &ada_question, decline()), answer(&mut bob, &bob_question, approve()));
        let pings = [ada.ask(2, "ping", json!({})).await, bob.ask(2, "ping", json!({})).await];
        are_taken.notify_one();
        let (mut ada_reply, mut bob_reply) = (ada.answer(1).await, bob.answer(1).await);
        for (reply, ping) in [&mut ada_reply, &mut bob_reply].into_iter().zip(pings) {
            reply.before.splice(0..0, ping.before);
        }

        let is_approved = exists(shared.cwd.path(), "a.txt");
        for reply in [&ada_reply, &bob_reply] {
            assert_eq!(reply.output()["status"], "completed");
            let denials = reply.output()["denials"].as_array().map_or(0, Vec::len);
            assert_eq!(denials, usize::from(!is_approved), "one answer has an effect, and all are told the same");
        }
        let (winner, loser) = if is_approved { (&bob_reply, &ada_reply) } else { (&ada_reply, &bob_reply) };
        let told_late = |reply: &Reply| {
            let is_late = |message: &&Value| {
                message["params"]["data"]["message"].as_str().is_some_and(|text| text.contains("before your answer"))
            };
            reply.before.iter().filter(is_late).count()
        };
        assert_eq!((withdrawn(winner).len(), told_late(winner)), (0, 0));
        assert_eq!(withdrawn(loser).len() + told_late(loser), 1, "{loser:?}");
    }
}

#[tokio::test]
async fn when_the_first_that_was_asked_goes_the_others_stand() {
    let shared = Shared::new(patch_and(Say::Text("done")));
    let mut starter = shared.legacy(can_be_asked()).await;
    let thread = start_and_leave(&mut starter).await;
    let mut goes = shared.legacy(can_be_asked()).await;
    join(&mut goes, &thread).await;
    let void = goes.until(ELICIT).await;
    let mut stays = shared.legacy(can_be_asked()).await;
    join(&mut stays, &thread).await;
    let question = stays.until(ELICIT).await;
    goes.notify("notifications/cancelled", json!({ "requestId": 1 })).await;
    let taken_back = goes.until("notifications/cancelled").await;
    assert_eq!(taken_back["params"]["requestId"], void["id"]);
    // An answer to what was taken back decides nothing.
    answer(&mut goes, &void, decline()).await;
    assert!(goes.ask(2, "ping", json!({})).await.before.is_empty());
    answer(&mut stays, &question, approve()).await;
    assert_eq!(stays.answer(1).await.output()["status"], "completed");
    assert!(exists(shared.cwd.path(), "a.txt"));
    assert_eq!(asked(&stays), 1, "asked once, though the other went");
}

#[tokio::test]
async fn when_the_last_that_can_be_asked_goes_it_is_decided_as_for_those_who_cannot() {
    let shared = Shared::new(patch_and(Say::Text("done")));
    let mut starter = shared.legacy(can_be_asked()).await;
    let thread = start_and_leave(&mut starter).await;
    let mut goes = shared.legacy(can_be_asked()).await;
    join(&mut goes, &thread).await;
    goes.until(ELICIT).await;
    let mut deaf = shared.legacy(json!({})).await;
    joined(&mut deaf, &thread).await;
    goes.notify("notifications/cancelled", json!({ "requestId": 1 })).await;
    let reply = deaf.answer(1).await;
    assert_eq!(reply.output()["denials"][0]["reason"], "not_askable");
    assert!(!exists(shared.cwd.path(), "a.txt"));
}

#[tokio::test]
async fn a_parked_call_that_comes_back_after_another_has_answered_reports_the_turn() {
    let go = Arc::new(Notify::new());
    let shared = Shared::new(patch_and(Say::Wait(Arc::clone(&go), "done")));
    let mut parked = shared.connect();
    let params = modern(call("openoxide", json!({ "prompt": "p" })), can_be_asked());
    let asked_modern = parked.ask(1, "tools/call", params.clone()).await;
    let requests = asked_modern.result()["inputRequests"].as_object().unwrap();
    let (key, request) = requests.iter().next().unwrap();
    let thread = request["params"]["_meta"]["openoxide/approval"]["threadId"].clone();
    // A call that cannot be asked decides nothing for the client that holds the question.
    let mut deaf = shared.legacy(json!({})).await;
    joined(&mut deaf, &thread).await;
    let mut other = shared.legacy(can_be_asked()).await;
    join(&mut other, &thread).await;
    let question = other.until(ELICIT).await;
    answer(&mut other, &question, approve()).await;
    other.until("notifications/message").await;

    let mut retry = params;
    retry["requestState"] = asked_modern.result()["requestState"].clone();
    retry["inputResponses"] = json!({ key: decline() });
    // Once while the turn runs, and once when it is over.
    parked.request(2, "tools/call", retry.clone()).await;
    go.notify_one();
    let report = parked.answer(2).await;
    let result = other.answer(1).await;
    for reply in [&report, &result, &parked.ask(3, "tools/call", retry).await, &deaf.answer(1).await] {
        assert_eq!(reply.output()["status"], "completed", "{reply:?}");
        assert_eq!(reply.turn()["turnId"], result.turn()["turnId"]);
        assert!(reply.output()["denials"].as_array().is_none_or(Vec::is_empty), "{reply:?}");
    }
    assert_eq!(report.result()["resultType"], "complete");
    assert!(exists(shared.cwd.path(), "a.txt"));
}

#[tokio::test]
async fn a_question_that_a_modern_call_answers_is_taken_back_from_a_legacy_one() {
    let shared = Shared::new(patch_and(Say::Text("done")));
    let mut legacy = shared.legacy(can_be_asked()).await;
    legacy.request(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    let question = legacy.until(ELICIT).await;
    let thread = question["params"]["_meta"]["openoxide/approval"]["threadId"].clone();
    let mut other = shared.connect();
    let params = modern(call("openoxide-reply", json!({ "thread_id": thread })), can_be_asked());
    let parked = other.ask(1, "tools/call", params.clone()).await;
    let key = parked.result()["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let mut retry = params;
    retry["requestState"] = parked.result()["requestState"].clone();
    retry["inputResponses"] = json!({ key: approve() });
    assert_eq!(other.ask(2, "tools/call", retry).await.output()["status"], "completed");
    let reply = legacy.answer(1).await;
    assert_eq!(withdrawn(&reply), [question["id"].clone()]);
    assert!(exists(shared.cwd.path(), "a.txt"));
}
