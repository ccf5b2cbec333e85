//! What an approval for the thread covers, from the model's call to the command that is started.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::support::*;
use crate::{
    ApprovalPolicy, ApprovalRequest, CommandRule, Decider, Decision, DenialReason, Op, RuleDecision, TurnStatus,
    Widening,
};

fn call(arguments: Value) -> Say {
    Say::Calls(vec![("exec_command", arguments.to_string())])
}

fn escalated(line: &str) -> Say {
    call(json!({ "cmd": line, "sandbox_permissions": "require_escalated", "justification": "must" }))
}

fn patch(path: &str, text: &str) -> Say {
    let patch = format!("*** Begin Patch\n*** Add File: {path}\n+{text}\n*** End Patch");
    Say::Calls(vec![("apply_patch", patch)])
}

/// Each of the steps as a turn of its own.
fn turns(steps: impl IntoIterator<Item = Say>) -> Vec<Say> {
    steps.into_iter().flat_map(|step| [step, Say::Text("done")]).collect()
}

fn settle(thread: &Watched, request: &ApprovalRequest, decision: Decision) {
    let by = Decider::Client(Some("tester".to_owned()));
    thread.thread.submit(Op::Approval { id: request.id, decision, by }).unwrap();
}

/// A turn that asks, and is approved for the thread.
async fn approve_for_thread(thread: &mut Watched) -> Arc<ApprovalRequest> {
    thread.prompt("go");
    let request = thread.asked().await;
    settle(thread, &request, Decision::ApproveForThread);
    assert_eq!(thread.ended().await.status, TurnStatus::Completed);
    request
}

/// A turn that asks, and is refused.
async fn refuse(thread: &mut Watched) -> Arc<ApprovalRequest> {
    thread.prompt("go");
    let request = thread.asked().await;
    settle(thread, &request, Decision::Deny { reason: DenialReason::Declined, note: None });
    thread.ended().await;
    request
}

/// A turn that nobody is asked in.
async fn unasked(thread: &mut Watched) {
    thread.prompt("go");
    let result = thread.ended().await;
    assert!(result.denials.is_empty(), "{result:?}");
}

fn script(path: &Path) {
    std::fs::write(path, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn one_patch_beyond_the_sandbox_covers_its_file_and_no_other() {
    let bench = Bench::new(turns([
        patch(".git/one", "a"),
        patch(".git/hooks/pre-commit", "evil"),
        Say::Calls(vec![(
            "apply_patch",
            "*** Begin Patch\n*** Update File: .git/one\n@@\n-a\n+b\n*** End Patch".into(),
        )]),
        patch(".codex/config", "evil"),
    ]));
    let mut thread = bench.thread(ApprovalPolicy::OnRequest);
    let request = approve_for_thread(&mut thread).await;
    let covered = request.for_thread.as_deref().unwrap();
    assert!(covered.contains(".git/one") && covered.contains("of no other file"), "{covered}");
    refuse(&mut thread).await;
    unasked(&mut thread).await;
    refuse(&mut thread).await;
    assert_eq!(std::fs::read_to_string(bench.cwd().join(".git/one")).unwrap(), "b\n");
    assert!(!bench.cwd().join(".git/hooks/pre-commit").exists() && !bench.cwd().join(".codex").exists());
}

#[tokio::test]
async fn a_program_of_the_workspace_is_approved_once_outside_of_the_sandbox() {
    let bench = Bench::new(turns([escalated("./run.sh"), escalated("./run.sh")]));
    script(&bench.cwd().join("run.sh"));
    let mut thread = bench.thread(ApprovalPolicy::OnRequest);
    let request = approve_for_thread(&mut thread).await;
    assert_eq!(request.for_thread, None, "{request:?}");
    refuse(&mut thread).await;
    assert_eq!(bench.commands(), ["spawn ./run.sh outside"]);
}

#[tokio::test]
async fn outside_of_the_sandbox_only_programs_that_stay_what_they_are_are_covered() {
    let changing = ["make", "python3 -V", "env true", "true $x", "git status", "nowhere-to-be-found", "cd sub && true"];
    let bench = Bench::new(turns(changing.map(escalated).into_iter().chain([
        escalated("true a"),
        escalated("true a"),
        escalated("true b"),
    ])));
    let mut thread = bench.thread(ApprovalPolicy::OnRequest);
    for line in changing {
        let request = refuse(&mut thread).await;
        assert_eq!(request.for_thread, None, "{line}");
    }
    let request = approve_for_thread(&mut thread).await;
    let covered = request.for_thread.as_deref().unwrap();
    assert!(covered.starts_with("exactly this command in ") && covered.contains("outside of the sandbox"), "{covered}");
    unasked(&mut thread).await;
    refuse(&mut thread).await;
    assert_eq!(bench.commands(), ["spawn true a outside", "spawn true a outside"]);
}

#[tokio::test]
async fn a_directory_of_programs_that_commands_write_makes_every_program_another() {
    let bench = Bench::with(turns([escalated("true a")]), |config| {
        let path = format!("{}/bin:/usr/bin:/bin", config.cwd.display());
        config.child_env.insert("PATH".into(), path.into());
        std::fs::create_dir(config.cwd.join("bin")).unwrap();
    });
    let mut thread = bench.thread(ApprovalPolicy::OnRequest);
    assert_eq!(refuse(&mut thread).await.for_thread, None);
}

#[tokio::test]
async fn a_link_to_a_program_is_as_good_as_where_it_lies() {
    let bench = Bench::new(turns([escalated("./true a")]));
    std::os::unix::fs::symlink("/usr/bin/true", bench.cwd().join("true")).unwrap();
    let mut thread = bench.thread(ApprovalPolicy::OnRequest);
    assert_eq!(refuse(&mut thread).await.for_thread, None);
}

#[tokio::test]
async fn a_rule_that_takes_the_sandbox_away_speaks_of_one_command_that_stays_what_it_is() {
    let off = |words: &[&str]| CommandRule { leaves_sandbox: true, ..CommandRule::new(words, RuleDecision::Allow) };
    let plain = CommandRule::new(&["false"], RuleDecision::Allow);
    let rules: Arc<[CommandRule]> = [off(&["true", "a"]), off(&["./run.sh"]), plain].into();
    let lines = ["true a", "true a b", "true a; cat /etc/passwd", "./run.sh", "false"];
    let bench = Bench::with(turns(lines.map(escalated)), |config| config.rules = rules);
    script(&bench.cwd().join("run.sh"));
    let mut thread = bench.thread(ApprovalPolicy::OnRequest);
    unasked(&mut thread).await;
    for line in &lines[1..] {
        let request = refuse(&mut thread).await;
        assert!(!request.confined, "{line}");
    }
    assert_eq!(bench.commands(), ["spawn true a outside"]);
}

#[tokio::test]
async fn an_approval_by_prefix_gives_its_commands_one_thing_inside_the_sandbox() {
    let with_network = |line: &str| {
        call(json!({
            "cmd": line,
            "sandbox_permissions": "with_additional_permissions",
            "additional_permissions": { "network": true },
            "prefix_rule": ["npm", "ci"],
        }))
    };
    let with_directory = |line: &str, directory: &str| {
        call(json!({ "cmd": line, "additional_permissions": { "write": directory }, "prefix_rule": ["npm", "ci"] }))
    };
    let bench = Bench::new(turns([
        with_network("npm ci"),
        with_network("npm ci --verbose"),
        with_network("npm ci; curl x"),
        with_directory("npm ci", "/usr/share"),
        with_directory("npm ci", "/usr/share"),
        escalated("npm ci"),
        call(json!({ "cmd": "npm ci" })),
        with_directory("npm ci", ".git"),
        with_directory("npm ci", "/"),
    ]));
    let mut thread = bench.thread(ApprovalPolicy::OnRequest);
    let request = approve_for_thread(&mut thread).await;
    assert_eq!((request.confined, request.widening.clone()), (false, Some(Widening::Network)));
    let covered = request.for_thread.as_deref().unwrap();
    assert_eq!(covered, "commands that begin with `npm ci`, inside the sandbox with the network");
    unasked(&mut thread).await;
    assert_eq!(refuse(&mut thread).await.for_thread, None, "not all of the line begins so");
    let request = approve_for_thread(&mut thread).await;
    assert_eq!(request.widening, Some(Widening::Directory("/usr/share".into())));
    unasked(&mut thread).await;
    let request = refuse(&mut thread).await;
    assert_eq!((request.widening.clone(), request.for_thread.clone()), (None, None), "npm runs what others wrote");
    unasked(&mut thread).await;
    assert_eq!(
        bench.commands(),
        [
            "spawn npm ci with network",
            "spawn npm ci --verbose with network",
            "spawn npm ci writing [\"/usr/share\"]",
            "spawn npm ci writing [\"/usr/share\"]",
            "spawn npm ci"
        ]
    );
    for _ in 0..2 {
        unasked(&mut thread).await;
        assert!(bench.outputs().last().unwrap().contains("is not opened for writing"), "{:?}", bench.outputs());
    }
    assert_eq!(bench.commands().len(), 5, "nothing more has run");
}

#[tokio::test]
async fn git_commits_inside_the_sandbox_for_the_prefix_that_is_approved() {
    let git = |line: &str| {
        let more = json!({ "git": true });
        call(json!({ "cmd": line, "additional_permissions": more, "prefix_rule": ["git"], "justification": "j" }))
    };
    let bench =
        Bench::new(turns([git("git add . && git commit -m x"), git("git commit -m y"), git("make; git commit -m z")]));
    let mut thread = bench.thread(ApprovalPolicy::OnRequest);
    let request = approve_for_thread(&mut thread).await;
    assert_eq!((request.confined, request.widening.clone()), (false, Some(Widening::Git)));
    let covered = request.for_thread.as_deref().unwrap();
    assert_eq!(covered, "commands that begin with `git`, inside the sandbox with git that commits to the repository");
    unasked(&mut thread).await;
    unasked(&mut thread).await;
    assert!(bench.outputs().last().unwrap().contains("every part is git"), "{:?}", bench.outputs());
    let ran = bench.commands();
    assert_eq!(ran, ["spawn git add . && git commit -m x committing", "spawn git commit -m y committing"]);
}
