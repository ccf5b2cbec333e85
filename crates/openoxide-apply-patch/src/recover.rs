//! What a killed process left of a patch -> nothing of it, or all of it.
//!
//! Without `done` in its ledger a patch is taken back, last step first; with it only the old files go. A file is touched
//! only where it still is what the ledger says: device and inode, and for a file that gets another content back, the
//! content as well. What somebody wrote since stays. Every place is reached from a held directory and no link is followed.
//! Whoever is killed in the middle of this may begin again.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use openoxide_display::quote_path;
use rustix::fs::FileType;

use crate::{
    Base, MAX_FILE_BYTES,
    ledger::{self, Entry, FileId, StepEntry},
    place::{self, Anchor, Place, Walk},
    write::is_replaced,
};

/// A ledger that its process did not take away.
#[derive(Debug)]
pub struct Leftover {
    note: Vec<u8>,
    entries: Vec<Entry>,
}

/// What became of a patch.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Sentences for a person: what was left as it is, because it is not what the patch wrote or because its directory is
    /// elsewhere.
    pub left: Vec<String>,
    /// What the system refused. Where there is any, it is worth trying again.
    pub failed: Vec<String>,
}

impl Leftover {
    /// Reads a ledger from its beginning; none where nothing was begun.
    ///
    /// # Errors
    /// It cannot be read, or is of another format.
    pub fn read(file: &File) -> io::Result<Option<Self>> {
        Ok(ledger::read(file)?.map(|(note, entries)| Self { note, entries }))
    }

    /// What the caller noted in [`crate::Ledger::begin`].
    #[must_use]
    pub fn note(&self) -> &[u8] {
        &self.note
    }

    /// Whether the patch counts as applied.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.entries.contains(&Entry::Done)
    }

    /// Takes the patch back, or where it is done, its old files away. `base` is the directory that the patch was verified
    /// with; what lies elsewhere is reached from the root.
    ///
    /// # Errors
    /// The root of the file system cannot be opened.
    pub fn recover(&self, base: Base) -> io::Result<Recovered> {
        let created = self.entries.iter().filter_map(|entry| match entry {
            Entry::Created(path, id) => Some((path.as_path(), *id)),
            _ => None,
        });
        let mut recovery = Recovery {
            base: Anchor::held(base.directory, base.path.clone(), Walk::Kernel),
            below: base.path,
            root: Anchor::open(Path::new("/"), Walk::Kernel)?,
            created: created.collect(),
            kept: HashSet::new(),
            outcome: Recovered::default(),
        };
        let is_done = self.is_done();
        for entry in self.entries.iter().rev() {
            if let Entry::Step(step) = entry {
                let taken = if is_done { recovery.finish(step) } else { recovery.take_back(step) };
                recovery.noting(step.target(), taken);
            }
        }
        for entry in self.entries.iter().rev() {
            let swept = match entry {
                Entry::Created(path, id) => recovery.remove(path, *id).map_err(|error| (path, error)),
                Entry::Creating(path) => recovery.remove_empty(path).map_err(|error| (path, error)),
                _ => Ok(()),
            };
            if let Err((path, error)) = swept {
                recovery.noting(path, Err(error));
            }
        }
        if !is_done {
            self.remove_directories(&recovery);
        }
        Ok(recovery.outcome)
    }

    /// Removes the directories that were made, where they are empty.
    fn remove_directories(&self, recovery: &Recovery<'_>) {
        let made: HashMap<&Path, FileId> = self
            .entries
            .iter()
            .filter_map(|entry| if let Entry::Made(path, id) = entry { Some((path.as_path(), *id)) } else { None })
            .collect();
        for entry in self.entries.iter().rev() {
            let Entry::Making(path) = entry else { continue };
            let Ok(Some(place)) = recovery.place(path) else { continue };
            let Ok(Some(stat)) = place.stat() else { continue };
            // The process may have been killed between making it and noting which one it is.
            let is_ours = made.get(path.as_path()).is_none_or(|id| *id == place::id(&stat));
            if is_ours && place::kind(&stat) == FileType::Directory {
                place.remove_directory();
            }
        }
    }
}

struct Recovery<'a> {
    base: Anchor,
    below: PathBuf,
    root: Anchor,
    /// Files that were made under temporary names.
    created: HashMap<&'a Path, FileId>,
    /// Temporary names that keep the only copy of something.
    kept: HashSet<PathBuf>,
    outcome: Recovered,
}

impl Recovery<'_> {
    fn noting(&mut self, path: &Path, done: io::Result<()>) {
        match done {
            Ok(()) => {}
            Err(error) if is_replaced(&error) => {
                self.outcome.left.push(format!("{}: a directory on its path was replaced", quote_path(path)));
            }
            Err(error) => self.outcome.failed.push(format!("{}: {error}", quote_path(path))),
        }
    }

    fn place(&self, path: &Path) -> io::Result<Option<Place>> {
        if path.starts_with(&self.below) { self.base.place(path) } else { self.root.place(path) }
    }

    /// The regular file at a path, if there is one.
    fn file(&self, path: &Path) -> io::Result<Option<(Place, FileId)>> {
        let Some(place) = self.place(path)? else { return Ok(None) };
        let stat = place.stat()?.filter(|stat| place::kind(stat) == FileType::RegularFile);
        Ok(stat.map(|stat| (place, place::id(&stat))))
    }

    /// The place of the file that a patch has put at a path, with its content, if it is still there and the same.
    fn written(&self, path: &Path, temp: &Path, hash: &str) -> io::Result<Option<Place>> {
        let Some((place, id)) = self.file(path)? else { return Ok(None) };
        if self.created.get(temp) != Some(&id) {
            return Ok(None);
        }
        let mut content = Vec::new();
        place.open()?.take(MAX_FILE_BYTES + 1).read_to_end(&mut content)?;
        Ok((ledger::hash(&content) == hash).then_some(place))
    }

    fn is(&self, path: &Path, wanted: FileId) -> io::Result<bool> {
        Ok(self.file(path)?.is_some_and(|(_, id)| id == wanted))
    }

    fn take_back(&mut self, step: &StepEntry) -> io::Result<()> {
        match step {
            StepEntry::Create { temp, target, hash } => match self.written(target, temp, hash)? {
                Some(place) => place.remove(),
                None if self.created.get(temp.as_path()).is_some_and(|id| self.is(target, *id).unwrap_or(false)) => {
                    self.outcome.left.push(format!("{} was changed since and stays", quote_path(target)));
                    Ok(())
                }
                None => Ok(()),
            },
            StepEntry::Exchange { temp, target, hash, old } => {
                let Some((aside, _)) = self.file(temp)?.filter(|(_, id)| id == old) else { return Ok(()) };
                match self.written(target, temp, hash)? {
                    Some(place) => Ok(aside.exchange(&place)?),
                    None => self.put_back(&aside, temp, target),
                }
            }
            StepEntry::Replace { backup, temp, target, hash, old } => {
                let own = self.created.get(backup.as_path()).copied();
                let Some((copy, _)) = self.file(backup)?.filter(|(_, id)| Some(*id) == own) else { return Ok(()) };
                if self.is(target, *old)? {
                    return Ok(());
                }
                match self.written(target, temp, hash)? {
                    Some(place) => copy.rename(&place),
                    None => self.put_back(&copy, backup, target),
                }
            }
            StepEntry::SetAside { target, temp, old } => match self.file(temp)?.filter(|(_, id)| id == old) {
                Some((aside, _)) => self.put_back(&aside, temp, target),
                None => Ok(()),
            },
        }
    }

    /// Gives an old file its name back, if that is free.
    fn put_back(&mut self, aside: &Place, temp: &Path, target: &Path) -> io::Result<()> {
        let taken = match self.place(target)? {
            Some(place) => aside.rename_new(&place),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        match taken {
            Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {
                self.kept.insert(temp.to_owned());
                self.outcome.left.push(format!(
                    "{} was changed since and stays; what it held before the patch is in {}",
                    quote_path(target),
                    quote_path(temp)
                ));
                Ok(())
            }
            other => other,
        }
    }

    fn finish(&mut self, step: &StepEntry) -> io::Result<()> {
        match step {
            StepEntry::Exchange { temp, old, .. } | StepEntry::SetAside { temp, old, .. } => self.remove(temp, *old),
            // Its copy is a file of its own, which goes with all those.
            StepEntry::Replace { .. } | StepEntry::Create { .. } => Ok(()),
        }
    }

    fn remove(&self, path: &Path, id: FileId) -> io::Result<()> {
        match self.file(path)? {
            Some((place, found)) if found == id && !self.kept.contains(path) => place.remove(),
            _ => Ok(()),
        }
    }

    /// Removes what was made under a temporary name right before its process was killed: nothing was written to it.
    fn remove_empty(&self, path: &Path) -> io::Result<()> {
        if self.created.contains_key(path) {
            return Ok(());
        }
        let Some(place) = self.place(path)? else { return Ok(()) };
        match place.stat()? {
            Some(stat) if place::kind(&stat) == FileType::RegularFile && stat.st_size == 0 => place.remove(),
            _ => Ok(()),
        }
    }
}

impl StepEntry {
    fn target(&self) -> &Path {
        match self {
            Self::Create { target, .. }
            | Self::Exchange { target, .. }
            | Self::Replace { target, .. }
            | Self::SetAside { target, .. } => target,
        }
    }
}
