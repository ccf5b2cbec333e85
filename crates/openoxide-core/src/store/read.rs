//! Reads rollouts back: whole, or from the last `compacted` on. A line that cannot be understood is told, unless it is one
//! of a type that a later version writes, or the torn beginning of a line that was written again.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt as _;

use serde_json::Value;

use super::{EventRecord, RolloutItem, RolloutLine, json};
use crate::{ThreadId, TurnId};

/// What was read of a rollout.
#[derive(Debug, Default)]
pub struct Reading {
    /// The lines, oldest first.
    pub lines: Vec<RolloutLine>,
    /// What could not be read.
    pub damage: Vec<Damage>,
    /// Whether the lines between the first and the last `compacted` were passed over.
    pub is_tail: bool,
}

/// A line that should say something and cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins, in bytes.
    pub at: u64,
    /// How long it is, in bytes.
    pub bytes: u64,
    /// Why it cannot be read.
    pub why: String,
}

impl Reading {
    /// Whether the first line says whose the rollout is.
    #[must_use]
    pub fn has_owner(&self) -> bool {
        matches!(self.lines.first(), Some(RolloutLine { item: RolloutItem::SessionMeta(_), .. }))
    }

    /// Logs what is damaged.
    pub(super) fn logged(self, id: ThreadId) -> Self {
        for Damage { at, bytes, why } in &self.damage {
            tracing::warn!(thread = %id, at, bytes, why, "a line of the rollout is damaged and left out");
        }
        self
    }
}

/// What a line is.
enum Parsed {
    Line(Box<RolloutLine>),
    /// Of a type that this version does not know.
    Unknown,
    Damaged(String),
}

fn parse(bytes: &[u8]) -> Parsed {
    let error = match json::read_line(bytes) {
        Ok(line) => return Parsed::Line(Box::new(line)),
        Err(error) => error.to_string(),
    };
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return Parsed::Damaged(error) };
    // The types are known by what reading them says, so that no second list of them can fall behind.
    let is_unknown =
        |word: &Value| word.as_str().is_some_and(|word| error.starts_with(&format!("unknown variant `{word}`")));
    if is_unknown(&value["type"]) || is_unknown(&value["payload"]["type"]) {
        return Parsed::Unknown;
    }
    Parsed::Damaged(error)
}

/// Takes lines in their order.
#[derive(Default)]
struct Lines {
    reading: Reading,
    /// Damaged lines that may be torn beginnings of the next good one.
    torn: Vec<(Vec<u8>, Damage)>,
}

impl Lines {
    /// Takes the line that begins at `at`, without its end.
    fn take(&mut self, at: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        match parse(bytes) {
            Parsed::Line(line) => {
                let torn = self.torn.drain(..).filter(|(beginning, _)| !bytes.starts_with(beginning));
                self.reading.damage.extend(torn.map(|(_, damage)| damage));
                self.reading.lines.push(*line);
            }
            Parsed::Unknown => {}
            Parsed::Damaged(why) => {
                let damage = Damage { at, bytes: bytes.len() as u64, why };
                self.torn.push((bytes.to_vec(), damage));
            }
        }
    }

    fn finish(mut self) -> Reading {
        self.reading.damage.extend(self.torn.into_iter().map(|(_, damage)| damage));
        self.reading
    }
}

/// Reads lines from a place on. A last line without its end was cut off, or is just being written; it is left out.
fn read_from(file: &File, mut at: u64, lines: &mut Lines) -> io::Result<()> {
    let mut file = file;
    file.seek(SeekFrom::Start(at))?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line)?;
        let Some(whole) = line.strip_suffix(b"\n") else { return Ok(()) };
        lines.take(at, whole);
        at += length as u64;
    }
}

/// All of a rollout.
pub(super) fn whole(file: &File) -> io::Result<Reading> {
    let mut lines = Lines::default();
    read_from(file, 0, &mut lines)?;
    Ok(lines.finish())
}

/// What is needed to go on with a thread; see [`super::ThreadWriter::read_back`].
pub(super) fn tail(file: &File, max_bytes: u64) -> io::Result<Reading> {
    let length = file.metadata()?.len();
    let begin = match last_compacted(file, length, max_bytes)? {
        Some(begin) => begin,
        None if length <= max_bytes => return whole(file),
        None => return Err(io::ErrorKind::FileTooLarge.into()),
    };
    let mut lines = Lines::default();
    let mut first = Vec::new();
    let mut file = file;
    file.seek(SeekFrom::Start(0))?;
    BufReader::new(file).take(max_bytes).read_until(b'\n', &mut first)?;
    lines.take(0, first.strip_suffix(b"\n").unwrap_or(&first));
    read_from(file, begin, &mut lines)?;
    let mut reading = lines.finish();
    reading.is_tail = true;
    Ok(reading)
}

/// The most bytes of a first line that are read for its owner.
const FIRST_LINE: u64 = 64 << 20;

/// Whose the rollout is, as its first line says.
pub(super) fn owner(file: &File) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    BufReader::new(file).take(FIRST_LINE).read_until(b'\n', &mut line)?;
    match parse(line.strip_suffix(b"\n").unwrap_or(&line)) {
        Parsed::Line(line) => match line.item {
            RolloutItem::SessionMeta(meta) => Ok(meta.owner),
            _ => Ok(None),
        },
        Parsed::Unknown | Parsed::Damaged(_) => Ok(None),
    }
}

/// The diff of a turn, from a line of its end: the one that begins at `at`, or else any.
pub(super) fn diff_of(file: &File, turn: TurnId, at: Option<u64>) -> io::Result<Option<String>> {
    /// The time, the types and the turn's id, which come first.
    const BEGINNING: usize = 256;
    let id = turn.to_string();
    let mut line = Vec::new();
    for begin in at.into_iter().chain([0]) {
        let mut file = file;
        file.seek(SeekFrom::Start(begin))?;
        let mut reader = BufReader::with_capacity(1 << 16, file);
        while reader.read_until(b'\n', &mut line)? > 0 {
            let beginning = &line[..line.len().min(BEGINNING)];
            if has(beginning, b"\"type\":\"turn_ended\"")
                && has(beginning, id.as_bytes())
                && let Parsed::Line(found) = parse(line.strip_suffix(b"\n").unwrap_or(&line))
                && let RolloutItem::EventMsg(EventRecord::TurnEnded { turn_id, diff: Some(diff), .. }) = found.item
                && turn_id == turn
            {
                return Ok(Some(diff));
            }
            line.clear();
            if begin > 0 {
                break;
            }
        }
    }
    Ok(None)
}

/// Bytes that tell what a line is: the time of writing and the types come first.
const HEAD: usize = 160;

/// Bytes that are read at once, from the end.
const CHUNK: u64 = 1 << 18;

/// Where the last `compacted` begins that has a checkpoint right before it: the place of the checkpoint. One without a
/// checkpoint counts where the file is too large to be read whole. Looks at no more than so many bytes.
fn last_compacted(file: &File, length: u64, max_bytes: u64) -> io::Result<Option<u64>> {
    let floor = length.saturating_sub(max_bytes);
    let (mut end, mut compacted, mut lone) = (length, None, None);
    let mut chunk = Vec::new();
    while end > floor {
        let begin = end.saturating_sub(CHUNK).max(floor);
        chunk.resize(usize::try_from(end - begin).unwrap_or_default(), 0);
        file.read_exact_at(&mut chunk, begin)?;
        for at in (0..chunk.len()).rev().filter(|at| chunk[*at] == b'\n') {
            let line = begin + at as u64 + 1;
            if line >= length {
                continue;
            }
            let mut head = [0; HEAD];
            let rest = &chunk[at + 1..];
            let read = if rest.len() < HEAD {
                file.read_at(&mut head, line)?
            } else {
                head.copy_from_slice(&rest[..HEAD]);
                HEAD
            };
            let head = &head[..read];
            if let Some(found) = compacted.take() {
                if has(head, b"\"type\":\"event_msg\"") && has(head, b"\"type\":\"checkpoint\"") && is_good(file, line)?
                {
                    return Ok(Some(line));
                }
                lone = lone.or(Some(found));
            }
            if has(head, b"\"type\":\"compacted\"") && is_good(file, line)? {
                compacted = Some(line);
            }
        }
        end = begin;
    }
    Ok(lone.or(compacted).filter(|_| length > max_bytes))
}

fn has(head: &[u8], what: &[u8]) -> bool {
    head.windows(what.len()).any(|part| part == what)
}

/// Whether the line that begins here is a whole `compacted` or checkpoint.
fn is_good(file: &File, at: u64) -> io::Result<bool> {
    let mut lines = Lines::default();
    let mut file = file;
    file.seek(SeekFrom::Start(at))?;
    let mut line = Vec::new();
    BufReader::new(file).read_until(b'\n', &mut line)?;
    let Some(whole) = line.strip_suffix(b"\n") else { return Ok(false) };
    lines.take(at, whole);
    Ok(matches!(
        lines.reading.lines.first().map(|line| &line.item),
        Some(RolloutItem::Compacted(_) | RolloutItem::EventMsg(EventRecord::Checkpoint { .. }))
    ))
}
