//! A thread's directory: which one it is for as long as the thread is in memory, and the descriptor that holds it while
//! anything uses it. Commands, patches, reading tools, project documents and the record of changes all start from there.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use openoxide_sandbox::{DirectoryId, Workspace, WorkspaceError};

use crate::CoreError;
use crate::mutex::lock;

/// See the module.
#[derive(Debug)]
pub(crate) struct ThreadDirectory {
    path: PathBuf,
    id: DirectoryId,
    /// Open while a turn or a command holds it.
    held: Mutex<Weak<Workspace>>,
    /// It was made anew since the thread last ran, and the model has not been told.
    is_remade: AtomicBool,
}

impl ThreadDirectory {
    /// The directory that a caller names, through whatever links.
    pub(crate) fn resolve(base: &Path, wanted: &Path) -> Result<Self, CoreError> {
        let path = base.join(wanted);
        match Workspace::resolve(&path) {
            Ok(workspace) => Ok(Self::of(&workspace)),
            Err(WorkspaceError::Unusable { source, .. }) if source.kind() == std::io::ErrorKind::NotADirectory => {
                Err(CoreError::CwdNotADirectory { path })
            }
            Err(WorkspaceError::Unusable { source, .. }) => Err(CoreError::CwdUnusable { path, source }),
            Err(other) => Err(CoreError::CwdUnusable { path, source: std::io::Error::other(other) }),
        }
    }

    /// The directory of a thread that is loaded: its path must lead to a directory without a link, and `recorded` says
    /// which one it was.
    pub(crate) fn reopen(path: &Path, recorded: Option<&str>) -> Result<Self, CoreError> {
        let workspace = Workspace::open(path, None).map_err(|source| CoreError::DirectoryChanged { source })?;
        let directory = Self::of(&workspace);
        let is_remade = recorded.is_some_and(|recorded| directory.id != DirectoryId::from_text(recorded));
        directory.is_remade.store(is_remade, Ordering::Relaxed);
        Ok(directory)
    }

    fn of(workspace: &Workspace) -> Self {
        Self {
            path: workspace.path().to_owned(),
            id: workspace.id().clone(),
            held: Mutex::default(),
            is_remade: AtomicBool::new(false),
        }
    }

    /// The same directory for another thread.
    pub(crate) fn share(&self) -> Self {
        let (path, id) = (self.path.clone(), self.id.clone());
        Self { path, id, held: Mutex::default(), is_remade: AtomicBool::new(false) }
    }

    /// Where it lies: absolute, without links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Which directory it is.
    pub(crate) fn id(&self) -> &DirectoryId {
        &self.id
    }

    /// Whether the model is to be told that it was made anew; asked once.
    pub(crate) fn take_remade(&self) -> bool {
        self.is_remade.swap(false, Ordering::Relaxed)
    }

    /// The directory, open; refused where its path leads elsewhere by now. Blocks on the disk.
    pub(super) fn hold(&self) -> Result<Arc<Workspace>, WorkspaceError> {
        let open = lock(&self.held).upgrade();
        if let Some(workspace) = open {
            workspace.check()?;
            return Ok(workspace);
        }
        let workspace = Arc::new(Workspace::open(&self.path, Some(&self.id))?);
        *lock(&self.held) = Arc::downgrade(&workspace);
        Ok(workspace)
    }
}
