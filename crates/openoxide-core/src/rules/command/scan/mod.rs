//! A lenient look at a shell line: whatever a shell might run, wrapped, nested, quoted or escaped as it may be. What comes
//! out serves to refuse and to ask, never to allow, so that a guess too many does little harm.

mod carried;
mod guess;
mod reader;
mod runs;
mod texts;
mod tools;
mod word;
mod wrappers;

pub(super) use self::guess::{Found, Guess};
pub(super) use self::word::{Match, Word};

use self::runs::Search;

/// Whether a program of this name runs another.
pub(super) fn is_wrapper(name: &str) -> bool {
    wrappers::find(name).is_some()
}

/// Everything that the line might run.
pub(super) fn read(line: &str) -> Found {
    let mut search = Search::default();
    search.line(line);
    search.found()
}

/// What an argument vector might run.
pub(super) fn read_words(words: &[String]) -> Found {
    let mut search = Search::default();
    search.words(words.iter().map(Word::plain).collect());
    search.found()
}
