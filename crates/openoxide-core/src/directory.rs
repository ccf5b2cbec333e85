//! A thread's directory: which one it is for as long as the thread is in memory, and the descriptor that holds it while
//! anything uses it. Commands, patches, reading tools, project documents and the record of changes all start from there.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use openoxide_sandbox::{
    DirectoryId, FileView, SandboxMode, SandboxPolicy, Surroundings, Workspace, WorkspaceError, WorkspaceWrite,
};

use crate::events::lock;
use crate::thread_manager::Core;
use crate::{CoreError, Thread, temporary};

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
    fn hold(&self) -> Result<Arc<Workspace>, WorkspaceError> {
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

/// Who reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A tool that the model points at a path: in full access it reads what the account may, but never what is the
    /// server's own.
    Tool,
    /// The server itself (project documents, pictures, the record of changes): never credentials, whatever the mode.
    Server,
}

impl Thread {
    /// The thread's directory for one use: the same as ever, and within what is allowed. Whoever uses it keeps the handle
    /// for that long. Blocks on the disk.
    pub(crate) fn hold_directory(&self) -> Result<Arc<Workspace>, CoreError> {
        let workspace = self.directory().hold().map_err(|source| CoreError::DirectoryChanged { source })?;
        self.core.config.ceiling.check_directory(workspace.path())?;
        Ok(workspace)
    }

    /// What the thread's commands see as `/tmp`; none where that is the system's own. Where it cannot be made, commands are
    /// refused, and readers look in its place all the same: never in the system's.
    fn private_tmp(&self) -> Option<PathBuf> {
        let is_private =
            self.config().sandbox == SandboxMode::WorkspaceWrite && self.core.config.workspace_write.has_private_tmp();
        is_private.then(|| {
            self.temporary_directory()
                .ok()
                .flatten()
                .unwrap_or_else(|| temporary::place(self.core.config.launcher.surroundings(), self.id()))
        })
    }

    /// What a reader of this thread may open. Blocks on the disk.
    pub(crate) fn view(&self, workspace: Arc<Workspace>, reader: Reader) -> FileView {
        let surroundings = self.core.config.launcher.surroundings();
        let hidden = match (self.config().sandbox, reader) {
            (SandboxMode::DangerFullAccess, Reader::Tool) => surroundings.own_secrets().into(),
            _ => self.core.hidden_places(),
        };
        FileView::new(workspace, hidden)
            .with_parents_beneath(self.core.config.ceiling.roots().map(<[_]>::to_vec))
            .with_private_tmp(self.private_tmp(), &self.core.config.workspace_write.writable_roots)
    }
}

/// Refuses a directory that lies in what is the server's own, whatever the mode, or where the thread is confined, among
/// credentials.
pub(crate) fn check_place(path: &Path, mode: SandboxMode, core: &Core) -> Result<(), CoreError> {
    match mode {
        SandboxMode::DangerFullAccess => check_not_in(path, &core.config.launcher.surroundings().own_secrets()),
        _ => check_not_in(path, &core.hidden_places()),
    }
}

/// The same where no server runs.
pub(crate) fn check_place_offline(
    path: &Path,
    mode: SandboxMode,
    surroundings: &Surroundings,
) -> Result<(), CoreError> {
    match mode {
        SandboxMode::DangerFullAccess => check_not_in(path, &surroundings.own_secrets()),
        _ => check_not_in(path, &hidden_places(surroundings)),
    }
}

/// What confined commands never see.
pub(crate) fn hidden_places(surroundings: &Surroundings) -> Vec<PathBuf> {
    let policy = SandboxPolicy::new(SandboxMode::ReadOnly, PathBuf::from("/"), WorkspaceWrite::default());
    policy.hidden(surroundings)
}

fn check_not_in(path: &Path, places: &[PathBuf]) -> Result<(), CoreError> {
    match places.iter().any(|place| path.starts_with(place)) {
        true => Err(CoreError::CwdHidden { path: path.into() }),
        false => Ok(()),
    }
}

/// What a person should know of a thread that works in this directory.
pub(crate) fn warning(path: &Path, surroundings: &Surroundings) -> Option<String> {
    let home = surroundings.home.as_ref()?.canonicalize().ok()?;
    (path == home).then(|| {
        format!(
            "the thread works in the home directory {}: start-up files of programs there can be changed by commands; work \
             in a project's directory instead",
            openoxide_display::quote_path(path)
        )
    })
}
