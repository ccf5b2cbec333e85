//! The Landlock rules of the last command, kept for the next: they are made from what some directories hold, which seldom
//! changes, and making them costs as much as everything else that the keeper does for a command.

use std::os::fd::OwnedFd;

use super::super::super::failure::Failure;
use super::super::landlock::{Listed, Rules, Scopes};
use crate::Confinement;

/// What was made last.
#[derive(Default)]
pub(super) struct KnownRules {
    last: Option<Known>,
}

struct Known {
    confinement: Confinement,
    rules: Rules,
    listed: Listed,
}

impl KnownRules {
    /// The rules for files of a command; none on a kernel without Landlock.
    pub(super) fn of(&mut self, confinement: &Confinement, roots: &[OwnedFd]) -> Result<Option<Rules>, Failure> {
        let failed = |errno| Failure::confine("setting Landlock rules", errno);
        if let Some(known) = self.last.as_ref().filter(|known| known.serves(confinement)) {
            return known.rules.try_clone().map(Some).map_err(failed);
        }
        let Some((rules, listed)) = Rules::with_listed(confinement, roots, Scopes::OfTheThread)? else {
            return Ok(None);
        };
        let given = rules.try_clone().map_err(failed)?;
        self.last = Some(Known { confinement: confinement.clone(), rules, listed });
        Ok(Some(given))
    }
}

impl Known {
    /// Whether the same rules would be made for this command. Directories that are written are the same ones by their identity,
    /// which was compared when they were opened.
    fn serves(&self, confinement: &Confinement) -> bool {
        let is_identified = confinement.writable.iter().all(|root| root.id.is_some());
        let is_same = self.confinement.writable == confinement.writable
            && self.confinement.hidden == confinement.hidden
            && self.confinement.private_tmp == confinement.private_tmp;
        is_identified && is_same && self.listed.holds()
    }
}
