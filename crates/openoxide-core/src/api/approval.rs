//! Questions a turn asks before it acts, and the decisions that settle them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{ApprovalId, ThreadId, TurnId};

/// What a turn wants to do and may not do unasked.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequest {
    /// Names the question; the decision must carry it.
    pub id: ApprovalId,
    /// The thread that asks.
    pub thread_id: ThreadId,
    /// The turn that asks.
    pub turn_id: TurnId,
    /// The model's tool call behind it.
    pub call_id: String,
    /// Why the model says it needs this.
    pub justification: Option<String>,
    /// Why it is asked: what the rules say of it, in a sentence without a full stop.
    pub reason: String,
    /// Whether it is done within the thread's sandbox. Otherwise approving it lets it go further, or nothing confines the
    /// thread at all.
    pub confined: bool,
    /// What is asked.
    pub action: ApprovalAction,
}

/// The action under question.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ApprovalAction {
    /// Run a command.
    Command {
        /// The exact argument vector.
        argv: Vec<String>,
        /// The directory it runs in.
        #[serde(serialize_with = "crate::path_text::serialize")]
        cwd: PathBuf,
    },
    /// Type into a command that runs in the background.
    Input {
        /// The command's number; it holds while the process that started the command lives.
        command_id: u64,
        /// The command's argument vector; empty where no command of this number runs.
        argv: Vec<String>,
        /// The command's directory.
        #[serde(serialize_with = "crate::path_text::serialize")]
        cwd: PathBuf,
        /// What is typed, as it is.
        text: String,
    },
    /// Change files.
    Patch {
        /// The changes, in the patch's order.
        changes: Vec<FileChange>,
        /// All of them as one unified diff.
        unified_diff: String,
    },
    /// Nothing is done; the person is asked something.
    UserInput {
        /// 1 to 3 of them.
        questions: Vec<UserQuestion>,
    },
}

/// A question of the model's to the person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserQuestion {
    /// Names the answer: letters, digits and `_`.
    pub id: String,
    /// A sentence.
    pub question: String,
    /// Answers to choose from; none for a free one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<UserOption>,
}

/// An answer to choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserOption {
    /// A few words.
    pub label: String,
    /// What it would mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// One file that a patch changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileChange {
    /// Path, relative to the thread's directory where it lies beneath it.
    #[serde(serialize_with = "crate::path_text::serialize")]
    pub path: PathBuf,
    /// What happens to it.
    pub kind: FileChangeKind,
    /// Where it moves to, shown in the same way.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "crate::path_text::serialize_option")]
    pub move_to: Option<PathBuf>,
    /// Its own unified diff, with the same paths.
    pub diff: Arc<str>,
}

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileChangeKind {
    /// It is created.
    Add,
    /// Its content or name changes.
    Update,
    /// It is removed.
    Delete,
}

/// One answer that holds for the rest of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum RememberedApproval {
    /// The exact command in the exact directory.
    Command {
        /// Its arguments.
        argv: Vec<String>,
        /// Its directory.
        #[serde(with = "crate::path_text")]
        cwd: PathBuf,
        /// Whether it may leave the sandbox.
        leaves_sandbox: bool,
    },
    /// Patches.
    Patches {
        /// Whether also those that reach beyond the sandbox.
        leaves_sandbox: bool,
    },
}

/// The answer to an [`ApprovalRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Do it, once.
    Approve,
    /// The answers to [`ApprovalAction::UserInput`], by the ids of its questions.
    Answer(BTreeMap<String, String>),
    /// Do it, and do not ask again on this thread for the same argument vector in the same directory (commands), or
    /// for any patch (patches).
    ApproveForThread,
    /// Do not do it; the turn goes on and the model is told.
    Deny {
        /// Which kind of no.
        reason: DenialReason,
        /// The decider's own words, told to the model.
        note: Option<String>,
    },
    /// Do not do it and end the turn (`interrupted`).
    DenyAndStop {
        /// The decider's own words.
        note: Option<String>,
    },
}

/// Who settled a question. Its display form is what rollouts have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decider {
    /// Whoever sits at a client of this name.
    Client(Option<String>),
    /// The operator's rule, by its name, for questions nobody can be asked.
    Strategy(&'static str),
    /// Nobody: the time for an answer was over.
    TimeOut,
    /// Nobody: the turn that asked ended first.
    TurnEnd,
}

impl std::fmt::Display for Decider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Client(Some(name)) => write!(f, "client {}", openoxide_display::visible_text(name)),
            Self::Client(None) => f.write_str("client"),
            Self::Strategy(name) => write!(f, "approval strategy {name}"),
            Self::TimeOut => f.write_str("time-out"),
            Self::TurnEnd => f.write_str("end of turn"),
        }
    }
}

/// Which kind of no a denial was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DenialReason {
    /// Somebody said no.
    Declined,
    /// Somebody dismissed the question, or its turn ended first.
    Cancelled,
    /// The answer was an error or not understood.
    Error,
    /// No answer came in time.
    TimedOut,
    /// Whoever was asked went away.
    Disconnected,
    /// There was nobody who could be asked.
    NotAskable,
}

/// An action that was not done, as reported in a turn's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Denial {
    /// The action, for a person: the command line with control characters made visible, or the files.
    pub what: String,
    /// Which kind of no.
    pub reason: DenialReason,
    /// The decider's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl DenialReason {
    /// The word used on every wire and in rollouts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Declined => "declined",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
            Self::TimedOut => "timed_out",
            Self::Disconnected => "disconnected",
            Self::NotAskable => "not_askable",
        }
    }
}
