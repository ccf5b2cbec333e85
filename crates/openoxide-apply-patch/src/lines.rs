//! A file as lines that remember their endings, and its rebuilding after chunks have been placed.
//!
//! This is where the promise lives that a kept line keeps its bytes: kept lines are copied from the file, never from the
//! patch. Nothing is searched here; `matcher` says where the chunks go.

use std::borrow::Cow;

use crate::{
    indent,
    matcher::{Placement, Tier},
    patch::LineTag,
};

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

    /// Puts the placed chunks in. `placements` are in file order and do not overlap.
    ///
    /// An inserted line ends like the removed line it stands for, else like the line before it, else like most lines. A
    /// file without a final newline stays without one.
    pub(crate) fn rebuild(&self, placements: &[Placement<'_>]) -> String {
        let mut out: Vec<(Cow<'_, str>, &str)> = Vec::with_capacity(self.lines.len());
        let mut next = 0;
        for placement in placements {
            out.extend(self.lines[next..placement.start].iter().map(|line| (Cow::Borrowed(line.text), line.ending)));
            next = self.place(placement, &mut out);
        }
        out.extend(self.lines[next..].iter().map(|line| (Cow::Borrowed(line.text), line.ending)));
        self.join(&out)
    }

    /// Appends one chunk's result; returns the index of the first file line after it.
    fn place<'b>(&'b self, placement: &Placement<'b>, out: &mut Vec<(Cow<'b, str>, &'b str)>) -> usize {
        let mut added = self.added_lines(placement).into_iter();
        let mut next = placement.start;
        let mut removed: Vec<&str> = Vec::new();
        let mut stands_for = 0;
        for line in placement.lines {
            match line.tag {
                LineTag::Context => {
                    out.push((Cow::Borrowed(self.lines[next].text), self.lines[next].ending));
                    next += 1;
                    removed.clear();
                    stands_for = 0;
                }
                LineTag::Remove => {
                    removed.push(self.lines[next].ending);
                    next += 1;
                }
                LineTag::Add => {
                    let before = next.checked_sub(1).map(|before| self.lines[before].ending);
                    let at = self.lines.get(next).map(|line| line.ending);
                    let ending = removed.get(stands_for).copied().or(before).or(at).unwrap_or_default();
                    stands_for += 1;
                    let text = added.next().expect("one prepared text per added line");
                    out.push((text, if ending.is_empty() { self.dominant } else { ending }));
                }
            }
        }
        next
    }

    /// The texts of the chunk's `+` lines, indented like the file where the match shows how.
    fn added_lines<'b>(&'b self, placement: &Placement<'b>) -> Vec<Cow<'b, str>> {
        let added: Vec<&str> =
            placement.lines.iter().filter(|line| line.tag == LineTag::Add).map(|line| line.text.as_str()).collect();
        if placement.tier >= Tier::Trimmed {
            let file = self.lines[placement.start..].iter().map(|line| line.text);
            let kept = placement.lines.iter().filter(|line| line.tag != LineTag::Add).map(|line| line.text.as_str());
            let pairs: Vec<(&str, &str)> = kept.zip(file).collect();
            if let Some(adapted) = indent::adapt(&pairs, &added) {
                return adapted.into_iter().map(Cow::Owned).collect();
            }
        }
        added.into_iter().map(Cow::Borrowed).collect()
    }

    fn join(&self, lines: &[(Cow<'_, str>, &str)]) -> String {
        let unfinished = self.lines.last().is_some_and(|line| line.ending.is_empty());
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
