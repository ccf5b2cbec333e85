//! The views of a thread's commands, each a mount namespace: a copy of what all of them begin with, which is built once, completed
//! with what holds for one command at this moment. The keeper builds them, because nobody behind Landlock rules can, and goes back
//! to its own mounts, which are the host's.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use super::super::super::failure::Failure;
use super::super::view::{self, Protected};
use super::{copy_mounts, enter_namespace, open_namespace};
use crate::link::Request;

const OWN: &str = "/proc/self/ns/mnt";

/// See the module.
#[derive(Default)]
pub(super) struct Views {
    /// The keeper's own mounts.
    outside: Option<OwnedFd>,
    /// What views begin with, and which places are hidden in it.
    base: Option<(Vec<PathBuf>, OwnedFd)>,
}

impl Views {
    /// Builds the view of a command, whose writable directories are open.
    pub(super) fn build(
        &mut self,
        request: &Request,
        roots: &[OwnedFd],
        protected: &Protected,
    ) -> Result<OwnedFd, Failure> {
        let confinement = &request.confinement;
        let outside = match self.outside.take() {
            Some(outside) => outside,
            None => open_namespace(OWN)?,
        };
        let built = view::copy_roots(confinement, roots).and_then(|copies| {
            self.begin(&confinement.hidden)?;
            view::complete(confinement, &copies, protected)?;
            if request.reader {
                view::close_all()?;
            }
            open_namespace(OWN)
        });
        enter_namespace(&outside, libc::CLONE_NEWNS, "going back to the keeper's own mounts")?;
        self.outside = Some(outside);
        built
    }

    /// Moves into a copy of what views begin with.
    fn begin(&mut self, hidden: &[PathBuf]) -> Result<(), Failure> {
        if let Some((_, base)) = self.base.as_ref().filter(|(known, _)| known == hidden) {
            enter_namespace(base, libc::CLONE_NEWNS, "entering the thread's mounts")?;
            return copy_mounts();
        }
        copy_mounts()?;
        view::build_base(hidden)?;
        self.base = Some((hidden.to_vec(), open_namespace(OWN)?));
        copy_mounts()
    }
}
