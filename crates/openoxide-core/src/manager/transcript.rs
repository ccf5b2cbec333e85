//! A rollout as what was said and done, in the order it happened, for people who look back.

mod text;

use std::collections::HashMap;
use std::fmt::Write as _;

use openoxide_llm::{HistoryItem, Role};

use crate::{EventRecord, RolloutItem, RolloutLine, TurnStatus};

/// One thing on a thread.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TranscriptEntry {
    /// What the person said.
    Person(String),
    /// What the agent said.
    Agent(String),
    /// What the agent thought, as far as that is shown.
    Reasoning(String),
    /// A tool's name, what it was given, and what came of it.
    Call {
        /// The tool.
        name: String,
        /// What it was given.
        input: String,
        /// What came of it.
        output: Option<String>,
    },
    /// A picture that the agent looked at.
    Picture,
    /// What was asked, and what was decided.
    Approval {
        /// What was asked.
        what: String,
        /// The decision, and who made it where that is known.
        decision: String,
    },
    /// The conversation was shortened.
    Compacted,
    /// How a turn ended, what it changed, and its tokens.
    End {
        /// The turn.
        turn: String,
        /// `completed`, `interrupted` or `failed`.
        status: &'static str,
        /// What its patches changed.
        diff: Option<String>,
        /// Tokens read and written.
        tokens: u64,
    },
}

/// A thread to look at.
#[derive(Debug, Default)]
pub struct Transcript {
    /// The thread.
    pub id: String,
    /// Its directory.
    pub cwd: String,
    /// The model of its last turn.
    pub model: String,
    /// When it began: RFC 3339, UTC.
    pub began: String,
    /// Whose it is, where the server has more than one user.
    pub owner: Option<String>,
    /// What happened, in order.
    pub entries: Vec<TranscriptEntry>,
}

impl Transcript {
    /// What the lines tell.
    #[must_use]
    pub fn of(lines: Vec<RolloutLine>) -> Self {
        let mut transcript = Self::default();
        let mut calls = HashMap::new();
        for line in lines {
            if transcript.began.is_empty() {
                transcript.began = line.timestamp;
            }
            transcript.take(line.item, &mut calls);
        }
        transcript
    }

    fn take(&mut self, item: RolloutItem, calls: &mut HashMap<String, usize>) {
        match item {
            RolloutItem::SessionMeta(meta) => {
                (self.id, self.cwd) = (meta.id.to_string(), openoxide_display::quote_path(&meta.cwd));
                self.owner = meta.owner;
            }
            RolloutItem::TurnContext(context) => self.model = context.model,
            RolloutItem::ResponseItem(item) => match &*item {
                HistoryItem::Message { role: Role::Assistant, text, .. } => {
                    self.entries.push(TranscriptEntry::Agent(text.clone()))
                }
                HistoryItem::Message { role: Role::User, text, .. } => {
                    self.entries.push(TranscriptEntry::Person(text.clone()));
                }
                HistoryItem::Reasoning { summary, .. } if !summary.trim().is_empty() => {
                    self.entries.push(TranscriptEntry::Reasoning(summary.clone()));
                }
                HistoryItem::FunctionCall { call_id, name, arguments: input, .. }
                | HistoryItem::CustomToolCall { call_id, name, input, .. } => {
                    calls.insert(call_id.clone(), self.entries.len());
                    self.entries.push(TranscriptEntry::Call {
                        name: name.clone(),
                        input: shown_input(name, input),
                        output: None,
                    });
                }
                HistoryItem::ToolOutput { call_id, output: text, .. } => {
                    let entry = calls.get(call_id).and_then(|at| self.entries.get_mut(*at));
                    if let Some(TranscriptEntry::Call { output, .. }) = entry {
                        *output = Some(text.clone());
                    }
                }
                HistoryItem::Image { .. } => self.entries.push(TranscriptEntry::Picture),
                HistoryItem::Message { .. } | HistoryItem::Note { .. } | HistoryItem::Reasoning { .. } => {}
            },
            RolloutItem::Compacted(_) => self.entries.push(TranscriptEntry::Compacted),
            RolloutItem::EventMsg(EventRecord::ApprovalDecided { what, mut decision, by, .. }) => {
                if !by.is_empty() {
                    decision = format!("{decision} (by {by})");
                }
                self.entries.push(TranscriptEntry::Approval { what, decision });
            }
            RolloutItem::EventMsg(EventRecord::TurnEnded { turn_id, status, diff, usage, .. }) => {
                let status = match status {
                    TurnStatus::Completed => "completed",
                    TurnStatus::Interrupted => "interrupted",
                    TurnStatus::Failed => "failed",
                };
                let tokens = usage.input_tokens + usage.output_tokens;
                self.entries.push(TranscriptEntry::End { turn: turn_id.to_string(), status, diff, tokens });
            }
            // The turn's end has what these say of its files.
            RolloutItem::EventMsg(
                EventRecord::Remembered { .. }
                | EventRecord::Checkpoint { .. }
                | EventRecord::Prefix { .. }
                | EventRecord::Changes { .. }
                | EventRecord::Patched { .. },
            ) => {}
        }
    }

    /// What the patches of each turn changed, with the turn's id before it.
    #[must_use]
    pub fn diffs(&self) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            if let TranscriptEntry::End { turn, diff: Some(diff), .. } = entry {
                // Writing to a string does not fail.
                let _ = writeln!(text, "# turn {turn}\n{}", diff.trim_end());
            }
        }
        text
    }
}

/// The command of a command, the text of a patch; other arguments as they are.
fn shown_input(name: &str, input: &str) -> String {
    let key = match name {
        "exec_command" => "cmd",
        "apply_patch" => "input",
        _ => return input.to_owned(),
    };
    let arguments: Option<serde_json::Value> = serde_json::from_str(input).ok();
    arguments.and_then(|value| value[key].as_str().map(str::to_owned)).unwrap_or_else(|| input.to_owned())
}
