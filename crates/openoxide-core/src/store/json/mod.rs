//! Lines and notes as JSON: the one place that says how they are written, and reads them. Each type here stands for a type
//! that the rest of core speaks and has its fields, with the names that are on disk; serde's `remote` has the compiler
//! compare the two. Writing borrows, so no text is copied before it is JSON.

mod event;
#[cfg(test)]
mod format_tests;
mod history;
mod meta;
mod record;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use openoxide_llm::HistoryItem;
use serde::{Deserialize, Serialize};

use self::event::EventJson;
use self::history::HistoryJson;
use self::meta::{ContextJson, MetaJson};
use self::record::{List, Shared};
pub(super) use self::record::{Path, Record, Text, from_slice, records, to_vec};
use super::ledger::PatchNote;
use super::record::{EventRecord, FORMAT, NOTES_FORMAT, RolloutItem, RolloutLine, SessionMeta, TurnContext};

/// Writes a line, without its end.
pub(super) fn write_line(to: impl io::Write, line: &RolloutLine) -> serde_json::Result<()> {
    serde_json::to_writer(to, &WrittenLine { timestamp: &line.timestamp, format: FORMAT, item: &line.item })
}

/// Reads a line, without its end.
pub(super) fn read_line(text: &[u8]) -> serde_json::Result<RolloutLine> {
    let ReadLine { timestamp, format, mut item } = serde_json::from_slice(text)?;
    if format < NOTES_FORMAT {
        item.tell_notes();
    }
    Ok(RolloutLine { timestamp, item })
}

/// A line as text, for tests of the other floors.
#[cfg(test)]
pub(crate) fn text_of(line: &RolloutLine) -> String {
    let mut text = Vec::new();
    write_line(&mut text, line).unwrap();
    String::from_utf8(text).unwrap()
}

/// Bytes that an item takes when it is written.
pub(super) fn length_of(item: &RolloutItem) -> serde_json::Result<usize> {
    to_vec::<ItemJson, _>(item).map(|text| text.len())
}

/// Writes the note of a ledger.
pub(super) fn write_note(note: &PatchNote) -> serde_json::Result<Vec<u8>> {
    to_vec::<NoteJson, _>(note)
}

/// Reads the note of a ledger.
pub(super) fn read_note(text: &[u8]) -> serde_json::Result<PatchNote> {
    from_slice::<NoteJson, _>(text)
}

records! { ItemJson for RolloutItem, NoteJson for PatchNote }

#[derive(Serialize)]
struct WrittenLine<'a> {
    timestamp: &'a str,
    format: u32,
    #[serde(flatten, with = "ItemJson")]
    item: &'a RolloutItem,
}

#[derive(Deserialize)]
struct ReadLine {
    timestamp: String,
    /// The [`FORMAT`] of this line: a thread goes on under a later program.
    #[serde(default = "meta::first_format")]
    format: u32,
    #[serde(flatten, with = "ItemJson")]
    item: RolloutItem,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RolloutItem", tag = "type", content = "payload", rename_all = "snake_case")]
enum ItemJson {
    #[serde(with = "MetaJson")]
    SessionMeta(SessionMeta),
    #[serde(with = "ContextJson")]
    TurnContext(TurnContext),
    #[serde(with = "Shared::<HistoryJson>")]
    ResponseItem(Arc<HistoryItem>),
    #[serde(with = "EventJson")]
    EventMsg(EventRecord),
    #[serde(with = "List::<Shared<HistoryJson>>")]
    Compacted(Vec<Arc<HistoryItem>>),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PatchNote")]
struct NoteJson {
    #[serde(with = "Path")]
    directory: PathBuf,
    directory_id: String,
    #[serde(with = "ItemJson")]
    line: RolloutItem,
}

#[cfg(test)]
mod tests {
    use openoxide_llm::Role;

    use super::*;

    #[test]
    fn notes_of_the_first_format_are_told_by_their_shape_and_later_ones_are_not() {
        let text = "<turn_interrupted>\nwhy\n</turn_interrupted>";
        let said = HistoryItem::Message { role: Role::User, text: text.to_owned(), carried: None };
        let line = RolloutLine::now(RolloutItem::ResponseItem(Arc::new(said)));
        let written = text_of(&line);
        assert_eq!(read_line(written.as_bytes()).unwrap(), line, "a person may say so");
        let first_format = written.replace("\"format\":2,", "");
        assert_ne!(first_format, written);
        let old = read_line(first_format.as_bytes()).unwrap();
        let RolloutItem::ResponseItem(item) = old.item else { panic!("an item of the history") };
        assert_eq!(*item, HistoryItem::Note { text: text.to_owned() });
    }
}
