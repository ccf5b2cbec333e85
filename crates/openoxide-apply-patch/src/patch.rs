//! The nouns of the patch language: what a patch says, before anything is known about the files it names.
//!
//! `parse` makes these values, `verify` turns them into changes. Nothing is judged here.

use std::path::{Path, PathBuf};

/// A parsed patch: what is to happen to which file, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// The operations; never empty when it comes from [`crate::parse`].
    pub hunks: Vec<FileOp>,
}

/// One operation on one file. Paths are as the patch wrote them, trimmed, not yet judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileOp {
    /// Creates a file.
    Add {
        /// 1-based patch line of the header.
        line: usize,
        /// Where.
        path: PathBuf,
        /// Its content: every line ended by a line feed, unless the patch says otherwise; empty when the operation has no
        /// lines.
        content: String,
        /// Whether a text file that stands there is rewritten, as patches mean it. If not, the place must be free.
        replaces: bool,
        /// Its permissions; the usual ones for a new file where none are named, which patches cannot do.
        mode: Option<u32>,
    },
    /// Removes a file.
    Delete {
        /// 1-based patch line of the header.
        line: usize,
        /// Which.
        path: PathBuf,
    },
    /// Changes one text of a file into another; no patch says it like this, tools with arguments do.
    Edit {
        /// 1-based place among the operations, for messages.
        line: usize,
        /// Which file. It is created where it does not exist and `old` is empty.
        path: PathBuf,
        /// The text to be changed.
        old: String,
        /// What it becomes.
        new: String,
        /// Whether every place is changed, where there is more than one.
        all: bool,
    },
    /// Changes a file, moves it, or both.
    Update {
        /// 1-based patch line of the header.
        line: usize,
        /// Which.
        path: PathBuf,
        /// Its new path.
        move_to: Option<PathBuf>,
        /// The changes, as a rule in file order; empty only for a pure move.
        chunks: Vec<Chunk>,
    },
}

impl FileOp {
    /// Puts other paths in the place of those that it names.
    pub fn map_paths(&mut self, map: impl Fn(&Path) -> PathBuf) {
        match self {
            Self::Add { path, .. } | Self::Delete { path, .. } | Self::Edit { path, .. } => *path = map(path),
            Self::Update { path, move_to, .. } => {
                *path = map(path);
                *move_to = move_to.as_deref().map(map);
            }
        }
    }

    /// The path in the header, as written.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Add { path, .. }
            | Self::Delete { path, .. }
            | Self::Edit { path, .. }
            | Self::Update { path, .. } => path,
        }
    }

    /// 1-based patch line of the header.
    #[must_use]
    pub fn line(&self) -> usize {
        match self {
            Self::Add { line, .. }
            | Self::Delete { line, .. }
            | Self::Edit { line, .. }
            | Self::Update { line, .. } => *line,
        }
    }
}

/// One contiguous change within an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// 1-based patch line at which it starts.
    pub line: usize,
    /// The texts after its `@@` lines, outermost first; each is searched after the one before it.
    pub contexts: Vec<String>,
    /// Its lines, in order; never empty.
    pub lines: Vec<ChunkLine>,
    /// Whether its last line must be the file's last.
    pub end_of_file: bool,
    /// How many of the last `lines` were wholly empty in the patch, without even the leading space. They are context if
    /// the file has them, and mere spacing between the patch's parts if not.
    pub blank_tail: usize,
    /// The same for the first of them.
    pub blank_head: usize,
    /// Whether the patch ended with this chunk and without its end marker: it may have been cut off.
    pub open_end: bool,
    /// Whether the file is to end with a line feed, where the patch says so (`\ No newline at end of file`).
    pub final_newline: Option<bool>,
}

/// One line of a chunk, without its tag and line ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkLine {
    /// What happens to it.
    pub tag: LineTag,
    /// Its text.
    pub text: String,
    /// Whether it stood there without any tag.
    pub bare: bool,
}

/// What happens to a chunk's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineTag {
    /// It is in the file and stays.
    Context,
    /// It is in the file and goes.
    Remove,
    /// It is new.
    Add,
}
