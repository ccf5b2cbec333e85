//! What the operator forbids, as a client of the real server sees it: it is not offered, and it is refused by name.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use serde_json::{Value, json};
use support::Server;

fn schema_of(server: &mut Server, tool: &str) -> Value {
    let list = server.request("tools/list", json!({}));
    let answer = server.answer(list);
    let tools = answer["result"]["tools"].as_array().unwrap();
    tools.iter().find(|one| one["name"] == tool).unwrap()["inputSchema"].clone()
}

fn text_of(answer: &Value) -> String {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn a_lower_sandbox_is_all_that_is_offered_and_the_default_sinks_to_it() {
    let cwd = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut server = Server::start_with(json!({}), &["--max-sandbox", "read-only", "--max-approval", "on-request"]);
    let schema = schema_of(&mut server, "openoxide").to_string();
    assert!(schema.contains("\"read-only\"") && !schema.contains("\"workspace-write\""), "{schema}");
    assert!(!schema.contains("\"danger-full-access\"") && !schema.contains("\"never\""), "{schema}");

    for (argument, word) in [("sandbox", "workspace-write"), ("approval_policy", "never")] {
        let call = server.call("openoxide", json!({ "prompt": "run `true`", "cwd": cwd.path(), argument: word }));
        let text = text_of(&server.answer(call));
        assert!(text.contains(word) && text.contains("operator"), "{text}");
    }

    let call = server.call("openoxide", json!({ "prompt": "run `touch made.txt`", "cwd": cwd.path() }));
    server.answer(call);
    assert!(!cwd.path().join("made.txt").exists(), "the default is held to read-only");
}

#[test]
fn a_directory_outside_the_allowed_ones_is_refused() {
    let (allowed, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let link = allowed.path().join("link");
    std::os::unix::fs::symlink(other.path(), &link).unwrap();
    let mut server = Server::start_with(json!({}), &["--allow-root", allowed.path().to_str().unwrap()]);
    for tool in ["openoxide", "openoxide-query"] {
        let prompt = if tool == "openoxide" { "prompt" } else { "query" };
        for cwd in [other.path(), &link] {
            let call = server.call(tool, json!({ prompt: "list the files", "cwd": cwd }));
            let text = text_of(&server.answer(call));
            assert!(text.contains(allowed.path().to_str().unwrap()), "what is allowed is named: {text}");
        }
        let call = server.call(tool, json!({ prompt: "list the files", "cwd": allowed.path() }));
        assert_eq!(server.answer(call)["result"]["isError"], false);
    }
}

#[test]
fn a_call_may_set_a_few_keys_and_no_other() {
    let cwd = tempfile::tempdir().unwrap();
    let mut server = Server::start(json!({}));
    let arguments = |config: Value| json!({ "prompt": "run `true`", "cwd": cwd.path(), "config": config });
    let call = server.call("openoxide", arguments(json!({ "project_doc_max_bytes": 100 })));
    assert_eq!(server.answer(call)["result"]["isError"], false);
    for key in ["model_providers", "sandbox_mode", "mcp_servers", "shell_environment_policy", "approval_policy"] {
        let call = server.call("openoxide", arguments(json!({ key: {} })));
        let text = text_of(&server.answer(call));
        assert!(text.contains(key) && text.contains("project_doc_max_bytes"), "{text}");
    }
}

#[test]
fn the_default_mode_confines_what_the_agent_runs() {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let cwd = place.path().join("work");
    std::fs::create_dir(&cwd).unwrap();
    let mut server = Server::start(json!({}));
    let run = |command: &str| json!({ "prompt": format!("run `{command}`"), "cwd": cwd });
    let call = server.call("openoxide", run("echo in > in.txt; echo out > ../out.txt; mkdir .codex"));
    let answer = server.answer(call);
    assert!(cwd.join("in.txt").exists(), "{answer:#}");
    assert!(!place.path().join("out.txt").exists() && !cwd.join(".codex").exists());
}

#[test]
fn patches_stay_in_the_box_that_commands_are_in() {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let cwd = place.path().join("work");
    std::fs::create_dir_all(cwd.join(".git/hooks")).unwrap();
    std::os::unix::fs::symlink(place.path(), cwd.join("out")).unwrap();
    // Nobody can be asked, so what leaves the box is denied.
    let mut server = Server::start(json!({}));
    let outside = place.path().join("made.txt");
    let paths = [outside.to_str().unwrap(), ".git/hooks/pre-commit", ".GIT/config", "out/made.txt", ".codex/config"];
    for path in paths {
        let prompt = format!("create `{path}` with `hello`");
        let call = server.call("openoxide", json!({ "prompt": prompt, "cwd": cwd }));
        let answer = server.answer(call);
        let result = &answer["result"]["structuredContent"];
        assert!(result["filesChanged"].as_array().is_none_or(Vec::is_empty), "{path}: {answer:#}");
        assert!(!place.path().join("made.txt").exists() && !cwd.join(path).exists(), "{path}");
    }
    let call = server.call("openoxide", json!({ "prompt": "create `src/made.txt` with `hello`", "cwd": cwd }));
    server.answer(call);
    assert_eq!(std::fs::read_to_string(cwd.join("src/made.txt")).unwrap(), "hello\n");
}

/// What a call names of the operator's configuration holds for its thread, below what the call sets itself and within the
/// ceiling.
#[test]
fn a_call_chooses_a_profile_of_the_operators() {
    let home = tempfile::tempdir().unwrap();
    let profiles = "[profiles.careful]\nsandbox_mode = \"read-only\"\nmodel = \"of-profile\"\n\
                    [profiles.bold]\nsandbox_mode = \"danger-full-access\"\n\
                    [profiles.elsewhere]\nmodel_provider = \"offline\"\n";
    std::fs::write(home.path().join("config.toml"), profiles).unwrap();
    let arguments = ["--max-sandbox", "workspace-write", "--compat", "codex,native"];
    let mut server = Server::start_in(home.path(), json!({}), &arguments);
    for (tool, arguments, writes) in [
        ("openoxide", json!({ "profile": "careful" }), false),
        ("codex", json!({ "profile": "careful" }), false),
        ("openoxide", json!({ "profile": "careful", "sandbox": "workspace-write", "model": "of-call" }), true),
        // Lowered, not refused: it is the operator's own.
        ("openoxide", json!({ "profile": "bold" }), true),
    ] {
        let cwd = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut all = json!({ "prompt": "run `touch made.txt`", "cwd": cwd.path() });
        all.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
        let call = server.call(tool, all);
        let answer = server.answer(call);
        assert_eq!(cwd.path().join("made.txt").exists(), writes, "{tool} {arguments}: {answer}");
    }
    for (profile, words) in [("nope", "known: bold, careful, elsewhere"), ("elsewhere", "--profile elsewhere")] {
        for tool in ["openoxide", "codex"] {
            let call = server.call(tool, json!({ "prompt": "run `true`", "profile": profile }));
            let text = text_of(&server.answer(call));
            assert!(text.contains(profile) && text.contains(words), "{tool}: {text}");
        }
    }
}
