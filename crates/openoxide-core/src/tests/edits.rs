//! Edits and whole files as tools, and calls in the words of other harnesses.

use std::sync::Arc;

use super::approvals::decide;
use super::support::*;
use crate::{ApprovalAction, ApprovalPolicy, Decision, FileChangeKind, ThreadConfig, TurnResult};

/// What came of one turn of a model: its result, what the calls gave, and the tools it was told of.
async fn turn(bench: &Bench, model: &str) -> Arc<TurnResult> {
    let config = ThreadConfig {
        model: model.to_owned(),
        approval_policy: ApprovalPolicy::Never,
        ..bench.manager.config().thread_defaults()
    };
    let mut thread = Watched::new(bench.manager.start_thread(config).unwrap());
    thread.prompt("go");
    thread.ended().await
}

fn call(name: &'static str, arguments: &serde_json::Value) -> (&'static str, String) {
    (name, arguments.to_string())
}

#[tokio::test]
async fn the_family_of_the_model_decides_how_it_changes_files() {
    for (model, has, has_not) in [
        ("claude-opus-4-7", &["edit", "write_file"][..], &["apply_patch"][..]),
        ("gpt-5.2-codex", &["apply_patch"], &["edit", "write_file"]),
        ("somebody's-deployment", &["apply_patch"], &["edit", "write_file"]),
    ] {
        let bench = Bench::new(vec![Say::Text("done")]);
        turn(&bench, model).await;
        let tools = bench.model.tools.lock().unwrap().clone();
        assert!(has.iter().all(|name| tools.iter().any(|tool| tool == name)), "{model}: {tools:?}");
        assert!(!has_not.iter().any(|name| tools.iter().any(|tool| tool == name)), "{model}: {tools:?}");
    }
}

#[tokio::test]
async fn an_edit_is_shown_asked_about_and_written_as_a_patch_is() {
    let edit = serde_json::json!({ "path": "a.txt", "old": "two\n", "new": "zwei\ndrei\n" });
    let bench = Bench::new(vec![Say::Calls(vec![call("edit", &edit)])]);
    std::fs::write(bench.cwd().join("a.txt"), "one\r\ntwo\r\n").unwrap();
    let mut thread = bench.thread(ApprovalPolicy::Untrusted);
    thread.prompt("go");
    let request = thread.asked().await;
    let ApprovalAction::Patch { changes, unified_diff } = &request.action else { panic!("{request:?}") };
    assert_eq!((&*changes[0].path, changes[0].kind), (std::path::Path::new("a.txt"), FileChangeKind::Update));
    assert!(unified_diff.contains("-two\r\n+zwei\r\n+drei\r\n"), "{unified_diff}");
    decide(&thread.thread, request.id, Decision::Approve).unwrap();
    let result = thread.ended().await;
    assert_eq!(std::fs::read_to_string(bench.cwd().join("a.txt")).unwrap(), "one\r\nzwei\r\ndrei\r\n");
    assert_eq!(result.files_changed, [std::path::PathBuf::from("a.txt")]);
    assert!(bench.outputs()[0].starts_with("Success."), "{:?}", bench.outputs());
}

#[tokio::test]
async fn files_are_changed_in_the_words_of_other_harnesses() {
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+A\n*** End Patch";
    for (model, name, arguments, file, result) in [
        ("gpt-5", "edit", json(r#"{"path": "a.txt", "old": "a", "new": "A"}"#), "a.txt", "A\nb\n"),
        ("gpt-5", "Edit", json(r#"{"file_path": "a.txt", "old_string": "b", "new_string": "B"}"#), "a.txt", "a\nB\n"),
        (
            "claude-x",
            "edit",
            json(r#"{"path": "a.txt", "old": "\n", "new": ";\n", "replace_all": true}"#),
            "a.txt",
            "a;\nb;\n",
        ),
        (
            "claude-x",
            "MultiEdit",
            json(
                r#"{"file_path": "a.txt", "edits": [{"old_string": "a", "new_string": "b\nc"}, {"old_string": "c\nb", "new_string": "d"}]}"#,
            ),
            "a.txt",
            "b\nd\n",
        ),
        ("claude-x", "write_file", json(r#"{"path": "b/new.txt", "content": "x"}"#), "b/new.txt", "x"),
        ("claude-x", "Write", json(r#"{"file_path": "a.txt", "content": "x\n"}"#), "a.txt", "x\n"),
        ("gpt-5", "create_file", json(r#"{"path": "./c.txt", "file_text": ""}"#), "c.txt", ""),
        ("claude-x", "applypatch", serde_json::json!({ "patch": patch }), "a.txt", "A\nb\n"),
        ("claude-x", "ApplyPatch", serde_json::json!({ "command": ["apply_patch", patch] }), "a.txt", "A\nb\n"),
        (
            "gpt-5",
            "shell",
            serde_json::json!({ "command": ["bash", "-lc", format!("apply_patch <<'EOF'\n{patch}\nEOF")] }),
            "a.txt",
            "A\nb\n",
        ),
    ] {
        let bench = Bench::new(vec![Say::Calls(vec![call(name, &arguments)])]);
        std::fs::write(bench.cwd().join("a.txt"), "a\nb\n").unwrap();
        let ended = turn(&bench, model).await;
        let there = std::fs::read_to_string(bench.cwd().join(file)).ok();
        assert_eq!(there.as_deref(), Some(result), "{name} {arguments}: {:?}", bench.outputs());
        assert_eq!(ended.files_changed, [std::path::PathBuf::from(file)], "{name}");
    }
    // A model that has `edit` in its list may call `apply_patch` as it was made: with text alone.
    let bench = Bench::new(vec![Say::Calls(vec![("apply_patch", patch.into())])]);
    std::fs::write(bench.cwd().join("a.txt"), "a\nb\n").unwrap();
    turn(&bench, "claude-x").await;
    assert_eq!(std::fs::read_to_string(bench.cwd().join("a.txt")).unwrap(), "A\nb\n", "{:?}", bench.outputs());
}

#[tokio::test]
async fn commands_are_understood_as_a_list_of_words() {
    for (name, arguments, line) in [
        ("Bash", r#"{"command": "echo a b"}"#, "echo a b"),
        ("shell", r#"{"command": ["bash", "-lc", "echo a  b"]}"#, "echo a  b"),
        ("exec_command", r#"{"cmd": ["echo", "a b", "c"]}"#, "echo 'a b' c"),
        ("exec_command", r#"{"cmd": ["echo x y"]}"#, "echo x y"),
    ] {
        let bench = Bench::new(vec![Say::Calls(vec![(name, arguments.to_owned())])]);
        turn(&bench, "gpt-5").await;
        assert_eq!(bench.commands(), [format!("spawn {line}")], "{name} {arguments}");
    }
}

#[tokio::test]
async fn what_does_not_fit_is_said_with_its_places_and_changes_nothing() {
    for (name, arguments, expected) in [
        (
            "edit",
            r#"{"path": "a.txt", "old": "x", "new": "y"}"#,
            "The edit was not applied: the edit does not fit a.txt: `old` stands at 2 places, at lines 1 and 3; give more",
        ),
        ("edit", r#"{"path": "a.txt", "old": "xx", "new": "y"}"#, "`old` is not in it"),
        ("edit", r#"{"path": "a.txt", "old": "a"}"#, "`new` is missing; give it as a text."),
        ("edit", r#"{"path": "none.txt", "old": "a", "new": "b"}"#, "no such file"),
        ("edit", r#"{"path": "latin.txt", "old": "caf", "new": "b"}"#, "it is not UTF-8 text"),
        ("write_file", r#"{"path": "latin.txt", "content": "b"}"#, "The file was not written: "),
        ("write_file", r#"{"path": "a.txt", "body": "b"}"#, "`content` is missing; give it as a text. Given: `body`."),
    ] {
        let bench = Bench::new(vec![Say::Calls(vec![(name, arguments.to_owned())])]);
        std::fs::write(bench.cwd().join("a.txt"), "x\na\nx\n").unwrap();
        std::fs::write(bench.cwd().join("latin.txt"), b"caf\xe9\n").unwrap();
        let ended = turn(&bench, "claude-x").await;
        let outputs = bench.outputs();
        assert!(outputs[0].contains(expected), "{name} {arguments}: {outputs:?}");
        assert!(ended.files_changed.is_empty());
        assert_eq!(std::fs::read(bench.cwd().join("latin.txt")).unwrap(), b"caf\xe9\n");
    }
}

#[tokio::test]
async fn a_thread_that_only_reads_changes_nothing_by_any_name() {
    let edit = serde_json::json!({ "path": "a.txt", "old": "a", "new": "b" });
    let write = serde_json::json!({ "path": "a.txt", "content": "b" });
    let patch = "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch";
    let calls = vec![call("edit", &edit), call("Edit", &edit), call("Write", &write), ("apply_patch", patch.into())];
    let bench = Bench::new(vec![Say::Calls(calls)]);
    std::fs::write(bench.cwd().join("a.txt"), "a\n").unwrap();
    let config = ThreadConfig {
        model: "claude-x".to_owned(),
        read_only_tools: true,
        sandbox: openoxide_sandbox::SandboxMode::ReadOnly,
        approval_policy: ApprovalPolicy::Never,
        ..bench.manager.config().thread_defaults()
    };
    let mut thread = Watched::new(bench.manager.start_thread(config).unwrap());
    thread.prompt("go");
    thread.ended().await;
    assert!(bench.outputs().iter().all(|output| output.contains("There is no tool named")), "{:?}", bench.outputs());
    assert_eq!(std::fs::read_to_string(bench.cwd().join("a.txt")).unwrap(), "a\n");
}

#[tokio::test]
async fn a_path_that_climbs_is_judged_by_where_it_leads() {
    let patch = |path: &str| format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch");
    let bench = Bench::new(vec![Say::Calls(vec![("apply_patch", patch("sub/../in.txt"))])]);
    std::fs::create_dir(bench.cwd().join("sub")).unwrap();
    turn(&bench, "gpt-5").await;
    assert_eq!(std::fs::read_to_string(bench.cwd().join("in.txt")).unwrap(), "x\n");

    // What the sandbox would not let a command write is refused, however it is spelled.
    let bench = Bench::new(vec![Say::Calls(vec![("apply_patch", patch("../out.txt"))])]);
    let config = ThreadConfig {
        sandbox: openoxide_sandbox::SandboxMode::ReadOnly,
        approval_policy: ApprovalPolicy::Never,
        ..bench.manager.config().thread_defaults()
    };
    let mut thread = Watched::new(bench.manager.start_thread(config).unwrap());
    thread.prompt("go");
    thread.ended().await;
    let outputs = bench.outputs();
    assert!(!bench.cwd().with_file_name("out.txt").exists(), "{outputs:?}");
    assert!(!outputs[0].contains("invalid path"), "{outputs:?}");
}
