//! The side of a thread that its tools see, and its directories.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use openoxide_sandbox::{Confinement, FileView, SandboxMode, SandboxPolicy, Workspace};

use super::handle::Thread;
use super::temporary::place::{make, place};
use super::temporary::{left, remove_temporary};
use crate::api::Owner;
use crate::mutex::lock;
use crate::store::{RolloutItem, ThreadStore};
use crate::tools::commands::Commands;
use crate::tools::reads::{Helpers, ReadHelper, ReadPlace, ReadPool};
use crate::tools::runner::CommandRunner;
use crate::tools::{Reader, Shell, ToolHost};
use crate::{Config, CoreError, Event, Shares, ThreadConfig, ThreadId};

impl ToolHost for Thread {
    fn thread_id(&self) -> ThreadId {
        self.id()
    }

    fn config(&self) -> &ThreadConfig {
        Self::config(self)
    }

    fn process_config(&self) -> &Config {
        &self.core.config
    }

    fn shell(&self) -> Shell {
        self.core.shell
    }

    fn command_runner(&self) -> &Arc<dyn CommandRunner> {
        &self.core.runner
    }

    fn commands(&self) -> &Arc<Commands> {
        &self.commands
    }

    fn reads(&self) -> &Arc<Shares<Owner>> {
        &self.core.reads
    }

    fn read_place(self: Arc<Self>) -> ReadPlace {
        let is_confined = self.config().sandbox != SandboxMode::DangerFullAccess;
        let pool = || Arc::new(ReadPool::new(Arc::new(Readers(Arc::downgrade(&self)))));
        let pool = is_confined.then(|| Arc::clone(lock(&self.readers).get_or_insert_with(pool)));
        ReadPlace { reads: Arc::clone(&self.core.reads), owner: self.config().owner.clone(), pool }
    }

    fn emit(&self, event: Event) {
        self.hub.emit(event);
    }

    fn sandbox_policy(&self) -> SandboxPolicy {
        let policy = self.core.sandbox_policy(self.config());
        SandboxPolicy { workspace_id: Some(self.directory().id().clone()), ..policy }
    }

    fn confinement(&self) -> Option<Confinement> {
        let temporary = self.temporary_directory().ok()?;
        self.core.config.launcher.confinement(&SandboxPolicy { temporary, ..self.sandbox_policy() }).ok()
    }

    fn hold_directory(&self) -> Result<Arc<Workspace>, CoreError> {
        let workspace = self.directory().hold().map_err(|source| CoreError::DirectoryChanged { source })?;
        self.core.config.ceiling.check_directory(workspace.path())?;
        Ok(workspace)
    }

    fn view(&self, workspace: Arc<Workspace>, reader: Reader) -> FileView {
        let host_paths = self.core.config.launcher.host_paths();
        let hidden = match (self.config().sandbox, reader) {
            (SandboxMode::DangerFullAccess, Reader::Tool) => host_paths.own_secrets().into(),
            _ => self.core.hidden_places(),
        };
        FileView::new(workspace, hidden)
            .with_parents_beneath(self.core.config.ceiling.roots().map(<[_]>::to_vec))
            .with_private_tmp(self.private_tmp(), &self.core.config.workspace_write.writable_roots)
    }

    fn temporary_directory(&self) -> Result<Option<PathBuf>, CoreError> {
        if self.config().sandbox == SandboxMode::ReadOnly {
            return Ok(None);
        }
        let place = place(self.core.config.launcher.host_paths(), self.id());
        // Before it is there: a kill in between leaves a note too many and no directory that nobody knows of.
        if !self.has_temporary.swap(true, Ordering::Relaxed) {
            left::note(self.core.config.launcher.host_paths(), self.id(), &place);
        }
        match make(&place) {
            Ok(()) => Ok(Some(place)),
            Err(source) => {
                // What stands there is not to be removed.
                self.has_temporary.store(false, Ordering::Relaxed);
                left::forget(self.core.config.launcher.host_paths(), self.id());
                Err(CoreError::Temporary { path: place, source })
            }
        }
    }

    fn record(&self, item: &RolloutItem) {
        if !lock(&self.rollout).append(item) {
            self.not_written(&mut lock(&self.state));
        }
    }

    fn store(&self) -> Option<Arc<dyn ThreadStore>> {
        lock(&self.rollout).store()
    }
}

/// Starts the processes that read for a thread.
struct Readers(Weak<Thread>);

impl Helpers for Readers {
    fn start(&self) -> BoxFuture<'static, Result<Option<ReadHelper>, String>> {
        let Some(thread) = self.0.upgrade() else {
            return std::future::ready(Err("the thread is closed".to_owned())).boxed();
        };
        async move {
            // The same policy as that of its commands, so that they share a box.
            let this = Arc::clone(&thread);
            let temporary = tokio::task::spawn_blocking(move || this.temporary_directory()).await;
            // Where it cannot be made no command runs either, and the server reads.
            let Ok(temporary) = temporary.map_err(|error| error.to_string())? else { return Ok(None) };
            let policy = SandboxPolicy { temporary, ..thread.sandbox_policy() };
            thread.core.runner.start_reader(thread.id(), policy).await
        }
        .boxed()
    }
}

impl Thread {
    /// Ends the processes that read for the turn that runs.
    pub(crate) fn end_readers(&self) {
        let readers = lock(&self.readers).take();
        readers.inspect(|readers| readers.close());
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
                .unwrap_or_else(|| place(self.core.config.launcher.host_paths(), self.id()))
        })
    }

    /// Removes its directory for temporary files with a thread that leaves memory, whichever way: closed, idle for long, or
    /// to make room.
    pub(super) fn drop_temporary(&self) {
        if !self.has_temporary.load(Ordering::Relaxed) {
            return;
        }
        let (host_paths, id) = (self.core.config.launcher.host_paths().clone(), self.id());
        let registry = self.registry.clone();
        let remove = move || {
            // It may have been loaded again by now, and then goes on with what is there.
            if registry.upgrade().is_none_or(|registry| !registry.has(id)) {
                remove_temporary(&host_paths, id);
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}
