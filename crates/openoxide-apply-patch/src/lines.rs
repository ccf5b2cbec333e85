//! A file as lines that remember their endings, and its rebuilding after chunks have been placed.
//!
//! This is where the promise lives that a kept line keeps its bytes: kept lines are copied from the file, never from the
//! patch. Nothing is searched here; `matcher` says where the chunks go.

use std::{borrow::Cow, collections::BTreeMap, path::Path};

use crate::{PatchError, habits::Habits, matcher::Placement, patch::LineTag};

const BOM: &str = "\u{feff}";

/// One line of a file.
#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    text: &'a str,
    /// `\n`, `\r\n`, or nothing at the end of a file without a final newline.
    ending: &'a str,
}

/// A file's text, split.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    /// The byte order mark, if the file has one. It takes no part in matching and always stays.
    bom: &'a str,
    lines: Vec<Line<'a>>,
    /// The ending most lines have; `\n` in a file without any.
    dominant: &'static str,
}

/// What is to happen to a file's lines.
struct Edits<'a> {
    /// For each line.
    removed: Vec<bool>,
    /// Texts and endings by the line before which they go.
    inserted: BTreeMap<usize, Vec<(String, &'a str)>>,
}

impl<'a> Document<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let (bom, body) = text.split_at(if text.starts_with(BOM) { BOM.len() } else { 0 });
        let lines: Vec<Line<'a>> = body
            .split_inclusive('\n')
            .map(|line| {
                let text = line.strip_suffix('\n').map_or(line, |line| line.strip_suffix('\r').unwrap_or(line));
                Line { text, ending: &line[text.len()..] }
            })
            .collect();
        let crlf = lines.iter().filter(|line| line.ending == "\r\n").count();
        let lf = lines.iter().filter(|line| line.ending == "\n").count();
        Self { bom, lines, dominant: if crlf > lf { "\r\n" } else { "\n" } }
    }

    /// The lines without their endings.
    pub(crate) fn texts(&self) -> Vec<&'a str> {
        self.lines.iter().map(|line| line.text).collect()
    }

    /// Puts the placed chunks in. `placements` are in file order; two may share lines that both keep. `path` is for messages.
    ///
    /// An inserted line ends like the removed line it stands for, else like the line before it, else like most lines. A
    /// file without a final newline stays without one, unless the chunk at its end says otherwise.
    pub(crate) fn rebuild(&self, placements: &[Placement<'_>], path: &Path) -> Result<String, PatchError> {
        let habits = Habits::of(self, placements);
        let mut edits = Edits { removed: vec![false; self.lines.len()], inserted: BTreeMap::new() };
        for placement in placements {
            self.enter(placement, habits.added_lines(self, placement, path)?, &mut edits);
        }
        let mut out: Vec<(Cow<'_, str>, &str)> = Vec::with_capacity(self.lines.len());
        for index in 0..=self.lines.len() {
            out.extend(
                edits.inserted.remove(&index).unwrap_or_default().into_iter().map(|(text, e)| (Cow::Owned(text), e)),
            );
            if let Some(line) = self.lines.get(index).filter(|_| !edits.removed[index]) {
                out.push((Cow::Borrowed(line.text), line.ending));
            }
        }
        let at_end = placements.last().filter(|placement| placement.end() == self.lines.len());
        Ok(self.join(&out, at_end.and_then(|placement| placement.chunk.final_newline)))
    }

    /// Another content for the whole file, with this one's byte order mark, and with its line endings where they are all
    /// alike and the content has line feeds alone.
    pub(crate) fn dressed(&self, content: &str) -> String {
        let crlf = !self.lines.is_empty()
            && self.lines.iter().enumerate().all(|(at, line)| {
                line.ending == "\r\n" || (at > 0 && at + 1 == self.lines.len() && line.ending.is_empty())
            });
        let body = content.strip_prefix(BOM).unwrap_or(content);
        let body =
            if crlf && !body.contains('\r') { Cow::Owned(body.replace('\n', "\r\n")) } else { Cow::Borrowed(body) };
        let bom = if content.starts_with(BOM) { BOM } else { self.bom };
        format!("{bom}{body}")
    }

    /// Whether most lines end in a carriage return and a line feed.
    pub(crate) fn ends_in_crlf(&self) -> bool {
        self.dominant == "\r\n"
    }

    /// The text of a line.
    pub(crate) fn text(&self, index: usize) -> &'a str {
        self.lines[index].text
    }

    /// Whether a character occurs anywhere.
    pub(crate) fn holds(&self, c: char) -> bool {
        self.lines.iter().any(|line| line.text.contains(c))
    }

    /// Notes what one chunk removes and inserts.
    fn enter<'b>(&'b self, placement: &Placement<'_>, added: Vec<String>, edits: &mut Edits<'b>) {
        let mut added = added.into_iter();
        let mut next = placement.start;
        let mut removed: Vec<&str> = Vec::new();
        let mut stands_for = 0;
        for line in placement.lines.iter() {
            match line.tag {
                LineTag::Context => {
                    next += 1;
                    removed.clear();
                    stands_for = 0;
                }
                LineTag::Remove => {
                    removed.push(self.lines[next].ending);
                    edits.removed[next] = true;
                    next += 1;
                }
                LineTag::Add => {
                    let before = next.checked_sub(1).map(|before| self.lines[before].ending);
                    let at = self.lines.get(next).map(|line| line.ending);
                    let ending = removed.get(stands_for).copied().or(before).or(at).unwrap_or_default();
                    stands_for += 1;
                    let text = added.next().expect("one prepared text per added line");
                    let ending = if ending.is_empty() { self.dominant } else { ending };
                    edits.inserted.entry(next).or_default().push((text, ending));
                }
            }
        }
    }

    fn join(&self, lines: &[(Cow<'_, str>, &str)], final_newline: Option<bool>) -> String {
        let unfinished = self.lines.last().is_some_and(|line| line.ending.is_empty());
        let unfinished = final_newline.map_or(unfinished, |ended| !ended);
        let size: usize = lines.iter().map(|(text, _)| text.len() + 2).sum();
        let mut text = String::with_capacity(self.bom.len() + size);
        text.push_str(self.bom);
        for (index, (line, ending)) in lines.iter().enumerate() {
            text.push_str(line);
            let is_last = index + 1 == lines.len();
            if !(is_last && unfinished) {
                text.push_str(if ending.is_empty() { self.dominant } else { ending });
            }
        }
        text
    }
}
