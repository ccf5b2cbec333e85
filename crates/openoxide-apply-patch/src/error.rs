//! What can go wrong with a patch, worded for the model that wrote it.
//!
//! Each message says what was found, what was expected, and what to do next. Nothing here decides; the other rooms
//! build these values and the caller maps [`PatchError::kind`] to its own answers.

use openoxide_display::quote_path;
use std::path::PathBuf;

/// Whose move it is after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The patch is wrong; a corrected one can succeed.
    Input,
    /// The patch asks for something that is not allowed here.
    Denied,
    /// The tree is not as it was, or cannot be reached; the same patch may succeed later.
    Unavailable,
    /// The file system failed in a way that the patch did not cause.
    Internal,
}

/// A patch that was not applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// The text as a whole is not a patch.
    #[error("invalid patch: {message}")]
    InvalidPatch {
        /// What is wrong and how it should look.
        message: String,
    },
    /// One line of the text is not what the language allows there.
    #[error("invalid hunk at line {line}, {message}")]
    InvalidHunk {
        /// 1-based line of the patch text.
        line: usize,
        /// What is wrong and how it should look.
        message: String,
    },
    /// A path is malformed or climbs with `..`.
    #[error("invalid path `{}` at line {line}: {message}", quote_path(path))]
    InvalidPath {
        /// The path as the patch wrote it.
        path: PathBuf,
        /// 1-based line of the patch text.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// The root handed in by the caller cannot serve as one.
    #[error("cannot use {} as the root of a patch: {message}", quote_path(root))]
    Root {
        /// The root as given.
        root: PathBuf,
        /// Why not.
        message: String,
    },
    /// A file that is to be updated or deleted cannot be read as text.
    #[error("failed to read file to {verb} {}: {message}", quote_path(path))]
    Read {
        /// `update`, `delete`.
        verb: &'static str,
        /// The path as shown to the model.
        path: PathBuf,
        /// Why, and what to do.
        message: String,
        /// The system's error, where there was one.
        #[source]
        source: Option<std::io::Error>,
    },
    /// The target exists and would be overwritten.
    #[error("{} already exists: {hint}", quote_path(path))]
    Exists {
        /// The path as shown to the model.
        path: PathBuf,
        /// What to write instead.
        hint: &'static str,
    },
    /// The target is of a kind, or has a mode, that patches leave alone.
    #[error("refused to change {}: {message}", quote_path(path))]
    Refused {
        /// The path as shown to the model.
        path: PathBuf,
        /// Why, and what to do.
        message: String,
    },
    /// A file, or the patch as a whole, exceeds a limit.
    #[error("{} is too large: {size} bytes, the limit is {limit}; {hint}", quote_path(path))]
    TooLarge {
        /// The path as shown to the model.
        path: PathBuf,
        /// Size found, in bytes.
        size: u64,
        /// Limit, in bytes.
        limit: u64,
        /// What to do instead.
        hint: &'static str,
    },
    /// Two operations of the patch collide on one file.
    #[error("{} is named twice, at lines {first} and {second}: {message}", quote_path(path))]
    Conflict {
        /// The path as shown to the model.
        path: PathBuf,
        /// 1-based patch line of the earlier operation.
        first: usize,
        /// 1-based patch line of the later operation.
        second: usize,
        /// What to write instead.
        message: String,
    },
    /// An `@@` line names text that the file does not hold.
    #[error("failed to find context '{context}' in {} (patch line {line}){hint}", quote_path(path))]
    ContextNotFound {
        /// The path as shown to the model.
        path: PathBuf,
        /// The text after `@@`.
        context: String,
        /// 1-based line of the patch text.
        line: usize,
        /// The nearest line, or where else it was found; empty or starting with a separator.
        hint: String,
    },
    /// The lines a chunk removes or keeps are not in the file.
    #[error("failed to find expected lines in {} (chunk at patch line {line}):\n{expected}{hint}", quote_path(path))]
    LinesNotFound {
        /// The path as shown to the model.
        path: PathBuf,
        /// 1-based patch line at which the chunk starts.
        line: usize,
        /// The lines looked for, as the patch has them.
        expected: String,
        /// The nearest line with its number, or where else they were found; empty or starting with a line break.
        hint: String,
    },
    /// A chunk fits in more than one place.
    #[error("ambiguous chunk at patch line {line}: it fits {} at lines {}; {hint}", quote_path(path), list(places))]
    Ambiguous {
        /// The path as shown to the model.
        path: PathBuf,
        /// 1-based patch line at which the chunk starts.
        line: usize,
        /// 1-based lines of the file, ascending.
        places: Vec<usize>,
        /// How to make it certain.
        hint: &'static str,
    },
    /// The place of a chunk is certain, and how its added lines are meant is not.
    #[error("unclear chunk at patch line {line} for {}: {message}", quote_path(path))]
    Unclear {
        /// The path as shown to the model.
        path: PathBuf,
        /// 1-based patch line at which the chunk starts.
        line: usize,
        /// What differs between the patch and the file, where, and what to do.
        message: String,
    },
    /// An edit has no place, or more than one.
    #[error("the edit does not fit {}: {message}", quote_path(path))]
    Edit {
        /// The path as shown to the model.
        path: PathBuf,
        /// How many places there are and where, and what to do.
        message: String,
    },
    /// A patch without an end marker seems to stop in the middle of a change.
    #[error(
        "the patch has no `*** End Patch` and may be cut off: its last chunk, at patch line {line} for {}, shows no line \
         after its change; send the whole patch again",
        quote_path(path)
    )]
    CutOff {
        /// The path as shown to the model.
        path: PathBuf,
        /// 1-based patch line at which the chunk starts.
        line: usize,
    },
    /// A chunk gives no place at all.
    #[error("chunk at patch line {line} only inserts and names no place in {}: {hint}", quote_path(path))]
    NoAnchor {
        /// The path as shown to the model.
        path: PathBuf,
        /// 1-based patch line at which the chunk starts.
        line: usize,
        /// How to name one.
        hint: &'static str,
    },
    /// An update that would leave the file as it is.
    #[error(
        "the update of {} at patch line {line} changes nothing: the file already reads like this",
        quote_path(path)
    )]
    NoChange {
        /// The path as shown to the model.
        path: PathBuf,
        /// 1-based line of the patch text.
        line: usize,
    },
    /// A file is not as it was when the patch was verified.
    #[error(
        "{} changed while the patch was waiting ({message}); nothing was written, read it and send the patch again",
        quote_path(path)
    )]
    Stale {
        /// The path as shown to the model.
        path: PathBuf,
        /// What differs.
        message: String,
    },
    /// Writing failed; `outcome` says what stands.
    #[error("failed to write {}: {source}; {outcome}", quote_path(path))]
    Write {
        /// The path as shown to the model.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
        /// `nothing was changed`, or exactly which changes could not be taken back.
        outcome: String,
    },
}

impl PatchError {
    /// Sorts the error by who can fix it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InvalidPatch { .. }
            | Self::InvalidHunk { .. }
            | Self::InvalidPath { .. }
            | Self::Exists { .. }
            | Self::Conflict { .. }
            | Self::ContextNotFound { .. }
            | Self::LinesNotFound { .. }
            | Self::Ambiguous { .. }
            | Self::Unclear { .. }
            | Self::CutOff { .. }
            | Self::Edit { .. }
            | Self::NoAnchor { .. }
            | Self::NoChange { .. } => ErrorKind::Input,
            Self::Refused { .. } | Self::TooLarge { .. } => ErrorKind::Denied,
            Self::Stale { .. } => ErrorKind::Unavailable,
            Self::Root { .. } => ErrorKind::Internal,
            Self::Read { source: None, .. } => ErrorKind::Input,
            Self::Read { source: Some(source), .. } | Self::Write { source, .. } => io_kind(source),
        }
    }
}

/// Sorts a system error. Missing files are the patch's mistake; forbidden ones are a denial.
fn io_kind(error: &std::io::Error) -> ErrorKind {
    use std::io::ErrorKind as Io;
    match error.kind() {
        Io::NotFound | Io::NotADirectory | Io::AlreadyExists => ErrorKind::Input,
        Io::PermissionDenied | Io::ReadOnlyFilesystem => ErrorKind::Denied,
        Io::StorageFull | Io::QuotaExceeded | Io::ResourceBusy | Io::Interrupted => ErrorKind::Unavailable,
        _ => ErrorKind::Internal,
    }
}

/// Writes line numbers as `3, 9 and 12`; a long list is cut and says so.
pub(crate) fn list(places: &[usize]) -> String {
    const SHOWN: usize = 8;
    let mut parts: Vec<String> = places.iter().take(SHOWN).map(ToString::to_string).collect();
    if places.len() > SHOWN {
        return format!("{} and {} more", parts.join(", "), places.len() - SHOWN);
    }
    match parts.pop() {
        Some(last) if !parts.is_empty() => format!("{} and {last}", parts.join(", ")),
        Some(last) => last,
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_lines_read_like_a_sentence_and_are_cut() {
        assert_eq!(list(&[4]), "4");
        assert_eq!(list(&[4, 9]), "4 and 9");
        assert_eq!(list(&[4, 9, 12]), "4, 9 and 12");
        let many: Vec<usize> = (1..=20).collect();
        assert_eq!(list(&many), "1, 2, 3, 4, 5, 6, 7, 8 and 12 more");
    }

    #[test]
    fn kinds_follow_the_system_error() {
        let read = |kind| PatchError::Read {
            verb: "update",
            path: "x".into(),
            message: String::new(),
            source: Some(std::io::Error::from(kind)),
        };
        assert_eq!(read(std::io::ErrorKind::NotFound).kind(), ErrorKind::Input);
        assert_eq!(read(std::io::ErrorKind::PermissionDenied).kind(), ErrorKind::Denied);
        assert_eq!(read(std::io::ErrorKind::Other).kind(), ErrorKind::Internal);
    }
}
