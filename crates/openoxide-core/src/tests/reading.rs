//! Reading tools, mistaken arguments, and threads that can only read.

use super::support::*;
use crate::{ApprovalPolicy, Event, ThreadConfig, TurnStatus};

async fn outputs_of(calls: Vec<(&'static str, String)>) -> Vec<String> {
    let bench = Bench::new(vec![Say::Calls(calls)]);
    std::fs::write(bench.cwd().join("a.txt"), "alpha\nbeta\n").unwrap();
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("go");
    assert_eq!(thread.ended().await.status, TurnStatus::Completed);
    bench.outputs()
}

#[tokio::test]
async fn files_are_read_listed_and_searched() {
    let mut outputs = outputs_of(vec![
        ("read_file", r#"{"path": "a.txt", "offset": 2}"#.into()),
        ("grep", r#"{"pattern": "^al"}"#.into()),
        ("list_dir", "{}".into()),
    ])
    .await;
    outputs.sort();
    assert_eq!(outputs, [".git/\na.txt\n", "L2: beta\n", "a.txt:1: alpha\n"]);
}

#[tokio::test]
async fn mistaken_arguments_get_a_sentence_that_names_the_field() {
    let cases = [
        ("exec_command", "{}", "`cmd` is missing"),
        ("exec_command", r#"{"cmd": "ls", "workdir": "nowhere"}"#, "`workdir`"),
        ("exec_command", r#"{"cmd": "ls", "sandbox_permissions": "all"}"#, "`require_escalated`"),
        ("read_file", r#"{"path": "a.txt", "offset": 0}"#, "`offset`"),
        ("grep", r#"{"pattern": "("}"#, "`pattern`"),
        ("update_plan", r#"{"plan": [{"step": "x", "status": "maybe"}]}"#, "`in_progress`"),
        ("shell", "{}", "`cmd` is missing"),
        ("teleport", "{}", "There is no tool named `teleport` here; the tools are exec_command,"),
        ("apply_patch", "no patch", "The patch was not applied"),
    ];
    for (tool, arguments, expected) in cases {
        let outputs = outputs_of(vec![(tool, arguments.to_owned())]).await;
        assert!(outputs[0].contains(expected), "{tool} {arguments}: {outputs:?}");
    }
}

#[tokio::test]
async fn a_plan_is_told() {
    let plan = r#"{"plan": [{"step": "look", "status": "in_progress"}, {"step": "mend", "status": "pending"}]}"#;
    let bench = Bench::new(vec![Say::Calls(vec![("update_plan", plan.into())])]);
    let mut thread = bench.thread(ApprovalPolicy::Never);
    thread.prompt("go");
    loop {
        if let Event::Plan { steps, .. } = thread.next().await {
            assert_eq!(steps.len(), 2);
            break;
        }
    }
}

#[tokio::test]
async fn a_query_thread_has_no_way_to_change_anything() {
    let patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch";
    let outside = r#"{"cmd": "echo out", "sandbox_permissions": "require_escalated"}"#;
    let calls = vec![exec("echo hi"), ("apply_patch", patch.into()), ("exec_command", outside.to_owned())];
    let bench = Bench::new(vec![Say::Calls(calls)]);
    let config = ThreadConfig {
        read_only_tools: true,
        sandbox: openoxide_sandbox::SandboxMode::ReadOnly,
        approval_policy: ApprovalPolicy::Never,
        ..bench.manager.config().thread_defaults()
    };
    let mut thread = Watched::new(bench.manager.start_thread(config).unwrap());
    thread.prompt("go");
    thread.ended().await;
    let outputs = bench.outputs();
    let has = |part: &str| outputs.iter().any(|output| output.contains(part));
    assert!(has("hi\n") && has("There is no tool named `apply_patch`"), "{outputs:?}");
    // It asked to leave the sandbox, which nobody can grant here.
    assert!(has("The command was not run"), "{outputs:?}");
    assert_eq!(bench.commands(), ["spawn echo hi"]);
    assert!(!bench.cwd().join("new.txt").exists());
    assert!(!bench.directory.path().join("work/new.txt").exists());
}
