//! The ledger of one patch that is being applied, and the note in it. Where ledgers are kept, and what becomes of those
//! that a killed process has left, is `patches.rs`.

use std::fs::{self, File};
use std::path::PathBuf;

use openoxide_apply_patch::Ledger;

use super::record::RolloutItem;

/// What is known of a patch before it is applied.
#[derive(Debug, Clone, PartialEq)]
pub struct PatchNote {
    /// The thread's directory: absolute, without links.
    pub directory: PathBuf,
    /// Which one it is ([`openoxide_sandbox::DirectoryId`]).
    pub directory_id: String,
    /// The line that the rollout gets once the patch counts.
    pub line: RolloutItem,
}

/// The ledger of a patch, and the right to remove it. Dropping it leaves it, for whoever comes next.
#[derive(Debug)]
pub struct PatchLedger {
    path: PathBuf,
    /// Holds the lock, which the patch crate's descriptor shares.
    _locked: File,
    ledger: Option<Ledger>,
}

impl PatchLedger {
    /// A ledger that is written and locked.
    pub(super) fn begun(path: PathBuf, locked: File, ledger: Ledger) -> Self {
        Self { path, _locked: locked, ledger: Some(ledger) }
    }

    /// The ledger, once.
    pub(crate) fn take(&mut self) -> Option<Ledger> {
        self.ledger.take()
    }

    /// The patch is over.
    pub(crate) fn remove(self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the ledger of a patch that is over was not removed");
        }
    }
}
