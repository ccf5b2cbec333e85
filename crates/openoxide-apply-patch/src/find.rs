//! Where lines stand in a file, compared in tiers from strict to loose.
//!
//! Per tier the file's lines are numbered once by equal text, so that a search is a scan over integers
//! (Knuth-Morris-Pratt): linear in the file, whatever the text. What a place means is decided in `matcher`.

use std::{borrow::Cow, collections::HashMap};

/// How loosely two lines are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tier {
    /// Same bytes.
    Exact,
    /// Same but for white space at the end.
    TrimmedEnd,
    /// Same but for white space at both ends.
    Trimmed,
    /// Same after typographic dashes, quotes and spaces have become plain ones.
    Normalised,
}

pub(crate) const TIERS: [Tier; 4] = [Tier::Exact, Tier::TrimmedEnd, Tier::Trimmed, Tier::Normalised];

/// A line as a tier sees it.
pub(crate) fn key(tier: Tier, line: &str) -> Cow<'_, str> {
    match tier {
        Tier::Exact => Cow::Borrowed(line),
        Tier::TrimmedEnd => Cow::Borrowed(line.trim_end()),
        Tier::Trimmed => Cow::Borrowed(line.trim()),
        Tier::Normalised if line.is_ascii() => Cow::Borrowed(line.trim()),
        Tier::Normalised => Cow::Owned(line.trim().chars().map(plain).collect()),
    }
}

/// The plain character that a typographic one stands for.
pub(crate) fn plain(c: char) -> char {
    match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        c => c,
    }
}

/// The file's lines as one tier sees them, numbered by equal text.
struct Index<'f> {
    numbers: HashMap<Cow<'f, str>, u32>,
    lines: Vec<u32>,
}

/// Searches the lines of one file.
pub(crate) struct Finder<'f> {
    pub(crate) file: &'f [&'f str],
    /// Built when a tier is first needed; most patches need only the first.
    indexes: [Option<Index<'f>>; TIERS.len()],
}

impl<'f> Finder<'f> {
    pub(crate) fn new(file: &'f [&'f str]) -> Self {
        Self { file, indexes: [const { None }; TIERS.len()] }
    }

    /// All places where the lines stand, ascending.
    pub(crate) fn occurrences<S: AsRef<str>>(&mut self, tier: Tier, wanted: &[S]) -> Vec<usize> {
        let file = self.file;
        let index = self.indexes[tier as usize].get_or_insert_with(|| {
            let mut numbers = HashMap::new();
            let number = |line: &&'f str| {
                let fresh = u32::try_from(numbers.len()).expect("the file size cap keeps lines far below 2^32");
                *numbers.entry(key(tier, line)).or_insert(fresh)
            };
            let lines = file.iter().map(number).collect();
            Index { numbers, lines }
        });
        let wanted: Option<Vec<u32>> =
            wanted.iter().map(|line| index.numbers.get(key(tier, line.as_ref()).as_ref()).copied()).collect();
        wanted.map_or_else(Vec::new, |wanted| search(&index.lines, &wanted))
    }
}

/// All starts of `wanted` in `text`, overlapping ones included. `wanted` is not empty.
fn search(text: &[u32], wanted: &[u32]) -> Vec<usize> {
    let mut fall = vec![0; wanted.len()];
    let mut matched = 0;
    for at in 1..wanted.len() {
        while matched > 0 && wanted[at] != wanted[matched] {
            matched = fall[matched - 1];
        }
        matched += usize::from(wanted[at] == wanted[matched]);
        fall[at] = matched;
    }
    let mut found = Vec::new();
    matched = 0;
    for (at, number) in text.iter().enumerate() {
        while matched > 0 && *number != wanted[matched] {
            matched = fall[matched - 1];
        }
        matched += usize::from(*number == wanted[matched]);
        if matched == wanted.len() {
            found.push(at + 1 - matched);
            matched = fall[matched - 1];
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_finds_overlapping_places() {
        assert_eq!(search(&[1, 1, 1, 2, 1, 1], &[1, 1]), [0, 1, 4]);
        assert_eq!(search(&[1, 2, 1, 2, 3], &[1, 2, 3]), [2]);
        assert!(search(&[1, 2], &[1, 2, 3]).is_empty());
    }
}
