//! Threads that last: after a restart, after a crash, in another process, and on the command line.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use support::{Server, eventually, openoxide};

struct House {
    home: tempfile::TempDir,
    work: tempfile::TempDir,
}

impl House {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), work: tempfile::tempdir().unwrap() }
    }

    fn server(&self, arguments: &[&str]) -> Server {
        Server::start_in(self.home.path(), json!({}), arguments)
    }

    /// Runs a turn on a new thread; its id.
    fn start(&self, server: &mut Server, prompt: &str) -> String {
        let call = server
            .call("openoxide", json!({ "prompt": prompt, "cwd": self.work.path(), "config": { "max_steps": 7 } }));
        let result = server.result(call);
        assert_eq!(result["status"], "completed", "{result}");
        result["threadId"].as_str().unwrap().to_owned()
    }

    fn threads(&self, arguments: &[&str]) -> (String, String, bool) {
        let output = openoxide(self.home.path()).arg("threads").args(arguments).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr), output.status.success())
    }

    fn rollouts(&self) -> Vec<PathBuf> {
        fn below(directory: &Path, found: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    below(&path, found);
                } else if entry.file_name().to_string_lossy().starts_with("rollout-") {
                    found.push(path);
                }
            }
        }
        let mut found = Vec::new();
        below(&self.home.path().join("sessions"), &mut found);
        found
    }
}

fn reply(server: &mut Server, thread: &str, prompt: &str) -> Value {
    let call = server.call("openoxide-reply", json!({ "thread_id": thread, "prompt": prompt }));
    server.answer(call)["result"].clone()
}

#[test]
fn a_thread_goes_on_after_a_restart_with_all_it_was() {
    let house = House::new();
    let mut first = house.server(&[]);
    let thread = house.start(&mut first, "run `touch one.txt`");
    first.close_input();
    assert!(first.wait_exit().success());

    let mut second = house.server(&[]);
    // The last result is there, and a query reads the history.
    let call = second.call("openoxide-reply", json!({ "thread_id": thread }));
    assert_eq!(second.result(call)["status"], "completed");
    let call = second.call("openoxide-query", json!({ "thread_id": thread, "query": "list the files" }));
    assert_eq!(second.answer(call)["result"]["isError"], false);
    let result = reply(&mut second, &thread, "run `touch two.txt`");
    assert_eq!(result["structuredContent"]["threadId"], thread);
    assert!(house.work.path().join("one.txt").exists() && house.work.path().join("two.txt").exists());
    let unknown = reply(&mut second, "01a1fc7a-8d1f-75f7-89b7-18c906dd0c5b", "hello");
    assert!(unknown["content"][0]["text"].as_str().unwrap().contains("threads list"), "{unknown}");
}

#[test]
fn replies_that_have_to_wait_for_the_disk_keep_their_order() {
    let house = House::new();
    let mut first = house.server(&[]);
    let thread = house.start(&mut first, "run `true`");
    first.close_input();
    first.wait_exit();
    let mut second = house.server(&[]);
    let calls: Vec<u64> = (0..8)
        .map(|number| {
            let prompt = format!("run `echo {number} >> order.txt`");
            second.call("openoxide-reply", json!({ "thread_id": thread, "prompt": prompt }))
        })
        .collect();
    for call in calls {
        assert_eq!(second.result(call)["status"], "completed");
    }
    let order = std::fs::read_to_string(house.work.path().join("order.txt")).unwrap();
    assert_eq!(order, "0\n1\n2\n3\n4\n5\n6\n7\n");
}

#[test]
fn two_servers_of_one_home_share_what_is_idle_and_wait_for_what_is_in_use() {
    let house = House::new();
    let mut first = house.server(&[]);
    let thread = house.start(&mut first, "run `true`");
    let mut second = house.server(&[]);
    // What is idle is free at once, both ways, and each has what the other added.
    for (number, server) in [(1, 0), (2, 1), (3, 0)] {
        let server = if server == 0 { &mut second } else { &mut first };
        let result = reply(server, &thread, &format!("run `touch {number}`"));
        assert_eq!(result["isError"], false, "{result}");
    }
    let shown = house.threads(&["show", &thread]).0;
    let places: Vec<_> = ["touch 1", "touch 2", "touch 3"].iter().map(|text| shown.find(text)).collect();
    assert!(places.is_sorted() && places.iter().all(Option::is_some), "{shown}");

    // What is in use is named, with the client, and can be forked, and waited for.
    let running = first.call("openoxide-reply", json!({ "thread_id": thread, "prompt": "run `sleep 311`" }));
    eventually("the command runs", || first.runs("sleep 311"));
    let busy = reply(&mut second, &thread, "run `true`");
    let text = busy["content"][0]["text"].as_str().unwrap().to_owned();
    let named = format!("in use by process {} for client e2e", first.pid());
    assert!(busy["isError"] == true && text.contains(&named) && text.contains("wait_seconds"), "{text}");
    assert!(!house.threads(&["delete", &thread]).2 && !house.threads(&["archive", &thread]).2);
    let (fork, _, done) = house.threads(&["fork", &thread]);
    assert!(done && fork.trim() != thread);
    assert_eq!(reply(&mut second, fork.trim(), "run `touch forked`")["isError"], false);
    // A call that is cancelled while it waits holds nobody up and does nothing.
    let patient = support::PATIENCE.as_secs() * 10;
    let given_up = json!({ "thread_id": thread, "prompt": "run `touch given-up`", "wait_seconds": patient });
    let given_up = second.call("openoxide-reply", given_up);
    second.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": given_up } }));
    assert_eq!(reply(&mut second, &thread, "run `true`")["isError"], true);
    let waiting =
        json!({ "thread_id": thread, "prompt": "run `touch waited`", "wait_seconds": support::PATIENCE.as_secs() });
    let waiting = second.call("openoxide-reply", waiting);
    // An answer of the second server that comes after it shows that it was taken.
    reply(&mut second, fork.trim(), "run `true`");
    assert!(!second.has_answered(waiting) && !house.work.path().join("waited").exists());
    first.call("openoxide-reply", json!({ "thread_id": thread, "interrupt": true }));
    assert_eq!(first.result(running)["status"], "interrupted");
    assert_eq!(second.result(waiting)["status"], "completed");
    assert!(house.work.path().join("waited").exists() && !house.work.path().join("given-up").exists());
    assert!(!second.has_answered(given_up));
    // The end of either takes nothing from the other.
    first.close_input();
    first.wait_exit();
    assert_eq!(reply(&mut second, &thread, "run `touch last`")["isError"], false);
}

#[test]
fn a_command_in_the_background_is_use_and_undo_and_delete_are_noticed() {
    let house = House::new();
    let mut first = house.server(&[]);
    let mut second = house.server(&[]);
    let thread = house.start(&mut first, "run `touch kept; sleep 312 >/dev/null 2>&1 &`");
    eventually("the command runs", || first.runs("sleep 312"));
    let busy = reply(&mut second, &thread, "run `true`");
    let text = busy["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("background command") && text.contains("sleep 312"), "{text}");
    let (_, told, done) = house.threads(&["delete", &thread]);
    assert!(!done && told.contains("sleep 312"), "{told}");
    // Closing ends the command, and frees the thread.
    let close = first.call("openoxide-reply", json!({ "thread_id": thread, "close": true }));
    first.answer(close);
    let free =
        json!({ "thread_id": thread, "prompt": "run `touch free`", "wait_seconds": support::PATIENCE.as_secs() });
    let free = second.call("openoxide-reply", free);
    assert_eq!(second.result(free)["status"], "completed");
    assert!(!first.runs("sleep 312"));

    // The second server has the thread in memory, idle. What is done to it meanwhile it notices.
    let (told, error, done) = house.threads(&["undo", &thread]);
    assert!(done && told.contains("free") && !house.work.path().join("free").exists(), "{told}{error}");
    assert_eq!(reply(&mut second, &thread, "run `true`")["isError"], false);
    let lines = house.threads(&["export", &thread]).0;
    let (undone, after) = (lines.find("<changes_undone>").unwrap(), lines.rfind("run `true`").unwrap());
    assert!(undone < after, "the model is told before the next prompt");
    assert!(house.threads(&["archive", &thread]).2);
    let text = reply(&mut second, &thread, "run `true`")["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("is archived") && text.contains("--undo"), "{text}");
    assert!(house.threads(&["archive", "--undo", &thread]).2);
    assert_eq!(reply(&mut second, &thread, "run `true`")["isError"], false);
    assert!(house.threads(&["delete", &thread]).2);
    let text = reply(&mut second, &thread, "run `true`")["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("is not known") && house.rollouts().is_empty(), "{text}");
}

#[test]
fn threads_that_ended_or_were_cancelled_leave_no_descriptor_open() {
    let house = House::new();
    let mut server = house.server(&[]);
    let pid = server.pid();
    let descriptors = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let round = |server: &mut Server, name: &str| {
        house.start(server, &format!("run `echo {name}`"));
        let arguments = json!({ "prompt": format!("run `touch {name}; sleep 313`"), "cwd": house.work.path() });
        let call = server.call("openoxide", arguments);
        eventually("the command runs", || house.work.path().join(name).exists());
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": call } }));
    };
    round(&mut server, "first");
    eventually("nothing runs", || !server.runs("sleep 313"));
    let before = descriptors();
    for number in 0..12 {
        round(&mut server, &number.to_string());
    }
    eventually("nothing runs", || !server.runs("sleep 313"));
    eventually("as many are open as before", || descriptors() <= before);
    assert_eq!(house.rollouts().len(), 26, "each thread is kept");
    let locks = || std::fs::read_dir(house.home.path().join("run/threads")).unwrap().count();
    eventually("none is locked", || locks() == 0);
}

#[test]
fn a_thread_that_was_announced_is_there_after_a_kill_at_that_moment() {
    let house = House::new();
    for round in 0..8 {
        let mut first = house.server(&[]);
        let prompt = json!({ "prompt": format!("run `echo {round}`"), "cwd": house.work.path() });
        let call = first.call("openoxide", prompt);
        let thread = first.thread_of(call);
        first.kill();
        let mut second = house.server(&[]);
        let result = reply(&mut second, &thread, "run `true`");
        assert_eq!(result["isError"], false, "{result}");
        // The turn that was announced is told of, however far it got.
        let lines = house.threads(&["export", &thread]).0;
        for kind in ["\"turn_context\"", "\"turn_ended\""] {
            assert_eq!(lines.matches(kind).count(), 2, "{lines}");
        }
    }
}

#[test]
fn a_crash_in_a_turn_is_told_and_the_thread_goes_on() {
    let house = House::new();
    let mut first = house.server(&[]);
    let thread = house.start(&mut first, "run `true`");
    first.call("openoxide-reply", json!({ "thread_id": thread, "prompt": "run `sleep 307`" }));
    eventually("the command runs", || first.runs("sleep 307"));
    first.kill();
    first.expect_nothing_left();

    let mut second = house.server(&[]);
    let call = second.call("openoxide-reply", json!({ "thread_id": thread }));
    let last = second.answer(call)["result"]["structuredContent"].clone();
    assert_eq!(last["status"], "interrupted", "{last}");
    assert!(last["content"].as_str().unwrap().contains("the program ended"), "{last}");
    assert_eq!(reply(&mut second, &thread, "run `touch after.txt`")["isError"], false);
    assert!(house.work.path().join("after.txt").exists());
    second.close_input();
    second.wait_exit();
    let (shown, _, _) = house.threads(&["show", &thread]);
    assert!(shown.contains("sleep 307") && shown.contains("interrupted"), "{shown}");
}

#[test]
fn the_command_line_lists_shows_puts_aside_and_deletes() {
    let house = House::new();
    let mut server = house.server(&[]);
    let thread = house.start(&mut server, "run `echo said-<b>`");
    let other = house.start(&mut server, "run `echo other`");
    server.close_input();
    server.wait_exit();
    let (list, _, _) = house.threads(&["list"]);
    assert!(list.lines().count() == 2 && list.contains("run `echo said-<b>`"), "{list}");
    let json: Value = serde_json::from_str(house.threads(&["list", "--json", "--limit", "1"]).0.trim()).unwrap();
    assert_eq!((json["id"].as_str().unwrap(), json["prompt"].as_str().unwrap()), (other.as_str(), "run `echo other`"));
    let text = house.threads(&["show", &thread]).0;
    assert!(text.contains("\n    exit code: 2\n    wall time: ") && !text.contains("$'"), "lines stay lines: {text}");
    let page = house.threads(&["show", "--html", &thread]).0;
    assert!(page.contains("said-&lt;b&gt;") && !page.contains("said-<b>"), "{page}");
    let lines = house.threads(&["export", &thread]).0;
    assert!(lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()) && lines.contains("session_meta"));
    assert!(house.threads(&["archive", &thread]).2 && !house.threads(&["list"]).0.contains(&thread));
    assert!(house.threads(&["list", "--archived"]).0.contains(&thread));
    assert!(house.threads(&["archive", "--undo", &thread]).2 && house.threads(&["list"]).0.contains(&thread));
    assert!(house.threads(&["delete", &thread]).2 && house.rollouts().len() == 1);
    // Ids of one moment begin alike, so that a beginning is asked for more of.
    let (_, told, done) = house.threads(&["show", "zz"]);
    assert!(!done && told.contains("threads list"), "{told}");
    assert!(house.threads(&["show", &other[..other.len() - 1]]).2);
}

#[test]
fn no_name_reaches_the_terminal_as_it_is() {
    let house = House::new();
    let cwd = house.work.path().join("a\u{1b}]0;owned\u{7}\u{202e}b\u{9b}2Jc");
    std::fs::create_dir(&cwd).unwrap();
    let mut server = house.server(&[]);
    let call = server.call("openoxide", json!({ "prompt": "run `touch 'x\u{1b}[2Ky'`", "cwd": cwd }));
    let thread = server.result(call)["threadId"].as_str().unwrap().to_owned();
    server.close_input();
    assert!(server.wait_exit().success());
    let is_plain = |text: &str| !text.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}'));
    std::fs::remove_dir_all(&cwd).unwrap();
    for (arguments, shows_it) in [
        (&["list"][..], true),
        (&["show", &thread], true),
        (&["undo", &thread], false),
        (&["delete", "a\u{1b}[2K"], false),
    ] {
        let (out, errors, _) = house.threads(arguments);
        assert!(is_plain(&out) && is_plain(&errors), "{arguments:?}: {out:?} {errors:?}");
        assert!(!shows_it || out.contains("\\033]0;owned"), "{arguments:?}: {out:?}");
    }
    let missing = openoxide(house.home.path()).args(["-C", cwd.to_str().unwrap(), "doctor"]).output().unwrap();
    let told = String::from_utf8(missing.stderr).unwrap();
    assert!(is_plain(&told) && told.contains("cannot work in"), "{told:?}");
}

#[test]
fn who_decided_a_question_is_shown() {
    let house = House::new();
    let decline = |milliseconds: u32, tool: &str, mut arguments: Value| {
        let takes = format!("mcp_server.person_takes_ms={milliseconds}");
        let mut asked = Server::start_in(house.home.path(), json!({ "elicitation": {} }), &["-c", &takes]);
        arguments["prompt"] = json!("run `touch a`");
        let call = asked.call(tool, arguments);
        let question = asked.wait_for("the question", |message| message["method"] == "elicitation/create");
        asked.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } }));
        let result = asked.result(call).clone();
        asked.close_input();
        asked.wait_exit();
        result
    };
    let result = decline(0, "openoxide", json!({ "cwd": house.work.path(), "approval_policy": "untrusted" }));
    assert!(result["denials"][0].get("note").is_none(), "{result:#}");
    let thread = result["threadId"].as_str().unwrap().to_owned();
    // An hour, so that every answer is too fast for a person.
    let result = decline(3_600_000, "openoxide-reply", json!({ "thread_id": thread }));
    assert!(result["denials"][0]["note"].as_str().unwrap().contains("the host declined at once"), "{result:#}");
    let mut unasked = house.server(&[]);
    reply(&mut unasked, &thread, "run `touch b`");
    unasked.close_input();
    unasked.wait_exit();
    for arguments in [vec!["show", &thread], vec!["show", "--html", &thread]] {
        let shown = house.threads(&arguments).0;
        assert!(shown.contains("denied: declined (by client e2e)"), "{shown}");
        assert!(shown.contains("denied: declined (by host e2e at once)"), "{shown}");
        assert!(shown.contains("approved (by approval strategy auto-within-policy)"), "{shown}");
    }
}

#[test]
fn an_ephemeral_server_keeps_nothing() {
    let house = House::new();
    let mut server = house.server(&["--ephemeral"]);
    house.start(&mut server, "run `true`");
    server.close_input();
    server.wait_exit();
    assert!(house.rollouts().is_empty());
}

#[test]
fn a_thread_does_not_outlive_what_the_operator_allows() {
    let house = House::new();
    let mut first = house.server(&[]);
    let thread = house.start(&mut first, "run `true`");
    first.close_input();
    first.wait_exit();
    let mut second = house.server(&["--max-sandbox", "read-only"]);
    let refused = reply(&mut second, &thread, "run `true`");
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(refused["isError"] == true && text.contains("workspace-write") && text.contains("--max-sandbox"), "{text}");
}

#[test]
fn threads_are_resources_to_look_at() {
    let house = House::new();
    let mut server = house.server(&[]);
    let thread = house.start(&mut server, "create `made.txt` with `hello`; run `echo said-it`");
    let ask = |server: &mut Server, method: &str, params: Value| {
        let request = server.request(method, params);
        server.answer(request)
    };
    let uri = format!("openoxide://threads/{thread}");
    let list = ask(&mut server, "resources/list", json!({}))["result"].clone();
    let uris: Vec<&str> =
        list["resources"].as_array().unwrap().iter().map(|one| one["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, ["openoxide://threads", uri.as_str()]);
    assert!(list["resources"][1]["title"].as_str().unwrap().contains("made.txt") && list["nextCursor"].is_null());
    let templates = ask(&mut server, "resources/templates/list", json!({}))["result"]["resourceTemplates"].clone();
    assert_eq!(templates[1]["uriTemplate"], "openoxide://threads/{id}/diff");
    let text = |server: &mut Server, uri: &str| {
        let answer = ask(server, "resources/read", json!({ "uri": uri }));
        answer["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer:#}")).to_owned()
    };
    assert!(text(&mut server, "openoxide://threads").contains(&thread));
    assert!(text(&mut server, &uri).contains("said-it"));
    assert!(text(&mut server, &format!("{uri}/diff")).contains("+hello"));
    for bad in
        ["openoxide://threads/x", "file:///etc/passwd", "openoxide://threads/01a1fc7a-8d1f-75f7-89b7-18c906dd0c5b"]
    {
        assert_eq!(ask(&mut server, "resources/read", json!({ "uri": bad }))["error"]["code"], -32002, "{bad}");
    }
    assert_eq!(ask(&mut server, "resources/list", json!({ "cursor": "x" }))["error"]["code"], -32602);
    // What the operator keeps to other directories is not shown either.
    let elsewhere = tempfile::tempdir().unwrap();
    let mut other = house.server(&["--allow-root", elsewhere.path().to_str().unwrap()]);
    let list = ask(&mut other, "resources/list", json!({}));
    assert_eq!(list["result"]["resources"].as_array().unwrap().len(), 1);
    assert_eq!(ask(&mut other, "resources/read", json!({ "uri": uri }))["error"]["code"], -32002);
}

#[test]
fn who_subscribed_is_told_when_a_thread_changes() {
    let house = House::new();
    let mut server = house.server(&[]);
    let thread = house.start(&mut server, "run `true`");
    let uri = format!("openoxide://threads/{thread}");
    let ask = |server: &mut Server, method: &str, params: Value| {
        let request = server.request(method, params);
        server.answer(request)
    };
    // Legacy: a resource, and the list once it was read.
    ask(&mut server, "resources/list", json!({}));
    assert!(ask(&mut server, "resources/subscribe", json!({ "uri": uri }))["error"].is_null());
    assert_eq!(ask(&mut server, "resources/subscribe", json!({ "uri": "file:///x" }))["error"]["code"], -32002);
    // Modern: one request that stays open, and is acknowledged first.
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let wanted =
        json!({ "toolsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": [uri, "file:///x"] });
    let listen = server.request("subscriptions/listen", json!({ "_meta": meta, "notifications": wanted }));
    let id = "io.modelcontextprotocol/subscriptionId";
    let acknowledged = server
        .wait_for("the acknowledgement", |message| message["method"] == "notifications/subscriptions/acknowledged");
    let served = json!({ "resourcesListChanged": true, "resourceSubscriptions": [uri] });
    assert_eq!(acknowledged["params"], json!({ "_meta": { id: listen }, "notifications": served }));

    reply(&mut server, &thread, "run `true`");
    for is_modern in [false, true] {
        server.wait_for("news of the thread", |message| {
            let params = &message["params"];
            message["method"] == "notifications/resources/updated"
                && params["uri"] == uri.as_str()
                && (params["_meta"][id] == listen) == is_modern
        });
    }
    house.start(&mut server, "run `true`");
    for is_modern in [false, true] {
        server.wait_for("news of the list", |message| {
            message["method"] == "notifications/resources/list_changed"
                && (message["params"]["_meta"][id] == listen) == is_modern
        });
    }
    // One that is cancelled says nothing more, one that the server ends is answered.
    let second = server.request("subscriptions/listen", json!({ "_meta": meta, "notifications": {} }));
    server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": second } }));
    server.close_input();
    let end = server.answer(listen);
    assert_eq!((&end["result"]["resultType"], &end["result"]["_meta"][id]), (&json!("complete"), &json!(listen)));
    assert!(server.wait_exit().success() && !server.has_answered(second));
}

#[test]
fn what_commands_change_is_in_the_result() {
    let house = House::new();
    std::fs::write(house.work.path().join("kept.txt"), "old\n").unwrap();
    std::fs::write(house.work.path().join("gone.txt"), "gone\n").unwrap();
    let mut server = house.server(&[]);
    let prompt = "run `echo new > kept.txt; rm gone.txt; mkdir -p deep; echo made > deep/made.txt; printf '\\000' > made.bin`; \
                  create `patched.txt` with `hello`; run `cat kept.txt`";
    let call = server.call("openoxide", json!({ "prompt": prompt, "cwd": house.work.path() }));
    let answer = server.answer(call)["result"].clone();
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("\n1 file changed by commands, binary or not shown: made.bin\n"), "{text}");
    let result = &answer["structuredContent"];
    assert_eq!(result["binaryFiles"], json!(["made.bin"]));
    let mut files: Vec<&str> =
        result["filesChanged"].as_array().unwrap().iter().map(|file| file.as_str().unwrap()).collect();
    files.sort_unstable();
    assert_eq!(files, ["deep/made.txt", "gone.txt", "kept.txt", "patched.txt"], "{result:#}");
    let diff = result["diff"].as_str().unwrap();
    for line in ["-old", "+new", "-gone", "+made", "+hello"] {
        assert!(diff.lines().any(|shown| shown == line), "{line} is not in {diff}");
    }
    // A turn that only reads changes nothing.
    let call = server.call("openoxide-reply", json!({ "thread_id": result["threadId"], "prompt": "run `ls`" }));
    assert_eq!(server.result(call)["filesChanged"].as_array().map_or(0, Vec::len), 0);
}

#[test]
fn the_changes_of_a_turn_are_taken_back_where_nobody_has_changed_them_since() {
    let house = House::new();
    let file = |name: &str| house.work.path().join(name);
    for name in ["kept.txt", "gone.txt", "mine.txt"] {
        std::fs::write(file(name), format!("{name}\n")).unwrap();
    }
    let mut server = house.server(&[]);
    let prompt = "run `echo new > kept.txt; rm gone.txt; echo new > mine.txt; echo made > made.txt`; create `patched.txt` with `x`";
    let thread = house.start(&mut server, prompt);
    std::fs::write(file("mine.txt"), "mine\n").unwrap();
    let (would, _, _) = house.threads(&["undo", "--dry-run", &thread]);
    assert!(would.contains("would restore") && file("made.txt").exists(), "{would}");
    let (told, error, done) = house.threads(&["undo", &thread]);
    assert!(done && told.matches("restored ").count() == 4, "{told}{error}");
    assert!(told.contains("left alone") && told.contains("mine.txt: it was changed since"), "{told}");
    let read = |name: &str| std::fs::read_to_string(file(name)).unwrap();
    assert_eq!((read("kept.txt").as_str(), read("gone.txt").as_str()), ("kept.txt\n", "gone.txt\n"));
    assert_eq!(read("mine.txt"), "mine\n");
    assert!(!file("made.txt").exists() && !file("patched.txt").exists());
    // A second time nothing is as the turn left it.
    assert!(!house.threads(&["undo", &thread]).0.contains("restored"));
    assert_eq!(reply(&mut server, &thread, "run `true`")["isError"], false);
}

#[test]
fn hosts_with_mcp_apps_get_a_page_that_shows_a_turn() {
    let house = House::new();
    let mut server = house.server(&[]);
    let list = server.request("tools/list", json!({}));
    let tools = server.answer(list)["result"]["tools"].clone();
    let uri = tools[0]["_meta"]["ui"]["resourceUri"].clone();
    assert!(tools[1]["_meta"]["ui"]["resourceUri"] == uri && tools[2]["_meta"]["ui"].is_null(), "{tools}");
    let read = server.request("resources/read", json!({ "uri": uri }));
    let page = server.answer(read)["result"]["contents"][0].clone();
    assert_eq!(page["mimeType"], "text/html;profile=mcp-app");
    assert_eq!(page["_meta"]["ui"]["csp"]["connectDomains"], json!([]));
    let text = page["text"].as_str().unwrap();
    assert!(
        text.starts_with("<!DOCTYPE html>") && !text.contains("http://") && !text.contains("https://"),
        "a page alone"
    );
}

#[test]
fn a_host_that_is_configured_for_codex_finds_its_tools_and_its_threads() {
    let house = House::new();
    let mut server = house.server(&["--compat", "codex"]);
    let arguments = json!({ "prompt": "run `touch made.txt`", "cwd": house.work.path(), "sandbox": "workspace-write" });
    let call = server.call("codex", arguments);
    let answer = server.answer(call)["result"].clone();
    let fields: Vec<&String> = answer["structuredContent"].as_object().unwrap().keys().collect();
    assert!(
        fields.len() == 2 && answer.get("isError").is_none() && house.work.path().join("made.txt").exists(),
        "{answer}"
    );
    let thread = answer["structuredContent"]["threadId"].clone();
    let ran = server.wait_for("its event", |message| message["params"]["msg"]["type"] == "exec_command_end");
    assert_eq!((&ran["method"], &ran["params"]["_meta"]["threadId"]), (&json!("codex/event"), &thread));
    server.close_input();
    server.wait_exit();
    let mut later = house.server(&["--compat", "codex"]);
    let reply = later.call("codex-reply", json!({ "conversationId": thread, "prompt": "run `touch more.txt`" }));
    assert_eq!(later.result(reply)["threadId"], thread);
    // Nothing is configured and nothing was asked for: Codex read only.
    let call = later.call("codex", json!({ "prompt": "run `touch no.txt`", "cwd": house.work.path() }));
    later.result(call);
    assert!(house.work.path().join("more.txt").exists() && !house.work.path().join("no.txt").exists());
}

#[test]
fn a_closed_thread_leaves_no_temporary_files_and_a_reply_waits_for_its_end() {
    let house = House::new();
    let tmp = tempfile::tempdir().unwrap();
    let mut server = Server::start_as(house.home.path(), json!({}), &[], |command| {
        command.env("TMPDIR", tmp.path());
    });
    let files = || std::fs::read_dir(tmp.path()).unwrap().count();
    let thread = house.start(&mut server, "run `touch $TMPDIR/a; stat -c %a $TMPDIR > mode`");
    assert_eq!((files(), std::fs::read_to_string(house.work.path().join("mode")).unwrap().trim()), (1, "700"));
    server
        .call("openoxide-reply", json!({ "thread_id": thread, "prompt": "run `trap '' TERM; sleep 307; sleep 308`" }));
    eventually("the command runs", || server.runs("sleep 307"));
    let close = server.call("openoxide-reply", json!({ "thread_id": thread, "close": true }));
    let next = server.call("openoxide-reply", json!({ "thread_id": thread, "prompt": "run `true`" }));
    server.answer(close);
    assert_eq!(server.answer(next)["result"]["structuredContent"]["status"], "completed");
    let close = server.call("openoxide-reply", json!({ "thread_id": thread, "close": true }));
    server.answer(close);
    eventually("its temporary files are gone", || files() == 0);
}
