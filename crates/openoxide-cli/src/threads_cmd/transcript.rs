//! A rollout as what was said and done, in the order it happened.

use std::collections::HashMap;
use std::fmt::Write as _;

use openoxide_core::{
    EventRecord, HistoryItem, Role, RolloutItem, RolloutLine, TurnStatusRecord, is_context, visible_text,
};

/// One thing on a thread.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Person(String),
    Agent(String),
    Reasoning(String),
    /// A tool's name, what it was given, and what came of it.
    Call {
        name: String,
        input: String,
        output: Option<String>,
    },
    Picture,
    /// What was asked, and what was decided.
    Approval {
        what: String,
        decision: String,
    },
    /// The conversation was shortened.
    Compacted,
    /// How a turn ended, what it changed, and its tokens.
    End {
        turn: String,
        status: &'static str,
        diff: Option<String>,
        tokens: u64,
    },
}

/// A thread to look at.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    pub(super) id: String,
    pub(super) cwd: String,
    pub(super) model: String,
    pub(super) began: String,
    pub(super) entries: Vec<Entry>,
}

impl Transcript {
    /// What the lines tell.
    pub(super) fn of(lines: Vec<RolloutLine>) -> Self {
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
                (self.id, self.cwd) = (meta.id.to_string(), meta.cwd.display().to_string());
            }
            RolloutItem::TurnContext(context) => self.model = context.model,
            RolloutItem::ResponseItem(item) => match &*item {
                HistoryItem::Message { role: Role::Assistant, text } => self.entries.push(Entry::Agent(text.clone())),
                HistoryItem::Message { role: Role::User, text } if !is_context(text) => {
                    self.entries.push(Entry::Person(text.clone()));
                }
                HistoryItem::Reasoning { summary, .. } if !summary.trim().is_empty() => {
                    self.entries.push(Entry::Reasoning(summary.clone()));
                }
                HistoryItem::FunctionCall { call_id, name, arguments: input }
                | HistoryItem::CustomToolCall { call_id, name, input } => {
                    calls.insert(call_id.clone(), self.entries.len());
                    self.entries.push(Entry::Call {
                        name: name.clone(),
                        input: shown_input(name, input),
                        output: None,
                    });
                }
                HistoryItem::ToolOutput { call_id, output: text, .. } => {
                    let entry = calls.get(call_id).and_then(|at| self.entries.get_mut(*at));
                    if let Some(Entry::Call { output, .. }) = entry {
                        *output = Some(text.clone());
                    }
                }
                HistoryItem::Image { .. } => self.entries.push(Entry::Picture),
                _ => {}
            },
            RolloutItem::Compacted(_) => self.entries.push(Entry::Compacted),
            RolloutItem::EventMsg(EventRecord::ApprovalDecided { what, decision, .. }) => {
                self.entries.push(Entry::Approval { what, decision });
            }
            RolloutItem::EventMsg(EventRecord::TurnEnded { turn_id, status, diff, usage, .. }) => {
                let status = match status {
                    TurnStatusRecord::Completed => "completed",
                    TurnStatusRecord::Interrupted => "interrupted",
                    TurnStatusRecord::Failed => "failed",
                };
                let tokens = usage.input_tokens + usage.output_tokens;
                self.entries.push(Entry::End { turn: turn_id.to_string(), status, diff, tokens });
            }
            _ => {}
        }
    }

    /// For a terminal.
    pub(super) fn text(&self) -> String {
        let mut text = format!("thread {}\n{} in {}, since {}\n", self.id, self.model, self.cwd, self.began);
        let indented = |text: &str| visible_text(text).replace('\n', "\n    ");
        for entry in &self.entries {
            // Writing to a string does not fail.
            let _ = match entry {
                Entry::Person(said) => writeln!(text, "\n> {}", indented(said)),
                Entry::Agent(said) => writeln!(text, "\n{}", visible_text(said)),
                Entry::Reasoning(said) => writeln!(text, "\n(thinking: {})", indented(said)),
                Entry::Call { name, input, output } => {
                    let _ = writeln!(text, "\n* {name}: {}", indented(input));
                    match output {
                        Some(output) => writeln!(text, "    {}", indented(output.trim_end())),
                        None => writeln!(text, "    [no output]"),
                    }
                }
                Entry::Picture => writeln!(text, "\n[a picture]"),
                Entry::Approval { what, decision } => writeln!(text, "\n? {}: {decision}", indented(what)),
                Entry::Compacted => writeln!(text, "\n[the conversation was summed up here]"),
                Entry::End { turn, status, diff, tokens } => {
                    if let Some(diff) = diff {
                        let _ = writeln!(text, "\n{}", visible_text(diff.trim_end()));
                    }
                    writeln!(text, "\n-- turn {turn}: {status}, {tokens} tokens")
                }
            };
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
