//! The steps of a write, each undoable, and the way back.
//!
//! A new file is renamed in without replacing, an update exchanges names with the old file, a deleted file is renamed
//! aside: each is one step of the kernel, and the old file exists until the last step has succeeded. `write` decides
//! which steps to take; nothing is checked against the patch here except that a swapped-out file is the verified one.
//! Whatever is done is written to the ledger first, where there is one.

use std::{
    fs::Permissions,
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown},
    path::{Path, PathBuf},
};

use rustix::fs::FileType;

use openoxide_display::quote_path;

use crate::{
    PatchError,
    ledger::{Entry, Ledger, StepEntry, hash},
    place::{self, Made, Making, Place, is_unsupported},
    resolve::{Target, Tree},
    verify::{Change, Plan},
};

/// Why a step was not taken.
pub(crate) enum Failure {
    Io(io::Error),
    /// The file that was swapped out is not the one that was verified.
    Stale,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A step that is to be taken.
#[derive(Debug)]
pub(crate) enum Intent {
    /// The new file at `temp` gets the name `target`, which is free.
    Create { temp: Place, target: Place },
    /// The new file at `temp` takes the place of the one at `target`.
    Replace { temp: Place, target: Place },
    /// The file at `target` goes; it is kept at `temp` until all steps are taken.
    SetAside { temp: Place, target: Place },
}

/// A step that was taken and can be undone.
enum Step {
    /// A new file stands at `target`.
    Created { target: Place },
    /// `target` holds the new file and `temp` the old one.
    Exchanged { temp: Place, target: Place },
    /// `target` holds the new file and `backup` a copy of the old one, because the file system cannot exchange names.
    Replaced { backup: Place, target: Place },
    /// The old file of `target` stands at `temp`.
    SetAside { temp: Place, target: Place },
}

/// Everything done so far, so that it can be undone.
#[derive(Default)]
pub(crate) struct Journal {
    /// Where everything is written down before it is done; without one a killed process leaves what it had done.
    ledger: Option<Ledger>,
    /// Directories that did not exist before, outermost first.
    directories: Vec<Made>,
    /// Files under temporary names that are of no use after a failure.
    temps: Vec<Place>,
    steps: Vec<Step>,
}

impl Making for Journal {
    fn about_to_make(&mut self, path: &Path) -> io::Result<()> {
        self.note(|| Entry::Making(path.into()))
    }

    fn made(&mut self, made: Made) -> io::Result<()> {
        let place = made.place().clone();
        self.directories.push(made);
        if self.ledger.is_some() {
            let stat = place.stat()?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
            self.note(|| Entry::Made(place.path().into(), place::id(&stat)))?;
        }
        Ok(())
    }
}

impl Journal {
    /// One that writes down what it does.
    pub(crate) fn new(ledger: Option<Ledger>) -> Self {
        Self { ledger, ..Self::default() }
    }

    fn note(&mut self, entry: impl FnOnce() -> Entry) -> io::Result<()> {
        self.ledger.as_mut().map_or(Ok(()), |ledger| ledger.append(&entry()))
    }

    /// The place of a target. The directories above it that are missing are created.
    pub(crate) fn place(&mut self, tree: &Tree, target: &Target) -> io::Result<Place> {
        tree.make_place(target, self)
    }

    /// Writes `text` beside `target`. With `model`, takes over that file's permissions (never setuid, setgid or sticky)
    /// and, where the system lets us, its owner; without, the process's default for new files.
    pub(crate) fn write_temp(
        &mut self,
        target: &Place,
        text: &str,
        model: Option<&Place>,
        mode: Option<u32>,
    ) -> io::Result<Place> {
        const ATTEMPTS: usize = 8;
        // Nobody else reads it before it has the permissions it is to have.
        let first_mode = if model.is_some() || mode.is_some() { 0o600 } else { 0o666 };
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..ATTEMPTS {
            let temp = temporary(target);
            self.note(|| Entry::Creating(temp.path().into()))?;
            let mut file = match temp.create(first_mode) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    last = error;
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.temps.push(temp.clone());
            if self.ledger.is_some() {
                let made = file.metadata()?;
                self.note(|| Entry::Created(temp.path().into(), (made.dev(), made.ino())))?;
            }
            file.write_all(text.as_bytes())?;
            if let Some(model) = model {
                let wanted = model.stat()?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
                let own = file.metadata()?;
                if (wanted.st_uid, wanted.st_gid) != (own.uid(), own.gid()) {
                    // Only a privileged process may give a file away; for others the writer owns what it wrote.
                    let _ = fchown(&file, Some(wanted.st_uid), Some(wanted.st_gid))
                        .or_else(|_| fchown(&file, None, Some(wanted.st_gid)));
                }
                #[allow(clippy::useless_conversion, reason = "the type differs between systems")]
                file.set_permissions(Permissions::from_mode(u32::from(wanted.st_mode) & 0o777))?;
            }
            if let Some(mode) = mode {
                file.set_permissions(Permissions::from_mode(mode & 0o777))?;
            }
            return Ok(temp);
        }
        Err(last)
    }

    /// Writes down the steps that are to be taken. They are durable once [`Journal::make_durable`] has returned.
    pub(crate) fn announce(&mut self, change: &Change, plan: &Plan, intents: &[Intent]) -> io::Result<()> {
        if self.ledger.is_none() {
            return Ok(());
        }
        let hash = change.new.as_deref().map(|new| hash(new.as_bytes())).unwrap_or_default();
        let old = plan.id.unwrap_or_default();
        for intent in intents {
            let path = |place: &Place| place.path().to_path_buf();
            let step = match intent {
                Intent::Create { temp, target } => {
                    StepEntry::Create { temp: path(temp), target: path(target), hash: hash.clone() }
                }
                Intent::Replace { temp, target } => {
                    StepEntry::Exchange { temp: path(temp), target: path(target), hash: hash.clone(), old }
                }
                Intent::SetAside { temp, target } => {
                    StepEntry::SetAside { target: path(target), temp: path(temp), old }
                }
            };
            self.note(|| Entry::Step(step))?;
        }
        Ok(())
    }

    /// Makes what was announced durable.
    pub(crate) fn make_durable(&mut self) -> io::Result<()> {
        self.ledger.as_mut().map_or(Ok(()), Ledger::sync)
    }

    /// From here on the patch counts, whatever becomes of the process.
    pub(crate) fn note_done(&mut self) -> io::Result<()> {
        self.note(|| Entry::Done)?;
        self.make_durable()
    }

    /// Takes the steps of one change.
    pub(crate) fn commit(&mut self, change: &Change, plan: &Plan, intents: &[Intent]) -> Result<(), Failure> {
        let old = change.old.as_deref().unwrap_or_default();
        for intent in intents {
            match intent {
                Intent::Create { temp, target } => self.create(temp, target)?,
                Intent::Replace { temp, target } => self.replace(temp, target, change, plan)?,
                Intent::SetAside { temp, target } => self.set_aside(temp, target, old, plan)?,
            }
        }
        Ok(())
    }

    fn create(&mut self, temp: &Place, target: &Place) -> Result<(), Failure> {
        temp.rename_new(target)?;
        self.forget(temp);
        self.steps.push(Step::Created { target: target.clone() });
        Ok(())
    }

    fn replace(&mut self, temp: &Place, target: &Place, change: &Change, plan: &Plan) -> Result<(), Failure> {
        let old = change.old.as_deref().unwrap_or_default();
        match temp.exchange(target) {
            Ok(()) => {
                self.forget(temp);
                self.steps.push(Step::Exchanged { temp: temp.clone(), target: target.clone() });
                check_swapped(temp, old, plan)
            }
            Err(error) if is_unsupported(error) => {
                let backup = self.write_temp(target, old, Some(target), None)?;
                let path = |place: &Place| place.path().to_path_buf();
                self.note(|| {
                    Entry::Step(StepEntry::Replace {
                        backup: path(&backup),
                        temp: path(temp),
                        target: path(target),
                        hash: hash(change.new.as_deref().unwrap_or_default().as_bytes()),
                        old: plan.id.unwrap_or_default(),
                    })
                })?;
                self.make_durable()?;
                temp.rename(target)?;
                self.forget(temp);
                self.forget(&backup);
                self.steps.push(Step::Replaced { backup, target: target.clone() });
                Ok(())
            }
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    fn set_aside(&mut self, temp: &Place, target: &Place, old: &str, plan: &Plan) -> Result<(), Failure> {
        target.rename_new(temp)?;
        self.steps.push(Step::SetAside { temp: temp.clone(), target: target.clone() });
        check_swapped(temp, old, plan)
    }

    fn forget(&mut self, temp: &Place) {
        self.temps.retain(|known| known.path() != temp.path());
    }

    /// Undoes everything and wraps the cause.
    pub(crate) fn fail(self, path: PathBuf, source: io::Error) -> PatchError {
        let stands = self.roll_back();
        PatchError::Write { path, source, outcome: outcome(&stands) }
    }

    /// Undoes all steps, last first. Returns one sentence for each that could not be undone.
    pub(crate) fn roll_back(mut self) -> Vec<String> {
        let mut stands = Vec::new();
        for step in std::mem::take(&mut self.steps).into_iter().rev() {
            match step {
                Step::Created { target } => {
                    if let Err(error) = target.remove() {
                        stands.push(format!(
                            "{} was created and could not be removed ({error})",
                            quote_path(target.path())
                        ));
                    }
                }
                Step::Exchanged { temp, target } => match temp.exchange(&target) {
                    Ok(()) => self.temps.push(temp),
                    Err(error) => stands.push(format!(
                        "{} is changed; its old content is in {} ({error})",
                        quote_path(target.path()),
                        quote_path(temp.path())
                    )),
                },
                Step::Replaced { backup, target } => {
                    if let Err(error) = backup.rename(&target) {
                        stands.push(format!(
                            "{} is changed; its old content is in {} ({error})",
                            quote_path(target.path()),
                            quote_path(backup.path())
                        ));
                    }
                }
                Step::SetAside { temp, target } => {
                    if let Err(error) = temp.rename_new(&target) {
                        stands.push(format!(
                            "{} is gone; its content is in {} ({error})",
                            quote_path(target.path()),
                            quote_path(temp.path())
                        ));
                    }
                }
            }
        }
        // Best effort: a leftover is harmless.
        for temp in &self.temps {
            let _ = temp.remove();
        }
        self.directories.iter().rev().for_each(Made::remove);
        stands
    }

    /// Removes the old files after success. Returns those that could not be removed.
    pub(crate) fn finish(self) -> Vec<PathBuf> {
        let old = self.steps.into_iter().filter_map(|step| match step {
            Step::Exchanged { temp, .. } | Step::SetAside { temp, .. } | Step::Replaced { backup: temp, .. } => {
                Some(temp)
            }
            Step::Created { .. } => None,
        });
        old.filter(|temp| temp.remove().is_err()).map(|temp| temp.path().to_path_buf()).collect()
    }
}

/// Checks that the file which was swapped out is the verified one: a change made in the last moment must not be lost.
fn check_swapped(temp: &Place, old: &str, plan: &Plan) -> Result<(), Failure> {
    // By descriptor: what is compared is what was looked at.
    let is_same = match temp.open() {
        Ok(mut file) => {
            let stat = rustix::fs::fstat(&file).map_err(io::Error::from)?;
            let is_file = place::kind(&stat) == FileType::RegularFile && plan.is_same_file(place::id(&stat));
            let mut now = Vec::new();
            is_file && stat.st_size == i64::try_from(old.len()).unwrap_or(i64::MAX) && {
                (&mut file).take(old.len() as u64 + 1).read_to_end(&mut now)?;
                now == old.as_bytes()
            }
        }
        // A link took its place.
        Err(_) => false,
    };
    if is_same { Ok(()) } else { Err(Failure::Stale) }
}

/// A fresh name beside a target.
pub(crate) fn temporary(target: &Place) -> Place {
    // A hasher's random keys are the standard library's only source of randomness; O_EXCL settles the rest.
    target.sibling(&format!(".openoxide-patch-{:016x}", RandomState::new().build_hasher().finish()))
}

/// How the tree stands after a failure, for [`PatchError::Write`].
pub(crate) fn outcome(stands: &[String]) -> String {
    if stands.is_empty() {
        "nothing was changed".into()
    } else {
        format!("not everything could be taken back: {}", stands.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_taken_back_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().canonicalize().unwrap().join("gone");
        let anchor = place::Anchor::open(gone.parent().unwrap(), place::Walk::Kernel).unwrap();
        let target = anchor.place(&gone).unwrap().unwrap();
        let journal = Journal { steps: vec![Step::Created { target }], ..Journal::default() };
        let error = journal.fail("x".into(), io::Error::from(io::ErrorKind::StorageFull));
        let told = format!("not everything could be taken back: {} was created", gone.display());
        assert!(error.to_string().contains(&told), "{error}");
    }
}
