//! Ledgers of patches that are being applied: `<home>/run/patches/<thread id>.<uuid>.ledger`, one for each, removed when
//! the patch is over. One that is left was left by a killed process: the patch is taken back or finished when its thread is
//! next taken into use, and at the next start of a server on the same home.
//!
//! A process holds a `flock` on the ledger of a patch that it is applying, so nobody else takes that for a left one. The
//! patch crate knows what the lines say; the note in the first one is from here.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{JsonlStore, PatchLedger, PatchNote, RolloutItem, ThreadStore as _, ThreadWriter, json};
use crate::ThreadId;
use openoxide_apply_patch::{Base, Ledger, Leftover};
use openoxide_sandbox::{DirectoryId, Workspace};
use rustix::fs::{FlockOperation, flock};

/// How long a ledger is kept whose patch cannot be put right, say because its directory is not there.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long making a ledger takes at most; a file of one that is older and has no final name is of no use.
const MAKING: Duration = Duration::from_secs(3600);

/// How many lines of a rollout may follow the one that says what a patch did, if the patch is not over.
const FOLLOWING: usize = 64;

/// Where what a patch did is noted.
type Writer = dyn ThreadWriter + 'static;

impl JsonlStore {
    /// The store of a server that starts: what killed processes left of patches is put right.
    pub(crate) fn recovered(home: &Path) -> Self {
        let store = Self::new(home);
        store.recover_patches();
        store
    }

    fn ledgers(&self) -> PathBuf {
        self.run.with_file_name("patches")
    }

    /// Begins the ledger of a patch.
    pub(super) fn begin_ledger(&self, id: ThreadId, note: &PatchNote) -> io::Result<PatchLedger> {
        let directory = self.ledgers();
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let path = directory.join(format!("{id}.{}.ledger", uuid::Uuid::now_v7()));
        // Whoever looks for ledgers sees it only with its lock and its note.
        let making = path.with_extension("new");
        let begun = (|| {
            let file = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&making)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            let ledger = Ledger::begin(file.try_clone()?, &json::write_note(note)?)?;
            fs::rename(&making, &path)?;
            File::open(&directory)?.sync_all()?;
            Ok(PatchLedger::begun(path.clone(), file, ledger))
        })();
        if begun.is_err() {
            // Best effort: one that stays is removed later.
            let _ = fs::remove_file(&making).or_else(|_| fs::remove_file(&path));
        }
        begun
    }

    /// Puts right what killed processes left of a thread's patches. The caller holds the thread's lock; without a writer
    /// nothing is noted. Where something cannot be put right it is logged, and the ledger stays.
    pub(super) fn recover_patches_of(&self, id: ThreadId, mut writer: Option<&mut Writer>) {
        let beginning = format!("{id}.");
        for path in self.left_ledgers() {
            if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&beginning)) {
                continue;
            }
            match self.recover_patch(id, &path, writer.as_deref_mut()) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "a patch that was cut off could not be put right");
                    remove_older(&path, KEPT);
                }
            }
        }
    }

    /// Puts right what killed processes left of patches, whichever thread's. What is in use is left alone.
    fn recover_patches(&self) {
        for path in self.left_ledgers() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(id) = name.split('.').next().and_then(|id| id.parse().ok()) else { continue };
            // Taking a thread into use does it.
            let taken =
                [self, &self.other()].iter().find(|store| store.contains(id)).map(|store| store.claim(id).map(drop));
            let done = taken.unwrap_or_else(|| {
                let _lock = self.take_lock(id)?;
                self.recover_patches_of(id, None);
                Ok(())
            });
            match done {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    tracing::warn!(thread = %id, %error, "a patch that was cut off could not be looked after");
                }
                Ok(()) | Err(_) => {}
            }
        }
    }

    /// All ledgers there are. What never became one is removed.
    fn left_ledgers(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.ledgers()).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.extension().map(|extension| extension.to_string_lossy().into_owned()).as_deref() {
                Some("ledger") => found.push(path),
                Some("new") => remove_older(&path, MAKING),
                _ => {}
            }
        }
        // Later patches of a thread were made on top of earlier ones.
        found.sort_by(|a, b| b.cmp(a));
        found
    }

    fn recover_patch(&self, id: ThreadId, path: &Path, writer: Option<&mut Writer>) -> io::Result<()> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        // Whoever held it may have removed it in between.
        let (ours, there) = (file.metadata()?, fs::symlink_metadata(path)?);
        if (ours.dev(), ours.ino()) != (there.dev(), there.ino()) {
            return Ok(());
        }
        let Some(leftover) = Leftover::read(&file)? else { return fs::remove_file(path) };
        let note = json::read_note(leftover.note())?;
        if let Some(writer) = writer.filter(|_| leftover.is_done())
            && !self.has_noted(id, &note.line)?
        {
            writer.append(&note.line)?;
        }
        let expected = DirectoryId::from_text(&note.directory_id);
        let workspace = Workspace::open(&note.directory, Some(&expected)).map_err(io::Error::other)?;
        let base = Base { directory: workspace.try_clone()?, path: note.directory };
        let recovered = leftover.recover(base)?;
        tracing::info!(thread = %id, is_done = leftover.is_done(), "a patch that was cut off is put right");
        for left in &recovered.left {
            tracing::warn!(thread = %id, "of a patch that was cut off: {left}");
        }
        match recovered.failed.as_slice() {
            [] => fs::remove_file(path),
            failed => Err(io::Error::other(failed.join("; "))),
        }
    }

    /// Whether the rollout says already what a patch did. Two notes for the model may have the same words; only the last
    /// line can be the one that is looked for.
    fn has_noted(&self, id: ThreadId, line: &RolloutItem) -> io::Result<bool> {
        let following = if matches!(line, RolloutItem::ResponseItem(_)) { 1 } else { FOLLOWING };
        Ok(self.load(id)?.iter().rev().take(following).any(|known| known.item == *line))
    }
}

/// Removes a file that was not changed for so long.
fn remove_older(path: &Path, age: Duration) {
    let modified = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    let is_older = modified.is_ok_and(|at| SystemTime::now().duration_since(at).unwrap_or_default() > age);
    if is_older && let Err(error) = fs::remove_file(path) {
        tracing::debug!(path = %path.display(), %error, "an old file of a patch was not removed");
    }
}
