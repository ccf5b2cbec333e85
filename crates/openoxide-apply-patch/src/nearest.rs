//! Hints for a chunk that was not found: the place in the file that looks most like it.
//!
//! Only words for error messages come from here; a likeness is never used to place a chunk. Every search is linear in
//! the file.

use std::collections::HashMap;

use crate::find::{Tier, key};

/// A line of the chunk that occurs more often than this in the file says nothing about the place.
const TOO_COMMON: usize = 32;
/// Characters of a line that a message shows.
const SHOWN: usize = 160;

/// Names the line of the file most like `wanted`; starts with a separator, empty when nothing is like it.
pub(crate) fn line_hint(file: &[&str], wanted: &str) -> String {
    most_like(file, wanted).map_or_else(String::new, |index| {
        format!("; the nearest line is {}: `{}`", index + 1, shorten(file[index].trim()))
    })
}

/// Names the first line at which the most similar region of the file departs from the chunk's lines; starts with a line
/// break, and says what to do when nothing is similar.
pub(crate) fn block_hint(file: &[&str], wanted: &[&str]) -> String {
    let reread = "\nread the file again and copy the lines exactly as they stand";
    if let Some(start) = best_start(file, wanted) {
        let differs = wanted.iter().enumerate().find(|(offset, line)| {
            let there = file.get(start + offset);
            there.is_none_or(|there| key(Tier::Normalised, there) != key(Tier::Normalised, line))
        });
        return match differs {
            Some((offset, line)) if start + offset < file.len() => format!(
                "\nthe nearest place starts at line {}; there line {} reads `{}` where the patch has `{}`{reread}",
                start + 1,
                start + offset + 1,
                shorten(file[start + offset].trim()),
                shorten(line.trim())
            ),
            Some((_, line)) => format!(
                "\nthe nearest place starts at line {}; the file ends there before `{}`{reread}",
                start + 1,
                shorten(line.trim())
            ),
            None => reread.to_owned(),
        };
    }
    let first = wanted.iter().find(|line| !line.trim().is_empty());
    match first.and_then(|line| most_like(file, line)) {
        Some(index) => {
            format!("\nthe nearest line is {}: `{}`{reread}", index + 1, shorten(file[index].trim()))
        }
        None => reread.to_owned(),
    }
}

/// The start at which most of the lines stand where the chunk has them; each line votes for the start it implies.
fn best_start(file: &[&str], wanted: &[&str]) -> Option<usize> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for line in wanted.iter().filter(|line| !line.trim().is_empty()) {
        places.entry(line.trim()).or_default();
    }
    for (index, line) in file.iter().enumerate() {
        if let Some(places) = places.get_mut(line.trim()).filter(|places| places.len() <= TOO_COMMON) {
            places.push(index);
        }
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (offset, line) in wanted.iter().enumerate() {
        let Some(found) = places.get(line.trim()).filter(|found| found.len() <= TOO_COMMON) else { continue };
        for start in found.iter().filter_map(|at| at.checked_sub(offset)) {
            *votes.entry(start).or_default() += 1;
        }
    }
    votes.into_iter().max_by_key(|(start, count)| (*count, usize::MAX - start)).map(|(start, _)| start)
}

/// The line that shares the longest beginning and end with `wanted`, if that is more than half of the longer one.
fn most_like(file: &[&str], wanted: &str) -> Option<usize> {
    let wanted = wanted.trim().as_bytes();
    let mut best = None;
    for (index, line) in file.iter().enumerate() {
        let line = line.trim().as_bytes();
        let (shorter, longer) = (line.len().min(wanted.len()), line.len().max(wanted.len()));
        if longer == 0 || shorter * 2 < longer {
            continue;
        }
        let start = line.iter().zip(wanted).take_while(|(a, b)| a == b).count();
        let end = line.iter().rev().zip(wanted.iter().rev()).take_while(|(a, b)| a == b).count().min(shorter - start);
        let shared = (start + end) * 1000 / longer;
        if shared > 500 && best.is_none_or(|(most, _)| shared > most) {
            best = Some((shared, index));
        }
    }
    best.map(|(_, index)| index)
}

fn shorten(line: &str) -> String {
    match line.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_departs_is_named() {
        let file = ["fn a() {", "    one();", "    two(2);", "}"];
        let hint = block_hint(&file, &["fn a() {", "    one();", "    two(3);", "}"]);
        assert!(
            hint.contains("starts at line 1; there line 3 reads `two(2);` where the patch has `two(3);`"),
            "{hint}"
        );
    }

    #[test]
    fn a_lone_line_gets_its_nearest() {
        let file = ["alpha", "let total = price * count;", "omega"];
        assert_eq!(
            line_hint(&file, "let total = prices * count;"),
            "; the nearest line is 2: `let total = price * count;`"
        );
        assert_eq!(line_hint(&file, "nothing of the kind"), "");
    }

    #[test]
    fn a_chunk_longer_than_the_file_is_no_panic() {
        assert!(block_hint(&["a"], &["a", "b", "c"]).contains("the file ends there before `b`"));
        assert!(block_hint(&[], &["a"]).contains("read the file again"));
    }
}
