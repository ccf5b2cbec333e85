//! [`VerifiedPatch`] -> disk: stage everything, look again, swap in, take back on failure.
//!
//! Every new content is first written beside its target under a fresh name. Then the tree is read again and compared
//! with what was verified. Only then names change, in steps that `journal` takes and can undo, in the directories that were
//! found (`place`), wherever their names lead by now. A hard link to an updated file elsewhere keeps the old content. Owner
//! and group are kept where the system lets us; extended attributes are not.
//!
//! A process killed midway leaves files named `.openoxide-patch-*` behind and some files changed, never a half-written
//! one. With a [`Ledger`] all of it can be put right afterwards ([`crate::Leftover`]); without one nothing does that.

use std::{fmt::Write as _, io, path::PathBuf};

use openoxide_display::quote_path;

use crate::{
    PatchError,
    journal::{Failure, Intent, Journal, outcome, temporary},
    ledger::Ledger,
    resolve::Target,
    verify::{ChangeKind, VerifiedPatch},
};

/// A patch that has been written.
#[derive(Debug)]
pub struct Applied {
    added: Vec<PathBuf>,
    modified: Vec<PathBuf>,
    deleted: Vec<PathBuf>,
    leftovers: Vec<PathBuf>,
}

impl Applied {
    /// The answer for the model: one line per file, added, then modified, then deleted. A moved file is named by its new
    /// path.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = String::from("Success. Updated the following files:");
        for (letter, paths) in [('A', &self.added), ('M', &self.modified), ('D', &self.deleted)] {
            for path in paths {
                // Infallible: writing to a String.
                let _ = write!(text, "\n{letter} {}", quote_path(path));
            }
        }
        text
    }

    /// Old contents under temporary names that could not be removed after success; normally empty.
    #[must_use]
    pub fn leftovers(&self) -> &[PathBuf] {
        &self.leftovers
    }
}

/// A patch of which all files are in place; their old contents are still there under temporary names.
#[must_use]
pub struct Committed {
    journal: Journal,
    patch: VerifiedPatch,
}

impl std::fmt::Debug for Committed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Committed").field("patch", &self.patch).finish_non_exhaustive()
    }
}

impl Committed {
    /// Removes the old contents.
    #[must_use]
    pub fn finish(self) -> Applied {
        self.patch.applied(self.journal.finish())
    }
}

impl VerifiedPatch {
    /// Writes all changes, or none. A process that is killed midway leaves what it had done; see
    /// [`VerifiedPatch::commit`].
    ///
    /// # Errors
    /// [`PatchError::Stale`] when a file is not as it was verified, [`PatchError::Write`] when the system refuses. In both
    /// cases what was done is taken back; the message says what could not be.
    pub fn apply(self) -> Result<Applied, PatchError> {
        self.commit(None).map(Committed::finish)
    }

    /// The same in two parts: on return all files are in place and `ledger` says so. Between the two parts the caller
    /// notes what was changed, so that it is known whenever the patch counts. Afterwards, and after an error, the ledger
    /// is of no use any more.
    ///
    /// # Errors
    /// As [`VerifiedPatch::apply`].
    pub fn commit(self, ledger: Option<Ledger>) -> Result<Committed, PatchError> {
        let mut journal = Journal::new(ledger);
        let staged = match self.stage(&mut journal) {
            Ok(staged) => staged,
            Err((path, source)) if is_replaced(&source) => {
                journal.roll_back();
                return Err(PatchError::Stale { path, message: "a directory on its path was replaced".into() });
            }
            Err((path, source)) => return Err(journal.fail(path, source)),
        };
        if let Err(error) = self.check_again() {
            journal.roll_back();
            return Err(error);
        }
        self.take_steps(journal, &staged)
    }

    /// Takes all steps, or takes back those that were taken.
    fn take_steps(self, mut journal: Journal, staged: &[Vec<Intent>]) -> Result<Committed, PatchError> {
        let parts = || self.changes.iter().zip(&self.plans).zip(staged);
        let first = || self.changes.first().map(|change| change.path.clone()).unwrap_or_default();
        let announced = parts().try_for_each(|((change, plan), intents)| journal.announce(change, plan, intents));
        if let Err(source) = announced.and_then(|()| journal.make_durable()) {
            return Err(journal.fail(first(), source));
        }
        for ((change, plan), intents) in parts() {
            match journal.commit(change, plan, intents) {
                Ok(()) => {}
                Err(Failure::Io(source)) => return Err(journal.fail(change.path.clone(), source)),
                Err(Failure::Stale) => {
                    let message = "its content is another";
                    let stands = journal.roll_back();
                    if stands.is_empty() {
                        return Err(stale(&plan.target, message));
                    }
                    let source = io::Error::other(message);
                    return Err(PatchError::Write { path: change.path.clone(), source, outcome: outcome(&stands) });
                }
            }
        }
        match journal.note_done() {
            Ok(()) => Ok(Committed { journal, patch: self }),
            Err(source) => Err(journal.fail(first(), source)),
        }
    }

    /// Finds the directory of every file, writes every new content under a temporary name in its target's, which is
    /// created where missing, and says which steps are to be taken for each change.
    fn stage(&self, journal: &mut Journal) -> Result<Vec<Vec<Intent>>, (PathBuf, io::Error)> {
        let mut staged = Vec::with_capacity(self.changes.len());
        for (change, plan) in self.changes.iter().zip(&self.plans) {
            let failed = |error| (change.move_to.as_ref().unwrap_or(&change.path).clone(), error);
            let source = journal.place(&self.tree, &plan.target).map_err(failed)?;
            let destination = match &plan.destination {
                Some((_, _, target)) => Some(journal.place(&self.tree, target).map_err(failed)?),
                None => None,
            };
            let mut intents = Vec::new();
            if let Some(new) = &change.new {
                let model = (change.kind == ChangeKind::Update).then_some(&source);
                let target = destination.as_ref().unwrap_or(&source);
                let temp = journal.write_temp(target, new, model, plan.mode).map_err(failed)?;
                let target = target.clone();
                intents.push(match (&destination, &change.old) {
                    (None, Some(_)) => Intent::Replace { temp, target },
                    (Some(_), _) | (None, None) => Intent::Create { temp, target },
                });
            }
            if change.old.is_some() && (change.new.is_none() || destination.is_some()) {
                intents.push(Intent::SetAside { temp: temporary(&source), target: source });
            }
            staged.push(intents);
        }
        Ok(staged)
    }

    /// Reads everything again and compares it with what was verified.
    fn check_again(&self) -> Result<(), PatchError> {
        for (change, plan) in self.changes.iter().zip(&self.plans) {
            let (text, line) = &plan.source;
            if self.tree.resolve(text, *line)? != plan.target {
                return Err(stale(&plan.target, "a directory on its path was replaced"));
            }
            if let Some((text, line, place)) = &plan.destination {
                if self.tree.resolve(text, *line)? != *place {
                    return Err(stale(place, "a directory on its path was replaced"));
                }
                self.check_still_free(place)?;
            }
            match &change.old {
                None => self.check_still_free(&plan.target)?,
                Some(old) => {
                    let verb = if change.kind == ChangeKind::Delete { "delete" } else { "update" };
                    let now = match self.tree.read(&plan.target, verb) {
                        Ok(now) => now,
                        Err(PatchError::Read { message, .. }) => return Err(stale(&plan.target, &message)),
                        Err(error) => return Err(error),
                    };
                    if now.text != *old {
                        return Err(stale(&plan.target, "its content is another"));
                    }
                    if !plan.is_same_file(now.id) {
                        return Err(stale(&plan.target, "another file took its place"));
                    }
                }
            }
        }
        Ok(())
    }

    fn check_still_free(&self, target: &Target) -> Result<(), PatchError> {
        match self.tree.occupant(target)? {
            None => Ok(()),
            Some(_) => Err(stale(target, "a file was created there")),
        }
    }

    fn applied(self, leftovers: Vec<PathBuf>) -> Applied {
        let mut applied = Applied { added: Vec::new(), modified: Vec::new(), deleted: Vec::new(), leftovers };
        for change in self.changes {
            match change.kind {
                ChangeKind::Add => applied.added.push(change.path),
                ChangeKind::Update => applied.modified.push(change.move_to.unwrap_or(change.path)),
                ChangeKind::Delete => applied.deleted.push(change.path),
            }
        }
        applied
    }
}

/// Whether a directory that was one at the check is now a link or a file.
pub(crate) fn is_replaced(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| [Errno::NOTDIR, Errno::LOOP, Errno::XDEV].contains(&errno))
}

fn stale(target: &Target, message: &str) -> PatchError {
    PatchError::Stale { path: target.shown.clone(), message: message.into() }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// Stages a patch, lets someone else at the tree between the second look and the first rename, then commits.
    fn commit_after(meddle: impl Fn(&Path)) -> (tempfile::TempDir, PatchError) {
        let dir = tempfile::tempdir().unwrap();
        for name in ["update", "delete", "move", "last"] {
            fs::write(dir.path().join(name), format!("{name}\n")).unwrap();
        }
        let patch = "*** Begin Patch\n*** Update File: update\n@@\n-update\n+U\n*** Delete File: delete\n\
                     *** Update File: move\n*** Move to: to/moved\n*** Add File: add\n+x\n\
                     *** Update File: last\n@@\n-last\n+L\n*** End Patch";
        let verified = crate::parse(patch).unwrap().verify(dir.path()).unwrap();
        let mut journal = Journal::default();
        let staged = verified.stage(&mut journal).unwrap();
        verified.check_again().unwrap();
        meddle(dir.path());
        let error = verified.take_steps(journal, &staged).unwrap_err();
        (dir, error)
    }

    fn contents(dir: &Path) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
            })
            .collect();
        all.sort();
        all
    }

    fn expected(last: &str, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut all = vec![("delete", "delete\n"), ("last", last), ("move", "move\n"), ("update", "update\n")];
        all.extend(more);
        all.sort_unstable();
        all.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
    }

    #[test]
    fn a_failed_step_takes_back_all_before_it() {
        let (dir, error) = commit_after(|dir| fs::write(dir.join("add"), "mine\n").unwrap());
        assert!(error.to_string().starts_with("failed to write add: "), "{error}");
        assert!(error.to_string().ends_with("; nothing was changed"), "{error}");
        assert_eq!(contents(dir.path()), expected("last\n", &[("add", "mine\n")]));
    }

    #[test]
    fn a_change_made_in_the_last_moment_is_noticed_and_kept() {
        let (dir, error) = commit_after(|dir| fs::write(dir.join("last"), "mine\n").unwrap());
        assert!(matches!(error, PatchError::Stale { .. }), "{error}");
        assert_eq!(contents(dir.path()), expected("mine\n", &[]));
    }
}
