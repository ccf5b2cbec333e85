//! The wire of each scenario in both eras, as it was reviewed: `snapshots/traces__*.snap`.
//!
//! A change of any of them is a change of what clients see. Ids, times and places are redacted.
#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped has failed the test")]

mod support;

use std::sync::Arc;

use openoxide_test_support::{Redactor, Reply, Say, ScriptedModel};
use serde_json::{Value, json};
use support::{Server, add_file, ask_which, call, can_be_asked, modern, start, start_with};
use tokio::sync::Notify;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Era {
    Legacy,
    Modern,
}

/// A conversation under way, in one of the eras.
struct Talk {
    server: Server,
    era: Era,
    next: u64,
}

impl Talk {
    async fn begin(era: Era, script: impl IntoIterator<Item = Say>) -> Self {
        Self::on(start(ScriptedModel::new(script)).await, era).await
    }

    async fn on(mut server: Server, era: Era) -> Self {
        if era == Era::Legacy {
            server.client.initialize("2025-11-25", can_be_asked()).await;
        }
        Self { server, era, next: 1 }
    }

    fn params(&self, params: Value) -> Value {
        match self.era {
            Era::Legacy => params,
            Era::Modern => modern(params, can_be_asked()),
        }
    }

    async fn send(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        let params = self.params(params);
        self.server.client.request(id, method, params).await;
        id
    }

    async fn ask(&mut self, method: &str, params: Value) -> Reply {
        let id = self.send(method, params).await;
        self.server.client.answer(id).await
    }

    /// A call whose one question is answered like this.
    async fn asked(&mut self, tool: &str, arguments: Value, answer: Value) -> Reply {
        let params = call(tool, arguments);
        if self.era == Era::Legacy {
            let id = self.send("tools/call", params).await;
            let question = self.server.client.until("elicitation/create").await;
            let message = json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer });
            self.server.client.send(message).await;
            return self.server.client.answer(id).await;
        }
        let parked = self.ask("tools/call", params.clone()).await;
        let keys = parked.result()["inputRequests"].as_object().unwrap().keys();
        let mut again = params;
        again["inputResponses"] = keys.map(|key| (key.clone(), answer.clone())).collect();
        again["requestState"] = parked.result()["requestState"].clone();
        self.ask("tools/call", again).await
    }

    /// All that went to and fro, redacted.
    fn trace(&self) -> Value {
        let mut redactor = Redactor::default();
        redactor.place(&self.server.cwd.path().canonicalize().unwrap().to_string_lossy(), "[cwd]");
        let trace = self.server.client.trace.iter().map(|(way, message)| json!({ *way: message }));
        let mut trace = Value::from_iter(trace);
        redactor.redact(&mut trace);
        trace
    }
}

/// One test for each era.
macro_rules! in_both_eras {
    ($($scenario:ident),+ $(,)?) => {$(
        mod $scenario {
            #[tokio::test]
            async fn legacy() {
                insta::assert_json_snapshot!(super::$scenario(super::Era::Legacy).await);
            }

            #[tokio::test]
            async fn modern() {
                insta::assert_json_snapshot!(super::$scenario(super::Era::Modern).await);
            }
        }
    )+};
}

in_both_eras!(
    a_turn_and_a_reply,
    an_approved_patch,
    a_declined_patch,
    a_question_of_the_agent,
    what_is_refused,
    a_call_that_stops_waiting,
    a_cancelled_call,
    a_query,
    a_failing_model,
    news_of_threads,
);

async fn a_turn_and_a_reply(era: Era) -> Value {
    let mut talk = Talk::begin(era, []).await;
    let mut first = call("openoxide", json!({ "prompt": "begin" }));
    first["_meta"] = json!({ "progressToken": "p" });
    let thread = talk.ask("tools/call", first).await.output()["threadId"].clone();
    talk.ask("tools/call", call("openoxide-reply", json!({ "thread_id": thread, "prompt": "go on" }))).await;
    talk.ask("tools/call", call("openoxide-reply", json!({ "thread_id": thread, "close": true }))).await;
    talk.trace()
}

async fn an_approved_patch(era: Era) -> Value {
    let mut talk = Talk::begin(era, [Say::Patch(add_file("a.txt")), Say::Text("done")]).await;
    let yes = json!({ "action": "accept", "content": { "decision": "approve" } });
    talk.asked("openoxide", json!({ "prompt": "add a.txt" }), yes).await;
    talk.trace()
}

async fn a_declined_patch(era: Era) -> Value {
    let mut talk = Talk::begin(era, [Say::Patch(add_file("a.txt")), Say::Text("left it")]).await;
    talk.asked("openoxide", json!({ "prompt": "add a.txt" }), json!({ "action": "decline" })).await;
    talk.trace()
}

async fn a_question_of_the_agent(era: Era) -> Value {
    let script = [Say::Call("request_user_input", ask_which("Which database?")), Say::Text("SQLite it is")];
    let mut talk = Talk::begin(era, script).await;
    let answer = json!({ "action": "accept", "content": { "db": "SQLite" } });
    talk.asked("openoxide", json!({ "prompt": "set up storage" }), answer).await;
    talk.trace()
}

async fn what_is_refused(era: Era) -> Value {
    let mut talk = Talk::begin(era, []).await;
    talk.ask("no/such", json!({})).await;
    talk.ask("tools/call", call("no-such-tool", json!({}))).await;
    talk.ask("tools/call", call("openoxide", json!({ "prompt": "p", "sandbox": "everything" }))).await;
    talk.ask("tools/call", call("openoxide-reply", json!({ "thread_id": "x", "prompt": "p" }))).await;
    talk.ask("resources/read", json!({ "uri": "openoxide://nothing" })).await;
    talk.ask("prompts/get", json!({ "name": "none" })).await;
    talk.trace()
}

async fn a_call_that_stops_waiting(era: Era) -> Value {
    let go = Arc::new(Notify::new());
    let model = ScriptedModel::new([Say::Wait(Arc::clone(&go), "at last")]);
    let mut talk = Talk::on(start(Arc::clone(&model)).await, era).await;
    let running = talk.ask("tools/call", call("openoxide", json!({ "prompt": "slowly", "wait_seconds": 0.01 }))).await;
    let thread = running.output()["threadId"].clone();
    // What the second call is told does not depend on how long the turn takes to begin.
    model.asked().await;
    go.notify_one();
    talk.ask("tools/call", call("openoxide-reply", json!({ "thread_id": thread }))).await;
    talk.trace()
}

async fn a_cancelled_call(era: Era) -> Value {
    let model = ScriptedModel::new([Say::Wait(Arc::default(), "never")]);
    let mut talk = Talk::on(start(Arc::clone(&model)).await, era).await;
    let mut params = call("openoxide", json!({ "prompt": "slowly" }));
    params["_meta"] = json!({ "progressToken": "p" });
    let id = talk.send("tools/call", params).await;
    talk.server.client.until("notifications/progress").await;
    // The script is for this call, and a turn that is cancelled earlier would leave it to the next.
    model.asked().await;
    talk.server.client.notify("notifications/cancelled", json!({ "requestId": id, "reason": "enough" })).await;
    talk.ask("tools/call", call("openoxide", json!({ "prompt": "another" }))).await;
    talk.trace()
}

async fn a_query(era: Era) -> Value {
    let mut talk = Talk::begin(era, []).await;
    talk.ask("tools/call", call("openoxide-query", json!({ "query": "what is here?" }))).await;
    talk.trace()
}

async fn a_failing_model(era: Era) -> Value {
    let mut talk = Talk::begin(era, [Say::Fail("no such model")]).await;
    talk.ask("tools/call", call("openoxide", json!({ "prompt": "begin" }))).await;
    talk.trace()
}

async fn news_of_threads(era: Era) -> Value {
    let home = tempfile::tempdir().unwrap();
    let place = home.path().to_owned();
    let server = start_with(ScriptedModel::new([]), |config| config.home = Some(place)).await;
    let mut talk = Talk::on(server, era).await;
    if era == Era::Legacy {
        talk.ask("resources/list", json!({})).await;
        talk.ask("resources/subscribe", json!({ "uri": "openoxide://threads" })).await;
    } else {
        let wanted = json!({ "resourcesListChanged": true, "resourceSubscriptions": ["openoxide://threads"] });
        talk.send("subscriptions/listen", json!({ "notifications": wanted })).await;
        talk.server.client.until("notifications/subscriptions/acknowledged").await;
    }
    talk.ask("tools/call", call("openoxide", json!({ "prompt": "begin" }))).await;
    talk.server.client.until("notifications/resources/updated").await;
    talk.server.client.close().await;
    while talk.server.client.next().await.is_some() {}
    talk.trace()
}

/// A task is of the modern era alone.
#[tokio::test]
async fn a_task() {
    let go = Arc::new(Notify::new());
    let script = [Say::Wait(Arc::clone(&go), "slow"), Say::Patch(add_file("a.txt")), Say::Text("done")];
    let mut talk = Talk::begin(Era::Modern, script).await;
    let declared = json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let ask = async |talk: &mut Talk, method: &str, params: Value| {
        let id = talk.next;
        talk.next += 1;
        talk.server.client.ask(id, method, modern(params, declared.clone())).await.message
    };
    let prompt = call("openoxide", json!({ "prompt": "slowly" }));
    let first = ask(&mut talk, "tools/call", prompt.clone()).await["result"]["taskId"].clone();
    let until = async |talk: &mut Talk, task: &Value, wanted: fn(&Value) -> bool| loop {
        let before = talk.server.client.trace.len();
        let shown = ask(talk, "tasks/get", json!({ "taskId": task })).await["result"].clone();
        if wanted(&shown) {
            return shown;
        }
        // How often it takes is nothing to review.
        talk.server.client.trace.truncate(before);
        talk.next -= 1;
    };
    until(&mut talk, &first, |shown| shown["statusMessage"].to_string().ends_with(": thinking\"")).await;
    ask(&mut talk, "tasks/cancel", json!({ "taskId": first })).await;
    ask(&mut talk, "tasks/get", json!({ "taskId": first })).await;
    let second = ask(&mut talk, "tools/call", prompt).await["result"]["taskId"].clone();
    let is_asked = |shown: &Value| {
        shown["status"] == "input_required"
            && shown["statusMessage"].as_str().is_some_and(|text| text.contains(": waiting"))
    };
    let asked = until(&mut talk, &second, is_asked).await;
    let answers: Value = asked["inputRequests"]
        .as_object()
        .unwrap()
        .keys()
        .map(|key| (key.clone(), json!({ "action": "accept" })))
        .collect();
    let update = json!({ "taskId": second, "inputResponses": answers });
    let id = talk.next;
    talk.next += 1;
    talk.server.client.ask(id, "tasks/update", modern(update, declared.clone())).await;
    until(&mut talk, &second, |shown| shown["status"] == "completed").await;
    insta::assert_json_snapshot!(talk.trace());
}

/// What a host that is configured for Codex sees.
#[tokio::test]
async fn codex() {
    let script = [Say::Patch(add_file("a.txt")), Say::Text("done"), Say::Text("more")];
    let mut talk = Talk::on(support::start_codex(ScriptedModel::new(script)).await, Era::Legacy).await;
    talk.ask("tools/list", json!({})).await;
    let arguments = json!({ "prompt": "add a.txt", "approval-policy": "untrusted" });
    let yes = json!({ "action": "accept", "content": {}, "decision": "approved" });
    let done = talk.asked("codex", arguments, yes).await;
    let thread = done.output()["threadId"].clone();
    talk.ask("tools/call", call("codex-reply", json!({ "conversationId": thread, "prompt": "go on" }))).await;
    let unknown = json!({ "threadId": "01a1fc7a-8d1f-75f7-89b7-18c906dd0c5b", "prompt": "go on" });
    talk.ask("tools/call", call("codex-reply", unknown)).await;
    talk.ask("tools/call", call("codex-reply", json!({ "threadId": "x", "prompt": "go on" }))).await;
    talk.ask("tools/call", call("codex", json!({ "prompt": "p", "profile": "x" }))).await;
    insta::assert_json_snapshot!(talk.trace());
}
