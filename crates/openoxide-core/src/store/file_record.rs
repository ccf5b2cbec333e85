//! What turns did to files, as it is kept for taking it back.

use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

/// A file that a turn has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRecord {
    /// Absolute.
    pub path: PathBuf,
    /// What it held before; none where there was no such file.
    pub before: Option<String>,
    /// The SHA-256 of what it held afterwards, in hex; none where there is no such file any more.
    pub after: Option<String>,
    /// Its permissions before; none where there was no such file, and in rollouts written before that was noted.
    pub mode: Option<u32>,
    /// Whether that is all that is needed to take it back: not for files that are no text, or too large.
    pub is_kept: bool,
}

/// What patches of one turn did together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Patched(Vec<FileRecord>);

impl Patched {
    /// Adds what the next patch did.
    pub(crate) fn add(&mut self, files: Vec<FileRecord>) {
        for file in files {
            match self.0.iter_mut().find(|known| known.path == file.path) {
                Some(known) => known.after = file.after,
                None => self.0.push(file),
            }
        }
    }

    /// The files that are not as the first patch found them.
    pub(crate) fn changed(&self) -> impl Iterator<Item = &FileRecord> {
        self.0.iter().filter(|file| !file.is_kept || file.before.as_deref().map(hash) != file.after)
    }
}

/// The hash of a content as records have it.
pub(crate) fn hash(content: &str) -> String {
    let digest = Sha256::digest(content.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
