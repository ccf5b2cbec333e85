//! One turn as its watcher sees it: shows what the server says, puts its questions to a person, returns the result.
//!
//! The loop waits for the server and, while a question is open, for a line of the person; whichever comes first is
//! handled. It ends with the call. Nothing here starts or stops a process.

use std::collections::VecDeque;
use std::io::Write;

use anyhow::bail;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};

use super::client::{Client, Incoming, Question};
use super::screen::Screen;
use super::terminal::Asker;

/// Lines of a command's output shown below it.
const OUTPUT_LINES: usize = 12;
const CHOICES: &str = "  approve (a), approve for the whole thread (t), deny (d), deny and stop (s)? ";

/// What a finished call came to.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The `tools/call` result.
    pub(super) result: Value,
    /// The last command that ended, with its exit code.
    pub(super) last_command: Option<(String, i64)>,
}

impl Outcome {
    /// Whether the agent finished.
    pub(super) fn is_completed(&self) -> bool {
        self.result["isError"] != true && self.result["structuredContent"]["status"] == "completed"
    }
}

/// A client, a screen and someone to ask.
pub(super) struct Session<'a, R, W, O> {
    client: &'a mut Client<R, W>,
    screen: &'a mut Screen<O>,
    asker: Asker,
    /// Open questions; the first is on the screen.
    questions: VecDeque<Question>,
    last_command: Option<(String, i64)>,
}

impl<'a, R, W, O> Session<'a, R, W, O>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    O: Write,
{
    /// A session that has not called anything yet.
    pub(super) fn new(client: &'a mut Client<R, W>, screen: &'a mut Screen<O>, asker: Asker) -> Self {
        Self { client, screen, asker, questions: VecDeque::new(), last_command: None }
    }

    /// Runs one call of `openoxide` to its end. A call that answers `running` is followed with `openoxide-reply`.
    ///
    /// # Errors
    /// Where the server goes away, breaks the protocol, or answers with a protocol error.
    pub(super) async fn run(mut self, arguments: Value) -> anyhow::Result<Outcome> {
        self.client.call("openoxide", arguments).await?;
        loop {
            let result = self.follow_call().await?;
            let structured = &result["structuredContent"];
            if structured["status"] != "running" {
                self.screen.clear_live();
                return Ok(Outcome { result, last_command: self.last_command });
            }
            self.client.call("openoxide-reply", json!({ "thread_id": structured["threadId"] })).await?;
        }
    }

    async fn follow_call(&mut self) -> anyhow::Result<Value> {
        loop {
            // Both waits are cancel-safe: a line in part stays in the client, and the asker takes lines from a channel.
            tokio::select! {
                message = self.client.read() => {
                    let Some(message) = message? else {
                        bail!("the server went away before it answered the call");
                    };
                    if let Some(incoming) = self.client.handle(&message).await?
                        && let Some(result) = self.handle_incoming(incoming).await?
                    {
                        return Ok(result);
                    }
                }
                line = self.asker.next_line(), if !self.questions.is_empty() => self.handle_line(line).await?,
            }
        }
    }

    async fn handle_incoming(&mut self, incoming: Incoming) -> anyhow::Result<Option<Value>> {
        match incoming {
            // The person is being asked: a rewritten line would take the question away.
            Incoming::Progress(_) if !self.questions.is_empty() => {}
            Incoming::Progress(message) => self.screen.progress(&message),
            Incoming::Event(event) => self.show_event(&event),
            Incoming::Questions(questions) => {
                let was_idle = self.questions.is_empty();
                self.questions.extend(questions);
                if was_idle {
                    self.ask_next().await?;
                }
            }
            Incoming::Withdrawn(key) => {
                let was_shown = self.questions.front().is_some_and(|question| question.key == key);
                self.questions.retain(|question| question.key != key);
                if was_shown {
                    self.screen.line("\n  the question was withdrawn");
                    self.ask_next().await?;
                }
            }
            Incoming::Result(result) => return Ok(Some(result)),
            Incoming::Error(error) => bail!("the server answered the call with an error: {error}"),
        }
        Ok(None)
    }

    /// Shows the first open question, or answers all of them where the person said so beforehand.
    async fn ask_next(&mut self) -> anyhow::Result<()> {
        while let Some(question) = self.questions.front() {
            self.screen.heading("The agent asks:");
            self.screen.indented(&question.message);
            let field = question.fields.front().map(|(_, ask)| ask.clone());
            match (self.asker.approves_all(), field) {
                (false, None) => {
                    self.screen.prompt(CHOICES);
                    return Ok(());
                }
                (false, Some(ask)) => {
                    self.screen.prompt(&format!("{ask}: "));
                    return Ok(());
                }
                (true, None) => {
                    self.screen.line("  approved (--yes)");
                    self.settle(json!({ "action": "accept", "content": { "decision": "approve" } })).await?;
                }
                (true, Some(_)) => {
                    self.screen.line("  declined: --yes approves, and knows no answers");
                    self.settle(json!({ "action": "decline" })).await?;
                }
            }
        }
        Ok(())
    }

    /// Takes an answer in words, and asks for the next of the same form or sends it.
    async fn handle_words(&mut self, words: &str) -> anyhow::Result<()> {
        let Some(question) = self.questions.front_mut() else { return Ok(()) };
        if let Some((name, _)) = question.fields.pop_front()
            && !words.trim().is_empty()
        {
            question.said.insert(name, words.trim().into());
        }
        if let Some((_, ask)) = question.fields.front() {
            self.screen.prompt(&format!("{ask}: "));
            return Ok(());
        }
        let content = std::mem::take(&mut question.said);
        self.settle(json!({ "action": "accept", "content": content })).await?;
        self.ask_next().await
    }

    async fn handle_line(&mut self, line: Option<String>) -> anyhow::Result<()> {
        if let Some(words) = &line
            && self.questions.front().is_some_and(|question| !question.fields.is_empty())
        {
            return self.handle_words(words).await;
        }
        let decision = match line.as_deref().map(str::trim).map(str::to_ascii_lowercase).as_deref() {
            Some("a" | "approve" | "y" | "yes") => "approve",
            Some("t" | "thread") => "approve_for_thread",
            Some("d" | "deny" | "n" | "no") => "deny",
            Some("s" | "stop") => "deny_and_stop",
            Some(_) => {
                self.screen.prompt(CHOICES);
                return Ok(());
            }
            // Nobody can answer any more.
            None => {
                self.screen.line("\n  no answer: cancelled");
                self.settle(json!({ "action": "cancel" })).await?;
                return self.ask_next().await;
            }
        };
        self.settle(json!({ "action": "accept", "content": { "decision": decision } })).await?;
        self.ask_next().await
    }

    async fn settle(&mut self, answer: Value) -> anyhow::Result<()> {
        match self.questions.pop_front() {
            Some(question) => self.client.answer(&question.key, answer).await,
            None => Ok(()),
        }
    }

    fn show_event(&mut self, event: &Value) {
        let item = &event["item"];
        match (event["type"].as_str(), item["type"].as_str()) {
            (Some("item_completed"), Some("command")) => self.show_command(item),
            (Some("item_completed"), Some("patch")) => {
                let paths: Vec<&str> = item["changes"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|change| change["path"].as_str())
                    .collect();
                self.screen.line(&format!("* patch of {}: {}", paths.join(", "), word(&item["status"])));
            }
            (Some("item_completed"), Some("tool")) => {
                self.screen.line(&format!("* {}", item["summary"].as_str().unwrap_or("a tool call")));
            }
            (Some("warning"), _) => {
                self.screen.line(&format!("! {}", event["message"].as_str().unwrap_or_default()));
            }
            _ => {}
        }
    }

    fn show_command(&mut self, item: &Value) {
        let command = command_line(&item["argv"]);
        match item["exitCode"].as_i64() {
            Some(code) => {
                self.screen.line(&format!("* {command}: exit code {code}"));
                self.last_command = Some((command, code));
            }
            None => self.screen.line(&format!("* {command}: {}", word(&item["status"]))),
        }
        let output = item["output"].as_str().unwrap_or_default();
        let lines: Vec<&str> = output.lines().collect();
        let hidden = lines.len().saturating_sub(OUTPUT_LINES);
        if hidden > 0 {
            self.screen.indented(&format!("[{hidden} lines before this]"));
        }
        self.screen.indented(&lines[hidden..].join("\n"));
    }
}

fn word(status: &Value) -> &str {
    match status.as_str() {
        Some("inProgress") => "still running",
        Some(other) => other,
        None => "done",
    }
}

/// What the shell is told to run, or the whole argument vector.
fn command_line(argv: &Value) -> String {
    let argv: Vec<&str> = argv.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match argv[..] {
        [shell, flag, script] if flag.starts_with('-') && shell.ends_with("sh") => script.to_owned(),
        _ => argv.join(" "),
    }
}
