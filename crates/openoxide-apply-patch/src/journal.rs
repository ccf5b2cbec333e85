//! The steps of a write, each undoable, and the way back.
//!
//! A new file is renamed in without replacing, an update exchanges names with the old file, a deleted file is renamed
//! aside: each is one step of the kernel, and the old file exists until the last step has succeeded. `write` decides
//! which steps to take; nothing is checked against the patch here except that a swapped-out file is the verified one.

use std::{
    fs::{self, OpenOptions, Permissions},
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};

use crate::{
    PatchError,
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

/// A step that was taken and can be undone.
enum Step {
    /// A new file stands at `target`.
    Created { target: PathBuf },
    /// `target` holds the new file and `temp` the old one.
    Exchanged { temp: PathBuf, target: PathBuf },
    /// `target` holds the new file; the old one is only in memory, because the file system cannot exchange names.
    Replaced { target: PathBuf, old: String },
    /// The old file of `target` stands at `temp`.
    SetAside { temp: PathBuf, target: PathBuf },
}

/// Everything done so far, so that it can be undone.
#[derive(Default)]
pub(crate) struct Journal {
    /// Directories that did not exist before, outermost first.
    directories: Vec<PathBuf>,
    /// Files under temporary names that are of no use after a failure.
    temps: Vec<PathBuf>,
    steps: Vec<Step>,
}

impl Journal {
    /// Creates the directories above `target` that are missing.
    pub(crate) fn create_parents(&mut self, target: &Path) -> io::Result<()> {
        let missing: Vec<&Path> =
            target.ancestors().skip(1).take_while(|dir| dir.symlink_metadata().is_err()).collect();
        for dir in missing.into_iter().rev() {
            fs::create_dir(dir)?;
            self.directories.push(dir.into());
        }
        Ok(())
    }

    /// Writes `text` beside `target`. With `model`, takes over that file's permissions (never setuid, setgid or sticky)
    /// and, where the system lets us, its owner; without, the process's default for new files.
    pub(crate) fn write_temp(&mut self, target: &Path, text: &str, model: Option<&Path>) -> io::Result<PathBuf> {
        const ATTEMPTS: usize = 8;
        let mode = if model.is_some() { 0o600 } else { 0o666 };
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..ATTEMPTS {
            let temp = temporary_name(target);
            // `create_new` is O_EXCL, which follows no link.
            let mut file = match OpenOptions::new().write(true).create_new(true).mode(mode).open(&temp) {
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
                let (wanted, own) = (model.symlink_metadata()?, file.metadata()?);
                if (wanted.uid(), wanted.gid()) != (own.uid(), own.gid()) {
                    // Only a privileged process may give a file away; for others the writer owns what it wrote.
                    let _ = fchown(&file, Some(wanted.uid()), Some(wanted.gid()))
                        .or_else(|_| fchown(&file, None, Some(wanted.gid())));
                }
                file.set_permissions(Permissions::from_mode(wanted.mode() & 0o777))?;
            }
            return Ok(temp);
        }
        Err(last)
    }

    /// Takes the steps of one change.
    pub(crate) fn commit(&mut self, change: &Change, plan: &Plan, staged: Option<&Path>) -> Result<(), Failure> {
        match (staged, &change.move_to_absolute, &change.old) {
            (Some(temp), Some(to), Some(old)) => {
                self.create(temp, to)?;
                self.set_aside(&change.absolute, old, plan)
            }
            (Some(temp), None, Some(old)) => self.replace(temp, &change.absolute, old, plan),
            (Some(temp), _, None) => self.create(temp, &change.absolute),
            (None, _, Some(old)) => self.set_aside(&change.absolute, old, plan),
            (None, _, None) => Ok(()),
        }
    }

    fn create(&mut self, temp: &Path, target: &Path) -> Result<(), Failure> {
        rename_new(temp, target)?;
        self.forget(temp);
        self.steps.push(Step::Created { target: target.into() });
        Ok(())
    }

    fn replace(&mut self, temp: &Path, target: &Path, old: &str, plan: &Plan) -> Result<(), Failure> {
        match renameat_with(CWD, temp, CWD, target, RenameFlags::EXCHANGE) {
            Ok(()) => {
                self.forget(temp);
                self.steps.push(Step::Exchanged { temp: temp.into(), target: target.into() });
                check_swapped(temp, old, plan)
            }
            Err(error) if is_unsupported(error) => {
                fs::rename(temp, target)?;
                self.forget(temp);
                self.steps.push(Step::Replaced { target: target.into(), old: old.into() });
                Ok(())
            }
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    fn set_aside(&mut self, target: &Path, old: &str, plan: &Plan) -> Result<(), Failure> {
        let temp = temporary_name(target);
        rename_new(target, &temp)?;
        self.steps.push(Step::SetAside { temp: temp.clone(), target: target.into() });
        check_swapped(&temp, old, plan)
    }

    fn forget(&mut self, temp: &Path) {
        self.temps.retain(|known| known != temp);
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
                    if let Err(error) = fs::remove_file(&target) {
                        stands.push(format!("{} was created and could not be removed ({error})", target.display()));
                    }
                }
                Step::Exchanged { temp, target } => {
                    match renameat_with(CWD, &temp, CWD, &target, RenameFlags::EXCHANGE) {
                        Ok(()) => self.temps.push(temp),
                        Err(error) => stands.push(format!(
                            "{} is changed; its old content is in {} ({error})",
                            target.display(),
                            temp.display()
                        )),
                    }
                }
                Step::Replaced { target, old } => {
                    let undone = self.write_temp(&target, &old, Some(&target)).and_then(|temp| {
                        fs::rename(&temp, &target)?;
                        self.forget(&temp);
                        Ok(())
                    });
                    if let Err(error) = undone {
                        stands.push(format!("{} is changed and could not be restored ({error})", target.display()));
                    }
                }
                Step::SetAside { temp, target } => {
                    if let Err(error) = rename_new(&temp, &target) {
                        stands.push(format!(
                            "{} is gone; its content is in {} ({error})",
                            target.display(),
                            temp.display()
                        ));
                    }
                }
            }
        }
        // Both are best effort: a leftover is harmless, and a directory that is no longer empty belongs to someone else.
        for temp in &self.temps {
            let _ = fs::remove_file(temp);
        }
        for dir in self.directories.iter().rev() {
            let _ = fs::remove_dir(dir);
        }
        stands
    }

    /// Removes the old files after success. Returns those that could not be removed.
    pub(crate) fn finish(self) -> Vec<PathBuf> {
        let old = self.steps.into_iter().filter_map(|step| match step {
            Step::Exchanged { temp, .. } | Step::SetAside { temp, .. } => Some(temp),
            Step::Created { .. } | Step::Replaced { .. } => None,
        });
        old.filter(|temp| fs::remove_file(temp).is_err()).collect()
    }
}

/// Checks that the file which was swapped out is the verified one: a change made in the last moment must not be lost.
fn check_swapped(temp: &Path, old: &str, plan: &Plan) -> Result<(), Failure> {
    let metadata = temp.symlink_metadata()?;
    let same = metadata.is_file()
        && plan.is_same_file((metadata.dev(), metadata.ino()))
        && metadata.len() == old.len() as u64
        && fs::read(temp)? == old.as_bytes();
    if same { Ok(()) } else { Err(Failure::Stale) }
}

/// Renames onto a name that must be free, in one step where the file system can.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(error) if is_unsupported(error) => {
            // A hard link fails on a taken name just as well.
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        result => Ok(result?),
    }
}

/// Whether the kernel or the file system lacks the kind of rename asked for.
fn is_unsupported(error: Errno) -> bool {
    [Errno::INVAL, Errno::NOSYS, Errno::NOTSUP, Errno::OPNOTSUPP].contains(&error)
}

fn temporary_name(target: &Path) -> PathBuf {
    // A hasher's random keys are the standard library's only source of randomness; O_EXCL settles the rest.
    let unique = RandomState::new().build_hasher().finish();
    target.with_file_name(format!(".openoxide-patch-{unique:016x}"))
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
        let gone = dir.path().join("gone");
        let journal = Journal { steps: vec![Step::Created { target: gone.clone() }], ..Journal::default() };
        let error = journal.fail("x".into(), io::Error::from(io::ErrorKind::StorageFull));
        let told = format!("not everything could be taken back: {} was created", gone.display());
        assert!(error.to_string().contains(&told), "{error}");
    }
}
