//! One question over Streamable HTTP: every session of its principal is asked, and nobody else's.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use reqwest::RequestBuilder;
use serde_json::{Value, json};
use support::house::{Events, House, initialize, result_of};
use support::listener::{ADA, BOB};

/// A legacy session of the holder of a token.
struct Session<'a> {
    house: &'a House,
    token: &'static str,
    id: String,
}

impl<'a> Session<'a> {
    async fn begin(house: &'a House, token: &'static str) -> Self {
        let begin = house.post(&initialize(json!({ "elicitation": {} }))).bearer_auth(token);
        let id = begin.send().await.unwrap().headers()["mcp-session-id"].to_str().unwrap().to_owned();
        Self { house, token, id }
    }

    fn send(&self, message: &Value) -> RequestBuilder {
        self.house.post(message).bearer_auth(self.token).header("mcp-session-id", &self.id)
    }

    async fn call(&self, tool: &str, arguments: Value) -> Events {
        let params = json!({ "name": tool, "arguments": arguments });
        let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
        Events::of(self.send(&call).send().await.unwrap())
    }

    async fn answer(&self, question: &Value, decision: &str) {
        let answer = json!({ "action": "accept", "content": { "decision": decision } });
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer });
        assert_eq!(self.send(&answer).send().await.unwrap().status(), 202);
    }
}

async fn question(events: &mut Events) -> Value {
    events.until(|message| message["method"] == "elicitation/create").await
}

/// What a call is told from here to its answer.
async fn rest(events: &mut Events) -> Vec<Value> {
    let mut told = Vec::new();
    while let Some(message) = events.next().await {
        told.push(message);
    }
    told
}

#[tokio::test]
async fn each_session_of_the_principal_is_asked_and_those_that_stay_decide() {
    let house = House::with_tokens();
    let [first, second, goes] =
        [Session::begin(&house, ADA).await, Session::begin(&house, ADA).await, Session::begin(&house, ADA).await];
    let bob = Session::begin(&house, BOB).await;
    let mut arguments = house.arguments("run `touch asked.txt`");
    arguments["approval_policy"] = json!("untrusted");
    let mut first_told = first.call("openoxide", arguments).await;
    let first_question = question(&mut first_told).await;
    let thread = &first_question["params"]["_meta"]["openoxide/approval"]["threadId"];
    let join = json!({ "thread_id": thread });
    // A session that is asked and then ends leaves the question to the others.
    let mut gone_told = goes.call("openoxide-reply", join.clone()).await;
    let void = question(&mut gone_told).await;
    let mut second_told = second.call("openoxide-reply", join.clone()).await;
    let second_question = question(&mut second_told).await;
    let end = house.client.delete(&house.url).bearer_auth(ADA).header("mcp-session-id", &goes.id);
    assert_eq!(end.send().await.unwrap().status(), 204);
    // Somebody else's session is not shown the question, nor does its answer to it count, whatever id it names.
    let call = json!({ "name": "openoxide-reply", "arguments": join });
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call });
    let foreign = result_of(bob.send(&call).send().await.unwrap()).await;
    assert!(foreign["isError"] == true && foreign.to_string().contains("is not known"), "{foreign}");
    for asked in [&first_question, &second_question, &void] {
        bob.answer(asked, "deny").await;
    }
    assert!(!house.work.path().join("asked.txt").exists());

    second.answer(&second_question, "approve").await;
    let (first_told, second_told) = (rest(&mut first_told).await, rest(&mut second_told).await);
    for told in [&first_told, &second_told] {
        assert_eq!(told.last().unwrap()["result"]["structuredContent"]["status"], "completed", "{told:?}");
    }
    let taken_back = |told: &[Value]| -> Vec<Value> {
        let all = told.iter().filter(|message| message["method"] == "notifications/cancelled");
        all.map(|message| message["params"]["requestId"].clone()).collect()
    };
    assert_eq!((taken_back(&first_told), taken_back(&second_told)), (vec![first_question["id"].clone()], vec![]));
    assert!(house.work.path().join("asked.txt").exists());
}
