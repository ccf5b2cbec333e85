//! No file stops the server, continued: all tools at once on every kind of file, files that change while they are read,
//! undo, and the configuration of a project.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::kinds::{Changing, END, House, KINDS, ends, is_served, status};
use support::model::{Model, calls};
use support::{Server, eventually, openoxide};

/// A server with a model that calls what a prompt names.
fn scripted(home: &Path) -> Server {
    Model::start().configure(home);
    Server::start_in(home, json!({}), &["-c", "model_provider=\"scripted\""])
}

/// Calls of every tool that opens a file, on one path.
fn every_tool(path: &str) -> Vec<(&'static str, Value)> {
    let patch = format!("*** Begin Patch\n*** Update File: {path}\n@@\n-a needle\n+a thread\n*** End Patch\n");
    vec![
        ("view_image", json!({ "path": path })),
        ("read_file", json!({ "path": path })),
        ("list_dir", json!({ "path": path })),
        ("grep", json!({ "pattern": "needle", "path": path })),
        ("list_dir", json!({})),
        ("grep", json!({ "pattern": "needle" })),
        ("exec_command", json!({ "cmd": "touch made.txt", "yield_time_ms": 1000 })),
        ("apply_patch", json!({ "input": patch })),
    ]
}

/// Calls every tool on paths, while another goes on; each turn comes to its end.
fn tools_come_to_an_end(server: &mut Server, house: &House, paths: &[String], what: &str) {
    let quiet = House::new();
    let turns: Vec<u64> = paths.iter().map(|path| house.call(server, &calls(&every_tool(path)))).collect();
    is_served(server, &quiet, what);
    for turn in turns {
        let result = server.result(turn);
        assert_eq!(status(&result), "completed", "{what}: {result:#}");
    }
    assert!(house.work.join("made.txt").exists(), "{what}");
}

#[test]
fn every_tool_comes_to_an_end_on_every_kind_of_file() {
    for (kind, make) in KINDS {
        let home = tempfile::tempdir().unwrap();
        let mut server = scripted(home.path());
        let house = House::new();
        let names = ["odd", "odd.png", "deep/odd"];
        names.iter().for_each(|name| make(&house.work.join(name)));
        tools_come_to_an_end(&mut server, &house, &names.map(str::to_owned), kind);
        ends(server, kind);
    }
}

#[test]
fn every_tool_comes_to_an_end_while_files_change_under_it() {
    let home = tempfile::tempdir().unwrap();
    let mut server = scripted(home.path());
    for place in ["odd", "AGENTS.md", "AGENTS.override.md", ".gitignore", "deep/.ignore", "../.gitignore"] {
        let house = House::new();
        let path = house.work.join(place);
        let path = path.parent().unwrap().canonicalize().unwrap().join(path.file_name().unwrap());
        let changing = Changing::at(&path);
        for _ in 0..3 {
            tools_come_to_an_end(&mut server, &house, &["odd".to_owned(), place.to_owned()], place);
        }
        drop(changing);
    }
    ends(server, "files that change");
}

/// Whether a program comes to its end in the time that is promised for one.
fn comes_to_an_end(mut child: Child, what: &str) -> String {
    let began = Instant::now();
    eventually(what, || child.try_wait().unwrap().is_some());
    assert!(began.elapsed() < END + Duration::from_secs(2), "{what}: {:?}", began.elapsed());
    let output = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn undo_comes_to_an_end_on_every_kind_of_file_and_puts_back_the_rest() {
    for (kind, make) in KINDS {
        for (place, replaced) in [("a.txt", "a.txt"), ("deep/b.txt", "deep")] {
            let what = format!("{kind} as {replaced}");
            let home = tempfile::tempdir().unwrap();
            let (house, quiet) = (House::new(), House::new());
            fs::write(house.work.join("other.txt"), "before\n").unwrap();
            let mut server = Server::start_in(home.path(), json!({}), &[]);
            let call = house.call(&mut server, &format!("run `echo after > {place}; echo after > other.txt`"));
            let thread = server.result(call)["threadId"].as_str().unwrap().to_owned();
            let call = server.call("openoxide-close", json!({ "thread_id": thread }));
            server.answer(call);
            let path = house.work.join(replaced);
            fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)).unwrap();
            make(&path);
            let mut undo = openoxide(home.path());
            undo.args(["threads", "undo", &thread]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let undo = undo.spawn().unwrap();
            is_served(&mut server, &quiet, &what);
            let told = comes_to_an_end(undo, &what);
            assert!(told.contains(place), "{what}: {told}");
            assert_eq!(fs::read_to_string(house.work.join("other.txt")).unwrap(), "before\n", "{what}: {told}");
            ends(server, &what);
        }
    }
}

#[test]
fn no_kind_of_file_as_a_projects_configuration_keeps_a_program_from_its_end() {
    for (kind, make) in KINDS {
        for place in [".openoxide/config.toml", ".openoxide"] {
            let what = format!("{kind} as {place}");
            let (home, house) = (tempfile::tempdir().unwrap(), House::new());
            let trust = format!("[projects.{:?}]\ntrust_level = \"trusted\"\n", house.work.to_str().unwrap());
            fs::write(home.path().join("config.toml"), trust).unwrap();
            let path = house.work.join(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            make(&path);
            for arguments in [&["config"][..], &["mcp-server"], &["sandbox", "--", "true"]] {
                let mut command = openoxide(home.path());
                command.args(arguments).current_dir(&house.work);
                command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
                let told = comes_to_an_end(command.spawn().unwrap(), &what);
                assert!(!told.contains("panicked"), "{what}: {told}");
            }
        }
    }
}
