//! What tools need of the thread that they work for. The thread's floor implements it; a tool sees it only through its
//! [`super::ToolEnv`].

use std::path::PathBuf;
use std::sync::Arc;

use openoxide_sandbox::{Confinement, FileView, SandboxPolicy, Workspace};

use super::commands::Commands;
use super::reads::ReadPlace;
use super::runner::CommandRunner;
use super::shell::Shell;
use crate::api::Owner;
use crate::store::{RolloutItem, ThreadStore};
use crate::{Config, CoreError, Event, Shares, ThreadConfig, ThreadId};

/// Who reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A tool that the model points at a path: in full access it reads what the account may, but never what is the
    /// server's own.
    Tool,
    /// The server itself (project documents, pictures, the record of changes): never credentials, whatever the mode.
    Server,
}

/// See the module.
pub(crate) trait ToolHost: Send + Sync {
    /// The thread.
    fn thread_id(&self) -> ThreadId;

    /// What the thread runs with.
    fn config(&self) -> &ThreadConfig;

    /// What the process was started with.
    fn process_config(&self) -> &Config;

    /// The shell that reads command lines.
    fn shell(&self) -> Shell;

    /// Runs commands.
    fn command_runner(&self) -> &Arc<dyn CommandRunner>;

    /// The thread's commands that are alive.
    fn commands(&self) -> &Arc<Commands>;

    /// Files that are read at this moment, by principal.
    fn reads(&self) -> &Arc<Shares<Owner>>;

    /// Where the reads of the thread are done.
    fn read_place(self: Arc<Self>) -> ReadPlace;

    /// Tells whoever watches.
    fn emit(&self, event: Event);

    /// What the thread's commands may touch.
    fn sandbox_policy(&self) -> SandboxPolicy;

    /// The same on this machine; none where its directories cannot be told.
    fn confinement(&self) -> Option<Confinement>;

    /// The thread's directory for one use: the same as ever, and within what is allowed. The handle is kept for as long as
    /// the directory is used. Blocks on the disk.
    fn hold_directory(&self) -> Result<Arc<Workspace>, CoreError>;

    /// What a reader of this thread may open. Blocks on the disk.
    fn view(&self, workspace: Arc<Workspace>, reader: Reader) -> FileView;

    /// Where commands of the thread put temporary files; none where they can write nothing. Blocks on the disk.
    fn temporary_directory(&self) -> Result<Option<PathBuf>, CoreError>;

    /// Writes a line that is not history. Where that fails it waits, and the turn goes on.
    fn record(&self, line: &RolloutItem);

    /// Where the thread is kept; none where it is in memory alone.
    fn store(&self) -> Option<Arc<dyn ThreadStore>>;
}
