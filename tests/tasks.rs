//! The tasks extension on the real server: a handle for what lasts, polled, told, answered, cancelled, and still there after a
//! restart and after a crash.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use serde_json::{Value, json};
use support::{Server, eventually};

const AT_ONCE: [&str; 2] = ["-c", "mcp_server.task_after_ms=0"];

struct House {
    home: tempfile::TempDir,
    work: tempfile::TempDir,
}

fn declared() -> Value {
    json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

fn ask(server: &mut Server, method: &str, params: Value) -> Value {
    let request = server.modern(method, params, &declared());
    server.answer(request)
}

fn get(server: &mut Server, task: &str) -> Value {
    ask(server, "tasks/get", json!({ "taskId": task }))["result"].clone()
}

/// Asks for the task until it stands like this.
fn until(server: &mut Server, task: &str, status: &str) -> Value {
    let mut shown = Value::Null;
    eventually(&format!("the task is {status}"), || {
        shown = get(server, task);
        shown["status"] == status
    });
    shown
}

impl House {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), work: tempfile::tempdir().unwrap() }
    }

    /// A server that makes tasks at once.
    fn server(&self) -> Server {
        Server::start_in(self.home.path(), json!({}), &AT_ONCE)
    }

    /// Begins a task; what it was answered with.
    fn begin(&self, server: &mut Server, prompt: &str, policy: &str) -> Value {
        let arguments = json!({ "prompt": prompt, "cwd": self.work.path(), "approval_policy": policy });
        let created = ask(server, "tools/call", json!({ "name": "openoxide", "arguments": arguments }));
        let created = created["result"].clone();
        assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")), "{created}");
        assert!(created["ttlMs"].is_u64() && created["pollIntervalMs"].is_u64(), "{created}");
        created
    }
}

fn id(task: &Value) -> String {
    task["taskId"].as_str().unwrap().to_owned()
}

#[test]
fn a_task_is_there_at_once_and_keeps_its_result_over_a_restart() {
    let house = House::new();
    let mut server = house.server();
    let task = id(&house.begin(&mut server, "run `sleep 0.3; touch done.txt`", "never"));
    assert_eq!(get(&mut server, &task)["resultType"], "complete");
    let over = until(&mut server, &task, "completed");
    assert!(over["result"]["isError"] == false && house.work.path().join("done.txt").exists(), "{over}");
    let thread = over["result"]["structuredContent"]["threadId"].as_str().unwrap().to_owned();
    assert_eq!(over["_meta"]["openoxide/task"]["threadId"], thread.as_str());
    server.close_input();
    server.wait_exit();

    let mut later = house.server();
    let again = get(&mut later, &task);
    assert_eq!((&again["result"], &again["status"]), (&over["result"], &json!("completed")));
    let reply = json!({ "name": "openoxide-reply", "arguments": { "thread_id": thread, "prompt": "run `true`" } });
    let next = ask(&mut later, "tools/call", reply)["result"].clone();
    assert_eq!(until(&mut later, &id(&next), "completed")["result"]["structuredContent"]["threadId"], thread.as_str());
}

#[test]
fn what_nobody_may_ask_is_refused_by_its_code() {
    let house = House::new();
    let mut server = house.server();
    let task = id(&house.begin(&mut server, "run `true`", "never"));
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({ "taskId": task, "inputResponses": {} });
        let request = server.modern(method, params.clone(), &json!({}));
        let error = server.answer(request)["error"].clone();
        assert_eq!(error["code"], -32021, "{method}: {error}");
        assert!(error["data"]["requiredCapabilities"]["extensions"]["io.modelcontextprotocol/tasks"].is_object());
        let unknown = json!({ "taskId": "00112233445566778899aabbccddeeff", "inputResponses": {} });
        assert_eq!(ask(&mut server, method, unknown)["error"]["code"], -32602);
        let legacy = server.request(method, params);
        assert_eq!(server.answer(legacy)["error"]["code"], -32601);
    }
    for removed in ["tasks/list", "tasks/result"] {
        assert_eq!(ask(&mut server, removed, json!({ "taskId": task }))["error"]["code"], -32601);
    }
    let listen = server.modern("subscriptions/listen", json!({ "notifications": { "taskIds": [task] } }), &json!({}));
    assert_eq!(server.answer(listen)["error"]["code"], -32021);
    // Arguments that are wrong are told at once, and a client without the extension gets no task.
    let wrong = ask(&mut server, "tools/call", json!({ "name": "openoxide", "arguments": { "prompt": " " } }));
    assert!(wrong["result"]["isError"] == true && wrong["result"]["resultType"] == "complete", "{wrong}");
    let arguments = json!({ "prompt": "run `true`", "cwd": house.work.path() });
    let plain = server.modern("tools/call", json!({ "name": "openoxide", "arguments": arguments }), &json!({}));
    assert_eq!(server.answer(plain)["result"]["resultType"], "complete");
}

#[test]
fn its_questions_are_answered_by_updates_and_each_counts_once() {
    let house = House::new();
    let mut server = house.server();
    let task = id(&house.begin(&mut server, "run `touch yes.txt`; run `touch no.txt`", "untrusted"));
    for (decision, file) in [("approve", "yes.txt"), ("deny", "no.txt")] {
        let mut waiting = Value::Null;
        eventually("the next question is put", || {
            waiting = get(&mut server, &task);
            waiting["inputRequests"].to_string().contains(file)
        });
        let requests = waiting["inputRequests"].as_object().unwrap();
        let (key, request) = requests.iter().find(|(_, request)| request.to_string().contains(file)).unwrap();
        assert_eq!(request["method"], "elicitation/create");
        for answer in [decision, "deny_and_stop"] {
            let answers =
                json!({ key.as_str(): { "action": "accept", "content": { "decision": answer } }, "made-up": {} });
            let told = ask(&mut server, "tasks/update", json!({ "taskId": task, "inputResponses": answers }));
            assert_eq!(told["result"]["resultType"], "complete", "{told}");
            assert!(told["result"].get("status").is_none());
        }
    }
    let over = until(&mut server, &task, "completed");
    let result = &over["result"]["structuredContent"];
    assert_eq!((&result["status"], &result["denials"][0]["reason"]), (&json!("completed"), &json!("declined")));
    assert!(house.work.path().join("yes.txt").exists() && !house.work.path().join("no.txt").exists());
}

#[test]
fn a_cancelled_task_ends_its_turn_and_leaves_the_thread() {
    let house = House::new();
    let mut server = house.server();
    let created = house.begin(&mut server, "run `sleep 308`", "never");
    eventually("the command runs", || server.runs("sleep 308"));
    let told = ask(&mut server, "tasks/cancel", json!({ "taskId": id(&created) }));
    assert_eq!(told["result"]["resultType"], "complete");
    assert!(told["result"].get("status").is_none());
    assert_eq!(get(&mut server, &id(&created))["status"], "cancelled");
    eventually("the command is gone", || !server.runs("sleep 308"));
    let thread = &created["_meta"]["openoxide/task"]["threadId"];
    let reply = server.call("openoxide-reply", json!({ "thread_id": thread, "prompt": "run `true`" }));
    assert_eq!(server.result(reply)["status"], "completed");
    assert_eq!(get(&mut server, &id(&created))["status"], "cancelled", "over is over");
}

#[test]
fn a_turn_that_a_crash_cut_off_is_a_completed_task_that_says_so() {
    let house = House::new();
    let mut server = house.server();
    let task = id(&house.begin(&mut server, "run `touch begun.txt; sleep 309`", "never"));
    eventually("the command runs", || server.runs("sleep 309"));
    server.kill();
    server.expect_nothing_left();
    let mut later = house.server();
    let over = get(&mut later, &task);
    let result = &over["result"];
    assert_eq!((&over["status"], &result["structuredContent"]["status"]), (&json!("completed"), &json!("interrupted")));
    assert!(result["structuredContent"]["threadId"].is_string(), "{over}");
}

#[test]
fn whoever_listens_is_told_how_it_goes() {
    let house = House::new();
    let mut server = house.server();
    let task = id(&house.begin(&mut server, "run `touch asked.txt`", "untrusted"));
    let wanted = json!({ "notifications": { "taskIds": [task, "ffffffffffffffffffffffffffffffff"] } });
    let listen = server.modern("subscriptions/listen", wanted, &declared());
    let agreed = server
        .wait_for("the acknowledgement", |message| message["method"] == "notifications/subscriptions/acknowledged");
    assert_eq!(agreed["params"]["notifications"]["taskIds"], json!([task]));
    let told = |server: &mut Server, status: &str| {
        let told = server.wait_for(status, |message| {
            message["method"] == "notifications/tasks" && message["params"]["status"] == status
        });
        assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], listen);
        told["params"].clone()
    };
    let asked = told(&mut server, "input_required");
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answers = json!({ key: { "action": "accept", "content": { "decision": "approve" } } });
    ask(&mut server, "tasks/update", json!({ "taskId": task, "inputResponses": answers }));
    let over = told(&mut server, "completed");
    assert_eq!(over["result"]["structuredContent"]["status"], "completed");
    assert!(house.work.path().join("asked.txt").exists());
}

#[test]
fn a_host_that_gives_up_gets_an_answer_before_and_the_result_after() {
    let house = House::new();
    let mut server = Server::start_in(house.home.path(), json!({}), &["--max-wait", "0.2"]);
    let call =
        server.call("openoxide", json!({ "prompt": "run `sleep 0.8; touch slow.txt`", "cwd": house.work.path() }));
    let running = server.result(call);
    assert_eq!(running["status"], "running");
    let thread = &running["threadId"];
    let wait = server.call("openoxide-reply", json!({ "thread_id": thread, "wait_seconds": 50 }));
    let over = server.result(wait);
    assert_eq!((&over["status"], &over["threadId"]), (&json!("completed"), thread));
    assert!(house.work.path().join("slow.txt").exists());
}

#[test]
fn what_is_short_is_answered_itself_and_what_lasts_is_a_task_that_names_its_thread() {
    let house = House::new();
    let mut server = Server::start_in(house.home.path(), json!({}), &[]);
    let call = |prompt: &str| {
        let arguments = json!({ "prompt": prompt, "cwd": house.work.path(), "approval_policy": "never" });
        json!({ "name": "openoxide", "arguments": arguments })
    };
    let query =
        json!({ "name": "openoxide-query", "arguments": { "query": "run `echo hi`", "cwd": house.work.path() } });
    let short = ask(&mut server, "tools/call", query)["result"].clone();
    assert_eq!(
        (&short["resultType"], &short["structuredContent"]["status"]),
        (&json!("complete"), &json!("completed"))
    );
    let created = ask(&mut server, "tools/call", call("run `sleep 310`"))["result"].clone();
    let thread = created["_meta"]["openoxide/task"]["threadId"].as_str().unwrap().to_owned();
    let message = created["statusMessage"].as_str().unwrap();
    assert!(created["resultType"] == "task" && message.starts_with(&format!("thread {thread}: ")), "{created}");
    // A model that knows nothing but the task can steer and end the turn.
    let end = json!({ "name": "openoxide-reply", "arguments": { "thread_id": id(&created), "interrupt": true } });
    let request = server.modern("tools/call", end, &json!({}));
    let over = server.answer(request)["result"]["structuredContent"].clone();
    assert_eq!((&over["threadId"], &over["status"]), (&json!(thread), &json!("interrupted")));
    eventually("the command is gone", || !server.runs("sleep 310"));
    until(&mut server, &id(&created), "completed");
}

#[test]
fn a_task_names_a_thread_after_a_restart() {
    let house = House::new();
    let mut server = house.server();
    let created = house.begin(&mut server, "run `true`", "never");
    until(&mut server, &id(&created), "completed");
    server.close_input();
    server.wait_exit();
    let mut later = Server::start_in(house.home.path(), json!({}), &[]);
    let reply = later.call("openoxide-reply", json!({ "thread_id": id(&created), "prompt": "run `true`" }));
    let over = later.result(reply);
    assert_eq!(
        (&over["threadId"], &over["status"]),
        (&created["_meta"]["openoxide/task"]["threadId"], &json!("completed"))
    );
}

#[test]
fn a_host_that_nobody_knows_is_answered_in_the_time_that_is_set() {
    let house = House::new();
    let mut server = Server::start_in(house.home.path(), json!({}), &["-c", "mcp_server.answer_within_sec=1"]);
    let prompt = json!({ "prompt": "run `sleep 3; touch slow.txt`", "cwd": house.work.path() });
    let call = server.call("openoxide", prompt);
    assert_eq!(server.result(call)["status"], "running");
    let wait = server.call("openoxide-reply", json!({ "thread_id": "last", "wait_seconds": 50 }));
    assert_eq!(server.result(wait)["status"], "completed");
    assert!(house.work.path().join("slow.txt").exists());
}
