//! How the writer of a patch spells, seen where the patch shows lines of the file; and what its added lines mean by it.
//!
//! A kept line keeps the file's bytes whatever the patch says. An added line has only the patch's, so what the patch does
//! to every line it shows (more or less indentation, white space at the end, typographic punctuation) it has done to
//! this one too. Where the shown lines do not say one thing, the patch is refused.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
};

use crate::{
    PatchError,
    find::plain,
    indent::{self, Indented},
    lines::Document,
    matcher::Placement,
    patch::LineTag,
};

/// What the chunks of one update show.
pub(crate) struct Habits<'a> {
    /// Every line shown and the file's, with their indentation.
    pairs: Vec<(&'a str, &'a str)>,
    /// Whether white space was put at the ends of lines.
    pads_ends: Padding,
    /// What each character of punctuation stands for in the file; empty while no two differ.
    marks: HashMap<char, BTreeSet<char>>,
}

/// What the patch puts at the ends of lines.
#[derive(Clone, PartialEq)]
enum Padding {
    Nothing,
    /// The same white space at every end.
    Always(String),
    /// White space at some.
    Sometimes,
}

impl<'a> Habits<'a> {
    pub(crate) fn of(document: &Document<'a>, placements: &'a [Placement<'_>]) -> Self {
        let mut pairs = Vec::new();
        for placement in placements {
            pairs.extend(shown(document, placement));
        }
        let mut marks: HashMap<char, BTreeSet<char>> = HashMap::new();
        for (patch, file) in &pairs {
            for (own, there) in patch.trim().chars().zip(file.trim().chars()).filter(|(own, _)| is_mark(*own)) {
                marks.entry(own).or_default().insert(there);
            }
        }
        if marks.iter().all(|(own, there)| there.iter().all(|there| there == own)) {
            marks.clear();
        }
        Self { pads_ends: padding(&pairs), marks, pairs }
    }

    /// The texts of a chunk's `+` lines as the file would have them.
    pub(crate) fn added_lines(
        &self,
        document: &Document<'_>,
        placement: &Placement<'_>,
        path: &Path,
    ) -> Result<Vec<String>, PatchError> {
        let unclear = |message: String| PatchError::Unclear { path: path.into(), line: placement.chunk.line, message };
        let mut added: Vec<String> =
            placement.lines.iter().filter(|line| line.tag == LineTag::Add).map(|line| line.text.clone()).collect();
        if added.is_empty() {
            return Ok(added);
        }
        if let Some(pad) = self.padding_of(&added) {
            let Some(pad) = pad else {
                let message = "some of its lines end in white space that the file does not have there, others do not; send \
                               the added lines without white space at their ends";
                return Err(unclear(message.into()));
            };
            added.iter_mut().for_each(|line| line.truncate(line.len() - pad.len()));
        }
        let pairs: Vec<(&str, &str)> = shown(document, placement).collect();
        let own: Vec<&str> = added.iter().map(String::as_str).collect();
        let line = placement.start + 1;
        let kept = placement.lines.iter().filter(|line| line.tag != LineTag::Add);
        let shows_changed = kept.zip(&pairs).any(|(line, (patch, file))| {
            line.tag == LineTag::Remove
                && !patch.trim().is_empty()
                && indent::indentation(patch) != indent::indentation(file)
        });
        if placement.untagged {
            let is_certain = placement.lines.iter().any(|line| line.bare && !line.text.trim().is_empty());
            if !is_certain && !fits_untagged(&pairs, &own) {
                return Err(unclear(format!(
                    "its kept lines stand one column to the left of those at line {line}, as if they had lost their tag; \
                     begin each with a space before its own text"
                )));
            }
        } else {
            match indent::adapt(&pairs, &self.pairs, &own, shows_changed) {
                Indented::AsWritten => {}
                Indented::Lines(lines) => added = lines,
                Indented::Unclear(index) => {
                    return Err(unclear(format!(
                        "it fits at line {line}, where the file is indented otherwise than the patch, and that does not \
                         say how to indent `{}`; copy the indentation from the file",
                        added[index].trim()
                    )));
                }
            }
        }
        if self.marks.is_empty() {
            return Ok(added);
        }
        let partners = partners(document, placement);
        let marked = added.iter().zip(partners).map(|(line, removed)| self.punctuate(document, line, &removed));
        marked.collect::<Result<_, char>>().map_err(|c| {
            unclear(format!(
                "it fits at line {line}, where the file has other quotes, dashes or spaces than the patch, and that does not \
                 say what `{c}` (U+{:04X}) in the added lines stands for; copy them from the file",
                u32::from(c)
            ))
        })
    }

    /// What is to be cut from the end of every added line, where something is; none within where that is unclear.
    fn padding_of(&self, added: &[String]) -> Option<Option<&str>> {
        let spaced = added.iter().any(|line| line.trim_end() != line);
        match &self.pads_ends {
            Padding::Nothing => None,
            Padding::Always(pad) => {
                let padded = added.iter().filter(|line| line.ends_with(pad.as_str())).count();
                if padded == added.len() { Some(Some(pad)) } else { (padded > 0).then_some(None) }
            }
            Padding::Sometimes => spaced.then_some(None),
        }
    }

    /// An added line with the file's punctuation: that of the removed line it goes back to, as far as the two are equal,
    /// else what the rest of the patch shows. The character that is unclear otherwise.
    fn punctuate(&self, document: &Document<'_>, line: &str, removed: &[(&str, &str)]) -> Result<String, char> {
        let chars: Vec<char> = line.chars().collect();
        let mut settled: Vec<Option<char>> = vec![None; chars.len()];
        let likest = removed.iter().map(|(patch, file)| common(&chars, patch.trim(), file.trim()));
        if let Some(found) = likest.max_by_key(|found| found.iter().flatten().count()) {
            settled = found;
        }
        let typographic = |c: char| plain(c) != c;
        // Marks of the same kind: all dashes, all double quotes.
        let alike = |c: char| self.marks.iter().filter(move |(own, _)| typographic(**own) && plain(**own) == plain(c));
        let undone = |c: char| alike(c).any(|(own, there)| there.iter().any(|there| there != own));
        let meant = |c: char| alike(c).any(|(own, there)| there.contains(own));
        let mut text = String::with_capacity(line.len());
        for (c, settled) in chars.into_iter().zip(settled) {
            let seen = self.marks.get(&c);
            text.push(match (settled, seen) {
                (Some(settled), _) => settled,
                (None, _) if !is_mark(c) => c,
                (None, Some(there)) if there.len() == 1 && typographic(c) => *there.first().unwrap_or(&c),
                (None, Some(there)) if there.contains(&c) && !typographic(c) => c,
                (None, None) if !typographic(c) || !undone(c) => c,
                (None, None) if !meant(c) && !document.holds(c) => plain(c),
                (None, _) => return Err(c),
            });
        }
        Ok(text)
    }
}

/// The lines that a chunk shows, each with the file's.
fn shown<'a>(document: &Document<'a>, placement: &'a Placement<'_>) -> impl Iterator<Item = (&'a str, &'a str)> {
    let kept = placement.lines.iter().filter(|line| line.tag != LineTag::Add);
    let file = (placement.start..).map(|index| document.text(index)).take(kept.clone().count());
    kept.map(|line| line.text.as_str()).zip(file.collect::<Vec<_>>())
}

fn padding(pairs: &[(&str, &str)]) -> Padding {
    // A blank line that is padded may be one that is indented.
    let texts = pairs.iter().filter(|(_, file)| !file.trim().is_empty());
    let ends = texts.map(|(patch, file)| (&patch[patch.trim_end().len()..], &file[file.trim_end().len()..]));
    let pads: BTreeSet<Option<&str>> = ends.map(|(patch, file)| patch.strip_prefix(file)).collect();
    let padded = pads.iter().flatten().find(|pad| !pad.is_empty());
    match padded {
        None => Padding::Nothing,
        Some(pad) if pads.len() == 1 => Padding::Always((*pad).to_owned()),
        Some(_) => Padding::Sometimes,
    }
}

/// Whether lines can have been added by someone who writes kept lines without a tag: every one is indented like a line of
/// the file, or at a multiple of its steps.
fn fits_untagged(pairs: &[(&str, &str)], added: &[&str]) -> bool {
    let depth = |line: &str| indent::indentation(line).len();
    let step = |a: usize, b: usize| {
        let (mut a, mut b) = (a, b);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let unit = pairs.iter().filter(|(_, file)| !file.trim().is_empty()).map(|(_, file)| depth(file)).fold(0, step);
    let mut texts = added.iter().filter(|line| !line.trim().is_empty());
    unit == 0 || texts.all(|line| unit > 1 && depth(line) % unit == 0)
}

/// For each added line the removed lines of the same change, as the patch and the file have them.
fn partners<'a>(document: &Document<'a>, placement: &'a Placement<'_>) -> Vec<Vec<(&'a str, &'a str)>> {
    let mut partners = Vec::new();
    let mut next = placement.start;
    for block in placement.lines.split_inclusive(|line| line.tag == LineTag::Context) {
        let mut removed = Vec::new();
        for line in block.iter().filter(|line| line.tag != LineTag::Add) {
            if line.tag == LineTag::Remove {
                removed.push((line.text.as_str(), document.text(next)));
            }
            next += 1;
        }
        let added = block.iter().filter(|line| line.tag == LineTag::Add).count();
        partners.extend(std::iter::repeat_n(removed, added));
    }
    partners
}

/// For each character of an added line the file's, as far as the line begins and ends like a removed one.
fn common(line: &[char], patch: &str, file: &str) -> Vec<Option<char>> {
    let lead = line.iter().take_while(|c| c.is_whitespace()).count();
    let text = &line[lead..];
    let (patch, file): (Vec<char>, Vec<char>) = (patch.chars().collect(), file.chars().collect());
    let mut settled = vec![None; line.len()];
    if patch.len() != file.len() {
        return settled;
    }
    let start = text.iter().zip(&patch).take_while(|(a, b)| a == b).count();
    let rest = text.len().min(patch.len()) - start;
    let end = text.iter().rev().zip(patch.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    for at in 0..start {
        settled[lead + at] = Some(file[at]);
    }
    for at in 1..=end {
        settled[line.len() - at] = Some(file[file.len() - at]);
    }
    settled
}

/// Whether a character is one of those that are written plain or typographic.
fn is_mark(c: char) -> bool {
    plain(c) != c || matches!(c, '-' | '\'' | '"')
}
