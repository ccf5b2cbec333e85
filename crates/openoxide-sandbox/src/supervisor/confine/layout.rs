//! What stands where in the view of one command: the steps of `plan.rs` for a confinement, with what is found on this machine,
//! and the places of a `/tmp` of the thread's own.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::super::failure::Failure;
use super::plan::{Mount, plan};
use super::roots;
use super::view::at;
use crate::confinement::SLASH_TMP;
use crate::workspace::open_without_links;
use crate::{Confinement, WritableRoot};

/// Makes, in a directory that will stand for `/tmp`, the directories on which what else lies in `/tmp` will be attached.
pub(super) fn prepare(confinement: &Confinement, roots: &[OwnedFd]) -> Result<(), Failure> {
    let Some(private) = &confinement.private_tmp else { return Ok(()) };
    let own = confinement.writable.iter().position(|root| root.path == *private);
    let Some(own) = own.and_then(|number| roots.get(number)) else { return Ok(()) };
    for root in confinement.writable.iter().filter(|root| root.path != *private) {
        if let Ok(rest) = root.path.strip_prefix(Path::new(SLASH_TMP).canonicalize().unwrap_or_default()) {
            make_directories(own.as_fd(), rest).map_err(at("making a place for", &root.path))?;
        }
    }
    Ok(())
}

/// Makes directories beneath one that commands write in, so that links that they have made there are not followed.
fn make_directories(within: BorrowedFd<'_>, path: &Path) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = openat(within, c".", flags, Mode::empty())?;
    for name in path {
        match rustix::fs::mkdirat(&at, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => at = openat(&at, name, flags, Mode::empty())?,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

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
    /// What has to be covered: what the launcher has found, and what is relied on, because it was made after that or must be
    /// there.
    pub(super) fn of<'a>(confinement: &Confinement, protected: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let slash_tmp = || Path::new(SLASH_TMP).canonicalize().unwrap_or_else(|_| SLASH_TMP.into());
        let private = confinement.private_tmp.clone();
        let private = private.map(|directory| Private { directory, slash_tmp: slash_tmp() });
        let mut layout = Self { roots: Vec::new(), protected: BTreeSet::new(), hidden: Vec::new(), private };
        layout.protected = protected.into_iter().map(|path| layout.seen(path)).collect();
        layout.roots = confinement.writable.iter().map(|root| layout.seen(&root.path)).collect();
        let is_there = |path: &&PathBuf| path.symlink_metadata().is_ok();
        layout.hidden = confinement.hidden.iter().filter(is_there).map(|path| layout.seen(path)).collect();
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
    pub(super) fn steps(&self) -> Vec<Mount> {
        let protected = self.protected.iter().map(PathBuf::as_path);
        plan(&self.roots, protected, self.hidden.iter().map(PathBuf::as_path))
    }

    /// How many places are protected.
    pub(super) fn protected_places(&self) -> usize {
        self.protected.len()
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

    /// Where a place of the view lies on the host.
    pub(super) fn on_host(&self, seen: &Path) -> PathBuf {
        let Some(private) = &self.private else { return seen.into() };
        let is_own = |root: &&PathBuf| **root != private.slash_tmp && seen.starts_with(root);
        match seen.strip_prefix(&private.slash_tmp) {
            Ok(rest) if !self.roots.iter().any(|root| is_own(&root)) => private.directory.join(rest),
            _ => seen.into(),
        }
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
