//! The lines of a rollout: what each says. How they are written is `json`'s.

use std::path::PathBuf;
use std::sync::Arc;

use openoxide_llm::{HistoryItem, Role, Usage};
use openoxide_sandbox::SandboxMode;
use time::OffsetDateTime;
use time::macros::format_description;

use super::file_record::FileRecord;
use crate::{
    ApprovalId, ApprovalPolicy, Denial, RememberedApproval, ThreadConfig, ThreadId, TurnId, TurnResult, TurnStatus,
};

/// One line of a rollout.
#[derive(Debug, Clone, PartialEq)]
pub struct RolloutLine {
    /// When it was written: RFC 3339, UTC, milliseconds.
    pub timestamp: String,
    /// What it says.
    pub item: RolloutItem,
}

impl RolloutLine {
    /// A line of this moment.
    #[must_use]
    pub fn now(item: RolloutItem) -> Self {
        let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
        // The format names only parts that every time has.
        let timestamp = OffsetDateTime::now_utc().format(format).unwrap_or_default();
        Self { timestamp, item }
    }
}

/// What a line of a rollout says.
#[derive(Debug, Clone, PartialEq)]
pub enum RolloutItem {
    /// The first line: whose rollout this is.
    SessionMeta(SessionMeta),
    /// What the turn that follows runs with.
    TurnContext(TurnContext),
    /// An item of the history that is replayed to the model.
    ResponseItem(Arc<HistoryItem>),
    /// Something that happened and is not part of the history.
    EventMsg(EventRecord),
    /// From here on the history is this.
    Compacted(Vec<Arc<HistoryItem>>),
}

impl RolloutItem {
    /// Tells what the agent itself has said from what a person has, in lines of the first format: only its shape does so
    /// there.
    pub(super) fn tell_notes(&mut self) {
        let tell = |item: &mut Arc<HistoryItem>| {
            if let HistoryItem::Message { role: Role::User, text, .. } = &**item
                && crate::instructions::has_the_shape_of_a_note(text)
            {
                *item = Arc::new(HistoryItem::Note { text: text.clone() });
            }
        };
        match self {
            Self::ResponseItem(item) => tell(item),
            Self::Compacted(history) => history.iter_mut().for_each(tell),
            Self::SessionMeta(_) | Self::TurnContext(_) | Self::EventMsg(_) => {}
        }
    }
}

/// Whose rollout it is.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionMeta {
    /// The thread.
    pub id: ThreadId,
    /// Its directory.
    pub cwd: PathBuf,
    /// The program's version.
    pub version: String,
    /// Replacement of the base instructions, where there is one.
    pub base_instructions: Option<String>,
    /// Standing instructions of the caller, where there are any.
    pub developer_instructions: Option<String>,
    /// What the conversation is summed up with, where the caller said.
    pub compact_prompt: Option<String>,
    /// How much its model reasons.
    pub reasoning_effort: Option<String>,
    /// What is told of its reasoning.
    pub reasoning_summary: Option<String>,
    /// Whether the thread has reading tools only.
    pub read_only_tools: bool,
    /// The thread this one was forked from.
    pub forked_from: Option<ThreadId>,
    /// Whose it is, where the server has more than one user.
    pub owner: Option<String>,
    /// How the lines that follow are to be understood; see [`FORMAT`].
    pub format: u32,
    /// The thread's own limits.
    pub overrides: Overrides,
}

/// The format of rollouts that this program writes. A program reads those up to its own.
pub const FORMAT: u32 = 2;

/// The first format in which notes of the agent are items of their own.
pub(super) const NOTES_FORMAT: u32 = 2;

/// What a caller has set for one thread; see the fields of the same names in [`crate::ThreadConfig`].
#[allow(missing_docs, reason = "said where they are used")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overrides {
    pub tool_output_token_limit: Option<usize>,
    pub project_doc_max_bytes: Option<usize>,
    pub max_turn_tokens: Option<u64>,
    pub max_turn_seconds: Option<u64>,
    pub max_steps: Option<u32>,
}

impl SessionMeta {
    /// The first line of a thread of this configuration.
    pub(crate) fn of(id: ThreadId, config: &ThreadConfig) -> Self {
        Self {
            id,
            cwd: config.cwd.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            base_instructions: config.base_instructions.clone(),
            developer_instructions: config.developer_instructions.clone(),
            compact_prompt: config.compact_prompt.clone(),
            reasoning_effort: config.reasoning_effort.clone(),
            reasoning_summary: config.reasoning_summary.clone(),
            read_only_tools: config.read_only_tools,
            forked_from: None,
            owner: config.owner.as_deref().map(str::to_owned),
            format: FORMAT,
            overrides: Overrides {
                tool_output_token_limit: config.tool_output_token_limit,
                project_doc_max_bytes: config.project_doc_max_bytes,
                max_turn_tokens: config.max_turn_tokens,
                max_turn_seconds: config.max_turn_seconds,
                max_steps: config.max_steps,
            },
        }
    }

    /// The first line of a thread of which nothing else is known.
    pub(crate) fn bare(id: ThreadId, cwd: PathBuf) -> Self {
        Self {
            id,
            cwd,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            base_instructions: None,
            developer_instructions: None,
            compact_prompt: None,
            reasoning_effort: None,
            reasoning_summary: None,
            read_only_tools: false,
            forked_from: None,
            owner: None,
            format: FORMAT,
            overrides: Overrides::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn sample() -> Self {
        Self { version: "0".into(), ..Self::bare(ThreadId::new(), "/w".into()) }
    }
}

/// What a turn ran with.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnContext {
    /// The turn.
    pub turn_id: TurnId,
    /// Its directory, absolute and without links.
    pub cwd: PathBuf,
    /// Which directory that was ([`openoxide_sandbox::DirectoryId`]); none in rollouts written before that was noted.
    pub directory: Option<String>,
    /// The model's name.
    pub model: String,
    /// What commands may touch.
    pub sandbox: SandboxMode,
    /// When a person is asked.
    pub approval_policy: ApprovalPolicy,
}

/// What the requests of a thread begin with: instructions, tools, and how thinking is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    /// SHA-256 of it, in hexadecimal.
    pub digest: String,
    /// The version of the program that made it.
    pub version: String,
}

/// Something that happened, beside the history.
#[derive(Debug, Clone, PartialEq)]
pub enum EventRecord {
    /// A question was settled.
    ApprovalDecided {
        /// The turn that asked.
        turn_id: TurnId,
        /// The question.
        id: ApprovalId,
        /// What was asked, for a person.
        what: String,
        /// `approved`, `approved_for_thread`, `denied` or `denied_and_stopped`, and which kind of no.
        decision: String,
        /// Who decided ([`crate::Decider`]); empty in rollouts written before that was noted.
        by: String,
    },
    /// Something was approved for the rest of the thread.
    Remembered {
        /// What.
        approval: RememberedApproval,
    },
    /// What a thread holds beside its history, right before a [`RolloutItem::Compacted`]: with the two lines and the
    /// first one the thread can be loaded, and nothing before them is read.
    Checkpoint {
        /// The turn under way.
        context: TurnContext,
        /// Tokens of the turns that ended before those in `results`.
        usage_before: Usage,
        /// What was approved for the rest of the thread.
        remembered: Vec<RememberedApproval>,
        /// The turns that ended last, oldest first, as their `turn_ended`.
        results: Vec<EventRecord>,
        /// What the thread's requests begin with; none where that was not noted.
        prefix: Option<Prefix>,
    },
    /// From here on the thread's requests begin with this. What of the history before it is bound to another beginning is left out of
    /// them.
    Prefix {
        /// What.
        prefix: Prefix,
    },
    /// What a turn changed on disk, for taking it back.
    Changes {
        /// The turn.
        turn_id: TurnId,
        /// The files.
        files: Vec<FileRecord>,
    },
    /// A patch of a turn was applied. It stands for the turn's `changes` where those are missing, because the program was
    /// killed in the turn.
    Patched {
        /// The turn.
        turn_id: TurnId,
        /// The call.
        call_id: String,
        /// The files.
        files: Vec<FileRecord>,
        /// What changed.
        diff: Option<String>,
    },
    /// A turn ended.
    TurnEnded {
        /// The turn.
        turn_id: TurnId,
        /// How.
        status: TurnStatus,
        /// Its content.
        content: String,
        /// Files changed by patches.
        files_changed: Vec<PathBuf>,
        /// What the patches changed.
        diff: Option<String>,
        /// Bytes of the diff, where it stands in an earlier record of the same turn's end and not here; else 0.
        diff_bytes: usize,
        /// Tokens spent.
        usage: Usage,
        /// Milliseconds.
        duration_ms: u64,
        /// What was not done.
        denials: Vec<Denial>,
        /// The first item id that no turn of the thread has used; none where that is not known.
        next_item_id: Option<u64>,
    },
}

impl EventRecord {
    /// The record of a turn's end.
    pub(crate) fn turn_ended(result: &TurnResult) -> Self {
        Self::TurnEnded {
            turn_id: result.turn_id,
            status: result.status,
            content: result.content.clone(),
            files_changed: result.files_changed.clone(),
            diff: result.diff.clone(),
            diff_bytes: 0,
            usage: result.usage,
            duration_ms: result.duration_ms,
            denials: result.denials.clone(),
            next_item_id: None,
        }
    }

    /// The same with the first item id that is free after it.
    pub(crate) fn with_next_item_id(mut self, next: Option<u64>) -> Self {
        if let Self::TurnEnded { next_item_id, .. } = &mut self {
            *next_item_id = next;
        }
        self
    }

    /// The same where the diff, of so many bytes, is in an earlier record.
    pub(crate) fn with_diff_elsewhere(mut self, bytes: usize) -> Self {
        if let Self::TurnEnded { diff_bytes, .. } = &mut self {
            *diff_bytes = bytes;
        }
        self
    }
}
