//! Commits by the agent within the sandbox, and what the result says first: the real program, with a scripted model.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use support::Server;
use support::model::{Model, calls};

/// A home with a model, and a repository with a hook.
struct House {
    place: tempfile::TempDir,
    model: Model,
}

impl House {
    fn new(settings: &str) -> Self {
        let house = Self {
            place: tempfile::Builder::new().prefix("git-").tempdir_in("/var/tmp").unwrap(),
            model: Model::recording(),
        };
        std::fs::create_dir(house.path("home")).unwrap();
        house.model.configure(&house.path("home"));
        let config = house.path("home/config.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, format!("{text}[sandbox_workspace_write]\n{settings}\n")).unwrap();
        house.shell("git init -q -b main repo; cd repo; git config user.name a; git config user.email a@b; echo x > x; git add x; git commit -qm x; printf '#!/bin/sh\necho hooked > hooked\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; echo hooked > .git/info/exclude");
        house
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn shell(&self, script: &str) -> String {
        let done = Command::new("bash").args(["-ec", script]).current_dir(self.place.path()).output().unwrap();
        assert!(done.status.success(), "{script}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// Runs commands in one turn, each a call; gives the result, and what the model was told of each.
    fn turn(&self, cwd: &Path, lines: &[&str]) -> (Value, Vec<String>) {
        let home = self.path("home");
        let mut server = Server::start_in(&home, json!({}), &["-c", "model_provider=\"scripted\""]);
        let mut result = Value::Null;
        let mut told = Vec::new();
        let calls: Vec<String> = lines.iter().map(|line| calls(&[("exec_command", json!({ "cmd": line }))])).collect();
        let mut thread = None::<String>;
        for prompt in calls {
            let id = match &thread {
                None => server.call("openoxide", json!({ "prompt": prompt, "cwd": cwd, "approval_policy": "never" })),
                Some(thread) => server.call("openoxide-reply", json!({ "prompt": prompt, "thread_id": thread })),
            };
            result = server.result(id);
            thread = result["threadId"].as_str().map(str::to_owned);
            let inputs = self.model.inputs();
            let last = inputs.last().unwrap().last().unwrap();
            told.push(last["output"].as_str().unwrap_or_else(|| panic!("{last}")).to_owned());
        }
        (result, told)
    }

    /// What the model is told of its surroundings.
    fn environment(&self) -> String {
        let inputs = self.model.inputs();
        let texts = inputs[0].iter().filter_map(|item| item["content"][0]["text"].as_str());
        texts.filter(|text| text.contains("<environment_context>")).collect()
    }
}

#[test]
fn the_agent_commits_where_it_is_configured() {
    let house = House::new("git = \"commit\"");
    let lines = [
        "echo new > new",
        "git add -A && git commit -qm 'a new one' && git status --short && git log --oneline | git stash list",
        "git switch -c topic && git commit --allow-empty -m two",
        "echo evil > .git/hooks/post-commit",
        "git commit --allow-empty -m three; touch .git/here",
        "git -c core.fsmonitor=./x commit --allow-empty -m four",
        "GIT_DIR=.git git commit --allow-empty -m five",
    ];
    let (_, told) = house.turn(&house.path("repo"), &lines);
    for (line, (told, works)) in lines.iter().zip(told.iter().zip([true, true, true, false, false, false, false])) {
        assert_eq!(told.starts_with("exit code: 0"), works, "{line}: {told}");
    }
    assert!(house.path("repo/hooked").exists(), "hooks run");
    let log = house.shell("cd repo; git log --format=%s topic; git status --short; ls .git");
    assert!(log.starts_with("two\na new one\nx\n"), "{log}");
    for name in ["commondir", "gitdir", "config.worktree", "here", "remotes"] {
        assert!(!log.lines().any(|line| line == name), "{name}: {log}");
    }
    let environment = house.environment();
    assert!(
        environment.contains("writing with git: a command line that is nothing but git may write"),
        "{environment}"
    );
    // In a work tree and in a submodule of it.
    house.shell("cd repo; git worktree add -q ../tree 2>&1; git -c protocol.file.allow=always submodule add -q ../repo sub; git commit -qm sub");
    let (_, told) = house.turn(&house.path("tree"), &["git commit --allow-empty -m tree"]);
    assert!(told[0].starts_with("exit code: 0"), "{told:?}");
    let identity = "git -C sub config user.name a; git -C sub config user.email b";
    house.shell(&format!("cd repo; {identity}"));
    let (_, told) = house.turn(
        &house.path("repo"),
        &[
            "git -C sub commit --allow-empty -m sub",
            "cd sub && git commit --allow-empty -m sub2 && cd .. && git add sub && git commit -m both",
        ],
    );
    assert!(told.iter().all(|told| told.starts_with("exit code: 0")), "{told:?}");
}

#[test]
fn nothing_changes_where_nothing_is_configured() {
    let house = House::new("network_access = false");
    let (_, told) = house.turn(&house.path("repo"), &["git commit --allow-empty -m two"]);
    assert!(told[0].contains("Read-only file system"), "{told:?}");
    assert!(!house.environment().contains("writing with git"));
}

#[test]
fn what_other_programs_obey_comes_first_in_the_result() {
    let house = House::new("git = \"read-only\"");
    // Those of which no text is known are told apart.
    let files = |result: &Value| -> Vec<String> {
        let lists = ["binaryFiles", "filesChanged"].map(|list| result[list].as_array().cloned().unwrap_or_default());
        lists.iter().flatten().map(|file| file.as_str().unwrap().to_owned()).collect()
    };
    let make = "mkdir -p .vscode .github/workflows aaa && echo {} > .vscode/tasks.json && echo x > aaa/a && \
                echo x > .github/workflows/ci.yml && echo x > AGENTS.md && echo x > zz && echo x > .mcp.json";
    let expected = [".github/workflows/ci.yml", ".mcp.json", ".vscode/tasks.json", "AGENTS.md", "aaa/a", "zz"];
    let (result, told) = house.turn(&house.path("repo"), &[make]);
    assert!(told[0].starts_with("exit code: 0"), "{told:?}");
    assert_eq!(files(&result), expected);
    let warnings = result["warnings"].to_string();
    for part in [
        "look at it first",
        ".vscode/tasks.json (editors",
        "AGENTS.md (agents read it",
        "ci.yml (the repository's host",
    ] {
        assert!(warnings.contains(part), "{part}: {warnings}");
    }
    // What exists by now is not written.
    let (_, told) =
        house.turn(&house.path("repo"), &["echo evil > .vscode/tasks.json", "rm .mcp.json", "echo ok >> AGENTS.md"]);
    assert!(told[0].contains("Read-only file system") && !told[1].starts_with("exit code: 0"), "{told:?}");
    assert!(told[2].starts_with("exit code: 0"), "{told:?}");
    // A patch to what exists is asked for, and here nobody can be; one to what does not is not, and is told first.
    let patch =
        |path: &str| format!("apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\nEOF");
    house.turn(&house.path("repo"), &[&patch(".vscode/more.json")]);
    assert!(!house.path("repo/.vscode/more.json").exists());
    let (result, told) = house.turn(&house.path("repo"), &[&patch(".zed/settings.json")]);
    assert_eq!(files(&result), [".zed/settings.json"], "{told:?}");
    assert!(result["warnings"].to_string().contains(".zed/settings.json (editors"), "{result}");
    // Where there is no record of what commands change, or version control ignores it.
    house.shell("mkdir large; cd large; for i in $(seq 5100); do : > $i; done");
    let (result, _) =
        house.turn(&house.path("large"), &["mkdir .claude; echo x > .claude/settings.json; echo x > CLAUDE.md"]);
    assert_eq!(files(&result), [".claude", "CLAUDE.md"]);
    house.shell("cd repo; echo .idea > .gitignore");
    let (result, _) = house.turn(&house.path("repo"), &["mkdir .idea; echo x > .idea/x; echo x > zzz"]);
    assert_eq!(files(&result), [".idea", "zzz"]);
}
