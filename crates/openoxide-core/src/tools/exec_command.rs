//! `exec_command`: one shell command, waited for up to its yield and then left running in the background.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use openoxide_display::quote_path;
use openoxide_llm::ToolSpec;
use openoxide_sandbox::{ExitStatus, SandboxMode, WaitOutcome, Workspace, WorkspaceError};
use serde_json::json;
use tokio::time::Instant;

use super::args::Args;
use super::blocking::NoAnswer;
use super::env::{Files, WantedCommand};
use super::output::{Capture, StopFlag, bytes_of, truncate};
use super::runner::Running;
use super::{CallOutcome, Prepared, ToolCall};
use super::{PreparedCall, ToolAccess, ToolEnv, apply_patch};
use crate::rules::approvals::Question;
use crate::{ApprovalAction, ApprovalPolicy, CoreError, ItemStatus, Request, RuleDecision, TurnItemKind, decide};

/// Its name.
const NAME: &str = "exec_command";

/// Bytes of output kept of one command.
pub(super) const CAPTURE_LIMIT: usize = 1 << 20;

const DEFAULT_YIELD_MS: u64 = 10_000;
const MIN_YIELD_MS: u64 = 250;
const MAX_YIELD_MS: u64 = 30_000;

/// What is offered to the model.
fn spec() -> ToolSpec {
    ToolSpec::Function {
        name: NAME.to_owned(),
        description: "Runs a shell command and returns its exit code and output. A command that runs longer than \
                      yield_time_ms goes on in the background; write_stdin continues with its session id."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "cmd": {"type": "string", "description": "The command line, for the shell."},
                "workdir": {"type": "string", "description": "Directory to run in; default: the thread's directory."},
                "tty": {"type": "boolean", "description": "Give it a terminal that write_stdin can type into. Default: false, and stdin is empty."},
                "yield_time_ms": {"type": "integer", "description": "How long to wait for it before it goes on in the background, 250 to 30000. Default: 10000."},
                "max_output_tokens": {"type": "integer", "description": "The most output to return; more is cut in the middle."},
                "login": {"type": "boolean", "description": "Use a login shell. Default: false."},
                "sandbox_permissions": {"type": "string", "enum": ["use_default", "require_escalated"], "description": "require_escalated asks a person first to let the command run without the sandbox."},
                "justification": {"type": "string", "description": "With require_escalated: one sentence for the person on why."}
            },
            "required": ["cmd"],
            "additionalProperties": false
        }),
    }
}

/// See the module.
pub(super) struct Tool;

impl super::tool::Tool for Tool {
    fn spec(&self) -> ToolSpec {
        spec()
    }

    fn access(&self) -> ToolAccess {
        ToolAccess::Query
    }

    fn gives_pictures(&self) -> bool {
        false
    }

    fn parse(&self, env: &ToolEnv, call: &ToolCall) -> Result<Box<dyn PreparedCall>, String> {
        parse(env, &mut Args::parse(&call.input)?)
    }
}

/// A command whose arguments are understood.
#[derive(Debug, Clone)]
struct ExecCommand {
    argv: Vec<String>,
    /// Where it runs. What the model names may be a link, which [`ExecCommand::find_directory`] follows once, before anybody
    /// is asked: what is shown, remembered and run is where that leads.
    cwd: PathBuf,
    /// Whether the model named a directory.
    names_directory: bool,
    tty: bool,
    wait: Duration,
    max_output_bytes: usize,
    escalated: bool,
    justification: Option<String>,
}

/// Understands a call: a command, or a patch written as one.
fn parse(env: &ToolEnv, args: &mut Args) -> Result<Box<dyn PreparedCall>, String> {
    let command = args.text("cmd")?;
    let workdir = args.optional_text("workdir")?.unwrap_or_default();
    let cwd = env.resolve(&workdir);
    if let Some(patch) = openoxide_apply_patch::extract_from_shell(&command) {
        let root = patch.workdir.map_or_else(|| cwd.clone(), |directory| cwd.join(directory));
        return Ok(Box::new(apply_patch::ApplyPatch::at(root, &patch.patch)?));
    }
    let escalated = match args.optional_text("sandbox_permissions")?.as_deref() {
        None | Some("use_default") => false,
        Some("require_escalated") => true,
        Some(other) => {
            return Err(format!("`sandbox_permissions` must be `use_default` or `require_escalated`, not `{other}`."));
        }
    };
    let shell = env.shell();
    let flag = if args.flag("login")? { "-lc" } else { "-c" };
    let wait_ms = args.optional_number("yield_time_ms")?.unwrap_or(DEFAULT_YIELD_MS);
    let limit = env.output_limit();
    Ok(Box::new(ExecCommand {
        argv: vec![shell.to_owned(), flag.to_owned(), command],
        // The thread's own is held, and has no link in it.
        names_directory: cwd != env.cwd(),
        cwd,
        tty: args.flag("tty")?,
        wait: Duration::from_millis(wait_ms.clamp(MIN_YIELD_MS, MAX_YIELD_MS)),
        max_output_bytes: args
            .optional_number("max_output_tokens")?
            .map_or(limit, |tokens| limit.min(bytes_of(usize::try_from(tokens).unwrap_or(usize::MAX)))),
        escalated,
        justification: args.optional_text("justification")?.filter(|text| !text.trim().is_empty()),
    }))
}

/// What programs say when the sandbox has stopped them. Other things make them say it too; a person decides.
const SIGNS: [&str; 9] = [
    "Read-only file system",
    "Operation not permitted",
    "Permission denied",
    "Network is unreachable",
    "Temporary failure in name resolution",
    "Could not resolve host",
    "EROFS",
    "EPERM",
    "EAI_AGAIN",
];

fn sign_of_sandbox(text: &str) -> Option<&'static str> {
    SIGNS.into_iter().find(|sign| text.contains(sign))
}

impl PreparedCall for ExecCommand {
    fn prepare<'a>(&'a mut self, env: &'a ToolEnv) -> BoxFuture<'a, Prepared> {
        async move {
            match self.find_directory(env).await {
                Ok(()) => self.prepared(env),
                Err(why) => Prepared::Refused {
                    message: format!("The command could not be started: {why}."),
                    item: self.item(env, None, String::new(), Duration::ZERO, ItemStatus::Failed),
                    // An earlier call may make it.
                    later: true,
                },
            }
        }
        .boxed()
    }

    fn waits_for_files(&self) -> bool {
        self.names_directory
    }

    fn run(self: Box<Self>, env: ToolEnv, item_id: u64) -> BoxFuture<'static, CallOutcome> {
        self.start_and_follow(env, item_id).boxed()
    }

    fn again(&self) -> Box<dyn PreparedCall> {
        Box::new(self.clone())
    }

    fn leave_sandbox(&mut self) {
        self.escalated = true;
    }
}

impl ExecCommand {
    /// Finds out which directory the model's words lead to.
    async fn find_directory(&mut self, env: &ToolEnv) -> Result<(), String> {
        if !self.names_directory {
            return Ok(());
        }
        let named = self.cwd.clone();
        let found = env.blocking(move |_, _| directory_of(&named)).await;
        self.cwd = found.unwrap_or_else(|_| Err("its directory does not answer".to_owned()))?;
        Ok(())
    }

    /// What it shows, and what a person may have to decide.
    fn prepared(&self, env: &ToolEnv) -> Prepared {
        Prepared::Ready {
            item: self.item(env, None, String::new(), Duration::ZERO, ItemStatus::InProgress),
            question: Some(Question {
                action: ApprovalAction::Command { argv: self.argv.clone(), cwd: self.cwd.clone() },
                leaves_sandbox: self.escalated,
                justification: self.justification.clone(),
            }),
            exclusive: false,
        }
    }

    /// Starts the command and follows it for the time given.
    async fn start_and_follow(self, env: ToolEnv, item_id: u64) -> CallOutcome {
        let began = Instant::now();
        let not_started = |why: String| {
            let item = self.item(&env, None, String::new(), began.elapsed(), ItemStatus::Failed);
            CallOutcome::plain(format!("The command could not be started: {why}."), item)
        };
        let turn_to_start = env.turn_to_start().await;
        let environment = env.command_environment().await;
        let Place { workspace, temporary } = match place(&env, self.cwd.clone()).await {
            Ok(place) => place,
            Err(why) => return not_started(why),
        };
        let mode = env.command_mode(self.escalated);
        if mode != SandboxMode::ReadOnly && !self.only_reads() {
            env.look_before().await;
        }
        let starting = env.spawn(WantedCommand {
            argv: self.argv.clone(),
            cwd: self.cwd.clone(),
            env: environment,
            tty: self.tty,
            escalated: self.escalated,
            temporary,
            output_limit: CAPTURE_LIMIT,
        });
        drop(turn_to_start);
        let command = match starting.await {
            Ok(command) => command,
            Err(why) => return not_started(why),
        };
        let (commands, confined) = (env.commands(), mode != SandboxMode::DangerFullAccess);
        let session =
            commands.add(Arc::clone(&command), self.argv.clone(), self.cwd.clone(), confined, env.turn_id(), workspace);
        let mut capture = Capture::new(CAPTURE_LIMIT);
        let exit = follow(&*command, self.wait, &mut capture, |delta| env.emit_delta(item_id, delta)).await;
        let text = capture.text();
        let took = began.elapsed();
        let (head, code, status) = match exit {
            Some(exit) => {
                commands.exited(session);
                let status = if exit.code == Some(0) { ItemStatus::Completed } else { ItemStatus::Failed };
                (exit_line(exit), Some(exit_code(exit)), status)
            }
            None => {
                let ended = commands.leave(session);
                let mut head = format!("still running, session_id: {session}");
                if let Some(ended) = ended {
                    head.push_str(&format!(
                        "\nsession {ended} was ended: it was the oldest, and no more may run in the background"
                    ));
                }
                (head, None, ItemStatus::InProgress)
            }
        };
        let asks_after = confined && env.approval_policy() == ApprovalPolicy::OnFailure;
        let sign = code.filter(|code| asks_after && *code != 0).and_then(|_| sign_of_sandbox(&text));
        let again = sign.map(|sign| {
            Box::new(Question {
                action: ApprovalAction::Command { argv: self.argv.clone(), cwd: self.cwd.clone() },
                leaves_sandbox: true,
                justification: Some(format!("it failed in the sandbox: {sign}")),
            })
        });
        let output = report(&head, took, &text, self.max_output_bytes);
        CallOutcome { output, item: self.item(&env, code, text, took, status), plan: None, image: None, again }
    }

    /// Whether the command is known to change nothing.
    fn only_reads(&self) -> bool {
        let request = Request::Command { argv: &self.argv, escalated: false };
        decide(ApprovalPolicy::Untrusted, SandboxMode::WorkspaceWrite, &[], request).decision == RuleDecision::Allow
    }

    fn item(
        &self,
        env: &ToolEnv,
        exit_code: Option<i32>,
        output: String,
        took: Duration,
        status: ItemStatus,
    ) -> TurnItemKind {
        TurnItemKind::Command {
            call_id: env.call_id().to_owned(),
            argv: self.argv.clone(),
            cwd: self.cwd.clone(),
            exit_code,
            output,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            status,
        }
    }
}

/// What a command works in.
struct Place {
    workspace: Arc<Workspace>,
    temporary: Option<PathBuf>,
}

/// Where a path leads that is a directory. Blocks on the disk.
fn directory_of(path: &Path) -> Result<PathBuf, String> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    Workspace::resolve(path).map(|directory| directory.path().to_owned()).map_err(|error| match error {
        WorkspaceError::Unusable { source, .. } if matches!(source.kind(), NotADirectory | NotFound) => {
            format!("`workdir` {} is not an existing directory", quote_path(path))
        }
        WorkspaceError::Unusable { path, source } => CoreError::CwdUnusable { path, source }.told(),
        other => format!("`workdir` {}: {other}", quote_path(path)),
    })
}

/// Opens the thread's directory once more and sees to its temporary one, on a thread for that.
async fn place(env: &ToolEnv, cwd: PathBuf) -> Result<Place, String> {
    let work = move |files: &Files, _: &StopFlag| {
        let workspace = files.hold_directory().map_err(|error| error.told())?;
        if cwd != workspace.path() && directory_of(&cwd)? != cwd {
            return Err(format!("{} leads elsewhere than when the command was prepared", quote_path(&cwd)));
        }
        Ok(Place { workspace, temporary: files.temporary_directory()? })
    };
    match env.blocking(work).await {
        Ok(place) => place,
        Err(NoAnswer::Failed) => Err("looking at its directory failed inside".to_owned()),
        Err(NoAnswer::Late) => Err("its directory does not answer".to_owned()),
    }
}

/// Waits for a command's exit, at most so long, passing its output on as it comes.
pub(super) async fn follow(
    command: &dyn Running,
    wait: Duration,
    capture: &mut Capture,
    mut on_delta: impl FnMut(String),
) -> Option<ExitStatus> {
    let deadline = Instant::now() + wait;
    loop {
        // Both futures only wait; dropping the one that lost loses nothing. Once the exit is known `changed` would
        // be ready at once for as long as the last output is awaited, so it is not asked again.
        let left = deadline.saturating_duration_since(Instant::now());
        let outcome = if command.exit_status().is_some() {
            Some(command.wait(left).await)
        } else {
            tokio::select! {
                biased;
                outcome = command.wait(left) => Some(outcome),
                () = command.changed() => None,
            }
        };
        let new = command.take_output();
        if !new.text.is_empty() || new.omitted_bytes > 0 {
            capture.push(&new.text, new.omitted_bytes);
            on_delta(new.text);
        }
        match outcome {
            Some(WaitOutcome::Exited(exit)) => return Some(exit),
            Some(_) => return None,
            None => {}
        }
    }
}

/// The text for the model.
pub(super) fn report(head: &str, took: Duration, text: &str, max_bytes: usize) -> String {
    let text = truncate(text, max_bytes);
    format!("{head}\nwall time: {:.3} s\noutput:\n{text}", took.as_secs_f64())
}

/// The exit for the model.
pub(super) fn exit_line(exit: ExitStatus) -> String {
    match (exit.code, exit.signal) {
        (None, Some(signal)) => format!("exit code: {} (ended by signal {signal})", exit_code(exit)),
        _ => format!("exit code: {}", exit_code(exit)),
    }
}

/// The exit as a shell tells it: 128 and the signal for what a signal ended.
pub(super) fn exit_code(exit: ExitStatus) -> i32 {
    exit.code.or(exit.signal.map(|signal| 128 + signal)).unwrap_or(-1)
}
