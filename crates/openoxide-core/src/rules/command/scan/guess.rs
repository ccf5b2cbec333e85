//! What a line might run, one command each.

use super::word::{Match, Word};

/// How far from each other the words of a prefix may stand in a program of another language.
const APART: usize = 5;

/// A command as it might be run: its words, and how its pipeline began.
#[derive(Debug, Clone, Default)]
pub(in crate::rules::command) struct Guess {
    pub(in crate::rules::command) words: Vec<Word>,
    /// Targets of redirections that write.
    pub(in crate::rules::command) writes: Vec<String>,
    /// Where a `cd` ahead of it went.
    pub(in crate::rules::command) directory: Option<String>,
    /// More words follow that are not known.
    pub(super) goes_on: bool,
    /// It may be run, or only be spoken of.
    pub(super) is_hint: bool,
    /// Texts in it that may be programs of another language. None of a command whose words are data.
    pub(super) texts: Vec<String>,
    /// Its words may be another command, of a program that is not known to run them.
    pub(super) may_wrap: bool,
    /// Something beside its words may say what it does.
    pub(super) is_set_up: bool,
}

/// What was found out about a line.
#[derive(Debug, Clone, Default)]
pub(in crate::rules::command) struct Found {
    pub(in crate::rules::command) guesses: Vec<Guess>,
    /// Why the line as a whole cannot be followed.
    pub(in crate::rules::command) unclear: Option<String>,
}

impl Guess {
    /// The words as texts.
    pub(in crate::rules::command) fn texts(&self) -> Vec<String> {
        self.words.iter().map(|word| word.text.clone()).collect()
    }

    /// Whether it is certain that the words are a command's, if they are run at all.
    pub(in crate::rules::command) fn is_command(&self) -> bool {
        !self.is_hint
    }

    /// Whether it begins with these words, options between them passed over.
    pub(in crate::rules::command) fn begins_with(&self, prefix: &[String]) -> Match {
        let Some((program, rest)) = prefix.split_first() else { return Match::No };
        let begins = match self.words.split_first() {
            Some((first, words)) => match first.is_program(program) {
                Match::No => Match::No,
                // Whatever follows is not known to be its words.
                Match::Maybe if first.hides_what_follows() => Match::Maybe,
                found => found.min(self.follow(words, rest)),
            },
            None => Match::No,
        };
        let begins = if self.is_hint { begins.min(Match::Maybe) } else { begins };
        if begins != Match::No {
            return begins;
        }
        let is_set_up =
            self.is_set_up && self.words.first().is_some_and(|first| first.is_program(program) != Match::No);
        let wraps = || self.may_wrap && !rest.is_empty() && self.holds(program, rest);
        let mentions = || self.texts.iter().any(|text| mentions(text, prefix));
        if is_set_up || wraps() || mentions() { Match::Maybe } else { Match::No }
    }

    fn follow(&self, words: &[Word], prefix: &[String]) -> Match {
        let Some((part, rest)) = prefix.split_first() else { return Match::Yes };
        let Some((word, after)) = words.split_first() else {
            return if self.goes_on { Match::Maybe } else { Match::No };
        };
        if word.hides_what_follows() {
            return Match::Maybe;
        }
        let found = match word.is(part) {
            Match::No => Match::No,
            found => found.min(self.follow(after, rest)),
        };
        if found != Match::No || !word.text.starts_with('-') {
            return found;
        }
        let passed = self.follow(after, prefix);
        // Whether the option takes the next word is not known.
        let with_value = match after.split_first() {
            Some((value, after)) if !word.text.contains('=') && !value.text.starts_with('-') => {
                self.follow(after, prefix).min(Match::Maybe)
            }
            _ => Match::No,
        };
        passed.max(with_value)
    }

    /// Whether the words of the prefix stand among its own.
    fn holds(&self, program: &str, rest: &[String]) -> bool {
        let ends = 1..self.words.len();
        ends.into_iter().any(|at| {
            self.words[at].is_program(program) == Match::Yes && self.follow(&self.words[at + 1..], rest) == Match::Yes
        })
    }
}

/// Whether a text in any language names the words of a prefix, near each other.
fn mentions(text: &str, prefix: &[String]) -> bool {
    if prefix.len() < 2 {
        return false;
    }
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let tokens: Vec<&str> = text.split(|c| !is_part(c)).filter(|token| !token.is_empty()).collect();
    let follows = |at: usize| {
        let mut from = at + 1;
        prefix[1..].iter().all(|part| {
            let near = tokens.iter().skip(from).take(APART).position(|token| token == part);
            near.map(|near| from += near + 1).is_some()
        })
    };
    tokens.iter().enumerate().any(|(at, token)| *token == prefix[0] && follows(at))
}
