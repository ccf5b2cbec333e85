//! A word as a shell would make it, as far as the line tells: its text, and where only the shell knows what stands.

use super::super::program::base_name;

/// Stands in a shape for what only the shell knows. No word of a command can hold it.
const OPEN: char = '\0';

/// Whether something is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Match {
    No,
    /// It cannot be told.
    Maybe,
    Yes,
}

/// A word of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Word {
    /// As far as it is known; `$name` stands for a variable.
    pub(in super::super) text: String,
    /// The text with [`OPEN`] for what is not known; none where all is.
    shape: Option<String>,
    /// It may become several words, or none.
    splits: bool,
}

impl Word {
    /// A word that is what it says.
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), shape: None, splits: false }
    }

    /// A word that may be anything.
    pub(super) fn unknown() -> Self {
        Self { text: "$()".to_owned(), shape: Some(OPEN.to_string()), splits: true }
    }

    pub(super) fn is_open(&self) -> bool {
        self.shape.is_some()
    }

    pub(super) fn splits(&self) -> bool {
        self.splits
    }

    /// The same text, of which any part may become something else.
    pub(super) fn opened(&self) -> Self {
        Self { text: self.text.clone(), shape: Some(OPEN.to_string()), splits: true }
    }

    /// Whether it may vanish, or bring other words along, so that nothing is known of what follows.
    pub(super) fn hides_what_follows(&self) -> bool {
        self.splits && self.shape.as_deref().is_some_and(|shape| shape.starts_with(OPEN))
    }

    /// Whether the word is this.
    pub(super) fn is(&self, name: &str) -> Match {
        compare(&self.text, self.shape.as_deref(), self.splits, name)
    }

    /// Whether the word, as a program, is this one: by its whole name, or without its directories.
    pub(super) fn is_program(&self, name: &str) -> Match {
        let shape = self.shape.as_deref().map(base_name);
        // A directory that is not known may be several words.
        let is_split = self.splits && self.shape.as_deref().is_some_and(|shape| shape.starts_with(OPEN));
        let based = if is_split { Match::Maybe } else { Match::No };
        let base = compare(&base_name(&self.text).to_lowercase(), shape, self.splits, &name.to_lowercase());
        base.max(self.is(name)).max(based)
    }
}

fn compare(text: &str, shape: Option<&str>, splits: bool, name: &str) -> Match {
    if text == name {
        return Match::Yes;
    }
    let Some(shape) = shape else { return Match::No };
    let known = shape.split(OPEN).next().unwrap_or_default();
    let may = if splits { name.starts_with(known) } else { fits(shape, name) };
    if may { Match::Maybe } else { Match::No }
}

/// Whether a name fits a shape: its known parts, in their order, with anything between them.
fn fits(shape: &str, name: &str) -> bool {
    let mut parts = shape.split(OPEN);
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// What a word is put together from.
#[derive(Debug, Clone)]
pub(super) enum Bit {
    /// A character that the shell may still act on: braces and patterns.
    Bare(char),
    /// A character that is itself.
    Quoted(char),
    /// What only the shell knows: how it is shown, and whether it may become several words.
    Open(String, bool),
}

/// The words that the bits become: one, or several where braces stand for them.
pub(super) fn words_of(bits: Vec<Bit>) -> Vec<Word> {
    let mut words = Vec::new();
    expand(bits, &mut words);
    words
}

/// The most words that braces are followed to.
const MOST: usize = 64;

fn expand(bits: Vec<Bit>, words: &mut Vec<Word>) {
    if words.len() >= MOST {
        return;
    }
    let Some((open, close, commas)) = brace(&bits) else { return words.push(made(&bits)) };
    let mut from = open + 1;
    for end in commas.into_iter().chain([close]) {
        let choice = bits[..open].iter().chain(&bits[from..end]).chain(&bits[close + 1..]);
        expand(choice.cloned().collect(), words);
        from = end + 1;
    }
}

/// The first braces that stand for several words: where they are, and their commas.
fn brace(bits: &[Bit]) -> Option<(usize, usize, Vec<usize>)> {
    let starts = bits.iter().enumerate().filter(|(_, bit)| matches!(bit, Bit::Bare('{'))).map(|(at, _)| at);
    for open in starts {
        let (mut depth, mut commas) = (0_usize, Vec::new());
        for (at, bit) in bits.iter().enumerate().skip(open) {
            match bit {
                Bit::Bare('{') => depth += 1,
                Bit::Bare(',') if depth == 1 => commas.push(at),
                Bit::Bare('}') => {
                    depth -= 1;
                    if depth == 0 {
                        if commas.is_empty() {
                            break;
                        }
                        return Some((open, at, commas));
                    }
                }
                Bit::Bare(_) | Bit::Quoted(_) | Bit::Open(..) => {}
            }
        }
    }
    None
}

fn made(bits: &[Bit]) -> Word {
    let (mut text, mut shape) = (String::new(), String::new());
    let (mut is_open, mut splits) = (false, false);
    for bit in bits {
        match bit {
            Bit::Bare(c @ ('*' | '?' | '[')) => {
                // `[` and `[[` alone are programs.
                let is_pattern = bits.len() > 2 || *c != '[';
                (is_open, splits) = (is_open || is_pattern, splits || is_pattern);
                text.push(*c);
                shape.push(if is_pattern { OPEN } else { *c });
                // What a set of characters stands for is one of them.
                continue;
            }
            Bit::Bare(c) | Bit::Quoted(c) => {
                text.push(*c);
                shape.push(*c);
            }
            Bit::Open(shown, may_split) => {
                (is_open, splits) = (true, splits || *may_split);
                text.push_str(shown);
                shape.push(OPEN);
            }
        }
    }
    // After a pattern nothing of the word is known for sure: `pus[h]` is `push`.
    if let Some(at) = bits.iter().position(|bit| matches!(bit, Bit::Bare('['))).filter(|_| is_open) {
        let known: String = bits[..at]
            .iter()
            .map_while(|bit| match bit {
                Bit::Bare(c) | Bit::Quoted(c) => Some(*c),
                Bit::Open(..) => None,
            })
            .collect();
        shape = known + &OPEN.to_string();
    }
    Word { text, shape: is_open.then_some(shape), splits }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(text: &str) -> Vec<Bit> {
        text.chars().map(|c| if c == '$' { Bit::Open("$x".to_owned(), false) } else { Bit::Bare(c) }).collect()
    }

    fn texts(text: &str) -> Vec<String> {
        words_of(bits(text)).into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn braces_stand_for_several_words() {
        assert_eq!(texts("{git,push}"), ["git", "push"]);
        assert_eq!(texts("pus{h,}"), ["push", "pus"]);
        assert_eq!(texts("a{b,{c,d}}e"), ["abe", "ace", "ade"]);
        for alone in ["{", "{}", "a{b}c", "{a", "}"] {
            assert_eq!(texts(alone), [alone]);
        }
    }

    #[test]
    fn an_open_word_may_be_what_its_known_parts_allow() {
        let is = |text: &str, name: &str| words_of(bits(text))[0].is(name);
        assert_eq!((is("git", "git"), is("git", "gif")), (Match::Yes, Match::No));
        assert_eq!((is("g$t", "git"), is("g$t", "go"), is("$", "git")), (Match::Maybe, Match::No, Match::Maybe));
        assert_eq!(
            (is("pus[h]", "push"), is("p?sh", "push"), is("l?", "push")),
            (Match::Maybe, Match::Maybe, Match::No)
        );
        assert_eq!((is("[", "["), is("[[", "git")), (Match::Yes, Match::No));
        let program = |text: &str, name: &str| words_of(bits(text))[0].is_program(name);
        assert_eq!((program("/a/git", "git"), program("/a/GIT", "git")), (Match::Yes, Match::Yes));
        assert_eq!((program("$/bin/ls", "git"), program("/bin/$", "git")), (Match::No, Match::Maybe));
    }
}
