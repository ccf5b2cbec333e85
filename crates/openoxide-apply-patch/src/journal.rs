//! The steps of a write, each undoable, and the way back.
//!
//! A new file is renamed in without replacing, an update exchanges names with the old file, a deleted file is renamed
//! aside: each is one step of the kernel, and the old file exists until the last step has succeeded. `write` decides
//! which steps to take; nothing is checked against the patch here except that a swapped-out file is the verified one.

use std::{
    fs::Permissions,
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown},
    path::PathBuf,
};

use rustix::fs::FileType;

use openoxide_display::quote_path;

use crate::{
    PatchError,
    place::{self, Made, Place, is_unsupported},
    resolve::{Target, Tree},
    verify::{Change, Plan},
    write::Staged,
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

/// A step that was taken and can be undone.
enum Step {
    /// A new file stands at `target`.
    Created { target: Place },
    /// `target` holds the new file and `temp` the old one.
    Exchanged { temp: Place, target: Place },
    /// `target` holds the new file; the old one is only in memory, because the file system cannot exchange names.
    Replaced { target: Place, old: String },
    /// The old file of `target` stands at `temp`.
    SetAside { temp: Place, target: Place },
}

/// Everything done so far, so that it can be undone.
#[derive(Default)]
pub(crate) struct Journal {
    /// Directories that did not exist before, outermost first.
    directories: Vec<Made>,
    /// Files under temporary names that are of no use after a failure.
    temps: Vec<Place>,
    steps: Vec<Step>,
}

impl Journal {
    /// The place of a target. The directories above it that are missing are created.
    pub(crate) fn place(&mut self, tree: &Tree, target: &Target) -> io::Result<Place> {
        tree.make_place(target, &mut self.directories)
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
            let temp = target.sibling(&temporary_name());
            let mut file = match temp.create(first_mode) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    last = error;
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.temps.push(temp.clone());
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

    /// Takes the steps of one change.
    pub(crate) fn commit(&mut self, change: &Change, plan: &Plan, staged: &Staged) -> Result<(), Failure> {
        let Staged { temp, source, destination } = staged;
        match (temp, destination, &change.old) {
            (Some(temp), Some(to), Some(old)) => {
                self.create(temp, to)?;
                self.set_aside(source, old, plan)
            }
            (Some(temp), None, Some(old)) => self.replace(temp, source, old, plan),
            (Some(temp), _, None) => self.create(temp, source),
            (None, _, Some(old)) => self.set_aside(source, old, plan),
            (None, _, None) => Ok(()),
        }
    }

    fn create(&mut self, temp: &Place, target: &Place) -> Result<(), Failure> {
        temp.rename_new(target)?;
        self.forget(temp);
        self.steps.push(Step::Created { target: target.clone() });
        Ok(())
    }

    fn replace(&mut self, temp: &Place, target: &Place, old: &str, plan: &Plan) -> Result<(), Failure> {
        match temp.exchange(target) {
            Ok(()) => {
                self.forget(temp);
                self.steps.push(Step::Exchanged { temp: temp.clone(), target: target.clone() });
                check_swapped(temp, old, plan)
            }
            Err(error) if is_unsupported(error) => {
                temp.rename(target)?;
                self.forget(temp);
                self.steps.push(Step::Replaced { target: target.clone(), old: old.into() });
                Ok(())
            }
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    fn set_aside(&mut self, target: &Place, old: &str, plan: &Plan) -> Result<(), Failure> {
        let temp = target.sibling(&temporary_name());
        target.rename_new(&temp)?;
        self.steps.push(Step::SetAside { temp: temp.clone(), target: target.clone() });
        check_swapped(&temp, old, plan)
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
                Step::Replaced { target, old } => {
                    let undone = self.write_temp(&target, &old, Some(&target), None).and_then(|temp| {
                        temp.rename(&target)?;
                        self.forget(&temp);
                        Ok(())
                    });
                    if let Err(error) = undone {
                        stands.push(format!(
                            "{} is changed and could not be restored ({error})",
                            quote_path(target.path())
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
            Step::Exchanged { temp, .. } | Step::SetAside { temp, .. } => Some(temp),
            Step::Created { .. } | Step::Replaced { .. } => None,
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

fn temporary_name() -> String {
    // A hasher's random keys are the standard library's only source of randomness; O_EXCL settles the rest.
    format!(".openoxide-patch-{:016x}", RandomState::new().build_hasher().finish())
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
