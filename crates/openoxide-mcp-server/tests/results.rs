//! What a caller reads that looks at text alone: turns that were interrupted or denied say so first, with who and why.
#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped has failed the test")]

mod support;

use std::sync::Arc;

use openoxide_core::Config;
use openoxide_test_support::{Say, ScriptedModel};
use serde_json::{Value, json};
use support::{
    PATIENCE, Server, add_file, ask_which, call, can_be_asked, legacy, modern, start_codex, start_finishing, start_with,
};
use tokio::sync::Notify;

fn stop_with_reason() -> Value {
    json!({ "action": "accept", "content": { "decision": "deny_and_stop", "reason": "too risky" } })
}

/// Answers the next question.
async fn answer(server: &mut Server, answer: Value) {
    let question = server.client.until("elicitation/create").await;
    server.client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
}

/// The text block and the structured content of a result, which have to say the same.
fn said(result: &Value) -> String {
    let content = result["structuredContent"]["content"].as_str().unwrap();
    assert!(result["content"][0]["text"].as_str().unwrap().starts_with(content), "{result}");
    content.to_owned()
}

#[tokio::test]
async fn a_denied_turn_says_first_who_denied_what_and_why() {
    let model = ScriptedModel::new([Say::Patch(add_file("a.txt")), Say::Text("not reached"), Say::Text("on")]);
    let mut server = legacy(model, can_be_asked()).await;
    server.client.request(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    answer(&mut server, stop_with_reason()).await;
    let reply = server.client.answer(1).await;
    let expected = "The turn was interrupted before it finished: client test denied `patch a.txt` and ended the turn, \
                    saying: too risky.";
    assert_eq!(said(reply.result()), expected);
    let denial = json!({ "what": "patch a.txt", "reason": "declined", "note": "too risky" });
    assert_eq!(reply.output()["denials"], json!([denial]));
}

#[tokio::test]
async fn a_codex_host_reads_the_same() {
    let model = ScriptedModel::new([Say::Patch(add_file("a.txt")), Say::Text("not reached")]);
    let mut server = start_codex(model).await;
    server.client.initialize("2025-06-18", can_be_asked()).await;
    let arguments = json!({ "prompt": "p", "approval-policy": "untrusted" });
    server.client.request(1, "tools/call", call("codex", arguments)).await;
    answer(&mut server, json!({ "action": "accept", "decision": "abort", "reason": "too risky" })).await;
    let reply = server.client.answer(1).await;
    let content = said(reply.result());
    assert!(content.contains("interrupted") && content.ends_with("saying: too risky."), "{content}");
}

#[tokio::test]
async fn an_interrupted_turn_says_so_before_what_the_agent_had_said() {
    let never = Arc::new(Notify::new());
    let input = json!({ "plan": [{ "step": "one", "status": "pending" }] }).to_string();
    let script = [Say::TextAndCall("I will look", "update_plan", input), Say::Wait(never, "unreached")];
    let mut server = legacy(ScriptedModel::new(script), json!({})).await;
    server.client.request(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    let thread = loop {
        let message = server.client.until("notifications/message").await;
        if message["params"]["data"]["type"] == "plan" {
            break message["params"]["_meta"]["threadId"].clone();
        }
    };
    let arguments = json!({ "thread_id": thread, "interrupt": true });
    server.client.request(2, "tools/call", call("openoxide-reply", arguments)).await;
    let reply = server.client.answer(1).await;
    let expected = "The turn was interrupted before it finished: a caller ended it.\n\nI will look";
    assert_eq!(said(reply.result()), expected);
    assert_eq!(reply.output()["status"], "interrupted");
}

#[tokio::test]
async fn a_lost_connection_is_a_denial_that_says_so() {
    let script = || ScriptedModel::new([Say::Patch(add_file("a.txt")), Say::Text("went on")]);
    let mut server = legacy(script(), can_be_asked()).await;
    server.client.request(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    server.client.until("elicitation/create").await;
    server.client.close().await;
    let reply = server.client.answer(1).await;
    assert_eq!(reply.output()["denials"][0]["reason"], "disconnected", "{}", reply.message);
    assert!(said(reply.result()).contains("interrupted before it finished: the client ended the input"));

    // Where calls finish first, the turn goes on without it.
    let mut server = start_finishing(script()).await;
    server.client.initialize("2025-06-18", can_be_asked()).await;
    server.client.request(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    server.client.until("elicitation/create").await;
    server.client.close().await;
    let reply = server.client.answer(1).await;
    assert_eq!(reply.output()["denials"][0]["reason"], "disconnected", "{}", reply.message);
    assert_eq!((&reply.output()["status"], said(reply.result())), (&json!("completed"), "went on".to_owned()));
}

#[tokio::test]
async fn what_a_thread_begins_with_is_told_once_with_clean_directories() {
    let mut server = legacy(ScriptedModel::new([]), json!({})).await;
    std::fs::create_dir(server.cwd.path().join("sub")).unwrap();
    let arguments = json!({ "prompt": "p", "cwd": "./sub/", "sandbox": "danger-full-access" });
    let reply = server.client.ask(1, "tools/call", call("openoxide", arguments)).await;
    let begun: Vec<&Value> =
        reply.before.iter().filter(|message| message["params"]["data"]["type"] == "thread_started").collect();
    let [begun] = begun[..] else { panic!("{:#?}", reply.before) };
    let (data, sub) = (&begun["params"]["data"], server.cwd.path().join("sub"));
    assert_eq!((&data["model"], &data["sandbox"]), (&json!("scripted"), &json!("danger-full-access")));
    assert_eq!((&data["approvalPolicy"], &data["cwd"]), (&json!("untrusted"), &json!(sub)));
    assert_eq!((&reply.output()["cwd"], &reply.output()["sandbox"]), (&json!(sub), &json!("danger-full-access")));
    let arguments = json!({ "thread_id": reply.output()["threadId"], "prompt": "more" });
    let more = server.client.ask(2, "tools/call", call("openoxide-reply", arguments)).await;
    assert!(more.before.iter().all(|message| message["params"]["data"]["type"] != "thread_started"));
}

#[tokio::test]
async fn a_question_about_a_command_names_its_directory_without_a_slash() {
    let command = json!({ "cmd": "touch x" }).to_string();
    let script = [Say::Call("exec_command", command), Say::Text("done")];
    let mut server = legacy(ScriptedModel::new(script), can_be_asked()).await;
    server.client.request(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    let question = server.client.until("elicitation/create").await;
    assert_eq!(question["params"]["_meta"]["openoxide/approval"]["cwd"], json!(server.cwd.path()));
    let place = format!("Run in {}: touch x\n", server.cwd.path().display());
    assert!(question["params"]["message"].as_str().unwrap().contains(&place), "{question}");
}

#[tokio::test]
async fn a_question_names_the_place_that_is_written_and_each_file_has_its_diff() {
    let patch = "*** Begin Patch\n*** Update File: sub/a.txt\n*** Move to: sub/b.txt\n@@\n-one\n+two\n\
                 *** Add File: sub/c.txt\n+new\n*** End Patch\n";
    let in_sub = patch.replace("sub/", "");
    let command = json!({ "cmd": format!("cd sub && apply_patch <<'EOF'\n{in_sub}EOF\n") }).to_string();
    for step in [Say::Patch(patch.to_owned()), Say::Call("exec_command", command)] {
        let mut server = legacy(ScriptedModel::new([step, Say::Text("done")]), can_be_asked()).await;
        let sub = server.cwd.path().join("sub");
        std::fs::create_dir(&sub).unwrap();
        std::fs::write(sub.join("a.txt"), "one\n").unwrap();
        server.client.request(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
        let question = server.client.until("elicitation/create").await;
        let (message, details) =
            (question["params"]["message"].as_str().unwrap(), &question["params"]["_meta"]["openoxide/approval"]);
        assert!(message.contains("update sub/a.txt -> sub/b.txt"), "{message}");
        let fact = "OUTSIDE THE SANDBOX: Change 2 files (+2 -1): sub/a.txt -> sub/b.txt, sub/c.txt\n";
        assert!(message.starts_with(fact) && message.contains("-one\n+two\nadd sub/c.txt\n"), "{message}");
        let changes = details["changes"].as_array().unwrap();
        assert_eq!(changes[0]["moveTo"], "sub/b.txt");
        let diff = |at: usize| changes[at]["diff"].as_str().unwrap();
        assert!(diff(0).contains("-one\n+two") && !diff(0).contains("new"), "{}", diff(0));
        assert!(diff(1).contains("+++ b/sub/c.txt"), "{}", diff(1));
        assert_eq!(details["diff"], diff(0).to_owned() + diff(1));
        let yes = json!({ "action": "accept", "content": { "decision": "approve" } });
        server.client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": yes })).await;
        let reply = server.client.answer(1).await;
        assert_eq!(reply.output()["filesChanged"], json!(["sub/a.txt", "sub/b.txt", "sub/c.txt"]));
        let diffs = reply.output()["fileDiffs"].as_array().unwrap();
        assert!(diffs.iter().map(|one| &one["path"]).eq(reply.output()["filesChanged"].as_array().unwrap()));
        let whole: String = diffs.iter().map(|one| one["diff"].as_str().unwrap()).collect();
        assert_eq!(reply.output()["diff"], whole);
        assert_eq!(std::fs::read_to_string(sub.join("b.txt")).unwrap(), "two\n");
    }
}

#[tokio::test]
async fn an_answer_faster_than_a_person_is_the_hosts_own_in_both_eras() {
    let model = || ScriptedModel::new([Say::Patch(add_file("a.txt")), Say::Text("left it")]);
    // Longer than any test takes, so that every answer is too fast.
    let slow_people = |config: &mut Config| config.person_takes = 10 * PATIENCE;
    for answer in [json!({ "action": "decline" }), json!({ "action": "cancel" })] {
        let mut server = start_with(model(), slow_people).await;
        server.client.initialize("2025-06-18", can_be_asked()).await;
        server.client.request(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
        self::answer(&mut server, answer.clone()).await;
        let legacy = server.client.answer(1).await;

        let mut server = start_with(model(), slow_people).await;
        let mut params = modern(call("openoxide", json!({ "prompt": "p" })), can_be_asked());
        let asked = server.client.ask(1, "tools/call", params.clone()).await;
        let key = asked.result()["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        params["requestState"] = asked.result()["requestState"].clone();
        params["inputResponses"] = json!({ key: answer });
        for reply in [legacy, server.client.ask(2, "tools/call", params).await] {
            assert_eq!(reply.output()["status"], "completed", "{reply:?}");
            let text = reply.result()["content"][0]["text"].as_str().unwrap();
            let note = reply.output()["denials"][0]["note"].as_str().unwrap();
            assert!(text.contains(note) && note.contains("the host declined at once"), "{text}");
            assert!(note.contains("approval_policy \"on-request\"") && note.contains("operator"), "{note}");
        }
    }
}

#[tokio::test]
async fn a_reply_after_running_begins_with_what_the_turn_is_at() {
    let question = ask_which("Which database?");
    let script = [Say::Call("request_user_input", question), Say::Text("done")];
    let mut server = legacy(ScriptedModel::new(script), can_be_asked()).await;
    let first = call("openoxide", json!({ "prompt": "p", "wait_seconds": 30 }));
    server.client.request(1, "tools/call", first).await;
    let asked = server.client.until("elicitation/create").await;
    let thread = &asked["params"]["_meta"]["openoxide/approval"]["threadId"];
    let mut reply = call("openoxide-reply", json!({ "thread_id": thread }));
    reply["_meta"] = json!({ "progressToken": "second" });
    server.client.request(2, "tools/call", reply).await;
    let progress = server.client.until("notifications/progress").await;
    assert_eq!(progress["params"]["message"], "waiting for an answer", "{progress}");
}

#[tokio::test]
async fn the_directory_is_not_left_to_a_server_of_several_callers() {
    let many = |config: &mut Config| config.limits.owners = 2;
    let mut server = start_with(ScriptedModel::new([Say::Text("done"), Say::Text("done")]), many).await;
    server.client.initialize("2025-06-18", can_be_asked()).await;
    for (tool, arguments) in [("openoxide", json!({ "prompt": "p" })), ("openoxide-query", json!({ "query": "q" }))] {
        let refused = server.client.ask(1, "tools/call", call(tool, arguments)).await;
        let text = refused.result()["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("cwd is missing") && text.contains("send cwd"), "{text}");
        assert_eq!(refused.result()["isError"], true);
    }
    let arguments = json!({ "prompt": "p", "cwd": server.cwd.path() });
    let done = server.client.ask(2, "tools/call", call("openoxide", arguments)).await;
    assert_eq!(done.output()["status"], "completed", "{done:?}");
    // A question on a thread is asked where the thread works.
    let arguments = json!({ "query": "q", "thread_id": done.output()["threadId"] });
    let asked = server.client.ask(3, "tools/call", call("openoxide-query", arguments)).await;
    assert_eq!(asked.output()["status"], "completed", "{asked:?}");
}
