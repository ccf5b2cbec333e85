//! Compaction: a thread that grows longer than its model can read is replaced by what the person said and the model's own
//! summary of the work. Here is the asking for a summary and what the shorter history holds; when it is time is decided in
//! `state`, and the history is replaced by the driver.

use std::sync::Arc;

use futures_util::StreamExt;
use openoxide_llm::{
    Cause, HistoryItem, ModelError, ModelEvent, ModelRequest, Provider, ReasoningChoice, Role, ToolSpec, Usage,
};

#[cfg(test)]
use crate::instructions;

/// Which part of the room for a conversation the person's own messages may keep, the newest first.
const KEPT_PART: u64 = 10;

/// How often the beginning is left out when the history is too long even to be summed up.
const ATTEMPTS: u32 = 5;

/// What a summary is asked for with.
pub(crate) struct Compaction {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) model: String,
    pub(crate) instructions: String,
    pub(crate) tools: Arc<[ToolSpec]>,
    pub(crate) cache_key: String,
    pub(crate) prompt: String,
    /// As in every other request: providers keep what they have read only for requests that ask alike.
    pub(crate) effort: Option<String>,
    pub(crate) summary: Option<String>,
}

/// A summary, and what it took.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) text: String,
    pub(crate) usage: Usage,
}

impl Compaction {
    /// Has the model sum up a history. One that is too long loses its oldest part until it fits.
    pub(crate) async fn summarise(self, mut history: Vec<Arc<HistoryItem>>) -> Result<Summary, String> {
        let mut usage = Usage::default();
        for attempt in 1.. {
            match self.ask(&history, &mut usage).await {
                Ok(text) if text.trim().is_empty() => return Err("the model gave no summary".to_owned()),
                Ok(text) => return Ok(Summary { text, usage }),
                Err(error) if error.cause() == Cause::ContextLength && attempt < ATTEMPTS && history.len() > 1 => {
                    history = without_oldest(&history);
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        unreachable!("the loop ends by its last attempt")
    }

    async fn ask(&self, history: &[Arc<HistoryItem>], usage: &mut Usage) -> Result<String, ModelError> {
        let prompt = HistoryItem::Message { role: Role::User, text: self.prompt.clone(), carried: None };
        let input: Vec<_> = history.iter().cloned().chain([Arc::new(prompt)]).collect();
        // The tools stay on offer: some providers refuse a history with calls of tools they are not told of, and the
        // beginning stays the one they have cached. What is called is not done.
        let mut stream = self.provider.stream(ModelRequest {
            model: &self.model,
            instructions: &self.instructions,
            input: &input,
            tools: &self.tools,
            cache_key: &self.cache_key,
            reasoning: ReasoningChoice { effort: self.effort.as_deref(), summary: self.summary.as_deref() },
        });
        let mut text = String::new();
        while let Some(event) = stream.next().await {
            match event? {
                ModelEvent::ItemDone(HistoryItem::Message { role: Role::Assistant, text: said, .. }) => {
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(&said);
                }
                ModelEvent::Completed { usage: spent } => *usage += spent,
                ModelEvent::ItemStarted(_)
                | ModelEvent::TextDelta(_)
                | ModelEvent::ReasoningDelta(_)
                | ModelEvent::ItemDone(_)
                | ModelEvent::Restarted { .. }
                | ModelEvent::Retrying { .. }
                // A summary that was cut off is one all the same.
                | ModelEvent::Unfinished(_)
                // The history goes as it is.
                | ModelEvent::Unbound => {}
            }
        }
        Ok(text)
    }
}

/// Bytes of the person's own messages that are kept where a conversation may have so many tokens, at 4 bytes each.
pub(crate) fn kept_bytes(room: u64) -> usize {
    usize::try_from(room / KEPT_PART * 4).unwrap_or(usize::MAX)
}

/// The history that takes the place of another: what a thread begins with, what the person said, and the summary.
pub(crate) fn compacted(
    beginning: Vec<HistoryItem>,
    history: &[Arc<HistoryItem>],
    summary: String,
    mut room: usize,
) -> Vec<Arc<HistoryItem>> {
    let mut kept = Vec::new();
    for item in history.iter().rev() {
        let HistoryItem::Message { role: Role::User, text, .. } = &**item else { continue };
        if text.len() > room {
            kept.extend(shortened(text, room));
            break;
        }
        room -= text.len();
        kept.push(Arc::clone(item));
    }
    let summary = HistoryItem::Note { text: summary };
    beginning.into_iter().map(Arc::new).chain(kept.into_iter().rev()).chain([Arc::new(summary)]).collect()
}

/// The beginning of a message that has no room as a whole; none where nothing of use would be left.
fn shortened(text: &str, room: usize) -> Option<Arc<HistoryItem>> {
    const LEAST: usize = 200;
    let end = text.floor_char_boundary(room);
    let text = (end >= LEAST).then(|| format!("{}\n[cut off here when the thread was compacted]", &text[..end]))?;
    Some(Arc::new(HistoryItem::Message { role: Role::User, text, carried: None }))
}

/// The later two thirds, from a message on, so that no output stands without its call and no reasoning without what it
/// led to.
fn without_oldest(history: &[Arc<HistoryItem>]) -> Vec<Arc<HistoryItem>> {
    let from = (history.len() / 3).max(1);
    let is_message = |item: &Arc<HistoryItem>| matches!(**item, HistoryItem::Message { .. });
    let skipped = history[from..].iter().position(is_message).map_or(history.len(), |at| from + at);
    let rest = &history[skipped..];
    // Whatever the person said last is what the summary is for.
    if rest.is_empty() {
        history.iter().rfind(|item| is_message(item)).cloned().into_iter().collect()
    } else {
        rest.to_vec()
    }
}

/// About how many tokens a history is, at 4 bytes each.
pub(crate) fn estimate(history: &[Arc<HistoryItem>]) -> u64 {
    let bytes: usize = history
        .iter()
        .map(|item| match &**item {
            HistoryItem::Message { text, .. } | HistoryItem::Note { text } => text.len(),
            HistoryItem::FunctionCall { arguments: text, .. }
            | HistoryItem::CustomToolCall { input: text, .. }
            | HistoryItem::ToolOutput { output: text, .. } => text.len() + 32,
            HistoryItem::Reasoning { summary, .. } => summary.len(),
            // An image counts by its area; this is about what providers take a large one for.
            HistoryItem::Image { .. } => 6_000,
        })
        .sum();
    bytes as u64 / 4
}

/// About how many bytes an item takes in memory.
pub(crate) fn bytes_of(item: &HistoryItem) -> usize {
    let held = match item {
        HistoryItem::Message { text, .. } | HistoryItem::Note { text } => text.len(),
        HistoryItem::FunctionCall { arguments: text, .. }
        | HistoryItem::CustomToolCall { input: text, .. }
        | HistoryItem::ToolOutput { output: text, .. } => text.len(),
        HistoryItem::Reasoning { summary, raw } => summary.len() + raw.to_string().len(),
        HistoryItem::Image { data, .. } => data.len(),
    };
    held + size_of::<HistoryItem>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: Role, text: &str) -> Arc<HistoryItem> {
        Arc::new(HistoryItem::Message { role, text: text.to_owned(), carried: None })
    }

    fn call(id: &str) -> [Arc<HistoryItem>; 2] {
        let (call_id, name) = (id.to_owned(), "exec_command".to_owned());
        let output = HistoryItem::ToolOutput { call_id: id.to_owned(), custom: false, output: "out".to_owned() };
        [
            Arc::new(HistoryItem::FunctionCall { call_id, name, arguments: "{}".to_owned(), carried: None }),
            Arc::new(output),
        ]
    }

    fn texts(history: &[Arc<HistoryItem>]) -> Vec<&str> {
        let mut texts = Vec::new();
        for item in history {
            let (HistoryItem::Message { text, .. } | HistoryItem::Note { text }) = &**item else {
                panic!("only messages and notes are kept: {item:?}");
            };
            texts.push(text.as_str());
        }
        texts
    }

    #[test]
    fn a_note_takes_as_much_memory_as_a_message_of_its_length() {
        let note = HistoryItem::Note { text: "n".repeat(1000) };
        assert_eq!(bytes_of(&note), bytes_of(&message(Role::User, &"m".repeat(1000))));
    }

    #[test]
    fn what_the_person_said_and_the_summary_are_left() {
        let note = |text: &str| HistoryItem::Note { text: text.to_owned() };
        let mut history = vec![Arc::new(note("<environment_context>\ncwd: /w\n</environment_context>"))];
        let first = "# AGENTS.md instructions for the build are wrong, fix them";
        history.push(message(Role::User, first));
        history.extend(call("1"));
        history.push(message(Role::Assistant, "done"));
        history.push(message(Role::User, "second"));
        let beginning = vec![note("<environment_context>new")];
        let compacted = compacted(beginning, &history, instructions::summary_message("it went well", ""), 80_000);
        let texts = texts(&compacted);
        assert_eq!(texts[..3], ["<environment_context>new", first, "second"]);
        assert!(texts[3].contains("it went well") && texts.len() == 4);
        // A second compaction does not take the first one's summary for something the person said.
        assert!(matches!(&**compacted.last().unwrap(), HistoryItem::Note { .. }));
    }

    #[test]
    fn long_messages_are_cut_and_older_ones_dropped() {
        let history =
            [message(Role::User, "old"), message(Role::User, &"ü".repeat(50_000)), message(Role::User, "new")];
        let room = kept_bytes(200_000);
        assert_eq!(room, 80_000);
        let compacted = compacted(Vec::new(), &history, "s".to_owned(), room);
        let texts = texts(&compacted);
        assert_eq!(texts.len(), 3);
        assert!(texts[0].len() < room + 100 && texts[0].ends_with("compacted]"));
        assert_eq!(texts[1], "new");
    }

    #[test]
    fn a_history_that_is_too_long_loses_whole_steps() {
        let mut history = vec![message(Role::User, "first")];
        for id in ["1", "2", "3"] {
            history.extend(call(id));
        }
        history.push(message(Role::User, "second"));
        history.extend(call("4"));
        let rest = without_oldest(&history);
        assert_eq!(rest.len(), 3);
        assert_eq!(rest[0], history[7]);
        assert_eq!(without_oldest(&rest).len(), 1, "and the last message always stays");
    }
}
