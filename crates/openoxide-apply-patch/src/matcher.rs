//! Finds the one place in a file where each chunk goes, or says why there is none.
//!
//! Lines are compared in four tiers, strictest first; the first tier with a match decides, and more than one match in it
//! is refused. Per tier the file's lines are numbered once by equal text, so that a search is a scan over integers
//! (Knuth-Morris-Pratt): linear in the file for each chunk, whatever the text.
//!
//! Nothing is changed here; `lines` puts the chunks in.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    path::Path,
};

use crate::{
    PatchError, nearest,
    patch::{Chunk, ChunkLine, LineTag},
};

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

const TIERS: [Tier; 4] = [Tier::Exact, Tier::TrimmedEnd, Tier::Trimmed, Tier::Normalised];

const MORE_CONTEXT: &str =
    "add unchanged lines around the change, or an `@@` line naming what encloses it, until only one place fits";

/// Where a chunk goes.
#[derive(Debug)]
pub(crate) struct Placement<'a> {
    /// 0-based file line at which the chunk's first kept or removed line stands, or before which it inserts.
    pub(crate) start: usize,
    /// The chunk's lines without blank ones at the end that turned out to be mere spacing.
    pub(crate) lines: &'a [ChunkLine],
    /// How loosely it matched.
    pub(crate) tier: Tier,
}

impl Placement<'_> {
    /// First file line after the chunk.
    fn end(&self) -> usize {
        self.start + self.lines.iter().filter(|line| line.tag != LineTag::Add).count()
    }
}

/// Places all chunks of one update in file order. `path` is for messages.
pub(crate) fn place<'c>(file: &[&str], chunks: &'c [Chunk], path: &Path) -> Result<Vec<Placement<'c>>, PatchError> {
    let mut matcher = Matcher { file, indexes: [const { None }; TIERS.len()], path };
    let mut cursor = 0;
    let mut placements = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let placement = matcher.place(chunk, cursor)?;
        cursor = placement.end();
        placements.push(placement);
    }
    Ok(placements)
}

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
fn plain(c: char) -> char {
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

struct Matcher<'f, 'p> {
    file: &'f [&'f str],
    /// Built when a tier is first needed; most patches need only the first.
    indexes: [Option<Index<'f>>; TIERS.len()],
    path: &'p Path,
}

impl<'f> Matcher<'f, '_> {
    fn place<'c>(&mut self, chunk: &'c Chunk, cursor: usize) -> Result<Placement<'c>, PatchError> {
        let blank = |line: &&ChunkLine| line.tag == LineTag::Context && line.text.is_empty();
        // Before the end of the file an explicit blank line may be the model's picture of the final newline.
        let spare =
            if chunk.end_of_file { chunk.lines.iter().rev().take_while(blank).count() } else { chunk.blank_tail };
        let (full, cut) = (&chunk.lines[..], &chunk.lines[..chunk.lines.len() - spare]);
        if pattern(cut).is_empty() {
            return self.place_insertion(chunk, cut, cursor);
        }
        let anchors = if chunk.contexts.is_empty() { None } else { Some(self.anchors(chunk, cursor)?) };
        for lines in if spare == 0 { vec![full] } else { vec![full, cut] } {
            let wanted = pattern(lines);
            for tier in TIERS {
                let mut places = self.occurrences(tier, &wanted, cursor);
                if chunk.end_of_file {
                    places.retain(|place| place + wanted.len() == self.file.len());
                }
                if let Some(anchors) = &anchors {
                    places = narrow(anchors, &places);
                }
                match places[..] {
                    [] => {}
                    [start] => return Ok(Placement { start, lines, tier }),
                    _ => return Err(self.ambiguous(chunk, places, MORE_CONTEXT)),
                }
            }
        }
        Err(self.lines_not_found(chunk, cut, cursor, anchors.as_deref()))
    }

    /// Places a chunk that has only `+` lines: after its context, or at the end of the file.
    fn place_insertion<'c>(
        &mut self,
        chunk: &'c Chunk,
        lines: &'c [ChunkLine],
        cursor: usize,
    ) -> Result<Placement<'c>, PatchError> {
        let mut places = if chunk.contexts.is_empty() {
            Vec::new()
        } else {
            let anchors = self.anchors(chunk, cursor)?;
            let after: Vec<usize> = anchors.iter().map(|anchor| anchor + 1).filter(|place| *place >= cursor).collect();
            if after.is_empty() {
                let hint = format!("; it stands at line {}, which the chunk before already passed", anchors[0] + 1);
                return Err(self.context_not_found(chunk, chunk.contexts.len() - 1, hint));
            }
            after
        };
        if chunk.end_of_file || self.file.is_empty() {
            places = vec![self.file.len()];
        }
        match places[..] {
            [start] => Ok(Placement { start, lines, tier: Tier::Exact }),
            [] => Err(PatchError::NoAnchor {
                path: self.path.into(),
                line: chunk.line,
                hint: "add the unchanged lines around the place, put `@@ LINE` with the line to insert after, or end the \
                       chunk with `*** End of File` to append",
            }),
            _ => {
                let hint = "add unchanged lines around the place, or a second `@@` line, until only one place fits";
                Err(self.ambiguous(chunk, places, hint))
            }
        }
    }

    /// The file lines that the chunk's last context may mean, ascending and never empty.
    ///
    /// The first context means any line that fits, after the chunk before it if there is one, else before it (two
    /// chunks inside one function both name the function). Each further context means the first fit after the one before.
    fn anchors(&mut self, chunk: &Chunk, cursor: usize) -> Result<Vec<usize>, PatchError> {
        let mut anchors: Vec<usize> = Vec::new();
        for (depth, context) in chunk.contexts.iter().enumerate() {
            let fits = |anchors: &[usize], found: Vec<usize>| {
                if depth > 0 {
                    let after = anchors.iter().filter_map(|a| found.get(found.partition_point(|f| f <= a)).copied());
                    return after.collect::<BTreeSet<_>>().into_iter().collect();
                }
                let (passed, ahead) = found.split_at(found.partition_point(|f| *f < cursor));
                if ahead.is_empty() { passed.to_vec() } else { ahead.to_vec() }
            };
            let mut fitting: Vec<usize> = Vec::new();
            for tier in TIERS {
                let found = self.occurrences(tier, &[context], 0);
                fitting = fits(&anchors, found);
                if !fitting.is_empty() {
                    break;
                }
            }
            if fitting.is_empty() {
                fitting = fits(&anchors, self.beginnings(context));
            }
            if fitting.is_empty() {
                let elsewhere = self.occurrences(Tier::Normalised, &[context], 0);
                let hint = match elsewhere.first() {
                    Some(place) => {
                        format!("; it stands at line {}, which is not after the context before it", place + 1)
                    }
                    None => nearest::line_hint(self.file, context),
                };
                return Err(self.context_not_found(chunk, depth, hint));
            }
            anchors = fitting;
        }
        Ok(anchors)
    }

    /// Lines that begin with the context as whole words: `class A` for `class A(Base):`.
    fn beginnings(&self, context: &str) -> Vec<usize> {
        let context = context.trim();
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let open = context.chars().next_back().is_some_and(word);
        let begins = |line: &str| {
            let rest = line.trim_start().strip_prefix(context);
            rest.is_some_and(|rest| !(open && rest.chars().next().is_some_and(word)))
        };
        (0..self.file.len()).filter(|index| begins(self.file[*index])).collect()
    }

    /// All places at or after `from` where the lines stand, ascending.
    fn occurrences(&mut self, tier: Tier, wanted: &[&str], from: usize) -> Vec<usize> {
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
            wanted.iter().map(|line| index.numbers.get(key(tier, line).as_ref()).copied()).collect();
        match wanted {
            Some(wanted) if from <= index.lines.len() => search(&index.lines, &wanted, from),
            _ => Vec::new(),
        }
    }

    fn ambiguous(&self, chunk: &Chunk, places: Vec<usize>, hint: &'static str) -> PatchError {
        let places = places.into_iter().map(|place| place + 1).collect();
        PatchError::Ambiguous { path: self.path.into(), line: chunk.line, places, hint }
    }

    fn context_not_found(&self, chunk: &Chunk, depth: usize, hint: String) -> PatchError {
        let context = chunk.contexts[depth].clone();
        PatchError::ContextNotFound { path: self.path.into(), context, line: chunk.line + depth, hint }
    }

    fn lines_not_found(
        &mut self,
        chunk: &Chunk,
        lines: &[ChunkLine],
        cursor: usize,
        anchors: Option<&[usize]>,
    ) -> PatchError {
        let wanted = pattern(lines);
        let elsewhere = self.occurrences(Tier::Normalised, &wanted, 0);
        let result: Vec<&str> =
            lines.iter().filter(|line| line.tag != LineTag::Remove).map(|line| line.text.as_str()).collect();
        let telling = result.iter().any(|line| !line.trim().is_empty());
        let already = if telling { self.occurrences(Tier::TrimmedEnd, &result, 0) } else { Vec::new() };
        let hint = match (elsewhere.last(), already.first()) {
            (Some(place), _) if chunk.end_of_file && *place >= cursor => {
                format!("\nthey stand at line {}, but not at the end of the file: drop `*** End of File`", place + 1)
            }
            (Some(place), _) if *place < cursor => format!(
                "\nthey stand at line {}, before the end of the chunk before: write the chunks in file order",
                place + 1
            ),
            (Some(place), _) => {
                let after = anchors.map_or(0, |anchors| anchors[0] + 1);
                format!("\nthey stand at line {}, not after the context found at line {after}", place + 1)
            }
            (None, Some(place)) => format!("\nthe result of this chunk already stands at line {}", place + 1),
            (None, None) => nearest::block_hint(self.file, &wanted),
        };
        PatchError::LinesNotFound { path: self.path.into(), line: chunk.line, expected: wanted.join("\n"), hint }
    }
}

/// The lines that must be in the file: kept and removed ones.
fn pattern(lines: &[ChunkLine]) -> Vec<&str> {
    lines.iter().filter(|line| line.tag != LineTag::Add).map(|line| line.text.as_str()).collect()
}

/// The places that anchors point at: for each anchor the first place after it, and the anchor itself where the chunk
/// repeats its context as its first line. Both inputs ascend.
fn narrow(anchors: &[usize], places: &[usize]) -> Vec<usize> {
    let mut kept = BTreeSet::new();
    for anchor in anchors {
        let at = places.partition_point(|place| place < anchor);
        let repeats = places.get(at) == Some(anchor);
        kept.extend(repeats.then_some(*anchor));
        kept.extend(places.get(at + usize::from(repeats)));
    }
    kept.into_iter().collect()
}

/// All starts of `wanted` in `text` at or after `from`, overlapping ones included. `wanted` is not empty.
fn search(text: &[u32], wanted: &[u32], from: usize) -> Vec<usize> {
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
    for (at, number) in text.iter().enumerate().skip(from) {
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
    fn search_finds_overlapping_places_from_a_given_line() {
        assert_eq!(search(&[1, 1, 1, 2, 1, 1], &[1, 1], 0), [0, 1, 4]);
        assert_eq!(search(&[1, 1, 1, 2, 1, 1], &[1, 1], 2), [4]);
        assert_eq!(search(&[1, 2, 1, 2, 3], &[1, 2, 3], 0), [2]);
        assert!(search(&[1, 2], &[1, 2, 3], 0).is_empty());
    }

    #[test]
    fn anchors_pick_the_first_place_after_them_and_keep_what_is_unclear() {
        assert_eq!(narrow(&[3], &[1, 5, 9]), [5]);
        assert_eq!(narrow(&[5], &[5]), [5]);
        assert_eq!(narrow(&[5], &[5, 9]), [5, 9]);
        assert_eq!(narrow(&[0, 6], &[5, 9]), [5, 9]);
        assert_eq!(narrow(&[0, 2], &[5, 9]), [5]);
        assert!(narrow(&[9], &[1, 5]).is_empty());
    }
}
