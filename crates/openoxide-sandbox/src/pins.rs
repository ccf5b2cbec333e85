//! Directories that the configuration and the environment name for commands to write in, each found out once: the first
//! time one is used it is remembered which directory it was, and for as long as this process lives it must stay that.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::{DirectoryId, Workspace, WorkspaceError};

/// By the path as it was named: where it led, and to which directory. The lock is held for a few system calls.
#[derive(Debug, Default)]
pub(crate) struct Pins(Mutex<BTreeMap<PathBuf, (PathBuf, DirectoryId)>>);

impl Pins {
    /// The directory that a path named when it was first asked for.
    ///
    /// # Errors
    /// Where it cannot be opened, was moved or replaced. The next call may find it in its place again.
    pub(crate) fn open(&self, path: &Path) -> Result<Workspace, WorkspaceError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((real, id)) = known.get(path) {
            return Workspace::open(real, Some(id));
        }
        let found = Workspace::resolve(path)?;
        known.insert(path.into(), (found.path().into(), found.id().clone()));
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_stays_the_one_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        for name in ["one", "two"] {
            std::fs::create_dir(path.join(name)).unwrap();
        }
        std::os::unix::fs::symlink("one", path.join("link")).unwrap();
        let pins = Pins::default();
        assert!(pins.open(&path.join("none")).is_err());
        assert_eq!(pins.open(&path.join("link")).unwrap().path(), path.join("one"));
        // A link that leads elsewhere afterwards changes nothing.
        std::fs::remove_file(path.join("link")).unwrap();
        std::os::unix::fs::symlink("two", path.join("link")).unwrap();
        assert_eq!(pins.open(&path.join("link")).unwrap().path(), path.join("one"));
        std::fs::rename(path.join("one"), path.join("old")).unwrap();
        std::fs::rename(path.join("two"), path.join("one")).unwrap();
        assert!(matches!(pins.open(&path.join("link")), Err(WorkspaceError::Replaced { .. })));
        // One that did not exist is found when it does.
        std::fs::create_dir(path.join("none")).unwrap();
        assert_eq!(pins.open(&path.join("none")).unwrap().path(), path.join("none"));
    }
}
