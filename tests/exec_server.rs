//! `openoxide exec-server`, the real binary: the founding document's session, its edge cases, sessions, files, and what the
//! operator allows.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

#[path = "exec_server/client.rs"]
mod client;

use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use client::{Client, House, PATIENCE, base64, bytes, resident_kib};
use serde_json::{Value, json};

const ECHO: &str = "printf 'ready\\n'; while IFS= read -r line; do printf 'echo:%s\\n' \"$line\"; done";

#[test]
fn the_session_of_the_founding_document() {
    let house = House::new();
    for (tty, stream) in [(false, "stdout"), (true, "pty")] {
        let mut client = house.raw_stdio(&[]);
        client.initialize(None);
        let mut start = house.script("proc-1", ECHO);
        (start["tty"], start["pipeStdin"], start["arg0"]) = (tty.into(), (!tty).into(), Value::Null);
        assert_eq!(client.ask("process/start", start)["processId"], "proc-1");
        let ready = client.told("process/output", "proc-1");
        assert_eq!((&ready["seq"], &ready["stream"]), (&json!(1), &json!(stream)));
        let write = json!({"processId": "proc-1", "chunk": base64(b"hello\n")});
        assert_eq!(client.ask("process/write", write), json!({"status": "accepted"}));
        let mut said = bytes(&ready["chunk"]);
        let expected: &[u8] = if tty { b"ready\r\nhello\r\necho:hello\r\n" } else { b"ready\necho:hello\n" };
        while said.len() < expected.len() {
            said.extend(bytes(&client.told("process/output", "proc-1")["chunk"]));
        }
        assert_eq!(String::from_utf8_lossy(&said), String::from_utf8_lossy(expected));
        assert_eq!(client.ask("process/terminate", json!({"processId": "proc-1"})), json!({"running": true}));
        let exited = client.told("process/exited", "proc-1");
        let closed = client.told("process/closed", "proc-1");
        assert_eq!(exited["exitCode"], 143);
        assert_eq!(closed["seq"].as_i64().unwrap(), exited["seq"].as_i64().unwrap() + 1);
        assert_eq!(client.ask("process/terminate", json!({"processId": "proc-1"})), json!({"running": false}));
        assert_eq!(client.ask("process/terminate", json!({"processId": "none"})), json!({"running": false}));
    }
}

#[test]
fn what_cannot_be_started_is_refused_and_its_id_is_free_again() {
    let house = House::new();
    std::fs::write(house.work("file"), "").unwrap();
    let mut client = house.stdio(&[]);
    let start = house.script("p", "true");
    let with = |field: &str, value: Value| {
        let mut start = start.clone();
        start[field] = value;
        start
    };
    for (params, code, part) in [
        (with("argv", json!([])), -32602, "argv"),
        (with("argv", json!([""])), -32602, "argv"),
        (with("argv", json!("true")), -32602, "params"),
        (with("argv", json!(["no-such-program"])), -32602, "no-such-program"),
        (with("argv", json!(["a\0b"])), -32602, "NUL"),
        (with("cwd", json!("work")), -32602, "absolute"),
        (with("cwd", json!(house.work("none"))), -32602, "cwd"),
        (with("cwd", json!(house.work("file"))), -32602, "cwd"),
        (with("cwd", json!(house.root.join("outside"))), -32600, "allows"),
        (with("cwd", json!("/")), -32600, "allows"),
        (with("env", json!({"A=B": "1"})), -32602, "A=B"),
        (with("sandbox", json!({"permissions": {"type": "disabled"}})), -32600, "danger-full-access"),
        (with("enforceManagedNetwork", json!(true)), -32600, "proxy"),
    ] {
        let refused = client.refused("process/start", params.clone());
        assert!(refused.0 == code && refused.1.contains(part), "{params}: {refused:?}");
    }
    // The same id, and a field that nobody knows.
    assert_eq!(client.ask("process/start", with("later", json!(1)))["sandboxType"], "linuxSeccomp");
    assert_eq!(client.refused("process/start", start).0, -32600);
    assert_eq!(client.ended("p").2, 0);
}

#[test]
fn a_command_has_the_environment_and_the_name_it_was_given() {
    let house = House::new();
    let mut client = house.stdio(&[]);
    let uri = format!("file://{}", house.work("").display());
    client.ask(
        "process/start",
        json!({"processId": "p", "argv": ["/bin/sh", "-c", "echo $0; pwd; env"], "arg0": "other", "cwd": uri, "env": {}}),
    );
    let (out, _, code) = client.ended("p");
    let out = String::from_utf8(out).unwrap();
    assert_eq!((out.lines().nth(1), code), (house.work("").to_str(), 0));
    assert!(!out.contains("OPENOXIDE"), "{out}");
    for (tty, name) in [(false, "n"), (true, "t")] {
        let mut start = house.script(name, "echo $BASH_ARGV0");
        (start["arg0"], start["tty"]) = ("shell".into(), tty.into());
        client.ask("process/start", start);
        let (out, _, _) = client.ended(name);
        assert_eq!(String::from_utf8(out).unwrap().trim(), "shell");
    }
}

#[test]
fn bytes_come_through_unchanged_and_streams_stay_apart() {
    let house = House::new();
    let mut client = house.stdio(&[]);
    let all: Vec<u8> = (0..=255).collect();
    let mut start = house.script("p", "cat; printf '\\377\\000err' >&2; exit 7");
    start["argv"] = json!(["bash", "-c", "head -c 256; printf '\\377\\000err' >&2; exit 7"]);
    start["pipeStdin"] = true.into();
    client.ask("process/start", start);
    for part in all.chunks(100) {
        client.ask("process/write", json!({"processId": "p", "chunk": base64(part)}));
    }
    let (out, err, code) = client.ended("p");
    assert_eq!((out, err, code), (all, b"\xff\0err".to_vec(), 7));
    let read = client.ask("process/read", json!({"processId": "p", "maxBytes": 1}));
    assert_eq!(read["chunks"].as_array().unwrap().len(), 1, "{read}");
    assert_eq!((&read["exited"], &read["lost"]), (&json!(false), &Value::Null), "more is to be read before");
}

#[test]
fn a_write_is_done_once_and_says_what_became_of_it() {
    let house = House::new();
    let mut client = house.stdio(&[]);
    let mut start = house.script("p", "read -r a; read -r b; echo $a $b");
    start["pipeStdin"] = true.into();
    client.ask("process/start", start);
    let write = |id: &str, text: &str, write: &str| json!({"processId": id, "chunk": base64(text.as_bytes()), "writeId": write});
    for _ in 0..2 {
        assert_eq!(client.ask("process/write", write("p", "one\n", "1"))["status"], "accepted");
    }
    client.ask("process/write", write("p", "two\n", "2"));
    assert_eq!(client.ended("p").0, b"one two\n");
    assert_eq!(client.ask("process/write", write("p", "x", "3"))["status"], "stdinClosed");
    assert_eq!(client.ask("process/write", write("none", "x", "3"))["status"], "unknownProcess");
    let plain = |id: &str| json!({"processId": id, "chunk": base64(b"x")});
    assert_eq!(client.refused("process/write", plain("p")).0, -32600);
    assert_eq!(client.refused("process/write", plain("none")).0, -32600);
    assert_eq!(client.refused("process/write", json!({"processId": "p", "chunk": "!"})).0, -32602);
    client.ask("process/start", house.script("q", "sleep 600"));
    assert_eq!(client.refused("process/write", plain("q")).0, -32600);
    assert_eq!(client.refused("process/read", json!({"processId": "none"})).0, -32600);
    client.ask("process/signal", json!({"processId": "q", "signal": "interrupt"}));
    assert_eq!(client.ended("q").2, 130);
}

#[test]
fn a_long_poll_holds_nobody_up_and_ends_with_what_comes() {
    let house = House::new();
    let server = house.listening(&[]);
    let mut client = server.client();
    let mut start = house.script("p", "read -r line; echo $line; read -r line");
    start["pipeStdin"] = true.into();
    client.ask("process/start", start);
    let poll = |after: i64| json!({"processId": "p", "afterSeq": after, "waitMs": 600_000});
    let waiting = client.send("process/read", poll(0));
    // Answers come while it waits; its own is not among them.
    assert_eq!(client.ask("environment/status", json!({})), json!({"status": "ready"}));
    client.ask("fs/getMetadata", json!({"path": house.work("")}));
    client.ask("process/write", json!({"processId": "p", "chunk": base64(b"x\n")}));
    let read = client.answer(waiting)["result"].clone();
    assert_eq!((&read["nextSeq"], &read["exited"]), (&json!(2), &json!(false)), "{read}");
    let waiting = client.send("process/read", poll(1));
    client.ask("process/write", json!({"processId": "p", "chunk": base64(b"x\n")}));
    assert_eq!(client.answer(waiting)["result"]["exitCode"], 0);
    let read = client.ask("process/read", json!({"processId": "p", "afterSeq": 1, "waitMs": 1}));
    assert_eq!(read["chunks"], json!([]));
    // One that waits does not hold its connection, or the server.
    client.ask("process/start", house.script("q", "sleep 600"));
    client.send("process/read", json!({"processId": "q", "waitMs": 600_000}));
    client.say_goodbye();
    house.nothing_is_left();
}

#[test]
fn a_grandchild_with_the_output_is_told_apart_from_the_exit() {
    let house = House::new();
    let mut client = house.stdio(&[]);
    client.ask(
        "process/start",
        house.script("p", "(trap '' TERM; echo begun; sleep 600; sleep 600) & read -r x < <(sleep 0.2); exit 4"),
    );
    assert_eq!(client.told("process/exited", "p")["exitCode"], 4);
    assert!(!house.processes().is_empty());
    let read = client.ask("process/read", json!({"processId": "p"}));
    assert_eq!((&read["exited"], &read["closed"]), (&json!(true), &json!(false)));
    // It does not heed TERM, so that this takes the two seconds until KILL; three times as much is allowed for.
    let began = Instant::now();
    client.ask("process/terminate", json!({"processId": "p"}));
    client.told("process/closed", "p");
    house.nothing_is_left();
    assert!(began.elapsed() < Duration::from_millis(3 * 2100), "{:?}", began.elapsed());
}

#[test]
fn everything_is_answered_and_the_connection_lives() {
    let house = House::new();
    let mut client = house.raw_stdio(&[]);
    let code = |client: &mut Client, text: &str| {
        client.say(text);
        client.wait(|message| message.get("error").is_some())
    };
    let early = code(&mut client, r#"{"id":"a","method":"environment/info","params":{}}"#);
    assert_eq!((&early["id"], &early["error"]["code"]), (&json!("a"), &json!(-32600)));
    client.initialize(None);
    assert_eq!(client.refused("initialize", json!({"clientName": "x"})).0, -32600);
    assert_eq!(client.refused("process/resize", json!({})).0, -32601);
    assert_eq!(client.refused("environmentConfig/read", json!({})).0, -32601);
    let (code_of_http, why) =
        client.refused("http/request", json!({"method": "GET", "url": "http://127.0.0.1/", "requestId": "1"}));
    assert!(code_of_http == -32600 && why.contains("http/request is off"), "{why}");
    for text in [r#"{"method":"surprise"}"#, r#"{"id":5,"result":{}}"#, r#"[{"id":6,"method":"x"}]"#] {
        let error = code(&mut client, text);
        assert_eq!((&error["id"], &error["error"]["code"]), (&json!(-1), &json!(-32600)), "{text}");
    }
    assert_eq!(code(&mut client, "nonsense")["error"]["code"], -32700);
    for id in ["null", "1.5", "{}"] {
        assert_eq!(code(&mut client, &format!("{{\"id\":{id},\"method\":\"x\"}}"))["error"]["code"], -32600);
    }
    assert_eq!(client.ask("environment/status", json!({}))["status"], "ready");
}

#[test]
fn connections_do_not_share_processes_and_ten_are_served_at_once() {
    let house = House::new();
    let server = house.listening(&[]);
    let mut clients: Vec<Client> = (0..10).map(|_| server.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.ask("process/start", house.script("same", &format!("echo {number}")));
    }
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ended("same").0, format!("{number}\n").as_bytes());
    }
}

#[test]
fn a_lost_client_finds_its_session_again_and_one_that_is_done_leaves_nothing() {
    let house = House::new();
    let server = house.listening(&[]);
    let mut first = server.client();
    first.ask("process/start", house.script("p", "echo kept; sleep 600"));
    first.told("process/output", "p");
    let session = first.session.clone();
    let mut second = server.raw(&[]).unwrap();
    let resume = |session: &str| json!({"clientName": "test", "resumeSessionId": session});
    let refused = second.refused("initialize", resume(&session));
    assert!(refused.0 == -32010 && refused.1.contains("already attached"), "{refused:?}");
    first.cut();
    // The server hears of the end in its time.
    let until = Instant::now() + PATIENCE;
    loop {
        let id = second.send("initialize", resume(&session));
        let answer = second.answer(id);
        if answer.get("result").is_some() {
            assert_eq!(answer["result"]["sessionId"], session);
            break;
        }
        assert!(answer["error"]["code"] == -32010 && Instant::now() < until, "{answer}");
    }
    let read = second.ask("process/read", json!({"processId": "p"}));
    assert_eq!(bytes(&read["chunks"][0]["chunk"]), b"kept\n");
    second.ask("process/terminate", json!({"processId": "p"}));
    second.told("process/closed", "p");
    assert_eq!(server.raw(&[]).unwrap().refused("initialize", resume("unknown")).0, -32600);
    // One that never came back and is done.
    let mut third = server.client();
    third.ask("process/start", house.script("p", "sleep 600"));
    third.say_goodbye();
    house.nothing_is_left();
}

#[test]
fn with_no_time_to_resume_a_session_ends_with_its_connection() {
    let house = House::new();
    let server = house.listening(&["--resume-seconds", "0"]);
    let mut client = server.client();
    client.ask("process/start", house.script("p", "trap '' TERM; sleep 600; sleep 600"));
    client.cut();
    house.nothing_is_left();
}

#[test]
fn kill_9_of_the_server_leaves_nothing() {
    let house = House::new();
    for round in 0..if is_long() { 200 } else { 8 } {
        let mut server = house.listening(&[]);
        let mut client = server.client();
        let mut tty = house.script("t", "(setsid sleep 600 &) ; sleep 600");
        tty["tty"] = true.into();
        let block = json!({"handleId": "h", "offset": 0, "chunk": base64(b"half")});
        let steps = [
            ("process/start", tty),
            ("process/start", house.script("p", "(setsid sleep 600 &) ; sleep 600")),
            ("fs/open", json!({"handleId": "h", "path": house.work("half"), "mode": "replace"})),
            ("fs/writeBlock", block),
        ];
        // Each time at another moment: what is asked for last is not waited for.
        let done = round % steps.len();
        for (number, (method, params)) in steps.into_iter().enumerate().take(done + 1) {
            if number < done {
                client.ask(method, params);
            } else {
                client.send(method, params);
            }
        }
        assert!(done == 0 || !house.processes().is_empty(), "there is something to be left");
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        house.nothing_is_left();
        assert!(!house.work("half").exists(), "round {round}");
        let is_draft = |entry: &std::fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(b".openoxide-");
        let until = Instant::now() + PATIENCE;
        while std::fs::read_dir(house.work("")).unwrap().flatten().any(|entry| is_draft(&entry)) {
            assert!(Instant::now() < until, "what was half written is left");
            std::thread::yield_now();
        }
    }
}

#[test]
fn the_end_of_input_and_a_signal_leave_nothing() {
    let house = House::new();
    let mut client = house.stdio(&[]);
    client.ask("process/start", house.script("p", "sleep 600"));
    client.cut();
    assert!(client.child.as_mut().unwrap().wait().unwrap().success());
    house.nothing_is_left();
    let mut server = house.listening(&[]);
    let mut client = server.client();
    client.ask("process/start", house.script("p", "sleep 600"));
    rustix::process::kill_process(rustix::process::Pid::from_child(&server.child), rustix::process::Signal::TERM)
        .unwrap();
    server.child.wait().unwrap();
    assert!(house.processes().is_empty(), "{:?}", house.processes());
}

#[test]
fn output_that_nobody_reads_costs_a_bound() {
    let size = if is_long() { 100_000_000 } else { 20_000_000 };
    let house = House::new();
    let server = house.listening(&[]);
    let mut client = server.client();
    // Pushed to a client that does not read: the process is held up.
    client.ask("process/start", house.script("p", &format!("head -c {size} /dev/zero; echo; echo end")));
    let mut other = server.client();
    other.ask("process/start", house.script("p", "echo other"));
    assert_eq!(other.ended("p").0, b"other\n");
    let held = server.resident_kib();
    assert!(held < 150_000, "{held} KiB");
    // Nobody is attached: it runs on, and what fell out is told.
    let session = client.session.clone();
    client.cut();
    let mut again = server.raw(&[]).unwrap();
    let until = Instant::now() + PATIENCE;
    while again.send("initialize", json!({"clientName": "x", "resumeSessionId": session})) > 0 {
        let id = again_id(&mut again);
        if id.get("result").is_some() {
            break;
        }
        assert!(Instant::now() < until);
    }
    let (mut after, mut bytes_read, mut lost) = (0, 0, 0);
    let tail = loop {
        let read = again.ask("process/read", json!({"processId": "p", "afterSeq": after, "waitMs": 1000}));
        lost = lost.max(read["lost"]["bytes"].as_u64().unwrap_or(0));
        let chunks = read["chunks"].as_array().unwrap();
        bytes_read += chunks.iter().map(|chunk| bytes(&chunk["chunk"]).len() as u64).sum::<u64>();
        after = read["nextSeq"].as_u64().unwrap() - 1;
        if read["closed"] == true {
            break read;
        }
    };
    assert_eq!(tail["exitCode"], 0);
    assert!(bytes_read + lost >= size + 5, "{bytes_read} read, {lost} lost");
    let held = server.resident_kib();
    assert!(held < 150_000, "{held} KiB");
}

/// Whether whoever runs the tests asks for a long run.
fn is_long() -> bool {
    std::env::var_os("OPENOXIDE_LONG").is_some_and(|value| value == "1")
}

fn again_id(client: &mut Client) -> Value {
    client.wait(|message| message.get("id").is_some() && message.get("method").is_none())
}

#[test]
fn many_processes_at_once_cost_a_bound() {
    let count = if is_long() { 500 } else { 40 };
    let house = House::new();
    let mut client = house.stdio(&[]);
    let server = client.child.as_ref().unwrap().id();
    let ids: Vec<i64> = (0..count)
        .map(|number| {
            let mut start =
                house.script(&number.to_string(), "echo begun; read -r x; head -c 200000 /dev/zero; exit 5");
            start["pipeStdin"] = true.into();
            client.send("process/start", start)
        })
        .collect();
    for id in ids {
        assert!(client.answer(id).get("result").is_some());
    }
    for number in 0..count {
        client.told("process/output", &number.to_string());
        client.ask("process/write", json!({"processId": number.to_string(), "chunk": base64(b"go\n")}));
    }
    for number in 0..count {
        assert_eq!(client.told("process/exited", &number.to_string())["exitCode"], 5);
        client.told("process/closed", &number.to_string());
    }
    let held = resident_kib(server);
    assert!(held < 250_000, "{held} KiB");
    house.nothing_is_left();
}

#[test]
fn files_are_read_written_and_listed() {
    let house = House::new();
    let mut client = house.stdio(&[]);
    let at = |name: &str| json!({"path": house.work(name)});
    let uri = |name: &str| format!("file://{}", house.work(name).display());
    client.ask("fs/createDirectory", json!({"path": uri("a/b"), "recursive": true}));
    assert_eq!(client.refused("fs/createDirectory", at("x/y")).0, -32004);
    client.ask("fs/writeFile", json!({"path": uri("a/b/f"), "dataBase64": base64(b"text")}));
    assert_eq!(client.ask("fs/readFile", at("a/b/f"))["dataBase64"], base64(b"text"));
    std::os::unix::fs::symlink("a/b", house.work("link")).unwrap();
    assert_eq!(client.ask("fs/canonicalize", json!({"path": uri("link/f")}))["path"], uri("a/b/f"));
    assert_eq!(client.ask("fs/canonicalize", at("link"))["path"], json!(house.work("a/b")));
    let metadata = client.ask("fs/getMetadata", at("link"));
    assert_eq!((&metadata["isDirectory"], &metadata["isSymlink"]), (&json!(true), &json!(true)));
    assert_eq!(client.ask("fs/getMetadata", at("a/b/f"))["size"], 4);
    let listed = client.ask("fs/readDirectory", at(""));
    assert!(
        listed["entries"]
            .as_array()
            .unwrap()
            .contains(&json!({"fileName": "link", "isDirectory": true, "isFile": false}))
    );
    let options = json!({"maxDepth": 5, "maxDirectories": 50, "maxEntries": 50, "followDirectorySymlinks": false});
    let walked = client.ask("fs/walk", json!({"path": uri("a"), "options": options}));
    assert_eq!(
        walked["entries"],
        json!([{"path": uri("a/b"), "kind": "directory"}, {"path": uri("a/b/f"), "kind": "file"}])
    );
    client.ask("fs/copy", json!({"sourcePath": uri("a"), "destinationPath": uri("c"), "recursive": true}));
    assert_eq!(std::fs::read(house.work("c/b/f")).unwrap(), b"text");
    assert_eq!(
        client.refused("fs/copy", json!({"sourcePath": uri("a"), "destinationPath": uri("d"), "recursive": false})).0,
        -32600
    );
    assert_eq!(client.refused("fs/remove", at("a")).0, -32603);
    client.ask("fs/remove", json!({"path": uri("a"), "recursive": true}));
    assert!(!house.work("a").exists());
    assert_eq!(client.refused("fs/remove", at("a")).0, -32004);
    client.ask("fs/remove", json!({"path": uri("a"), "force": true}));
    // Through a link that stays, the file is written and the link stays.
    symlink("c/b/f", house.work("to")).unwrap();
    client.ask("fs/writeFile", json!({"path": uri("to"), "dataBase64": base64(b"new")}));
    assert!(house.work("to").is_symlink() && std::fs::read(house.work("c/b/f")).unwrap() == b"new");
}

#[test]
fn what_is_no_file_of_the_callers_is_refused() {
    let house = House::new();
    let outside = house.root.join("outside/f");
    std::fs::write(&outside, "outside").unwrap();
    symlink(&outside, house.work("out")).unwrap();
    symlink(house.root.join("outside"), house.work("outdir")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        house.work("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    std::fs::File::create(house.work("huge")).unwrap().set_len(5 << 30).unwrap();
    std::fs::create_dir(house.work(".git")).unwrap();
    let mut client = house.stdio(&[]);
    let data = base64(b"x");
    for name in ["out", "outdir/new", "../outside/new", ".git/config"] {
        let (code, why) = client.refused("fs/writeFile", json!({"path": house.work(name), "dataBase64": data}));
        assert!(code == -32600 && why.contains("denied"), "{name}: {code} {why}");
    }
    assert!(std::fs::read(&outside).unwrap() == b"outside" && !house.root.join("outside/new").exists());
    for (path, part) in [
        (house.work("pipe"), "a pipe"),
        (house.work(""), "not a file"),
        ("/proc/self/mem".into(), "/proc"),
        ("/dev/zero".into(), "a device"),
        (house.work("huge"), "fs/readBlock"),
        (house.root.join("home/config.toml"), ""),
    ] {
        let (code, why) = client.refused("fs/readFile", json!({"path": path}));
        assert!((code == -32600 || code == -32004) && why.contains(part), "{}: {code} {why}", path.display());
    }
    assert_eq!(client.refused("fs/writeFile", json!({"path": house.work("pipe"), "dataBase64": data})).0, -32600);
    let metadata = client.ask("fs/getMetadata", json!({"path": house.work("pipe")}));
    assert_eq!((&metadata["isFile"], &metadata["isDirectory"]), (&json!(false), &json!(false)));
    client.ask("fs/open", json!({"handleId": "h", "path": house.work("huge")}));
    let block = client.ask("fs/readBlock", json!({"handleId": "h", "offset": (5u64 << 30) - 2, "len": 10}));
    assert_eq!(block, json!({"chunk": base64(&[0, 0]), "eof": true}));
    std::fs::write(house.work("same"), "same").unwrap();
    client.ask(
        "fs/copy",
        json!({"sourcePath": house.work("same"), "destinationPath": house.work("same"), "recursive": false}),
    );
    assert_eq!(std::fs::read(house.work("same")).unwrap(), b"same");
    for path in ["/".into(), house.path().to_path_buf(), house.work("")] {
        let refused = client.refused("fs/remove", json!({"path": path, "recursive": true, "force": true}));
        assert!(refused.0 == -32600 && house.work("same").exists(), "{refused:?}");
    }
    assert_eq!(client.refused("fs/readFile", json!({"path": "relative"})).0, -32602);
}

#[test]
fn a_file_is_written_by_blocks_and_replaced_at_once() {
    use std::os::unix::fs::PermissionsExt as _;
    let house = House::new();
    std::fs::write(house.work("f"), "old").unwrap();
    std::fs::set_permissions(house.work("f"), std::fs::Permissions::from_mode(0o751)).unwrap();
    let mut client = house.stdio(&[]);
    let open = |id: &str, mode: &str| json!({"handleId": id, "path": house.work("f"), "mode": mode});
    assert_eq!(client.ask("fs/open", open("w", "replace")), json!({"handleId": "w"}));
    assert_eq!(client.refused("fs/open", open("w", "read")).0, -32600);
    for (offset, text) in [(4, "text"), (0, "new ")] {
        client.ask("fs/writeBlock", json!({"handleId": "w", "offset": offset, "chunk": base64(text.as_bytes())}));
    }
    assert_eq!(std::fs::read(house.work("f")).unwrap(), b"old");
    client.ask("fs/close", json!({"handleId": "w"}));
    assert_eq!(std::fs::read(house.work("f")).unwrap(), b"new text");
    assert_eq!(std::fs::metadata(house.work("f")).unwrap().permissions().mode() & 0o777, 0o751);
    client.ask("fs/close", json!({"handleId": "w"}));
    assert_eq!(client.refused("fs/writeBlock", json!({"handleId": "w", "offset": 0, "chunk": ""})).0, -32004);
    assert_eq!(client.refused("fs/readBlock", json!({"handleId": "w", "offset": 0, "len": 1})).0, -32004);
    client.ask("fs/open", open("r", "read"));
    let block = client.ask("fs/readBlock", json!({"handleId": "r", "offset": 4, "len": 4}));
    assert_eq!(block, json!({"chunk": base64(b"text"), "eof": false}));
}

#[test]
fn the_sandbox_holds_what_runs() {
    let house = House::new();
    std::fs::create_dir(house.work(".git")).unwrap();
    let script = "touch made; touch .git/x; touch ../outside/x; touch $HOME_OF_TEST/x; exit 1";
    for (arguments, made) in [(&[][..], true), (&["--max-sandbox", "read-only"][..], false)] {
        let mut client = house.stdio(arguments);
        client.ask("process/start", house.script("p", script));
        client.wait(|message| message["method"] == "process/exited" && message["params"]["sandboxDenied"] == true);
        assert_eq!(house.work("made").exists(), made);
        assert!(!house.work(".git/x").exists() && !house.root.join("outside/x").exists());
        let _ = std::fs::remove_file(house.work("made"));
        let read_only = json!({"mode": "read-only"});
        let mut start = house.script("q", "touch made");
        start["sandbox"] = read_only.clone();
        client.ask("process/start", start);
        assert_eq!(client.ended("q").2, 1);
        let write = json!({"path": house.work("f"), "dataBase64": "", "sandbox": read_only});
        assert!(client.refused("fs/writeFile", write).1.contains("denied"));
    }
}

#[test]
fn a_command_reaches_neither_the_server_nor_another_command() {
    let house = House::new();
    std::fs::write(house.root.join("home/secret"), "SECRET").unwrap();
    let server = house.listening(&[]);
    let (host, port) = server.address.split_once(':').unwrap();
    let mut client = server.client();
    client.ask("process/start", house.script("other", "sleep 600"));
    let script = format!(
        "cat {home}/secret; ls /var/tmp/openoxide-exec-*/*/ && echo PIPES; chmod 700 /var/tmp/openoxide-exec-*/* && echo CHANGED; \
         (exec 3<>/dev/tcp/{host}/{port}) && echo CONNECTED; kill -0 {pid} && echo SIGNALLED; ps aux | grep -c 'sleep [6]00'",
        home = house.root.join("home").display(),
        pid = server.child.id(),
    );
    for (id, sandbox) in [("w", Value::Null), ("r", json!({"mode": "read-only"}))] {
        let mut start = house.script(id, &script);
        start["sandbox"] = sandbox;
        client.ask("process/start", start);
        let (out, err, _) = client.ended(id);
        let said = String::from_utf8_lossy(&out);
        assert_eq!(said.trim(), "0", "{said}{}", String::from_utf8_lossy(&err));
    }
}

#[test]
fn whoever_is_not_meant_is_not_let_in() {
    let house = House::new();
    let server = house.listening(&[]);
    let refused = server.raw(&["Origin: http://localhost"]).err().unwrap();
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    let tokens = house.root.join("tokens");
    std::fs::write(&tokens, "ada abcdefghijklmnopqrstuvwxyz\nbob zyxwvutsrqponmlkjihgfedcba\n").unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let server = house.listening(&["--token-file", tokens.to_str().unwrap()]);
    assert!(server.raw(&[]).err().unwrap().starts_with("HTTP/1.1 401"));
    let ada = ["Authorization: Bearer abcdefghijklmnopqrstuvwxyz"];
    let mut client = server.raw(&ada).unwrap();
    client.initialize(None);
    let session = client.session.clone();
    client.cut();
    let mut bob = server.raw(&["Authorization: Bearer zyxwvutsrqponmlkjihgfedcba"]).unwrap();
    let refused = bob.refused("initialize", json!({"clientName": "x", "resumeSessionId": session}));
    assert!(refused.0 == -32600 && refused.1.contains("no session"), "{refused:?}");
    bob.initialize(None);
    let hidden = bob.refused("fs/readFile", json!({"path": tokens}));
    assert!(hidden.0 == -32600, "{hidden:?}");
}
