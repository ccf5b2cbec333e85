//! The standing instructions every thread begins with, unless its caller brings others.

/// The built-in base instructions.
pub(crate) const BASE: &str = include_str!("instructions.md");

/// What a thread with reading tools only is told on top.
pub(crate) const READ_ONLY: &str = "This thread answers a question. Its tools read and change nothing; commands, where \
     there are any, run in a sandbox that cannot write. So do not announce changes: find the answer in the files and give it, with the places \
     (`path:line`) it rests on.";

/// What is noted in the history of an interrupted turn, so that the model does not take it for finished.
pub(crate) const INTERRUPTED_NOTE: &str = "<turn_interrupted>\nThe turn before this was stopped by the person or program \
     that gave it. What it began may be half done: look before building on it.\n</turn_interrupted>";

/// What stands in for the output of a call that a turn's end cut off.
pub(crate) const CUT_OFF_OUTPUT: &str =
    "The turn ended before this call did. It may have been done in part, or not at all.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standing_text_stays_short() {
        assert!(BASE.len() + READ_ONLY.len() < 6_000, "{}", BASE.len() + READ_ONLY.len());
    }
}
