//! What a view shows, as plain values: for a process that makes the same view once more, in its own view of the disk.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::{FileView, PrivateTmp, device};
use crate::{Workspace, WorkspaceError};

/// See the module. All paths are absolute and without links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewDescription {
    /// Where the workspace lies.
    pub workspace: PathBuf,
    /// Which directory it must be: its device and inode. Whoever described the view holds the directory open meanwhile, so
    /// that no other one can have them. (A process in a box is not let at what tells a [`crate::DirectoryId`].)
    pub place: (u64, u64),
    /// What is not shown.
    pub hidden: Vec<PathBuf>,
    /// Beneath which directories those above the workspace may be opened; none means anywhere.
    pub above: Option<Vec<PathBuf>>,
    /// What stands for `/tmp`, and what is seen where it is all the same; none where the process that reads has the right
    /// `/tmp` itself.
    pub private_tmp: Option<(PathBuf, Vec<PathBuf>)>,
}

impl FileView {
    /// What the view shows.
    ///
    /// # Errors
    /// What the system says of the workspace.
    pub fn describe(&self) -> io::Result<ViewDescription> {
        let private_tmp = self.private_tmp.as_ref().map(|tmp| (tmp.directory.clone(), tmp.roots.to_vec()));
        Ok(ViewDescription {
            workspace: self.workspace.path().to_owned(),
            place: place(&self.workspace)?,
            hidden: self.hidden.to_vec(),
            above: self.above.as_ref().map(|above| above.to_vec()),
            private_tmp,
        })
    }
}

fn place(workspace: &Workspace) -> io::Result<(u64, u64)> {
    let stat = rustix::fs::fstat(workspace)?;
    Ok((device(&stat), stat.st_ino))
}

impl ViewDescription {
    /// The view of this process. Opens the workspace.
    ///
    /// # Errors
    /// Its path leads to another directory here, or to none.
    pub fn open(self) -> Result<FileView, WorkspaceError> {
        let workspace = Workspace::open(&self.workspace, None)?;
        match place(&workspace) {
            Ok(place) if place == self.place => {}
            Ok(_) => return Err(WorkspaceError::Replaced { path: self.workspace }),
            Err(source) => return Err(WorkspaceError::Unusable { path: self.workspace, source }),
        }
        let view = FileView::new(Arc::new(workspace), self.hidden).with_parents_beneath(self.above);
        let private_tmp = self.private_tmp;
        let tmp = private_tmp.map(|(directory, roots)| PrivateTmp { directory, roots: roots.into() });
        Ok(FileView { private_tmp: tmp, ..view })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::OpenError;

    #[test]
    fn a_view_that_was_described_shows_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["up/work", "up/secret", "tmp"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        std::fs::write(root.join("tmp/f"), "").unwrap();
        let workspace = Arc::new(Workspace::resolve(&root.join("up/work")).unwrap());
        let view = FileView::new(workspace, vec![root.join("up/secret")])
            .with_parents_beneath(Some(vec![root.join("up")]))
            .with_private_tmp(Some(root.join("tmp")), std::slice::from_ref(&root));
        let described = view.describe().unwrap();
        let again = described.clone().open().unwrap();
        assert_eq!(again.describe().unwrap(), described);
        assert!(again.open_file(Path::new("/tmp/f")).is_ok());
        assert!(matches!(again.open(&root.join("up/secret")), Err(OpenError::Hidden)));
        let up = again.open_parent(&again.open_workspace().unwrap()).unwrap();
        assert!(matches!(again.open_parent(&up), Err(OpenError::Beyond)));
        std::fs::rename(root.join("up/work"), root.join("up/other")).unwrap();
        std::fs::create_dir(root.join("up/work")).unwrap();
        assert!(matches!(described.open(), Err(WorkspaceError::Replaced { .. })));
    }
}
