//! The tool calls the stand-in makes, and the answers it has had. A turn is planned anew for each request: the steps are
//! gone through from the first, answers are taken from the history in order, and the first call without an answer is
//! the one to make now. So nothing needs to be remembered between requests.

use std::vec::IntoIter;

use serde_json::json;

use super::outputs;
use crate::{HistoryItem, ToolSpec};

/// How long a command that runs is waited for at a time, in milliseconds.
const WAIT_MS: u64 = 30_000;

/// Something to ask of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Exec { cmd: String },
    Wait { session_id: u64 },
    Patch { patch: String },
    Read { path: String, offset: usize, limit: usize },
    List { path: String },
    Grep { pattern: String, max_results: usize },
}

/// Why a step cannot go on now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// These calls come first.
    Call(Vec<Action>),
    /// The tool is not offered.
    NotOffered(&'static str),
    /// The answer says that it was not allowed.
    Denied(String),
}

impl Action {
    fn tool(&self) -> &'static str {
        match self {
            Self::Exec { .. } => "exec_command",
            Self::Wait { .. } => "write_stdin",
            Self::Patch { .. } => "apply_patch",
            Self::Read { .. } => "read_file",
            Self::List { .. } => "list_dir",
            Self::Grep { .. } => "grep",
        }
    }

    /// The call as the history keeps it.
    pub(super) fn into_item(self, call_id: String, tools: &[ToolSpec]) -> HistoryItem {
        let name = self.tool().to_owned();
        let arguments = match self {
            Self::Patch { patch } => {
                let is_freeform =
                    |tool: &ToolSpec| matches!(tool, ToolSpec::Freeform { name: known, .. } if *known == name);
                if tools.iter().any(is_freeform) {
                    return HistoryItem::CustomToolCall { call_id, name, input: patch, carried: None };
                }
                json!({ "input": patch })
            }
            Self::Exec { cmd } => json!({ "cmd": cmd }),
            Self::Wait { session_id } => json!({ "session_id": session_id, "chars": "", "yield_time_ms": WAIT_MS }),
            Self::Read { path, offset, limit } => json!({ "path": path, "offset": offset, "limit": limit }),
            Self::List { path } => json!({ "path": path }),
            Self::Grep { pattern, max_results } => {
                json!({ "pattern": pattern, "path": ".", "max_results": max_results })
            }
        };
        HistoryItem::FunctionCall { call_id, name, arguments: arguments.to_string(), carried: None }
    }
}

/// The answers of the turn so far, and the tools on offer.
pub(super) struct Replay<'a> {
    answers: IntoIter<&'a str>,
    tools: &'a [ToolSpec],
}

impl<'a> Replay<'a> {
    pub(super) fn new(answers: Vec<&'a str>, tools: &'a [ToolSpec]) -> Self {
        Self { answers: answers.into_iter(), tools }
    }

    /// How many answers have not been taken; tells whether a step has begun.
    pub(super) fn left(&self) -> usize {
        self.answers.len()
    }

    pub(super) fn offers(&self, tool: &str) -> bool {
        self.tools.iter().any(|spec| match spec {
            ToolSpec::Function { name, .. } | ToolSpec::Freeform { name, .. } => name == tool,
        })
    }

    /// The answer to this call, or the need to make it.
    pub(super) fn call(&mut self, action: Action) -> Result<&'a str, Pause> {
        if !self.offers(action.tool()) {
            return Err(Pause::NotOffered(action.tool()));
        }
        let may_be_denied = matches!(action, Action::Exec { .. } | Action::Patch { .. } | Action::Wait { .. });
        match self.answers.next() {
            None => Err(Pause::Call(vec![action])),
            Some(answer) if may_be_denied && outputs::is_denial(answer) => Err(Pause::Denied(answer.to_owned())),
            Some(answer) => Ok(answer),
        }
    }

    /// The answers to these calls, which are made at once and change nothing.
    pub(super) fn call_all(&mut self, actions: Vec<Action>) -> Result<Vec<&'a str>, Pause> {
        if let Some(missing) = actions.iter().map(Action::tool).find(|tool| !self.offers(tool)) {
            return Err(Pause::NotOffered(missing));
        }
        if self.answers.len() == 0 && !actions.is_empty() {
            return Err(Pause::Call(actions));
        }
        Ok(self.answers.by_ref().take(actions.len()).collect())
    }
}
