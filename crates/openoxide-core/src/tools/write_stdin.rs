//! `write_stdin`: goes on with a command that was left in the background: types into it, waits, reads what is new.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use openoxide_llm::ToolSpec;
use openoxide_sandbox::SandboxMode;
use serde_json::json;
use tokio::time::Instant;

use super::args::Args;
use super::exec_command::{CAPTURE_LIMIT, exit_line, follow, report};
use super::output::{Capture, bytes_of};
use super::{CallOutcome, Prepared, ToolCall};
use super::{PreparedCall, ToolAccess, ToolEnv};
use crate::rules::approvals::Question;
use crate::{ApprovalAction, ItemStatus, TurnItemKind};

/// Its name.
const NAME: &str = "write_stdin";

const MIN_YIELD_MS: u64 = 250;
const DEFAULT_POLL_MS: u64 = 5_000;
const MAX_YIELD_MS: u64 = 300_000;

/// What is offered to the model.
fn spec() -> ToolSpec {
    ToolSpec::Function {
        name: NAME.to_owned(),
        description: "Continues with a command that is still running: types into its terminal if it has one, waits, \
                      and returns what it printed since."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "session_id": {"type": "integer", "description": "The id that exec_command returned."},
                "chars": {"type": "string", "description": "What to type; the command needs tty: true. \\u0003 interrupts (SIGINT) and \\u0004 ends the input, also without tty. Empty or absent: only wait."},
                "yield_time_ms": {"type": "integer", "description": "How long to wait for its end, 250 to 300000. Default: 250 after typing, else 5000."},
                "max_output_tokens": {"type": "integer", "description": "The most output to return; more is cut in the middle."}
            },
            "required": ["session_id"],
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

    fn parse(&self, _: &ToolEnv, call: &ToolCall) -> Result<Box<dyn PreparedCall>, String> {
        Ok(Box::new(WriteStdin::new(&mut Args::parse(&call.input)?)?))
    }
}

/// A call whose arguments are understood.
#[derive(Debug, Clone)]
struct WriteStdin {
    session: u64,
    chars: String,
    wait: Duration,
    max_tokens: Option<u64>,
}

impl PreparedCall for WriteStdin {
    fn prepare<'a>(&'a mut self, env: &'a ToolEnv) -> BoxFuture<'a, Prepared> {
        // Nobody is asked about what nothing would take; a call before this may still start it.
        let prepared = match env.commands().background(self.session) {
            None => {
                let item = self.item(env, ItemStatus::Failed);
                Prepared::Refused { message: self.nothing_runs(env), item, later: true }
            }
            Some(_) => {
                let (item, question) = (self.item(env, ItemStatus::InProgress), self.question(env));
                Prepared::Ready { item, question, exclusive: false }
            }
        };
        std::future::ready(prepared).boxed()
    }

    fn run(self: Box<Self>, env: ToolEnv, item_id: u64) -> BoxFuture<'static, CallOutcome> {
        self.type_and_read(env, item_id).boxed()
    }

    fn again(&self) -> Box<dyn PreparedCall> {
        Box::new(self.clone())
    }
}

impl WriteStdin {
    /// Understands a call.
    fn new(args: &mut Args) -> Result<Self, String> {
        let session = args
            .optional_number("session_id")?
            .ok_or("`session_id` is missing; give the number that `exec_command` returned.")?;
        let chars = args.optional_text("chars")?.unwrap_or_default();
        let default = if chars.is_empty() { DEFAULT_POLL_MS } else { MIN_YIELD_MS };
        let wait_ms = args.optional_number("yield_time_ms")?.unwrap_or(default);
        Ok(Self {
            session,
            chars,
            wait: Duration::from_millis(wait_ms.clamp(MIN_YIELD_MS, MAX_YIELD_MS)),
            max_tokens: args.optional_number("max_output_tokens")?,
        })
    }

    /// What a person may have to decide. What is typed may be a command of its own (into a shell), so it is asked about like one; keys that
    /// only end something are not.
    fn question(&self, env: &ToolEnv) -> Option<Question> {
        let only_ends = self.chars.chars().all(|c| matches!(c, '\u{3}' | '\u{4}'));
        let command = env.commands().background(self.session);
        let is_outside = command.as_ref().is_some_and(|command| !command.confined);
        (!only_ends).then(|| {
            let (argv, cwd) =
                command.map_or_else(|| (Vec::new(), env.cwd().to_owned()), |command| (command.argv, command.cwd));
            let text = self.chars.clone();
            // A shell that left the sandbox would run it there.
            let leaves_sandbox = is_outside && env.sandbox() != SandboxMode::DangerFullAccess;
            let action = ApprovalAction::Input { command_id: self.session, argv, cwd, text };
            Question { leaves_sandbox, ..Question::new(action) }
        })
    }

    /// Types, waits and reads.
    async fn type_and_read(self, env: ToolEnv, item_id: u64) -> CallOutcome {
        let began = Instant::now();
        let sessions = Arc::clone(env.commands());
        let Some(session) = sessions.background(self.session) else {
            return self.failed(&env, self.nothing_runs(&env));
        };
        if !self.chars.is_empty()
            && let Err(error) = session.command.write_stdin(self.chars.as_bytes()).await
        {
            return self.failed(
                &env,
                format!(
                    "Nothing was typed into session {}: {error}. A command that is to be typed into is started with \
                 `tty: true`; without, only \\u0003 (SIGINT) and \\u0004 (end of input) are understood.",
                    self.session
                ),
            );
        }
        let mut capture = Capture::new(CAPTURE_LIMIT);
        let exit = follow(&*session.command, self.wait, &mut capture, |delta| env.emit_delta(item_id, delta)).await;
        let head = match exit {
            Some(exit) => {
                sessions.exited(self.session);
                exit_line(exit)
            }
            None => format!("still running, session_id: {}", self.session),
        };
        let limit = env.output_limit();
        let limit =
            self.max_tokens.map_or(limit, |tokens| limit.min(bytes_of(usize::try_from(tokens).unwrap_or(usize::MAX))));
        CallOutcome {
            output: report(&head, began.elapsed(), &capture.text(), limit),
            item: self.item(&env, ItemStatus::Completed),
            plan: None,
            image: None,
            again: None,
        }
    }

    fn nothing_runs(&self, env: &ToolEnv) -> String {
        let known: Vec<String> = env.commands().background_ids().iter().map(u64::to_string).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        format!("No command runs under session {}; running: {known}.", self.session)
    }

    fn failed(&self, env: &ToolEnv, output: String) -> CallOutcome {
        CallOutcome::plain(output, self.item(env, ItemStatus::Failed))
    }

    fn item(&self, env: &ToolEnv, status: ItemStatus) -> TurnItemKind {
        let what = env.commands().background(self.session).map_or_else(
            || format!("session {}", self.session),
            |session| openoxide_display::command_line(&session.argv),
        );
        let summary = if self.chars.is_empty() { format!("waiting for {what}") } else { format!("typing into {what}") };
        env.tool_item(NAME, summary, status)
    }
}
