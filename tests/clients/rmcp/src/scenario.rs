//! The steps of one conversation and their checks: the twin of scenario.py, and the same for tasks.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rmcp::model::TaskPayload;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::{sleep, timeout};

use crate::Client;

pub(crate) const STEPS: &str = "tools, a turn with an approval, a reply, a denial, a cancel, a short wait, an error";
pub(crate) const TASK_STEPS: &str = "a task, its approval, its cancel, its result, a wrong argument";

/// A command that would run for half a minute, and whose life shows: it and its children hold a pipe open.
struct SlowCommand {
    directory: PathBuf,
    path: PathBuf,
    output: pipe::Receiver,
}

impl SlowCommand {
    const PROMPT: &str = "run `(echo started; sleep 30) > alive`";

    fn new(directory: &Path) -> Self {
        let path = directory.join("alive");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let output = pipe::OpenOptions::new().open_receiver(&path).unwrap();
        Self { directory: directory.to_owned(), path, output }
    }

    async fn started(&mut self) {
        let mut said = [0; 100];
        let read = timeout(Duration::from_secs(60), self.output.read(&mut said)).await;
        let length = read.expect("the slow command starts").unwrap();
        assert_eq!(&said[..length], b"started\n");
    }

    /// Well before the command would end by itself.
    async fn dead(mut self) {
        let mut said = [0; 100];
        let read = timeout(Duration::from_secs(15), self.output.read(&mut said)).await;
        assert_eq!(read.expect("the slow command is killed").unwrap(), 0, "the slow command only ends");
        fs::remove_file(&self.path).unwrap();
        // What the sandbox lays over protected names goes a little after the command.
        let deadline = Instant::now() + Duration::from_secs(15);
        while fs::read_dir(&self.directory)
            .unwrap()
            .any(|entry| entry.unwrap().file_name().as_encoded_bytes()[0] == b'.')
        {
            assert!(Instant::now() < deadline, "something hidden stays in {}", self.directory.display());
            sleep(Duration::from_millis(10)).await;
        }
    }
}

/// What `openoxide` refuses, so that it names the field and what it allows.
async fn refuse_wrong_argument(client: &Client, directory: &Path) {
    let arguments = json!({ "prompt": "run `touch wrong.txt`", "cwd": directory, "sandbox": "everything" });
    let refused = client.call("openoxide", arguments).await;
    assert!(refused["isError"] == true && refused.get("structuredContent").is_none(), "{refused}");
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("sandbox") && text.contains("workspace-write"), "{text}");
    assert!(!directory.join("wrong.txt").exists(), "a call with a wrong argument does nothing");
}

fn completed(result: &Value) -> &Value {
    let structured = &result["structuredContent"];
    assert!(result["isError"] != true && structured["status"] == "completed", "{result}");
    structured
}

/// What every client must see.
pub(crate) async fn converse(client: &Client) {
    let person = client.person();
    assert_eq!(client.tools().await, ["openoxide", "openoxide-reply", "openoxide-query"]);
    let work = tempfile::Builder::new().prefix("openoxide-client-").tempdir().unwrap();
    let made = |name: &str| work.path().join(name).exists();

    let arguments = json!({ "prompt": "run `touch approved.txt`", "cwd": work.path(), "approval_policy": "untrusted" });
    let first = client.call("openoxide", arguments).await;
    let thread = completed(&first)["threadId"].as_str().unwrap();
    assert!(first["content"][0]["text"].as_str().unwrap().contains(thread), "the text names the thread as well");
    let questions = person.questions();
    assert!(questions.len() == 1 && questions[0].contains("touch approved.txt"), "{questions:?}");
    assert!(made("approved.txt"), "the approved command ran");
    assert!(person.progress.load(Ordering::Relaxed) > 0, "progress was sent");
    let reply = |prompt: &str| client.call("openoxide-reply", json!({ "thread_id": thread, "prompt": prompt }));

    let second = reply("run `touch second.txt`").await;
    assert_eq!(completed(&second)["threadId"], thread);
    assert!(person.questions().len() == 2 && made("second.txt"), "the reply's command ran");

    *person.declines.lock().unwrap() = true;
    let third = reply("run `touch declined.txt`").await;
    *person.declines.lock().unwrap() = false;
    assert_eq!(completed(&third)["denials"][0]["reason"], "declined");
    assert!(person.questions().len() == 3 && !made("declined.txt"), "the declined command did not run");

    // Whoever stops waiting drops the future, and the SDK tells the server.
    let mut slow = SlowCommand::new(work.path());
    tokio::select! {
        result = reply(SlowCommand::PROMPT) => panic!("the call ended by itself: {result}"),
        () = slow.started() => {}
    }
    slow.dead().await;
    let after = reply("run `touch after.txt`").await;
    completed(&after);
    assert!(made("after.txt"), "the thread goes on after a call that was given up");

    // What a client with a wall does: the call answers before it, and the turn goes on until it is interrupted.
    let mut slow = SlowCommand::new(work.path());
    let arguments = json!({ "thread_id": thread, "prompt": SlowCommand::PROMPT, "wait_seconds": 2 });
    let early = client.call("openoxide-reply", arguments).await;
    assert_eq!(early["structuredContent"]["status"], "running");
    slow.started().await;
    let stopped = client.call("openoxide-reply", json!({ "thread_id": thread, "interrupt": true })).await;
    assert_eq!(stopped["structuredContent"]["status"], "interrupted");
    slow.dead().await;

    refuse_wrong_argument(client, work.path()).await;
}

/// What a client that declares tasks must see.
pub(crate) async fn tasks(client: &Client) {
    let work = tempfile::Builder::new().prefix("openoxide-client-").tempdir().unwrap();
    let made = |name: &str| work.path().join(name).exists();

    let arguments = json!({ "prompt": "run `touch asked.txt`", "cwd": work.path(), "approval_policy": "untrusted" });
    let task = client.begin_task("openoxide", arguments).await;
    client.answer_task(&task, json!({ "action": "accept", "content": { "decision": "approve" } })).await;
    let result = client.task_result(&task).await;
    assert_eq!(result["status"], "completed", "{result}");
    assert!(made("asked.txt"), "the approved command ran");
    assert!(client.person().questions().is_empty(), "a task's questions are answered by updates only");
    let thread = &result["threadId"];

    let mut slow = SlowCommand::new(work.path());
    let arguments = json!({ "thread_id": thread, "prompt": SlowCommand::PROMPT });
    let cancelled = client.begin_task("openoxide-reply", arguments).await;
    client.answer_task(&cancelled, json!({ "action": "accept", "content": { "decision": "approve" } })).await;
    slow.started().await;
    client.cancel_task(&cancelled).await;
    slow.dead().await;
    client.task_until(&cancelled, |payload| matches!(payload, TaskPayload::Cancelled)).await;

    let arguments = json!({ "thread_id": thread, "prompt": "say hello" });
    let last = client.begin_task("openoxide-reply", arguments).await;
    let result = client.task_result(&last).await;
    assert!(result["status"] == "completed" && result["threadId"] == *thread, "{result}");

    refuse_wrong_argument(client, work.path()).await;
}
