//! What stands where in the view of one command: the steps of `plan.rs` for a confinement, with what is found on this machine,
//! and the places of a `/tmp` of the thread's own.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use super::super::failure::Failure;
use super::plan::{Step, plan};
use super::roots;
use super::view::at;
use crate::confinement::SLASH_TMP;
use crate::workspace::open_without_links;
use crate::{Confinement, WritableRoot, protected};

/// The places of one view.
pub(super) struct Layout {
    /// Where each writable root is seen, in their order.
    roots: Vec<PathBuf>,
    protected: BTreeSet<PathBuf>,
    hidden: Vec<PathBuf>,
    private: Option<Private>,
}

/// A directory in the place of `/tmp`.
struct Private {
    directory: PathBuf,
    slash_tmp: PathBuf,
}

impl Layout {
    /// Looks for what has to be covered. The descriptors are those of the writable roots.
    pub(super) fn of(confinement: &Confinement, roots: &[OwnedFd]) -> Self {
        let slash_tmp = || Path::new(SLASH_TMP).canonicalize().unwrap_or_else(|_| SLASH_TMP.into());
        let private = confinement.private_tmp.clone();
        let private = private.map(|directory| Private { directory, slash_tmp: slash_tmp() });
        let mut layout = Self { roots: Vec::new(), protected: BTreeSet::new(), hidden: Vec::new(), private };
        for (root, directory) in confinement.writable.iter().zip(roots) {
            let found = protected::find(root, directory.as_fd(), &confinement.writable);
            let seen: Vec<PathBuf> = found.iter().map(|path| layout.seen(path)).collect();
            layout.protected.extend(seen);
            layout.roots.push(layout.seen(&root.path));
        }
        let is_there = |path: &&PathBuf| path.symlink_metadata().is_ok();
        layout.hidden = confinement.hidden.iter().filter(is_there).map(|path| layout.seen(path)).collect();
        layout
    }

    /// The places of the writable roots alone.
    pub(super) fn seen_only(confinement: &Confinement) -> Self {
        let mut layout = Self::of(confinement, &[]);
        layout.roots = confinement.writable.iter().map(|root| layout.seen(&root.path)).collect();
        layout
    }

    /// Where a place of the host is seen.
    pub(super) fn seen(&self, path: &Path) -> PathBuf {
        let private = self.private.as_ref();
        let rest = private.and_then(|private| Some((private, path.strip_prefix(&private.directory).ok()?)));
        match rest {
            Some((private, rest)) if rest.as_os_str().is_empty() => private.slash_tmp.clone(),
            Some((private, rest)) => private.slash_tmp.join(rest),
            None => path.into(),
        }
    }

    /// What is done, in order.
    pub(super) fn steps(&self) -> Vec<Step> {
        self.steps_for(self.protected.iter().map(PathBuf::as_path))
    }

    /// The same with at most so many steps: the protected places farthest from `/` are left out where there are too many.
    pub(super) fn steps_within(&self, most: usize) -> Vec<Step> {
        let mut protected: Vec<&Path> = self.protected.iter().map(PathBuf::as_path).collect();
        protected.sort_by_key(|path| path.components().count());
        loop {
            let steps = self.steps_for(protected.iter().copied());
            if steps.len() <= most || protected.is_empty() {
                return steps;
            }
            protected.truncate(protected.len() * 7 / 8);
        }
    }

    fn steps_for<'a>(&'a self, protected: impl Iterator<Item = &'a Path>) -> Vec<Step> {
        plan(&self.roots, protected, self.hidden.iter().map(PathBuf::as_path))
    }

    /// The place in the view on which a root is attached: the root itself, which is looked at again, but for a private
    /// `/tmp` and what is attached in it.
    pub(super) fn place_of(&self, root: &WritableRoot, seen: &Path) -> Result<OwnedFd, Failure> {
        match &self.private {
            Some(private) if seen.starts_with(&private.slash_tmp) => {
                open_without_links(seen).map_err(at("finding a place for", seen))
            }
            _ => roots::open_one(root),
        }
    }

    /// Once a private `/tmp` is attached: makes the directories on which what else lies in `/tmp` will be attached.
    pub(super) fn prepare(&self, confinement: &Confinement, attached: usize) -> std::io::Result<()> {
        let Some(private) = &self.private else { return Ok(()) };
        if confinement.writable[attached].path != private.directory {
            return Ok(());
        }
        let within = self.roots.iter().filter(|path| **path != private.slash_tmp);
        within.filter(|path| path.starts_with(&private.slash_tmp)).try_for_each(std::fs::create_dir_all)
    }

    /// Opens the roots where they are seen, and compares each with what the launcher meant.
    pub(super) fn open_seen(&self, confinement: &Confinement) -> Result<Vec<OwnedFd>, Failure> {
        let seen = confinement.writable.iter().zip(&self.roots);
        seen.map(|(root, path)| roots::open_one(&WritableRoot { path: path.clone(), ..root.clone() })).collect()
    }

    /// Where a mount that can be written may stand.
    pub(super) fn may_be_open(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }
}
