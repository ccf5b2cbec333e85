//! Files that use each other in a circle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::graph::Arrow;

/// The shortest circle through each group of files that all reach each other, as the arrows that make it.
pub(super) fn circles(arrows: &[Arrow]) -> Vec<Circle<'_>> {
    let mut next: BTreeMap<&str, Vec<&Arrow>> = BTreeMap::new();
    for arrow in arrows {
        next.entry(&arrow.from).or_default().push(arrow);
    }
    let mut done = BTreeSet::new();
    let mut found = Vec::new();
    for start in next.keys() {
        if done.contains(start) {
            continue;
        }
        let group: BTreeSet<&str> =
            reached(&next, start).into_iter().filter(|file| reached(&next, file).contains(start)).collect();
        if group.contains(start) {
            done.extend(group.iter().copied());
            let shortest = group.iter().filter_map(|file| way(&next, file, file)).min_by_key(Vec::len);
            found.push(Circle { files: group.len(), arrows: shortest.unwrap_or_default() });
        }
    }
    found
}

/// One circle.
pub(super) struct Circle<'a> {
    /// Files that all reach each other.
    pub(super) files: usize,
    /// The shortest circle among them.
    pub(super) arrows: Vec<&'a Arrow>,
}

/// What is used from `start` on, over any number of arrows.
fn reached<'a>(next: &BTreeMap<&'a str, Vec<&'a Arrow>>, start: &str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut waiting: Vec<&str> = vec![start];
    while let Some(file) = waiting.pop() {
        for arrow in next.get(file).into_iter().flatten() {
            if seen.insert(arrow.to.as_str()) {
                waiting.push(&arrow.to);
            }
        }
    }
    seen
}

/// The shortest way from one file to another, over one arrow at least.
fn way<'a>(next: &BTreeMap<&'a str, Vec<&'a Arrow>>, from: &str, to: &str) -> Option<Vec<&'a Arrow>> {
    let mut seen = BTreeSet::new();
    let mut waiting = VecDeque::from([(from, Vec::new())]);
    while let Some((file, way)) = waiting.pop_front() {
        for arrow in next.get(file).into_iter().flatten() {
            let mut way = way.clone();
            way.push(*arrow);
            if arrow.to == to {
                return Some(way);
            }
            if seen.insert(arrow.to.as_str()) {
                waiting.push_back((&arrow.to, way));
            }
        }
    }
    None
}
