//! What a tool may use of the turn that calls it, and nothing else: its directory, its files, commands, what it tells, and
//! limits. The thread itself is out of a tool's reach.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use openoxide_sandbox::{CommandSpec, Confinement, SandboxMode, SandboxPolicy, Workspace};
use tokio::sync::OwnedMutexGuard;

use super::before::Before;
use super::blocking::{NoAnswer, blocking};
use super::commands::Commands;
use super::files::FileView;
use super::host::{Reader, ToolHost};
use super::output::{self, StopFlag};
use super::pictures::PictureRoom;
use super::runner::Running;
use super::turn_diff::TurnDiff;
use crate::mutex::lock;
use crate::store::{PatchLedger, PatchNote, RolloutItem};
use crate::{ApprovalPolicy, CoreError, Event, ItemStatus, TurnId, TurnItemKind};

/// See the module.
#[derive(Clone)]
pub(crate) struct ToolEnv {
    host: Arc<dyn ToolHost>,
    turn_id: TurnId,
    call_id: String,
    diff: Arc<Mutex<TurnDiff>>,
    /// Held while a command of the turn is made ready, so that commands start in the order of their calls.
    starts: Arc<tokio::sync::Mutex<()>>,
    pictures: Arc<PictureRoom>,
}

/// What the calls of one turn share.
pub(crate) struct TurnEnv<'a> {
    pub(crate) host: Arc<dyn ToolHost>,
    pub(crate) turn_id: TurnId,
    pub(crate) diff: &'a Arc<Mutex<TurnDiff>>,
    /// See [`ToolEnv::turn_to_start`].
    pub(crate) starts: &'a Arc<tokio::sync::Mutex<()>>,
    /// Room for the pictures of the response that the call is of.
    pub(crate) pictures: &'a Arc<PictureRoom>,
}

/// A command that a tool wants to run.
pub(super) struct WantedCommand {
    pub(super) argv: Vec<String>,
    pub(super) cwd: PathBuf,
    /// See [`ToolEnv::command_environment`].
    pub(super) env: BTreeMap<OsString, OsString>,
    pub(super) tty: bool,
    /// Outside of the sandbox, which was approved.
    pub(super) escalated: bool,
    /// Where it puts temporary files; see [`Files::temporary_directory`].
    pub(super) temporary: Option<PathBuf>,
    /// Bytes of output that are kept until they are taken.
    pub(super) output_limit: usize,
}

impl ToolEnv {
    /// The environment of one call.
    pub(crate) fn new(turn: TurnEnv<'_>, call_id: String) -> Self {
        Self {
            host: turn.host,
            turn_id: turn.turn_id,
            call_id,
            diff: Arc::clone(turn.diff),
            starts: Arc::clone(turn.starts),
            pictures: Arc::clone(turn.pictures),
        }
    }

    /// The call.
    pub(super) fn call_id(&self) -> &str {
        &self.call_id
    }

    /// The turn.
    pub(super) fn turn_id(&self) -> TurnId {
        self.turn_id
    }

    /// The thread's directory.
    pub(super) fn cwd(&self) -> &Path {
        &self.host.config().cwd
    }

    /// A path of the model's, absolute and without a slash at its end.
    pub(super) fn resolve(&self, path: &str) -> PathBuf {
        self.cwd().join(path).components().collect()
    }

    /// How the thread's commands are confined.
    pub(super) fn sandbox(&self) -> SandboxMode {
        self.host.config().sandbox
    }

    /// When a person is asked.
    pub(super) fn approval_policy(&self) -> ApprovalPolicy {
        self.host.config().approval_policy
    }

    /// The shell that reads command lines.
    pub(super) fn shell(&self) -> &str {
        self.host.shell().name()
    }

    /// The most bytes of one output that the model is given.
    pub(super) fn output_limit(&self) -> usize {
        let own = self.host.config().tool_output_token_limit;
        output::bytes_of(own.unwrap_or(self.host.process_config().tool_output_token_limit))
    }

    /// What the turn has changed so far.
    pub(super) fn diff(&self) -> Arc<Mutex<TurnDiff>> {
        Arc::clone(&self.diff)
    }

    /// Room for the pictures of the response.
    pub(super) fn pictures(&self) -> Arc<PictureRoom> {
        Arc::clone(&self.pictures)
    }

    /// Tells more output of an item.
    pub(super) fn emit_delta(&self, item_id: u64, delta: String) {
        self.host.emit(Event::ItemDelta { turn_id: self.turn_id, item_id, delta });
    }

    /// The item of a tool that has no kind of its own.
    pub(super) fn tool_item(&self, name: &str, summary: String, status: ItemStatus) -> TurnItemKind {
        TurnItemKind::Tool { call_id: self.call_id.clone(), name: name.to_owned(), summary, status }
    }

    /// The thread's files, for work that may block.
    pub(super) fn files(&self) -> Files {
        Files(Arc::clone(&self.host))
    }

    /// Runs work that blocks on the disk; see [`blocking`].
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Files, &StopFlag) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let files = self.files();
        blocking(self.host.reads(), &self.host.config().owner, move |stop| work(&files, stop)).await
    }

    /// The turn of a call to have its command made ready; the next one waits until this is dropped.
    pub(super) async fn turn_to_start(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.starts).lock_owned().await
    }

    /// Notes what the thread's directory holds, before the turn's first command that may write runs.
    pub(super) async fn look_before(&self) {
        let looked = Arc::clone(&lock(&self.diff).looked);
        let look = || async {
            let look = |files: &Files, _: &StopFlag| Before::look(files.view(Reader::Server).ok()?);
            if let Ok(Some(before)) = self.blocking(look).await {
                lock(&self.diff).set_before(before);
            }
        };
        looked.get_or_init(look).await;
    }

    /// What a command of the thread may touch.
    pub(super) fn command_mode(&self, escalated: bool) -> SandboxMode {
        if escalated { SandboxMode::DangerFullAccess } else { self.host.sandbox_policy().mode }
    }

    /// The environment of commands. The first one may wait for the user's login shell.
    pub(super) async fn command_environment(&self) -> BTreeMap<OsString, OsString> {
        let config = self.host.process_config();
        let mut env = config.child_env.clone();
        if let Some(login_path) = &config.login_path {
            match login_path.get().await {
                Ok(path) => env.extend(path.map(|path| (OsString::from("PATH"), path))),
                Err(why) => tracing::debug!("{why}"),
            }
        }
        env
    }

    /// Starts a command. It is on its way when this returns; the future is ready when it runs, or says why it does not.
    pub(super) fn spawn(&self, wanted: WantedCommand) -> BoxFuture<'static, Result<Arc<dyn Running>, String>> {
        let WantedCommand { argv, cwd, mut env, tty, escalated, temporary, output_limit } = wanted;
        env.extend(temporary.clone().map(|path| (OsString::from("TMPDIR"), path.into_os_string())));
        let policy = if escalated { SandboxPolicy::full_access() } else { self.host.sandbox_policy() };
        self.host.command_runner().spawn(CommandSpec {
            argv,
            cwd,
            env,
            tty,
            policy: SandboxPolicy { temporary, ..policy },
            output_limit,
            thread_marker: Some(self.host.thread_id().to_string()),
        })
    }

    /// The commands of the thread that are alive.
    pub(super) fn commands(&self) -> &Arc<Commands> {
        self.host.commands()
    }
}

/// The files of a thread. Everything here blocks on the disk.
#[derive(Clone)]
pub(super) struct Files(Arc<dyn ToolHost>);

impl Files {
    /// The thread's directory, the same as ever and within what is allowed; held for as long as the handle is.
    pub(super) fn hold_directory(&self) -> Result<Arc<Workspace>, CoreError> {
        self.0.hold_directory()
    }

    /// What may be read.
    pub(super) fn view(&self, reader: Reader) -> Result<FileView, CoreError> {
        Ok(self.0.view(self.0.hold_directory()?, reader))
    }

    /// What may be read, from the directory as it is held.
    pub(super) fn view_of(&self, workspace: Arc<Workspace>, reader: Reader) -> FileView {
        self.0.view(workspace, reader)
    }

    /// Where commands may write; none where its directories cannot be told.
    pub(super) fn confinement(&self) -> Option<Confinement> {
        self.0.confinement()
    }

    /// Where commands put temporary files.
    pub(super) fn temporary_directory(&self) -> Result<Option<PathBuf>, String> {
        self.0.temporary_directory().map_err(|error| error.to_string())
    }

    /// Writes a line to the rollout.
    pub(super) fn record(&self, line: &RolloutItem) {
        self.0.record(line);
    }

    /// A ledger for a patch; none where the thread is kept in memory alone, or the ledger cannot be written. `line` is for
    /// the rollout once the patch counts.
    pub(super) fn begin_ledger(&self, line: RolloutItem) -> Option<PatchLedger> {
        let store = self.0.store()?;
        let id = self.0.thread_id();
        let begun = self.hold_directory().map_err(std::io::Error::other).and_then(|workspace| {
            let (directory, directory_id) = (workspace.path().to_owned(), workspace.id().as_str().to_owned());
            store.ledger(id, &PatchNote { directory, directory_id, line })
        });
        begun.unwrap_or_else(|error| {
            // A full disk under the home keeps nobody from working elsewhere.
            tracing::error!(thread = %id, %error, "a patch is applied without a ledger; a kill may leave part of it");
            None
        })
    }
}
