//! Questions a turn asks before it acts, and the decisions that settle them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{ApprovalId, ThreadId, TurnId, Widening};

/// What a turn wants to do and may not do unasked.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalRequest {
    /// Names the question; the decision must carry it.
    pub id: ApprovalId,
    /// The thread that asks.
    pub thread_id: ThreadId,
    /// The turn that asks.
    pub turn_id: TurnId,
    /// The model's tool call behind it.
    pub call_id: String,
    /// The id that the call's item has once it begins or, where it never does, completes.
    pub item_id: u64,
    /// Why the model says it needs this.
    pub justification: Option<String>,
    /// Why it is asked: what the rules say of it, in a sentence without a full stop.
    pub reason: String,
    /// Whether it is done within the thread's sandbox. Otherwise approving it lets it go further, or nothing confines the
    /// thread at all.
    pub confined: bool,
    /// What a command would be given beside what its sandbox lets it do; it stays in it.
    pub widening: Option<Widening>,
    /// What [`Decision::ApproveForThread`] covers: what follows "approving it for the thread covers", without a full stop.
    /// None where that is not offered, and then it approves once.
    pub for_thread: Option<String>,
    /// What is asked.
    pub action: ApprovalAction,
}

/// The action under question.
#[derive(Debug, Clone, PartialEq)]
pub enum ApprovalAction {
    /// Run a command.
    Command {
        /// The exact argument vector.
        argv: Vec<String>,
        /// The directory it runs in.
        cwd: PathBuf,
    },
    /// Type into a command that runs in the background.
    Input {
        /// The command's number; it holds while the process that started the command lives.
        command_id: u64,
        /// The command's argument vector; empty where no command of this number runs.
        argv: Vec<String>,
        /// The command's directory.
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserQuestion {
    /// Names the answer: letters, digits and `_`.
    pub id: String,
    /// A sentence.
    pub question: String,
    /// Answers to choose from; none for a free one.
    pub options: Vec<UserOption>,
}

/// An answer to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserOption {
    /// A few words.
    pub label: String,
    /// What it would mean.
    pub description: Option<String>,
}

/// One file that a patch changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Path, relative to the thread's directory where it lies beneath it.
    pub path: PathBuf,
    /// What happens to it.
    pub kind: FileChangeKind,
    /// Where it moves to, shown in the same way.
    pub move_to: Option<PathBuf>,
    /// Its own unified diff, with the same paths.
    pub diff: Arc<str>,
}

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileChangeKind {
    /// It is created.
    Add,
    /// Its content or name changes.
    Update,
    /// It is removed.
    Delete,
}

/// One answer that holds for the rest of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RememberedApproval {
    /// The exact command in the exact directory.
    Command {
        /// Its arguments.
        argv: Vec<String>,
        /// Its directory.
        cwd: PathBuf,
        /// Whether it may leave the sandbox.
        leaves_sandbox: bool,
    },
    /// Patches within the sandbox.
    Patches {
        /// True in what older releases wrote, of those that reach beyond it: it covers none.
        leaves_sandbox: bool,
    },
    /// Patches of files beyond the sandbox.
    Files {
        /// Which, absolute and without links.
        files: Vec<PathBuf>,
    },
    /// Commands of a prefix, in the sandbox with one thing more.
    Prefix {
        /// Their first words.
        prefix: Vec<String>,
        /// What they are given.
        widening: Widening,
    },
}

/// The answer to an [`ApprovalRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Do it, once.
    Approve,
    /// The answers to [`ApprovalAction::UserInput`], by the ids of its questions.
    Answer(BTreeMap<String, String>),
    /// Do it, and do not ask again on this thread for what [`ApprovalRequest::for_thread`] says.
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
    /// A client of this name by itself: it answered faster than a person can.
    Host(Option<String>),
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
            Self::Host(Some(name)) => write!(f, "host {} at once", openoxide_display::visible_text(name)),
            Self::Host(None) => f.write_str("host at once"),
            Self::Strategy(name) => write!(f, "approval strategy {name}"),
            Self::TimeOut => f.write_str("time-out"),
            Self::TurnEnd => f.write_str("end of turn"),
        }
    }
}

/// Which kind of no a denial was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The action, for a person: the command line with control characters made visible, or the files.
    pub what: String,
    /// Which kind of no.
    pub reason: DenialReason,
    /// The decider's own words; or, of a host that has denied it by itself, that it did and how to go on.
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
