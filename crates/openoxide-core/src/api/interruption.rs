//! Why a turn was ended before it finished, in the words that its caller and the model read. Who ends a turn names the
//! reason once; `turn/state` puts the sentence in the turn's result, and every protocol passes it on.

use std::fmt;
use std::time::Duration;

use crate::{Decider, DenialReason};

/// Why a turn was ended before it finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interruption {
    /// A caller asked for it.
    Asked,
    /// The call or task behind it was cancelled.
    Cancelled,
    /// Its thread was closed.
    ThreadClosed,
    /// No call followed it for this time.
    Abandoned(Duration),
    /// The client ended the input of a server that serves it alone.
    InputEnded,
    /// The client does not read any more, or the connection broke.
    ConnectionLost,
    /// The server was told to end.
    ServerStopped,
    /// Somebody denied what it asked for and ended it.
    Denied {
        /// What was denied, for a person.
        what: String,
        /// Who denied it.
        by: Decider,
        /// Their own words.
        note: Option<String>,
    },
}

impl Interruption {
    /// What becomes of the questions that the turn had put: which kind of no they count as.
    pub(crate) fn unanswered(&self) -> DenialReason {
        match self {
            Self::InputEnded | Self::ConnectionLost => DenialReason::Disconnected,
            Self::Asked
            | Self::Cancelled
            | Self::ThreadClosed
            | Self::Abandoned(_)
            | Self::ServerStopped
            | Self::Denied { .. } => DenialReason::Cancelled,
        }
    }

    /// The sentence for a turn that had begun.
    pub(crate) fn sentence(&self) -> String {
        format!("The turn was interrupted before it finished: {self}.")
    }

    /// The sentence for a turn that had not begun.
    pub(crate) fn withdrawn(&self) -> String {
        format!("The turn was interrupted before it began: {self}. The model was not given the prompt.")
    }
}

/// Who ended it and why, as the second half of a sentence.
impl fmt::Display for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("a caller ended it"),
            Self::Cancelled => f.write_str("the caller cancelled its call"),
            Self::ThreadClosed => f.write_str("a caller closed the thread"),
            Self::Abandoned(time) => write!(f, "no call followed it for {} s", time.as_secs()),
            Self::InputEnded => f.write_str("the client ended the input of the server"),
            Self::ConnectionLost => f.write_str("the connection to the client was lost"),
            Self::ServerStopped => f.write_str("the server was told to end"),
            Self::Denied { what, by, note } => {
                write!(f, "{by} denied `{what}` and ended the turn")?;
                match note.as_deref().map(words).filter(|note| !note.is_empty()) {
                    Some(note) => write!(f, ", saying: {note}"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// A person's own words inside of a sentence: one line, without the full stop that the sentence brings.
fn words(note: &str) -> String {
    openoxide_display::visible_text(note.trim().trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_a_sentence_that_says_interrupted() {
        let denied = |note: Option<&str>| Interruption::Denied {
            what: "rm -rf x".into(),
            by: Decider::Client(Some("Zed".into())),
            note: note.map(str::to_owned),
        };
        for (why, part) in [
            (Interruption::Asked, "a caller ended it."),
            (Interruption::Abandoned(Duration::from_secs(60)), "for 60 s."),
            (Interruption::InputEnded, "the client ended the input"),
            (denied(None), "client Zed denied `rm -rf x` and ended the turn."),
            (denied(Some("too risky.\n")), "and ended the turn, saying: too risky."),
        ] {
            let sentence = why.sentence();
            assert!(sentence.contains("interrupted") && sentence.contains(part), "{sentence}");
            assert!(why.withdrawn().contains("not given the prompt"));
        }
    }
}
