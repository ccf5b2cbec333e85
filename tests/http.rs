//! Streamable HTTP on the real server: both eras, who is let in, streams that break off, and how it ends.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use reqwest::RequestBuilder;
use serde_json::{Value, json};
use support::house::{Events, House, initialize, json_of, result_of};
use support::listener::{ADA, BOB, DOOR, Listener, token_of};
use support::{eventually, openoxide};

#[tokio::test]
async fn a_modern_request_needs_no_session() {
    let house = House::start(&[]);
    let discovered = house.modern("server/discover", json!({})).send().await.unwrap();
    assert!(discovered.status() == 200 && !discovered.headers().contains_key("mcp-session-id"));
    assert_eq!(json_of(discovered).await["result"]["supportedVersions"][0], "2026-07-28");
    let result = result_of(house.start_turn("run `touch made.txt`").send().await.unwrap()).await;
    assert_eq!(result["structuredContent"]["status"], "completed", "{result}");
    assert!(house.work.path().join("made.txt").exists());

    let arguments = house.arguments("run `sleep 1`");
    let token = json!({ "name": "openoxide", "arguments": arguments, "_meta": { "progressToken": "t" } });
    let mut events = Events::of(house.modern("tools/call", token).send().await.unwrap());
    let progress = events.until(|message| message["method"] == "notifications/progress").await;
    assert_eq!(progress["params"]["progressToken"], "t");
    let answer = events.until(|message| message.get("result").is_some()).await;
    assert_eq!(answer["result"]["structuredContent"]["status"], "completed");
}

#[tokio::test]
async fn a_modern_question_is_a_result_and_its_answer_another_request() {
    let house = House::start(&[]);
    let mut arguments = house.arguments("run `touch asked.txt`");
    arguments["approval_policy"] = json!("untrusted");
    let mut params = json!({ "name": "openoxide", "arguments": arguments });
    let asked = result_of(house.modern("tools/call", params.clone()).send().await.unwrap()).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    params["requestState"] = asked["requestState"].clone();
    params["inputResponses"] = json!({ key: { "action": "accept", "content": { "decision": "approve" } } });
    let over = result_of(house.modern("tools/call", params).send().await.unwrap()).await;
    assert_eq!(over["structuredContent"]["status"], "completed");
    assert!(house.work.path().join("asked.txt").exists());
}

#[tokio::test]
async fn closing_a_modern_response_cancels_its_request() {
    let house = House::start(&[]);
    let call = house.start_turn("run `touch begun.txt; sleep 3; touch ended.txt`").send().await.unwrap();
    eventually("the command runs", || house.work.path().join("begun.txt").exists());
    drop(call);
    let uri = json!({ "uri": "openoxide://threads" });
    let mut thread = String::new();
    while !thread.contains("threadId") {
        thread = json_of(house.modern("resources/read", uri.clone()).send().await.unwrap()).await.to_string();
    }
    let id = thread.split("threadId").nth(1).unwrap().split('"').nth(2).unwrap().trim_end_matches('\\').to_owned();
    let wait = json!({ "name": "openoxide-reply", "arguments": { "thread_id": id } });
    let over = result_of(house.modern("tools/call", wait).send().await.unwrap()).await;
    assert_eq!(over["structuredContent"]["status"], "interrupted", "{over}");
    assert!(!house.work.path().join("ended.txt").exists());
}

#[tokio::test]
async fn what_is_wrong_has_its_status() {
    let house = House::start(&[]);
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let status = |request: RequestBuilder| async { request.send().await.unwrap().status().as_u16() };
    let refused = |request: RequestBuilder| async {
        let response = request.send().await.unwrap();
        (response.status().as_u16(), json_of(response).await["error"]["code"].as_i64().unwrap())
    };
    assert_eq!(status(house.post(&ping)).await, 400, "no session");
    assert_eq!(status(house.post(&ping).header("mcp-session-id", "x")).await, 404);
    assert_eq!(status(house.post(&ping).header("mcp-protocol-version", "1999-01-01")).await, 400);
    assert_eq!(status(house.client.post(&house.url).header("accept", "*/*").body("{}")).await, 415);
    let bare = house.client.post(&house.url).header("content-type", "application/json").body("{}");
    assert_eq!(status(bare.header("accept", "application/json")).await, 406);
    let broken = house.client.post(&house.url).header("content-type", "application/json").header("accept", "*/*");
    assert_eq!(refused(broken.body("{")).await, (400, -32700));
    let huge = json!({ "jsonrpc": "2.0", "id": 1, "method": "x".repeat(17 << 20) });
    // It is answered before it is read to its end, which a client may see as a broken connection.
    match house.post(&huge).send().await {
        Ok(refused) => assert_eq!(refused.status(), 413),
        Err(error) => assert!(error.is_request(), "{error}"),
    }
    let endless = reqwest::Body::from("x".repeat(1 << 20));
    let keyed = house.client.post(&house.url).header("content-type", "application/json").header("accept", "*/*");
    assert_eq!(status(keyed.body(endless)).await, 400, "long and no JSON");
    assert_eq!(status(house.client.get(&house.url).header("accept", "text/event-stream")).await, 400);
    assert_eq!(status(house.client.delete(&house.url)).await, 400);
    assert_eq!(status(house.client.get(&house.url).header("mcp-protocol-version", "2026-07-28")).await, 405);
    assert_eq!(status(house.client.put(&house.url)).await, 405);

    for (method, expected) in [("no/such", (404, -32601)), ("ping", (404, -32601)), ("initialize", (404, -32601))] {
        assert_eq!(refused(house.modern(method, json!({}))).await, expected, "{method}");
    }
    let message = |method: &str| json!({ "jsonrpc": "2.0", "id": 1, "method": method });
    let headed = |message: &Value| house.post(message).header("mcp-protocol-version", "2026-07-28");
    assert_eq!(refused(headed(&message("server/discover"))).await, (400, -32602), "no _meta");
    let unheaded = house.modern("server/discover", json!({})).build().unwrap();
    let mut without = unheaded.try_clone().unwrap();
    without.headers_mut().remove("mcp-method");
    let answer = house.client.execute(without).await.unwrap();
    assert_eq!((answer.status().as_u16(), json_of(answer).await["error"]["code"].as_i64()), (400, Some(-32020)));
    let undeclared = house.modern("tasks/get", json!({ "taskId": "x" }));
    assert_eq!(refused(undeclared).await, (400, -32021));
}

#[tokio::test]
async fn a_page_or_a_name_from_elsewhere_is_kept_out() {
    let house = House::start(&["--allow-origin", "https://ide.example"]);
    let ask = |name: &'static str, value: &'static str| {
        let request = house.modern("server/discover", json!({})).header(name, value);
        async move { request.send().await.unwrap() }
    };
    assert_eq!(ask("host", "evil.example").await.status(), 403);
    let foreign = ask("origin", "http://evil.example").await;
    assert!(foreign.status() == 403 && !foreign.headers().contains_key("access-control-allow-origin"));
    let known = ask("origin", "https://ide.example").await;
    assert_eq!(known.headers()["access-control-allow-origin"], "https://ide.example");
    assert_eq!(ask("origin", "http://localhost:6274").await.status(), 200);
    let health = house.url.replace("/mcp", "/healthz");
    assert_eq!(house.client.get(&health).send().await.unwrap().text().await.unwrap(), "ok\n");
    let ready = house.url.replace("/mcp", "/readyz");
    assert_eq!(house.client.get(&ready).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn each_token_has_its_own_threads_tasks_and_sessions() {
    let house = House::of(Listener::with_tokens(&["-c", "mcp_server.task_after_ms=0"]));
    assert_eq!(house.start_turn("run `true`").send().await.unwrap().status(), 401);
    let wrong = house.start_turn("run `true`").bearer_auth("nobody-0123456789abcdefghijkl");
    assert_eq!(wrong.send().await.unwrap().headers()["www-authenticate"], "Bearer");
    let made = result_of(house.start_turn("run `true`").bearer_auth(ADA).send().await.unwrap()).await;
    let thread = made["structuredContent"]["threadId"].as_str().unwrap();
    let reply = json!({ "name": "openoxide-reply", "arguments": { "thread_id": thread, "prompt": "run `true`" } });
    let query = json!({ "name": "openoxide-query", "arguments": { "thread_id": thread, "query": "what was done?" } });
    for call in [reply, query] {
        let theirs = result_of(house.modern("tools/call", call.clone()).bearer_auth(ADA).send().await.unwrap()).await;
        assert_eq!(theirs["isError"], false, "{theirs}");
        let foreign = result_of(house.modern("tools/call", call).bearer_auth(BOB).send().await.unwrap()).await;
        assert!(foreign["isError"] == true && foreign.to_string().contains("is not known"), "{foreign}");
    }
    // Another process uses the thread: by whom and with what is told to those whose thread it is.
    let path = house.listener.home.path().join("run/threads").join(format!("{thread}.lock"));
    std::fs::write(&path, r#"{"pid":1,"client":"elsewhere"}"#).unwrap();
    let lock = std::fs::File::open(&path).unwrap();
    lock.lock().unwrap();
    let reply = json!({ "name": "openoxide-reply", "arguments": { "thread_id": thread, "prompt": "run `true`" } });
    for (token, told) in [(ADA, "in use by process 1 for client elsewhere"), (BOB, "is not known")] {
        let busy = result_of(house.modern("tools/call", reply.clone()).bearer_auth(token).send().await.unwrap()).await;
        assert!(busy["isError"] == true && busy.to_string().contains(told), "{busy}");
    }
    drop(lock);
    let uri = format!("openoxide://threads/{thread}");
    for (token, sees) in [(ADA, true), (BOB, false)] {
        let list = house.modern("resources/list", json!({})).bearer_auth(token).send().await.unwrap();
        assert_eq!(json_of(list).await.to_string().contains(thread), sees);
        let read = house.modern("resources/read", json!({ "uri": uri })).bearer_auth(token).send().await.unwrap();
        assert_eq!(json_of(read).await.get("result").is_some(), sees);
    }
    let declared = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let meta = json!({ "io.modelcontextprotocol/clientCapabilities": declared });
    let call = json!({ "name": "openoxide", "arguments": house.arguments("run `true`"), "_meta": meta });
    let task = result_of(house.modern("tools/call", call).bearer_auth(ADA).send().await.unwrap()).await;
    assert_eq!(task["resultType"], "task", "{task}");
    let get = json!({ "taskId": task["taskId"], "_meta": meta });
    for (token, sees) in [(ADA, true), (BOB, false)] {
        let wanted = json!({ "notifications": { "taskIds": [task["taskId"]] }, "_meta": meta });
        let mut news =
            Events::of(house.modern("subscriptions/listen", wanted).bearer_auth(token).send().await.unwrap());
        let agreed = news.next().await.unwrap();
        assert_eq!(agreed["params"]["notifications"]["taskIds"].is_array(), sees, "{agreed}");
        if sees {
            news.until(|message| message["params"]["status"] == "completed").await;
        }
    }
    // A task names its thread for its principal alone.
    let reply = json!({ "name": "openoxide-reply", "arguments": { "thread_id": task["taskId"] } });
    for (token, is_error) in [(ADA, false), (BOB, true)] {
        let told = result_of(house.modern("tools/call", reply.clone()).bearer_auth(token).send().await.unwrap()).await;
        assert_eq!(told["isError"], is_error, "{told}");
        assert_eq!(told["structuredContent"].is_object(), !is_error, "{told}");
    }
    for (token, sees) in [(ADA, true), (BOB, false)] {
        let shown = house.modern("tasks/get", get.clone()).bearer_auth(token).send().await.unwrap();
        assert_eq!(json_of(shown).await.get("result").is_some(), sees);
    }
}

#[tokio::test]
async fn a_foreign_thread_is_spoken_of_as_one_that_does_not_exist() {
    let mut first = House::with_tokens();
    let made = result_of(first.start_turn("run `true`").bearer_auth(ADA).send().await.unwrap()).await;
    let thread = made["structuredContent"]["threadId"].as_str().unwrap().to_owned();
    // In another process the thread is in use, which is its owner's business alone.
    let home = std::mem::replace(&mut first.listener.home, tempfile::tempdir().unwrap());
    let second = House::of(Listener::with_tokens_in(home, &["ada", "bob"], &[]));
    let made_up = "01a1fc7a-8d1f-75f7-89b7-18c906dd0c5b";
    for house in [&first, &second] {
        for (method, params) in [
            ("resources/read", json!({ "uri": "openoxide://threads/ID" })),
            ("resources/read", json!({ "uri": "openoxide://threads/ID/diff" })),
            ("tools/call", json!({ "name": "openoxide-reply", "arguments": { "thread_id": "ID", "prompt": "x" } })),
            ("tools/call", json!({ "name": "openoxide-query", "arguments": { "thread_id": "ID", "query": "x" } })),
        ] {
            let told = |id: &str| {
                let params = serde_json::from_str(&params.to_string().replace("ID", id)).unwrap();
                let request = house.modern(method, params).bearer_auth(BOB);
                let id = id.to_owned();
                async move { request.send().await.unwrap().text().await.unwrap().replace(&id, "ID") }
            };
            assert_eq!(told(&thread).await, told(made_up).await, "{method} {params}");
        }
    }
    let reply = json!({ "name": "openoxide-reply", "arguments": { "thread_id": thread, "prompt": "run `true`" } });
    let told = result_of(second.modern("tools/call", reply).bearer_auth(ADA).send().await.unwrap()).await;
    assert_eq!(told["structuredContent"]["status"], "completed", "its owner goes on with it: {told}");
}

#[tokio::test]
async fn with_several_tokens_each_thread_has_a_tmp_of_its_own() {
    let house = House::with_tokens();
    let name = format!("of-ada-{}", house.listener.child.id());
    let run = async |token: &str, command: &str| {
        let answer = house.start_turn(&format!("run `{command}`")).bearer_auth(token).send().await.unwrap();
        result_of(answer).await["structuredContent"]["content"].to_string()
    };
    let told = run(ADA, &format!("touch /tmp/{name} $TMPDIR/other && ls /tmp && echo in $TMPDIR")).await;
    assert!(told.contains(&name) && told.contains("other") && told.contains("in /tmp"), "{told}");
    assert!(!std::path::Path::new("/tmp").join(&name).exists(), "it is not in the host's");
    let told = run(BOB, "ls /tmp | wc -l").await;
    assert!(told.contains("exit code 0") && !told.contains(&name), "{told}");
    // The workspace lies in the shared one, and is where it was.
    assert!(run(ADA, "touch here.txt").await.contains("exit code 0"));
    assert!(house.work.path().join("here.txt").exists());
}

#[tokio::test]
async fn one_caller_does_not_take_the_sessions_of_the_others() {
    let sessions = "mcp_server.http.max_sessions=8";
    let house = House::of(Listener::with_tokens(&["-c", sessions]));
    let initialize = initialize(json!({}));
    let begin = async |token: &str| {
        let answer = house.post(&initialize).bearer_auth(token).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    };
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let ask = async |token: &str, session: &str| {
        let answer = house.post(&ping).bearer_auth(token).header("mcp-session-id", session).send().await.unwrap();
        answer.status().as_u16()
    };
    let bobs = begin(BOB).await;
    let mut adas = Vec::new();
    for _ in 0..20 {
        adas.push(begin(ADA).await);
    }
    assert_eq!(ask(BOB, &bobs).await, 200, "another's sessions stay");
    assert_eq!(ask(BOB, &begin(BOB).await).await, 200);
    assert_eq!(ask(ADA, &adas[17]).await, 404, "an own one gave way");
    assert_eq!((ask(ADA, &adas[18]).await, ask(ADA, &adas[19]).await), (200, 200), "a quarter of 8");
    // The one that was used least recently goes, and one that is in use never.
    let get = house.client.get(&house.url).header("accept", "text/event-stream").bearer_auth(ADA);
    let _reading = get.header("mcp-session-id", &adas[18]).send().await.unwrap();
    let next = begin(ADA).await;
    assert_eq!((ask(ADA, &adas[18]).await, ask(ADA, &adas[19]).await, ask(ADA, &next).await), (200, 404, 200));
}

#[tokio::test]
async fn many_greedy_callers_together_leave_sessions_and_connections_to_one_that_has_few() {
    let names = ["ada", "eve", "ivo", "ute", "bob"];
    let limits = ["-c", "mcp_server.http.max_sessions=20", "-c", "mcp_server.http.max_connections=60"];
    let house = House::of(Listener::with_tokens_in(tempfile::tempdir().unwrap(), &names, &limits));
    let begin = async |name: &str| {
        let answer = house.post(&initialize(json!({}))).bearer_auth(token_of(name)).send().await.unwrap();
        let id = answer.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
        (answer.status().as_u16(), id)
    };
    // Sessions with a reader are in use, so that none of them gives way, and each reader holds a connection.
    let mut readers = Vec::new();
    for at in 0..40 {
        let name = names[at % 4];
        let (status, Some(id)) = begin(name).await else { continue };
        assert_eq!(status, 200);
        let get = house.client.get(&house.url).header("accept", "text/event-stream").bearer_auth(token_of(name));
        readers.push(get.header("mcp-session-id", id).send().await.unwrap());
    }
    assert_eq!(readers.len(), 18, "two are kept for the fifth");
    assert_eq!(begin("ada").await.0, 503);
    // More connections, by streams that stay open.
    let wanted = json!({ "notifications": { "resourcesListChanged": true } });
    for at in 0..60 {
        let listen = house.modern("subscriptions/listen", wanted.clone()).bearer_auth(token_of(names[at % 4]));
        let answer = listen.send().await.unwrap();
        if answer.status() == 200 {
            readers.push(answer);
        }
    }
    assert!((50..=54).contains(&readers.len()), "six of 60 are kept for the fifth: {}", readers.len());
    assert_eq!((begin("bob").await.0, begin("bob").await.0), (200, 200));
    let told = result_of(house.start_turn("run `true`").bearer_auth(BOB).send().await.unwrap()).await;
    assert_eq!(told["structuredContent"]["status"], "completed", "{told}");
}

#[tokio::test]
async fn a_caller_does_not_get_at_the_tokens_through_the_agent() {
    let home = tempfile::tempdir().unwrap();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("who.txt");
    std::fs::write(&file, format!("ada {ADA}\nbob {BOB}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let file = file.to_str().unwrap();
    let house = House::of(Listener::start_in(home, &["--token-file", file, "--token-env", "DOOR_WORD"]));
    for prompt in [format!("run `cat {file}`"), format!("read {file}"), "run `echo =$DOOR_WORD=`".to_owned()] {
        let call = house.start_turn(&prompt).bearer_auth(BOB).send().await.unwrap();
        let told = result_of(call).await.to_string();
        assert!(!told.contains(ADA) && !told.contains(DOOR), "{prompt}: {told}");
    }
}

#[tokio::test]
async fn a_legacy_session_asks_on_the_stream_of_its_call_and_ends_when_told() {
    let house = House::start(&[]);
    let session = house.session(json!({ "elicitation": {} })).await;
    let send = |message: &Value| house.post(message).header("mcp-session-id", &session);
    let mut arguments = house.arguments("run `touch asked.txt`");
    arguments["approval_policy"] = json!("untrusted");
    let params = json!({ "name": "openoxide", "arguments": arguments });
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
    let mut events = Events::of(send(&call).send().await.unwrap());
    let question = events.until(|message| message["method"] == "elicitation/create").await;
    let answer = json!({ "action": "accept", "content": { "decision": "approve" } });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer });
    assert_eq!(send(&answer).send().await.unwrap().status(), 202);
    let over = events.until(|message| message["id"] == 7).await;
    assert_eq!(over["result"]["structuredContent"]["status"], "completed");
    assert!(events.next().await.is_none());

    let params =
        json!({ "name": "openoxide", "arguments": house.arguments("run `touch begun.txt; sleep 3; touch ended.txt`") });
    let call = json!({ "jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": params });
    let _open = send(&call).send().await.unwrap();
    eventually("the command runs", || house.work.path().join("begun.txt").exists());
    let ended = house.client.delete(&house.url).header("mcp-session-id", &session).send().await.unwrap();
    assert_eq!(ended.status(), 204);
    assert_eq!(send(&call).send().await.unwrap().status(), 404);
    let uri = json!({ "uri": "openoxide://threads" });
    let listed = json_of(house.modern("resources/read", uri).send().await.unwrap()).await;
    let listed: Value = serde_json::from_str(listed["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
    let wait = json!({ "name": "openoxide-reply", "arguments": { "thread_id": listed["threads"][0]["threadId"] } });
    let over = result_of(house.modern("tools/call", wait).send().await.unwrap()).await;
    assert_eq!(over["structuredContent"]["status"], "interrupted", "{over}");
    assert!(!house.work.path().join("ended.txt").exists());
}

#[tokio::test]
async fn a_stream_that_broke_off_is_taken_up_again() {
    let house = House::start(&[]);
    let session = house.session(json!({})).await;
    let params = json!({ "name": "openoxide", "arguments": house.arguments("run `sleep 0.5; touch done.txt`") });
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
    let mut events = Events::of(house.post(&call).header("mcp-session-id", &session).send().await.unwrap());
    events.until(|message| message["method"] == "notifications/message").await;
    let last = events.last_id.clone().unwrap();
    drop(events);
    eventually("the call goes on without its reader", || house.work.path().join("done.txt").exists());
    let get = || house.client.get(&house.url).header("accept", "text/event-stream").header("mcp-session-id", &session);
    let mut again = Events::of(get().header("last-event-id", last).send().await.unwrap());
    let over = again.until(|message| message["id"] == 7).await;
    assert_eq!(over["result"]["structuredContent"]["status"], "completed");
    assert!(again.next().await.is_none());
    assert_eq!(get().header("last-event-id", "99-1").send().await.unwrap().status(), 404);

    // What belongs to no request comes on a stream of its own.
    let mut news = Events::of(get().send().await.unwrap());
    let list = json!({ "jsonrpc": "2.0", "id": 8, "method": "resources/list" });
    house.post(&list).header("mcp-session-id", &session).send().await.unwrap();
    result_of(house.start_turn("run `true`").send().await.unwrap()).await;
    news.until(|message| message["method"] == "notifications/resources/list_changed").await;
}

#[tokio::test]
async fn the_end_answers_what_is_open_and_leaves_nothing() {
    let mut house = House::start(&[]);
    let call = house.start_turn("run `touch begun.txt; sleep 310`").send().await.unwrap();
    let wanted = json!({ "notifications": { "resourcesListChanged": true } });
    let mut news = Events::of(house.modern("subscriptions/listen", wanted).send().await.unwrap());
    news.until(|message| message["method"] == "notifications/subscriptions/acknowledged").await;
    eventually("the command runs", || house.work.path().join("begun.txt").exists());
    house.listener.terminate();
    assert_eq!(result_of(call).await["structuredContent"]["status"], "interrupted");
    news.until(|message| message["result"]["resultType"] == "complete").await;
    eventually("the server has ended", || house.listener.child.try_wait().unwrap().is_some());
    assert!(house.listener.child.wait().unwrap().success());
    assert!(house.listener.home.path().join("sessions").exists());
}

#[tokio::test]
async fn a_call_right_before_the_end_is_answered() {
    let mut answered = 0;
    for (at, delay) in [0, 1, 3, 10, 50, 300].into_iter().enumerate() {
        let mut house = House::start(&[]);
        let session = house.session(json!({})).await;
        let arguments = house.arguments("run `sleep 300`");
        let params = json!({ "name": "openoxide", "arguments": arguments });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let request = match at % 2 {
            0 => house.post(&call).header("mcp-session-id", &session),
            _ => house.start_turn("run `sleep 300`"),
        };
        let sent = tokio::spawn(request.send());
        // The moment is the case, not a wait for something.
        tokio::time::sleep(std::time::Duration::from_millis(delay)).await;
        house.listener.terminate();
        // A request that was not taken any more is no open call.
        let Ok(response) = sent.await.unwrap() else { continue };
        let text = response.text().await.unwrap();
        assert!(
            text.contains("\"status\":\"interrupted\"") || text.contains("the server is ending"),
            "{delay} ms: {text}"
        );
        answered += 1;
        eventually("the server has ended", || house.listener.child.try_wait().unwrap().is_some());
        assert!(house.listener.child.wait().unwrap().success());
    }
    assert!(answered >= 3, "{answered}");
}

#[test]
fn the_network_needs_a_token() {
    let home = tempfile::tempdir().unwrap();
    let listen = ["mcp-server", "--listen", "http://0.0.0.0:0"];
    let output = openoxide(home.path()).args(listen).stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && told.contains("--token-file"), "{told}");
}

#[tokio::test]
async fn nobody_leaves_the_sandbox_by_this_door_unless_the_operator_says_so() {
    let house = House::start(&[]);
    let mut arguments = house.arguments("run `true`");
    arguments["sandbox"] = json!("danger-full-access");
    let call = json!({ "name": "openoxide", "arguments": arguments });
    let refused = result_of(house.modern("tools/call", call.clone()).send().await.unwrap()).await;
    assert!(refused["isError"] == true && refused.to_string().contains("workspace-write"), "{refused}");
    let open = House::start(&["--max-sandbox", "danger-full-access", "--token-env", "DOOR_WORD"]);
    let allowed = result_of(open.modern("tools/call", call).bearer_auth(DOOR).send().await.unwrap()).await;
    assert_eq!(allowed["isError"], false, "{allowed}");
}

#[test]
fn without_a_token_nothing_is_configured_to_reach_the_host_network() {
    let network = "sandbox_workspace_write.network_access=true";
    for (arguments, named) in [
        (["-c", network], "network_access"),
        (["--max-sandbox", "danger-full-access"], "danger-full-access"),
        (["-c", "mcp_server.max_sandbox=danger-full-access"], "danger-full-access"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let listen = ["mcp-server", "--listen", "http://127.0.0.1:0"];
        let output = openoxide(home.path()).args(listen).args(arguments).stdin(Stdio::null()).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && told.contains(named) && told.contains("--token-file"), "{told}");
    }
    // With a token the network is the operator's to give.
    drop(House::start(&["-c", network, "--token-env", "DOOR_WORD"]));
}

#[tokio::test]
async fn without_a_token_no_approval_lets_a_command_reach_the_host_network() {
    // The sandbox stops it, and under this policy a person is then asked to let it run outside.
    let ask = |house: &House| {
        let mut arguments = house.arguments("run `touch /usr/made`");
        arguments["approval_policy"] = json!("on-failure");
        house.modern("tools/call", json!({ "name": "openoxide", "arguments": arguments }))
    };
    let house = House::start(&[]);
    let stopped = result_of(ask(&house).send().await.unwrap()).await;
    assert_eq!(stopped["structuredContent"]["status"], "completed", "nobody is asked: {stopped}");
    let open = House::start(&["--token-env", "DOOR_WORD"]);
    let asked = result_of(ask(&open).bearer_auth(DOOR).send().await.unwrap()).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    assert!(!std::path::Path::new("/usr/made").exists());
}

#[tokio::test]
async fn each_session_has_a_last_thread_of_its_own() {
    let house = House::start(&[]);
    let call = async |session: &str, tool: &str, arguments: Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        result_of(house.post(&message).header("mcp-session-id", session).send().await.unwrap()).await
    };
    let (first, second) = (house.session(json!({})).await, house.session(json!({})).await);
    let made = call(&first, "openoxide", house.arguments("run `true`")).await;
    let thread = &made["structuredContent"]["threadId"];
    assert!(thread.is_string(), "{made}");
    let last = json!({ "thread_id": "last", "prompt": "run `true`" });
    assert_eq!(call(&first, "openoxide-reply", last.clone()).await["structuredContent"]["threadId"], *thread);
    assert_eq!(call(&second, "openoxide-reply", last.clone()).await["isError"], true);
    let modern = house.modern("tools/call", json!({ "name": "openoxide-reply", "arguments": last }));
    let refused = result_of(modern.send().await.unwrap()).await;
    assert!(refused["isError"] == true && refused.to_string().contains("2026-07-28"), "{refused}");
}
