//! What a cache would have had of a request: both makers keep exact prefixes only. One of them keeps what is marked and looks back
//! from each mark, the other keeps every prefix by itself.

use std::collections::HashSet;

use super::hash;

/// Bytes of a token, about.
const BYTES: usize = 4;
/// Blocks that are looked at before a mark. Source: Claude docs, "Prompt caching" (20 block lookback window).
const LOOKBACK: usize = 20;
/// The least that is kept, in tokens, and the steps after it. Source: OpenAI docs, "Prompt caching" (1024 tokens, then
/// increments of 128).
const LEAST: u64 = 1024;
const STEP: u64 = 128;

/// Prefixes that are kept.
#[derive(Default)]
pub(super) struct Cache {
    kept: HashSet<String>,
}

/// A part of a request in the order in which the provider reads it.
pub(super) struct Block {
    pub(super) text: String,
    pub(super) is_marked: bool,
}

fn tokens(bytes: usize) -> u64 {
    (bytes / BYTES) as u64
}

impl Cache {
    /// Tokens of a request, and those of them that were kept. `keyed` is what the cache is held under.
    pub(super) fn read(&mut self, keyed: &str, blocks: &[Block], is_by_marks: bool) -> (u64, u64) {
        let mut names = Vec::with_capacity(blocks.len());
        let (mut name, mut bytes) = (hash(&[keyed]), 0);
        for block in blocks {
            name = hash(&[&name, &block.text]);
            bytes += block.text.len();
            names.push((name.clone(), bytes));
        }
        let is_known = |at: &usize| self.kept.contains(&names[*at].0);
        let found = if is_by_marks {
            let marks = blocks.iter().enumerate().filter(|(_, block)| block.is_marked).map(|(at, _)| at);
            marks.filter_map(|mark| (mark.saturating_sub(LOOKBACK)..=mark).rev().find(is_known)).max()
        } else {
            (0..blocks.len()).rev().find(is_known)
        };
        let cached = found.map_or(0, |at| tokens(names[at].1));
        let cached = match is_by_marks {
            true => cached,
            false if cached < LEAST => 0,
            false => LEAST + (cached - LEAST) / STEP * STEP,
        };
        let kept = names.iter().zip(blocks).filter(|(_, block)| !is_by_marks || block.is_marked);
        self.kept.extend(kept.map(|((name, _), _)| name.clone()));
        (tokens(bytes), cached)
    }
}
