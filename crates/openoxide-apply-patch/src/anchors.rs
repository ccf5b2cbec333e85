//! What the texts after `@@` mean: lines of the file, and the blocks that these lines open.
//!
//! A context names what encloses a change. Its block ends where the indentation says so; a chunk belongs to it when it
//! starts inside, or when it shows the named line itself.

use std::collections::BTreeSet;

use crate::{
    find::{Finder, TIERS},
    nearest,
};

/// The file lines that a chunk's last context may mean, ascending and never empty; else which context is found nowhere,
/// and a hint. Each context after the first is looked for in the blocks of the one before it, else after it.
pub(crate) fn find(finder: &mut Finder<'_>, contexts: &[String]) -> Result<Vec<usize>, (usize, String)> {
    let mut anchors: Vec<usize> = Vec::new();
    for (depth, context) in contexts.iter().enumerate() {
        let file = finder.file;
        let fits = |found: Vec<usize>| if depth == 0 { found } else { below(file, &anchors, &found) };
        let mut fitting = Vec::new();
        for tier in TIERS {
            fitting = fits(finder.occurrences(tier, &[context]));
            if !fitting.is_empty() {
                break;
            }
        }
        for part in [Part::Beginning, Part::Anywhere] {
            if fitting.is_empty() {
                fitting = fits(holding(file, context, part));
            }
        }
        if fitting.is_empty() {
            let elsewhere = finder.occurrences(TIERS[TIERS.len() - 1], &[context]);
            let hint = match elsewhere.first() {
                Some(place) => {
                    format!("; it stands at line {}, which is not after the context before it", place + 1)
                }
                None => nearest::line_hint(file, context),
            };
            return Err((depth, hint));
        }
        anchors = fitting;
    }
    Ok(anchors)
}

/// Of the lines found for a further context, those in the blocks of the one before; else the first after each.
fn below(file: &[&str], anchors: &[usize], found: &[usize]) -> Vec<usize> {
    let blocks: Vec<(usize, Option<usize>)> =
        anchors.iter().map(|anchor| (*anchor, block_end(file, *anchor))).collect();
    let inside = |line: &&usize| blocks.iter().any(|(from, end)| *line > from && end.is_some_and(|end| **line < end));
    let within: Vec<usize> = found.iter().filter(inside).copied().collect();
    if !within.is_empty() {
        return within;
    }
    let after = anchors.iter().filter_map(|a| found.get(found.partition_point(|f| f <= a)).copied());
    after.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Where in a line a context stands.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Beginning,
    Anywhere,
}

/// Lines that hold the context as whole words: `class A` for `class A(Base):`, `def f` for `async def f():`.
fn holding(file: &[&str], context: &str, part: Part) -> Vec<usize> {
    // Models close a heading as unified diffs do.
    let context = context.trim().trim_end_matches("@@").trim_end();
    if context.chars().filter(|c| c.is_alphanumeric()).count() < 2 {
        return Vec::new();
    }
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let open = (context.chars().next().is_some_and(word), context.chars().next_back().is_some_and(word));
    let whole = |line: &str, at: usize| {
        let (before, after) = (&line[..at], &line[at + context.len()..]);
        let goes_on = |open: bool, next: Option<char>| open && next.is_some_and(word);
        !goes_on(open.0, before.chars().next_back()) && !goes_on(open.1, after.chars().next())
    };
    let holds = |line: &str| {
        let line = line.trim_start();
        line.match_indices(context).any(|(at, _)| (part == Part::Anywhere || at == 0) && whole(line, at))
    };
    (0..file.len()).filter(|index| holds(file[*index])).collect()
}

/// The places that the anchors point at, for a chunk of `len` lines. Both inputs ascend.
pub(crate) fn narrow(file: &[&str], anchors: &[usize], places: &[usize], len: usize) -> Vec<usize> {
    let mut inside = BTreeSet::new();
    let mut next = BTreeSet::new();
    let mut after = BTreeSet::new();
    for anchor in anchors {
        let shows = |place: usize| place <= *anchor && *anchor < place + len;
        let from = places.partition_point(|place| place + len <= *anchor);
        let end = block_end(file, *anchor);
        for place in &places[from..] {
            if shows(*place) || (place > anchor && end.is_some_and(|end| *place < end)) {
                inside.insert(*place);
            }
            if *place == anchor + 1 {
                next.insert(*place);
            }
            if place > anchor {
                after.insert(*place);
            }
        }
    }
    let found = [inside, next, after].into_iter().find(|found| !found.is_empty());
    found.unwrap_or_default().into_iter().collect()
}

/// The line after the block that a line opens; none where the line opens no block.
fn block_end(file: &[&str], anchor: usize) -> Option<usize> {
    let own = indentation(file[anchor]);
    let mut deeper = false;
    for (index, line) in file.iter().enumerate().skip(anchor + 1) {
        let text = line.trim();
        if text.is_empty() {
            continue;
        }
        let depth = indentation(line);
        if depth > own {
            deeper = true;
            continue;
        }
        let closes = text.starts_with(['}', ')', ']']) || text == "end" || text.starts_with("end ");
        if depth == own && (opens_again(text) || (text.starts_with('{') && !deeper)) {
            continue;
        }
        return deeper.then_some(if depth == own && closes { index + 1 } else { index });
    }
    deeper.then_some(file.len())
}

/// Whether a line at the depth of the block's head goes on with the block: `} else {`, `) -> X {`, `except:`.
fn opens_again(text: &str) -> bool {
    let closes = text.starts_with(['}', ')', ']']);
    let first = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    (closes && text.ends_with(['{', '(', '[', ':'])) || ["else", "elif", "except", "finally", "catch"].contains(&first)
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_holds_the_places_inside_it_and_what_is_unclear_stays_so() {
        let file = ["fn a {", "  x", "  y", "}", "fn b(", "  p", ") {", "  x", "  x", "}", "fn c {", "  x", "}"];
        assert_eq!(narrow(&file, &[0], &[1, 7, 8, 11], 1), [1]);
        assert_eq!(narrow(&file, &[4], &[1, 7, 8, 11], 1), [7, 8], "both stand in the block");
        assert_eq!(narrow(&file, &[10], &[9], 2), [9], "the chunk shows the line itself");
        assert_eq!(narrow(&file, &[1], &[2, 7], 1), [2], "the next line, after a line that opens nothing");
        assert_eq!(narrow(&file, &[2], &[7, 11], 1), [7, 11]);
        assert!(narrow(&file, &[10], &[1], 1).is_empty());
    }
}
