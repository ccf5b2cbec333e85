//! Finds the one place in a file where each chunk goes, or says why there is none.
//!
//! Every chunk is read in a few ways, strictest first, and the first way that stands anywhere in the file says which
//! places it may mean. `solve` then looks for the arrangements of all chunks; what is left with more than one result is
//! refused. Nothing is changed here; `lines` puts the chunks in.

use std::{borrow::Cow, path::Path};

use crate::{
    PatchError, anchors,
    find::{Finder, TIERS, Tier},
    lines::Document,
    nearest,
    patch::{Chunk, ChunkLine, LineTag},
    solve::{self, Arrangement, Places},
};

const MORE_CONTEXT: &str =
    "add unchanged lines around the change, or an `@@` line naming what encloses it, until only one place fits";
const MORE_PLACE: &str = "add unchanged lines around the place, or a second `@@` line, until only one place fits";

/// Where a chunk goes.
#[derive(Debug, Clone)]
pub(crate) struct Placement<'a> {
    /// 0-based file line at which the chunk's first kept or removed line stands, or before which it inserts.
    pub(crate) start: usize,
    /// The chunk's lines as they were read: without blank ones at an end that turned out to be mere spacing.
    pub(crate) lines: Cow<'a, [ChunkLine]>,
    /// The chunk itself.
    pub(crate) chunk: &'a Chunk,
    /// Whether its kept lines were written without their tag.
    pub(crate) untagged: bool,
}

impl Placement<'_> {
    /// First file line after the chunk.
    pub(crate) fn end(&self) -> usize {
        self.start + pattern(&self.lines).len()
    }
}

/// A chunk as it was read, and where that stands.
struct Candidate<'c> {
    reading: Placement<'c>,
    places: Vec<usize>,
}

/// Places all chunks of one update; the result is in file order. `path` is for messages.
pub(crate) fn place<'c>(
    document: &Document<'_>,
    chunks: &'c [Chunk],
    path: &Path,
) -> Result<Vec<Placement<'c>>, PatchError> {
    let texts = document.texts();
    let mut matcher = Matcher { finder: Finder::new(&texts), path };
    let mut candidates = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        candidates.push(matcher.candidate(chunk)?);
    }
    let first = |candidates: &[Candidate<'c>], chosen: &[usize]| {
        let mut placed: Vec<Placement<'c>> =
            candidates.iter().zip(chosen).map(|(c, start)| Placement { start: *start, ..c.reading.clone() }).collect();
        placed.sort_by_key(|placement| placement.start);
        placed
    };
    loop {
        let sets: Vec<Places<'_>> =
            candidates.iter().map(|c| Places { strict: &c.places, lines: &c.reading.lines }).collect();
        let result = |chosen: &[usize]| document.rebuild(&first(&candidates, chosen), path).ok();
        let mut loose = || candidates.iter().map(|candidate| matcher.loose(candidate)).collect();
        match solve::arrange(&sets, &mut loose, texts.len(), &result) {
            Arrangement::One(chosen) => {
                let placed = first(&candidates, &chosen);
                check_end(&placed, &texts, path)?;
                return Ok(placed);
            }
            Arrangement::Several(index, places) => {
                let hint = if pattern(&candidates[index].reading.lines).is_empty() { MORE_PLACE } else { MORE_CONTEXT };
                return Err(matcher.ambiguous(candidates[index].reading.chunk, places, hint));
            }
            Arrangement::None(index) => {
                // A chunk that was written twice, where there is one place for it at any looseness, is said twice.
                let twice = candidates.iter().enumerate().position(|(at, one)| {
                    let same = |other: &Candidate<'c>| {
                        other.reading.chunk.lines == one.reading.chunk.lines
                            && other.reading.chunk.contexts == one.reading.chunk.contexts
                    };
                    candidates[..at].iter().any(same) && matcher.loose(one).len() == 1
                });
                match twice {
                    Some(twice) => drop(candidates.remove(twice)),
                    None => return Err(matcher.no_room(&candidates, index)),
                }
            }
        }
    }
}

/// Refuses the last chunk of a patch without an end marker where it seems to have been cut off: it shows what stands before
/// its change and not what stands after.
fn check_end(placed: &[Placement<'_>], texts: &[&str], path: &Path) -> Result<(), PatchError> {
    let cut = placed.iter().find(|placement| {
        let changes = |line: Option<&ChunkLine>| line.is_some_and(|line| line.tag != LineTag::Context);
        placement.chunk.open_end
            && changes(placement.lines.last())
            && !changes(placement.lines.first())
            && placement.end() < texts.len()
    });
    match cut {
        None => Ok(()),
        Some(placement) => Err(PatchError::CutOff { path: path.into(), line: placement.chunk.line }),
    }
}

struct Matcher<'f, 'p> {
    finder: Finder<'f>,
    path: &'p Path,
}

impl Matcher<'_, '_> {
    /// The places that a chunk may mean, whatever the other chunks take.
    fn candidate<'c>(&mut self, chunk: &'c Chunk) -> Result<Candidate<'c>, PatchError> {
        let shapes = shapes(chunk);
        let least = shapes.last().map_or(&chunk.lines[..], |shape| shape);
        let anchors = if chunk.contexts.is_empty() { None } else { Some(self.anchors(chunk)?) };
        if pattern(least).is_empty() {
            return self.insertion(chunk, least, anchors);
        }
        for shape in &shapes {
            for (lines, untagged, tiers) in readings(shape) {
                for tier in tiers.iter().copied() {
                    let places = self.places(tier, &lines, chunk, anchors.as_deref());
                    if !places.is_empty() {
                        return Ok(Candidate { reading: Placement { start: 0, lines, chunk, untagged }, places });
                    }
                }
            }
        }
        Err(self.lines_not_found(chunk, least, anchors.as_deref()))
    }

    /// Where the loosest reading of a chunk stands.
    fn loose(&mut self, candidate: &Candidate<'_>) -> Vec<usize> {
        let Placement { lines, chunk, .. } = &candidate.reading;
        if pattern(lines).is_empty() {
            return candidate.places.clone();
        }
        let anchors = if chunk.contexts.is_empty() { None } else { self.anchors(chunk).ok() };
        self.places(Tier::Normalised, lines, chunk, anchors.as_deref())
    }

    fn places(&mut self, tier: Tier, lines: &[ChunkLine], chunk: &Chunk, anchors: Option<&[usize]>) -> Vec<usize> {
        let wanted = pattern(lines);
        if wanted.is_empty() {
            return Vec::new();
        }
        let file = self.finder.file;
        let mut places = self.finder.occurrences(tier, &wanted);
        if chunk.end_of_file {
            places.retain(|place| file[place + wanted.len()..].iter().all(|line| line.trim().is_empty()));
        }
        match anchors {
            Some(anchors) => anchors::narrow(file, anchors, &places, wanted.len()),
            None => places,
        }
    }

    /// Places a chunk that has only `+` lines: after its context, or at the end of the file.
    fn insertion<'c>(
        &self,
        chunk: &'c Chunk,
        lines: &'c [ChunkLine],
        anchors: Option<Vec<usize>>,
    ) -> Result<Candidate<'c>, PatchError> {
        let mut places: Vec<usize> = anchors.unwrap_or_default().iter().map(|anchor| anchor + 1).collect();
        if chunk.end_of_file || self.finder.file.is_empty() {
            places = vec![self.finder.file.len()];
        }
        if places.is_empty() {
            return Err(PatchError::NoAnchor {
                path: self.path.into(),
                line: chunk.line,
                hint: "add the unchanged lines around the place, put `@@ LINE` with the line to insert after, or end the \
                       chunk with `*** End of File` to append",
            });
        }
        let lines = Cow::Borrowed(lines);
        let reading = Placement { start: 0, lines, chunk, untagged: false };
        Ok(Candidate { reading, places })
    }

    fn anchors(&mut self, chunk: &Chunk) -> Result<Vec<usize>, PatchError> {
        anchors::find(&mut self.finder, &chunk.contexts).map_err(|(depth, hint)| {
            let context = chunk.contexts[depth].clone();
            PatchError::ContextNotFound { path: self.path.into(), context, line: chunk.line + depth, hint }
        })
    }

    fn ambiguous(&self, chunk: &Chunk, places: Vec<usize>, hint: &'static str) -> PatchError {
        let places = places.into_iter().map(|place| place + 1).collect();
        PatchError::Ambiguous { path: self.path.into(), line: chunk.line, places, hint }
    }

    /// The error for chunks that each stand somewhere, and not together.
    fn no_room(&self, candidates: &[Candidate<'_>], index: usize) -> PatchError {
        let Candidate { reading, places, .. } = &candidates[index];
        let wanted = pattern(&reading.lines).join("\n");
        let place = places.first().map_or(1, |place| place + 1);
        let hint = format!(
            "\nthey stand at line {place}, where another chunk of this file already makes its change: write the changes \
             of these lines as one chunk"
        );
        PatchError::LinesNotFound { path: self.path.into(), line: reading.chunk.line, expected: wanted, hint }
    }

    fn lines_not_found(&mut self, chunk: &Chunk, lines: &[ChunkLine], anchors: Option<&[usize]>) -> PatchError {
        let wanted = pattern(lines);
        let elsewhere = self.finder.occurrences(Tier::Normalised, &wanted);
        let result: Vec<&str> =
            lines.iter().filter(|line| line.tag != LineTag::Remove).map(|line| line.text.as_str()).collect();
        let telling = result.iter().any(|line| !line.trim().is_empty());
        let already = if telling { self.finder.occurrences(Tier::TrimmedEnd, &result) } else { Vec::new() };
        let hint = match (elsewhere.last(), already.first()) {
            (Some(place), _) if chunk.end_of_file => {
                format!("\nthey stand at line {}, but not at the end of the file: drop `*** End of File`", place + 1)
            }
            (Some(place), _) => {
                let after = anchors.map_or(0, |anchors| anchors[0] + 1);
                format!("\nthey stand at line {}, not after the context found at line {after}", place + 1)
            }
            (None, Some(place)) => format!("\nthe result of this chunk already stands at line {}", place + 1),
            (None, None) => nearest::block_hint(self.finder.file, &wanted),
        };
        PatchError::LinesNotFound { path: self.path.into(), line: chunk.line, expected: wanted.join("\n"), hint }
    }
}

/// The chunk's lines without blank ones at its ends that may be mere spacing: what they would add to its place is not
/// certain. Where the end of the file bounds the chunk they are tried as lines first.
fn shapes(chunk: &Chunk) -> Vec<&[ChunkLine]> {
    let blank = |line: &&ChunkLine| line.tag == LineTag::Context && line.text.is_empty();
    let lines = &chunk.lines[..];
    // Before the end of the file an explicit blank line may be the model's picture of the final newline.
    let tail = if chunk.end_of_file { lines.iter().rev().take_while(blank).count() } else { chunk.blank_tail };
    let head = chunk.blank_head.min(lines.len() - tail);
    let cut = &lines[head..lines.len() - tail];
    if pattern(cut).is_empty() && !pattern(lines).is_empty() && chunk.contexts.is_empty() && !chunk.end_of_file {
        return vec![lines];
    }
    if chunk.end_of_file && head + tail > 0 { vec![lines, &lines[head..], cut] } else { vec![cut] }
}

/// Lines as they are read, whether their kept ones had lost their tag, and the tiers in which they are compared.
type Reading<'a> = (Cow<'a, [ChunkLine]>, bool, &'static [Tier]);

/// The ways to read lines, strictest first, each with the tiers in which it is compared. A kept line may have lost its
/// tag; one that cannot have a tag shows that all of them have.
fn readings(lines: &[ChunkLine]) -> Vec<Reading<'_>> {
    let kept = |line: &&ChunkLine| line.tag == LineTag::Context && !line.text.is_empty();
    let tagged = Cow::Borrowed(lines);
    if !lines.iter().any(|line| kept(&line)) {
        return vec![(tagged, false, &TIERS)];
    }
    let whole = |line: &ChunkLine| {
        let text = if kept(&line) && !line.bare { format!(" {}", line.text) } else { line.text.clone() };
        ChunkLine { text, ..line.clone() }
    };
    let untagged = Cow::Owned(lines.iter().map(whole).collect());
    if lines.iter().any(|line| line.bare && !line.text.trim().is_empty()) {
        return vec![(untagged, true, &TIERS)];
    }
    vec![(tagged.clone(), false, &TIERS[..2]), (untagged, true, &TIERS[..2]), (tagged, false, &TIERS[2..])]
}

/// The lines that must be in the file: kept and removed ones.
pub(crate) fn pattern(lines: &[ChunkLine]) -> Vec<&str> {
    lines.iter().filter(|line| line.tag != LineTag::Add).map(|line| line.text.as_str()).collect()
}
