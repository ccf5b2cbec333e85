//! How many results a spelled patch has, found by trying everything: every place of every hunk, every arrangement.
//!
//! It shares no code with the crate. It compares lines as loosely as the spelling that is judged made them differ.

use std::collections::BTreeSet;

use crate::case::{Hunk, Tag, lines};

/// How loosely lines are compared.
pub(crate) type Key = fn(&str) -> String;

/// Beyond this many arrangements there are surely several results.
const MOST: usize = 3_000;

/// How a patch is to be read.
pub(crate) struct Reading<'a> {
    /// Its hunks, in its order, with the true texts.
    pub(crate) hunks: &'a [Hunk],
    /// For each hunk the line of the file that its `@@` names.
    pub(crate) anchors: &'a [Option<String>],
    pub(crate) key: Key,
}

/// The number of different results, counted to 2; a reading in the order of the file goes before any other.
pub(crate) fn results(old: &str, reading: &Reading<'_>) -> usize {
    let file = lines(old);
    let keys: Vec<String> = file.iter().map(|line| (reading.key)(line)).collect();
    let places: Vec<Vec<usize>> = reading
        .hunks
        .iter()
        .zip(reading.anchors)
        .map(|(hunk, anchor)| {
            let strict = places(&file.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>(), hunk, str::to_owned);
            let loose = places(&keys, hunk, reading.key);
            // Where the hunk stands as it is spelled decides; a looser look is for what stands nowhere.
            let found = if strict.is_empty() || (reading.key)("  x") == "x" { loose } else { strict };
            found
                .into_iter()
                .filter(|place| anchor.as_ref().is_none_or(|anchor| encloses(&file, *place, anchor)))
                .collect()
        })
        .collect();
    for in_order in [true, false] {
        let mut all = Vec::new();
        if !arrange(reading.hunks, &places, in_order, &mut Vec::new(), &mut all) {
            return 2;
        }
        if !all.is_empty() {
            let texts: BTreeSet<String> = all.iter().map(|starts| applied(&file, reading.hunks, starts)).collect();
            return texts.len().min(2);
        }
    }
    0
}

fn places(file: &[String], hunk: &Hunk, key: impl Fn(&str) -> String) -> Vec<usize> {
    let wanted: Vec<String> =
        hunk.lines.iter().filter(|(tag, _)| *tag != Tag::Add).map(|(_, line)| key(line)).collect();
    if wanted.is_empty() || wanted.len() > file.len() {
        return Vec::new();
    }
    (0..=file.len() - wanted.len()).filter(|start| file[*start..start + wanted.len()] == wanted[..]).collect()
}

/// Whether a line is among those above a place that are indented less and less, or next to it.
fn encloses(file: &[&str], place: usize, anchor: &str) -> bool {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let mut bound = depth(file[place]);
    for line in file[..place].iter().rev().filter(|line| !line.trim().is_empty()) {
        if depth(line) < bound {
            bound = depth(line);
            if line.trim() == anchor.trim() {
                return true;
            }
        }
    }
    file[place].trim() == anchor.trim()
}

fn size(hunk: &Hunk) -> usize {
    hunk.lines.iter().filter(|(tag, _)| *tag != Tag::Add).count()
}

fn arrange(
    hunks: &[Hunk],
    places: &[Vec<usize>],
    in_order: bool,
    chosen: &mut Vec<usize>,
    all: &mut Vec<Vec<usize>>,
) -> bool {
    if chosen.len() == hunks.len() {
        all.push(chosen.clone());
        return all.len() <= MOST;
    }
    let len = size(&hunks[chosen.len()]);
    for place in &places[chosen.len()] {
        let apart = chosen.iter().zip(hunks).all(|(there, hunk)| {
            let before = there + size(hunk) <= *place;
            before || (!in_order && place + len <= *there)
        });
        if apart {
            chosen.push(*place);
            let complete = arrange(hunks, places, in_order, chosen, all);
            chosen.pop();
            if !complete {
                return false;
            }
        }
    }
    true
}

/// The text after the hunks were put at these places.
fn applied(file: &[&str], hunks: &[Hunk], starts: &[usize]) -> String {
    let mut order: Vec<usize> = (0..hunks.len()).collect();
    order.sort_by_key(|index| starts[*index]);
    let (mut out, mut next) = (Vec::new(), 0);
    for index in order {
        out.extend(file[next..starts[index]].iter().copied());
        next = starts[index];
        for (tag, line) in &hunks[index].lines {
            match tag {
                Tag::Keep => {
                    out.push(file[next]);
                    next += 1;
                }
                Tag::Remove => next += 1,
                Tag::Add => out.push(line),
            }
        }
    }
    out.extend(file[next..].iter().copied());
    out.join("\n")
}
