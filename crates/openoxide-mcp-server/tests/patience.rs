//! Answers that come before the turn is over: no work is lost by them, at whatever moment they come, and "last" finds it
//! again.
#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped has failed the test")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use openoxide_mcp_server::OnEof;
use openoxide_test_support::{Reply, Say, ScriptedModel};
use serde_json::{Value, json};
use support::{Server, Waits, add_file, call, can_be_asked, exists, modern, start_waiting};
use tokio::sync::Notify;

/// What a call of a host that nobody knows is answered within.
const SOON: Duration = Duration::from_millis(30);

fn within(answer_within: Duration) -> Waits {
    Waits { answer_within: Some(answer_within), ..Waits::default() }
}

/// A connection of a legacy host of this name.
async fn host(name: &str, model: Arc<ScriptedModel>, waits: Waits, codex: bool, on_eof: OnEof) -> Server {
    let mut server = start_waiting(model, waits, codex, on_eof).await;
    let params = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": name, "version": "1" },
    });
    server.client.ask("init", "initialize", params).await;
    server
}

async fn stranger(model: Arc<ScriptedModel>) -> Server {
    host("a host of tomorrow", model, within(SOON), false, OnEof::default()).await
}

fn waiting(texts: &[&'static str]) -> (Vec<Arc<Notify>>, Arc<ScriptedModel>) {
    let go: Vec<_> = texts.iter().map(|_| Arc::new(Notify::new())).collect();
    let steps = go.iter().zip(texts).map(|(go, text)| Say::Wait(Arc::clone(go), text));
    (go.clone(), ScriptedModel::new(steps))
}

async fn fetch(server: &mut Server, thread: &Value) -> Reply {
    // However often it takes.
    loop {
        let reply =
            server.client.ask("fetch", "tools/call", call("openoxide-reply", json!({ "thread_id": thread }))).await;
        if reply.output()["status"] != "running" {
            return reply;
        }
    }
}

fn prompt(text: &str) -> Value {
    call("openoxide", json!({ "prompt": text }))
}

fn text(reply: &Reply) -> &str {
    reply.result()["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn a_host_that_nobody_knows_is_answered_in_time_and_told_what_to_call() {
    let (go, model) = waiting(&["at last"]);
    let mut server = stranger(model).await;
    let running = server.client.ask(1, "tools/call", prompt("slowly")).await;
    assert_eq!(running.output()["status"], "running", "{running:?}");
    let thread = running.output()["threadId"].clone();
    let first = text(&running).lines().next().unwrap();
    for told in ["not finished", "openoxide-reply", thread.as_str().unwrap(), "\"last\""] {
        assert!(first.contains(told), "{told}: {first}");
    }
    go[0].notify_one();
    let over = fetch(&mut server, &thread).await;
    assert_eq!((&over.output()["status"], &over.output()["content"]), (&json!("completed"), &json!("at last")));
}

#[tokio::test]
async fn the_end_of_the_turn_in_the_instant_of_the_answer_is_told_by_one_of_them() {
    for microseconds in (0..4000).step_by(100) {
        let (go, model) = waiting(&["at last"]);
        let moment = Duration::from_micros(microseconds);
        let mut server = host("", Arc::clone(&model), within(Duration::from_millis(2)), false, OnEof::default()).await;
        server.client.request(1, "tools/call", prompt("slowly")).await;
        // The moment is the case, not a wait for something.
        tokio::time::sleep(moment).await;
        go[0].notify_one();
        let first = server.client.answer(1).await;
        let over = match first.output()["status"] == "running" {
            true => fetch(&mut server, &first.output()["threadId"].clone()).await,
            false => first,
        };
        assert_eq!((&over.output()["status"], &over.output()["content"]), (&json!("completed"), &json!("at last")));
        server.client.request(2, "ping", json!({})).await;
        let after = server.client.answer(2).await;
        assert!(after.before.iter().all(|message| message["id"] != 1), "one answer: {after:?}");
    }
}

#[tokio::test]
async fn whoever_waits_is_waited_for() {
    let progress = json!({ "progressToken": "p" });
    let cases = [
        ("claude-code", "openoxide", json!({}), json!({})),
        ("a host of tomorrow", "openoxide", progress, json!({})),
        ("a host of tomorrow", "codex", json!({}), json!({})),
        ("a host of tomorrow", "openoxide", json!({}), json!({ "wait_seconds": 3600 })),
    ];
    for (name, tool, meta, more) in cases {
        let (go, model) = waiting(&["at last"]);
        let mut server = host(name, Arc::clone(&model), within(Duration::from_millis(1)), true, OnEof::default()).await;
        let mut arguments = json!({ "prompt": "slowly" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut params = call(tool, arguments);
        params["_meta"] = meta;
        server.client.request(1, "tools/call", params).await;
        model.asked().await;
        // The moment is the case: well after the answer that must not come.
        tokio::time::sleep(SOON).await;
        go[0].notify_one();
        let over = server.client.answer(1).await;
        assert_eq!(over.output()["content"], "at last", "{name} {tool}");
    }
}

#[tokio::test]
async fn a_host_that_ended_its_input_and_stays_to_read_is_told_the_end() {
    let (go, model) = waiting(&["at last"]);
    let mut server = host("", Arc::clone(&model), within(SOON), false, OnEof::Finish).await;
    server.client.request(1, "tools/call", prompt("slowly")).await;
    server.client.close().await;
    model.asked().await;
    // The moment is the case: well after the answer that must not come.
    tokio::time::sleep(2 * SOON).await;
    go[0].notify_one();
    assert_eq!(server.client.answer(1).await.output()["content"], "at last");
    server.task.await.unwrap();
}

#[tokio::test]
async fn a_timeout_is_no_wish_and_last_finds_the_turn() {
    let (go, model) = waiting(&["at last"]);
    let mut server = host("claude-code", Arc::clone(&model), within(SOON), false, OnEof::default()).await;
    server.client.request(1, "tools/call", prompt("slowly")).await;
    model.asked().await;
    let reason = "McpError: MCP error -32001: Request timed out";
    server.client.notify("notifications/cancelled", json!({ "requestId": 1, "reason": reason })).await;
    server.client.request(2, "tools/call", call("openoxide-reply", json!({ "thread_id": "last" }))).await;
    server.client.request(3, "ping", json!({})).await;
    server.client.answer(3).await;
    go[0].notify_one();
    let over = server.client.answer(2).await;
    assert_eq!((&over.output()["status"], &over.output()["content"]), (&json!("completed"), &json!("at last")));

    // A wish ends it, and the thread is still the last.
    let (_go, model) = waiting(&["never"]);
    let mut server = host("claude-code", Arc::clone(&model), within(SOON), false, OnEof::default()).await;
    server.client.request(1, "tools/call", prompt("slowly")).await;
    model.asked().await;
    server.client.notify("notifications/cancelled", json!({ "requestId": 1, "reason": "enough" })).await;
    let over = fetch(&mut server, &json!("last")).await;
    assert_eq!(over.output()["status"], "interrupted");
}

#[tokio::test]
async fn a_timeout_and_the_end_of_the_turn_at_once_lose_nothing() {
    for moment in 0..40 {
        let (go, model) = waiting(&["at last"]);
        let mut server = host("claude-code", Arc::clone(&model), within(SOON), false, OnEof::default()).await;
        server.client.request(1, "tools/call", prompt("slowly")).await;
        model.asked().await;
        let cancelled = json!({ "requestId": 1, "reason": "Request timed out" });
        let (go, before) = (Arc::clone(&go[0]), moment % 2 == 0);
        if before {
            go.notify_one();
        }
        // Each step lets the turn, or the cancellation, go on a little further.
        for _ in 0..moment / 2 {
            tokio::task::yield_now().await;
        }
        server.client.notify("notifications/cancelled", cancelled).await;
        if !before {
            for _ in 0..moment / 2 {
                tokio::task::yield_now().await;
            }
            go.notify_one();
        }
        let over = fetch(&mut server, &json!("last")).await;
        assert_eq!((&over.output()["status"], &over.output()["content"]), (&json!("completed"), &json!("at last")));
    }
}

#[tokio::test]
async fn a_timeout_of_a_call_that_has_not_got_to_its_turn_leaves_it_as_well() {
    // Everything in one write: the call, that it timed out, and the question for what became of it.
    let mut server = host("claude-code", ScriptedModel::new([]), within(SOON), false, OnEof::default()).await;
    let start = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": prompt("hello") });
    let cancel = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1, "reason": "timeout" },
    });
    let reply = call("openoxide-reply", json!({ "thread_id": "last" }));
    let reply = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": reply });
    server.client.send_raw(format!("{start}\n{cancel}\n{reply}\n").as_bytes()).await;
    let over = server.client.answer(2).await;
    assert_eq!((&over.output()["status"], &over.output()["content"]), (&json!("completed"), &json!("re: hello")));
}

#[tokio::test]
async fn a_timeout_of_a_prompt_that_waits_for_its_thread_leaves_it_as_well() {
    let mut server = host("claude-code", ScriptedModel::new([]), within(SOON), false, OnEof::default()).await;
    let last = |more: Value| {
        let mut arguments = json!({ "thread_id": "last" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call("openoxide-reply", arguments)
    };
    let calls = [prompt("one"), last(json!({ "prompt": "two" })), last(json!({}))];
    let mut lines: Vec<_> = (1..)
        .zip(calls)
        .map(|(id, params)| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string())
        .collect();
    let cancelled = json!({ "requestId": 2, "reason": "context deadline exceeded" });
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled });
    lines.insert(2, cancelled.to_string());
    server.client.send_raw(format!("{}\n", lines.join("\n")).as_bytes()).await;
    // The third waits for one of the two turns, and the second is there by then.
    server.client.answer(3).await;
    assert_eq!(server.client.ask(4, "tools/call", last(json!({}))).await.output()["content"], "re: two");
}

#[tokio::test]
async fn last_is_refused_with_the_ids_where_several_turns_run() {
    let (go, model) = waiting(&["one", "two"]);
    let mut server = stranger(Arc::clone(&model)).await;
    let mut threads = Vec::new();
    for id in [1, 2] {
        threads.push(server.client.ask(id, "tools/call", prompt("slowly")).await.output()["threadId"].clone());
    }
    let last = |more: Value| {
        let mut arguments = json!({ "thread_id": "last" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call("openoxide-reply", arguments)
    };
    for more in [json!({}), json!({ "prompt": "go on" })] {
        let refused = server.client.ask(3, "tools/call", last(more)).await;
        assert_eq!(refused.result()["isError"], true);
        assert!(threads.iter().all(|id| text(&refused).contains(id.as_str().unwrap())), "{refused:?}");
    }
    go.iter().for_each(|go| go.notify_one());
    for thread in &threads {
        fetch(&mut server, thread).await;
    }
    // The first is continued, and so the last.
    let more = call("openoxide-reply", json!({ "thread_id": threads[0], "prompt": "more" }));
    server.client.ask(4, "tools/call", more).await;
    let over = server.client.ask(5, "tools/call", last(json!({ "prompt": "and more" }))).await;
    assert_eq!((&over.output()["threadId"], &over.output()["content"]), (&threads[0], &json!("re: and more")));
    // A query asks about it and is not written to, but what it said can be fetched.
    let query = call("openoxide-query", json!({ "thread_id": "last", "query": "why?" }));
    let asked = server.client.ask(6, "tools/call", query).await.output()["threadId"].clone();
    assert_eq!(server.client.ask(7, "tools/call", last(json!({}))).await.output()["threadId"], asked);
    let over = server.client.ask(8, "tools/call", last(json!({ "prompt": "on" }))).await;
    assert_eq!(over.output()["threadId"], threads[0]);
}

#[tokio::test]
async fn last_waits_for_a_start_in_the_same_write_and_prompts_keep_their_order() {
    let mut server = host("claude-code", ScriptedModel::new([]), within(SOON), false, OnEof::default()).await;
    let refused = server.client.ask(0, "tools/call", call("openoxide-reply", json!({ "thread_id": "last" }))).await;
    assert!(refused.result()["isError"] == true && text(&refused).contains("no call"), "{refused:?}");
    let line = |id: u64, params: Value| {
        format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
    };
    let go_on = |text: &str| call("openoxide-reply", json!({ "thread_id": "last", "prompt": text }));
    let lines = [line(1, prompt("one")), line(2, go_on("two")), line(3, go_on("three"))];
    server.client.send_raw(lines.concat().as_bytes()).await;
    // Turns of one thread end in the order of their prompts, and each answer follows its turn.
    for (id, said) in [(1, "re: one"), (2, "re: two"), (3, "re: three")] {
        assert_eq!(server.client.answer(id).await.output()["content"], said);
    }
}

#[tokio::test]
async fn a_modern_request_has_no_last_and_a_task_is_a_name() {
    let (go, model) = waiting(&["at last"]);
    let mut server = start_waiting(model, Waits::default(), false, OnEof::default()).await;
    let last = call("openoxide-reply", json!({ "thread_id": "last" }));
    let refused = server.client.ask(1, "tools/call", modern(last, json!({}))).await;
    assert!(refused.result()["isError"] == true && text(&refused).contains("2026-07-28"), "{refused:?}");
    let created = server.client.ask(2, "tools/call", modern(prompt("slowly"), takes_tasks())).await;
    let task = created.result()["taskId"].clone();
    let thread = created.result()["_meta"]["openoxide/task"]["threadId"].clone();
    let title = format!("thread {}", thread.as_str().unwrap());
    assert!(created.result()["statusMessage"].as_str().unwrap().starts_with(&title), "{created:?}");
    go[0].notify_one();
    let reply = call("openoxide-reply", json!({ "thread_id": task }));
    let over = server.client.ask(3, "tools/call", modern(reply.clone(), json!({}))).await;
    assert_eq!((&over.output()["threadId"], &over.output()["content"]), (&thread, &json!("at last")));
    server.client.initialize("2025-06-18", json!({})).await;
    assert_eq!(server.client.ask(4, "tools/call", reply).await.output()["threadId"], thread);
    let unknown = call("openoxide-reply", json!({ "thread_id": "00112233445566778899aabbccddeeff" }));
    let refused = server.client.ask(5, "tools/call", unknown).await;
    assert!(refused.result()["isError"] == true && text(&refused).contains("no task of yours"), "{refused:?}");
}

fn takes_tasks() -> Value {
    json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

fn task_after(task_after: Duration) -> Waits {
    Waits { task_after, ..Waits::default() }
}

/// Asks for a task until it is over.
async fn outcome(server: &mut Server, task: &Value) -> Value {
    loop {
        let params = modern(json!({ "taskId": task }), takes_tasks());
        let shown = server.client.ask("get", "tasks/get", params).await.result().clone();
        if let Some(requests) = shown["inputRequests"].as_object() {
            let answers: Value = requests.keys().map(|key| (key.clone(), json!({ "action": "accept" }))).collect();
            let params = modern(json!({ "taskId": task, "inputResponses": answers }), takes_tasks());
            server.client.ask("update", "tasks/update", params).await;
        }
        if shown["status"] == "completed" {
            return shown["result"].clone();
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_short_turn_is_no_task_and_a_long_one_is() {
    let (go, model) = waiting(&["at last"]);
    let mut server = start_waiting(model, task_after(SOON), false, OnEof::default()).await;
    let created = server.client.ask(1, "tools/call", modern(prompt("slowly"), takes_tasks())).await;
    assert_eq!(created.result()["resultType"], "task", "{created:?}");
    let message = created.result()["statusMessage"].as_str().unwrap().to_owned();
    let thread = created.result()["_meta"]["openoxide/task"]["threadId"].as_str().unwrap().to_owned();
    assert!(message.starts_with(&format!("thread {thread}: ")), "{message}");
    go[0].notify_one();
    let over = outcome(&mut server, &created.result()["taskId"].clone()).await;
    assert_eq!(over["structuredContent"]["content"], "at last");

    let mut server =
        start_waiting(ScriptedModel::new([]), task_after(support::PATIENCE), false, OnEof::default()).await;
    let short = server.client.ask(1, "tools/call", modern(prompt("hello"), takes_tasks())).await;
    assert_eq!((&short.result()["resultType"], &short.output()["content"]), (&json!("complete"), &json!("re: hello")));
}

#[tokio::test]
async fn a_query_is_waited_for_longer() {
    let (go, model) = waiting(&["at last"]);
    let mut server =
        start_waiting(Arc::clone(&model), task_after(Duration::from_secs(1)), false, OnEof::default()).await;
    let query = call("openoxide-query", json!({ "query": "why?" }));
    server.client.request(1, "tools/call", modern(query, takes_tasks())).await;
    model.asked().await;
    // The moment is the case: after that at which another call would be a task.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    go[0].notify_one();
    assert_eq!(server.client.answer(1).await.output()["content"], "at last");
}

#[tokio::test]
async fn a_question_makes_the_task_at_once() {
    let model = ScriptedModel::new([Say::Patch(add_file("a.txt")), Say::Text("done")]);
    let mut server = start_waiting(model, task_after(support::PATIENCE), false, OnEof::default()).await;
    let created = server.client.ask(1, "tools/call", modern(prompt("add"), takes_tasks())).await;
    assert_eq!(created.result()["resultType"], "task", "{created:?}");
    let over = outcome(&mut server, &created.result()["taskId"].clone()).await;
    assert_eq!(over["structuredContent"]["content"], "done");
    assert!(exists(server.cwd.path(), "a.txt"));
}

#[tokio::test]
async fn a_question_in_the_last_instant_is_put_in_the_task_and_never_in_the_answer() {
    for microseconds in (0..6000).step_by(200) {
        let model = ScriptedModel::new([Say::Patch(add_file("a.txt")), Say::Text("done")]);
        let waits = task_after(Duration::from_micros(microseconds.max(1)));
        let mut server = start_waiting(model, waits, false, OnEof::default()).await;
        let created = server.client.ask(1, "tools/call", modern(prompt("add"), takes_tasks())).await;
        assert_eq!(created.result()["resultType"], "task", "{microseconds}: {created:?}");
        let over = outcome(&mut server, &created.result()["taskId"].clone()).await;
        assert_eq!(over["structuredContent"]["denials"].as_array().map_or(0, Vec::len), 0, "{over}");
        assert!(exists(server.cwd.path(), "a.txt"), "{over}");
    }
}

#[tokio::test]
async fn a_call_that_is_cancelled_before_it_is_a_task_ends_its_turn() {
    let model = ScriptedModel::new([Say::Wait(Arc::default(), "never")]);
    let mut server = start_waiting(Arc::clone(&model), task_after(support::PATIENCE), false, OnEof::default()).await;
    server.client.request(1, "tools/call", modern(prompt("slowly"), takes_tasks())).await;
    model.asked().await;
    server.client.notify("notifications/cancelled", json!({ "requestId": 1 })).await;
    let list = modern(json!({ "uri": "openoxide://threads" }), json!({}));
    // The end of the turn is the end of what holds the script: the next turn is answered.
    let next = server.client.ask(2, "tools/call", modern(prompt("next"), json!({}))).await;
    assert_eq!(next.output()["content"], "re: next");
    let threads = server.client.ask(3, "resources/read", list).await;
    assert!(threads.before.iter().all(|message| message["id"] != 1), "a cancelled call has no answer");
}

#[tokio::test]
async fn the_end_of_input_before_it_is_a_task_answers_the_call_itself() {
    for (on_eof, status) in [(OnEof::Interrupt, "interrupted"), (OnEof::Finish, "completed")] {
        let (go, model) = waiting(&["at last"]);
        let mut server = start_waiting(Arc::clone(&model), task_after(SOON), false, on_eof).await;
        server.client.request(1, "tools/call", modern(prompt("slowly"), takes_tasks())).await;
        server.client.close().await;
        if on_eof == OnEof::Finish {
            model.asked().await;
            // The moment is the case: well after that at which it would be a task.
            tokio::time::sleep(2 * SOON).await;
            go[0].notify_one();
        }
        let over = server.client.answer(1).await;
        assert_eq!(over.output()["status"], status, "{over:?}");
        server.task.await.unwrap();
    }
}

#[tokio::test]
async fn a_legacy_question_of_a_call_that_is_answered_early_is_put_again_to_the_next() {
    let model = ScriptedModel::new([Say::Patch(add_file("a.txt")), Say::Text("done")]);
    let mut server = start_waiting(model, within(SOON), false, OnEof::default()).await;
    server.client.initialize("2025-06-18", can_be_asked()).await;
    let running = server.client.ask(1, "tools/call", prompt("add")).await;
    assert_eq!(running.output()["status"], "running");
    let asks = |output: &Value| output["content"].as_str().unwrap().contains("waits for an answer of the person");
    assert!(asks(running.output()), "{running:?}");
    // The turn behind it asks nothing yet.
    let behind = call("openoxide-reply", json!({ "thread_id": "last", "prompt": "more" }));
    let queued = server.client.ask(3, "tools/call", behind).await;
    assert_eq!((queued.output()["status"].clone(), asks(queued.output())), (json!("running"), false), "{queued:?}");
    let mut params = call("openoxide-reply", json!({ "thread_id": "last" }));
    params["_meta"] = json!({ "progressToken": "p" });
    server.client.request(2, "tools/call", params).await;
    let question = server.client.until("elicitation/create").await;
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept", "content": {} } });
    server.client.send(answer).await;
    assert_eq!(server.client.answer(2).await.output()["content"], "done");
    assert!(exists(server.cwd.path(), "a.txt"));
}
