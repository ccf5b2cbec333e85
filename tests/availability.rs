//! No file stops the server. Every kind of file that is no plain small file, in every place that the server reads for the
//! model, under every tool, while a second caller goes on being served at once and the end comes when it is asked for.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::json;
use support::Server;
use support::kinds::{House, KINDS, ends, is_served, status};

/// The places that are read without anybody naming them, below the workspace, which is `repo/sub`.
const PLACES: [&str; 11] = [
    "AGENTS.md",
    "AGENTS.override.md",
    ".gitignore",
    ".ignore",
    ".git",
    ".openoxide",
    "deep/.gitignore",
    "deep/.git",
    "../AGENTS.md",
    "../.gitignore",
    "../.git/info/exclude",
];

/// What callers ask, each of which uses other tools: commands with the record of changes, search, listing, reading, patches.
const PROMPTS: [&str; 5] = [
    "run `touch made.txt`",
    "find \"needle\"",
    "list the files",
    "read `odd`",
    "replace `needle` by `thread` in a.txt",
];

#[test]
fn no_kind_of_file_in_a_place_that_is_read_unasked_stops_a_turn_or_a_second_caller() {
    for (kind, make) in KINDS {
        let mut server = Server::start(json!({}));
        let quiet = House::new();
        for place in PLACES {
            let house = House::new();
            let path = house.work.join(place);
            make(&path.parent().unwrap().canonicalize().unwrap().join(path.file_name().unwrap()));
            let what = format!("{kind} as {place}");
            let calls: Vec<u64> = PROMPTS.iter().map(|prompt| house.call(&mut server, prompt)).collect();
            is_served(&mut server, &quiet, &what);
            for (call, prompt) in calls.into_iter().zip(PROMPTS) {
                let result = server.result(call);
                assert_eq!(status(&result), "completed", "{what}: {prompt}: {result:#}");
            }
            assert!(house.work.join("made.txt").exists(), "{what}");
            let text = fs::read_to_string(house.work.join("a.txt")).unwrap();
            assert_eq!(text, "a thread\n", "{what}");
        }
        ends(server, kind);
    }
}

#[test]
fn no_kind_of_file_under_a_tool_stops_a_turn_or_a_second_caller() {
    for (kind, make) in KINDS {
        let mut server = Server::start(json!({}));
        let (house, quiet) = (House::new(), House::new());
        for name in [OsStr::new("odd"), OsStr::from_bytes(b"odd-\xff"), OsStr::new("odd\nname")] {
            make(&house.work.join(name));
        }
        let prompts = [
            "read `odd`",
            "replace `needle` by `thread` in odd",
            "list the files",
            "find \"needle\"",
            "run `rm -rf odd*`",
        ];
        let mut calls = Vec::new();
        for prompt in prompts {
            calls.push((prompt, house.call(&mut server, prompt)));
        }
        is_served(&mut server, &quiet, kind);
        for (prompt, call) in calls {
            let answer = server.answer(call);
            let result = &answer["result"]["structuredContent"];
            assert!(["completed", "failed"].contains(&status(result)), "{kind}: {prompt}: {answer:#}");
        }
        ends(server, kind);
    }
}

#[test]
fn a_file_name_of_any_bytes_goes_through_a_turn_its_answer_and_its_undo() {
    let home = tempfile::tempdir().unwrap();
    let house = House::new();
    let odd = house.work.join(OsStr::from_bytes(b"\xff\n"));
    fs::write(&odd, "before\n").unwrap();
    let mut server = Server::start_in(home.path(), json!({}), &[]);
    let call =
        house.call(&mut server, "run `for f in *; do case $f in a.txt|deep) ;; *) echo after > \"$f\";; esac; done`");
    let result = server.result(call);
    assert_eq!(result["filesChanged"], json!([r#""\377\n""#]), "{result:#}");
    assert!(result["diff"].as_str().unwrap().contains(r#"+++ "b/\377\n""#), "{result:#}");
    assert_eq!(fs::read_to_string(&odd).unwrap(), "after\n");
    let thread = result["threadId"].as_str().unwrap().to_owned();
    server.close_input();
    assert!(server.wait_exit().success());

    let undo = support::openoxide(home.path()).args(["threads", "undo", &thread]).output().unwrap();
    assert!(undo.status.success(), "{undo:?}");
    assert_eq!(fs::read_to_string(&odd).unwrap(), "before\n");
}

#[test]
fn one_line_of_a_huge_file_takes_no_memory() {
    let house = House::new();
    fs::File::create(house.work.join("endless")).unwrap().set_len(4 << 30).unwrap();
    // Zeros end a search at once; what follows them does not matter.
    fs::write(house.work.join("long"), vec![b'a'; 40 << 20]).unwrap();
    let mut server = Server::start(json!({}));
    let call = house.call(&mut server, "find \"needle\"");
    assert_eq!(status(&server.result(call)), "completed");
    let peak = server.peak_memory_kib();
    assert!(peak < 150 << 10, "{peak} KiB");
    ends(server, "a search");
}
