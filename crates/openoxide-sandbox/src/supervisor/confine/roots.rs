//! The directories that a command may write in, opened: each without following a link, and only if it is the one that the
//! launcher meant. From then on the descriptor is the directory.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::super::failure::{Failure, errno_of};
use crate::workspace::{Workspace, open_without_links};
use crate::{Confinement, WorkspaceError, WritableRoot};

/// Opens all of them, in their order.
pub(super) fn open(confinement: &Confinement) -> Result<Vec<OwnedFd>, Failure> {
    confinement.writable.iter().map(open_one).collect()
}

/// Opens one, where it is seen from here.
pub(super) fn open_one(root: &WritableRoot) -> Result<OwnedFd, Failure> {
    let Some(id) = &root.id else {
        return open_without_links(&root.path)
            .map_err(|errno| Failure::confine(format!("opening {}", root.path.display()), errno));
    };
    match Workspace::open(&root.path, Some(id)) {
        Ok(workspace) => Ok(workspace.into()),
        Err(WorkspaceError::Unusable { path, source }) => {
            Err(Failure::confine(format!("opening {}", path.display()), errno_of(&source)))
        }
        Err(moved) => Err(Failure::confine(format!("giving the right to write: {moved}"), Errno::STALE)),
    }
}
