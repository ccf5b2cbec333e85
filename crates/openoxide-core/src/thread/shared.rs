//! What every thread of a process shares: configuration, the store, and what is counted over all of them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use openoxide_sandbox::{SandboxMode, SandboxPolicy, WorkspaceWrite};

use super::changes::Changes;
use super::kept_diffs::KeptDiffs;
use super::places;
use crate::api::Owner;
use crate::mutex::lock;
use crate::store::{DiskUse, SyncQueue, ThreadStore};
use crate::tools::runner::CommandRunner;
use crate::tools::{EditStyle, Shell, ToolAccess, ToolKind, Toolbox, Toolboxes};
use crate::{Config, CoreError, Shares, ThreadConfig};

/// How long the places that are hidden are taken to be the same. What a place is called never changes; where a link of the
/// user's that stands for one leads is looked at again after this time.
const HIDDEN_FOR: Duration = Duration::from_secs(1);

/// What every thread of a process shares; made once.
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) runner: Arc<dyn CommandRunner>,
    pub(crate) shell: Shell,
    pub(crate) toolboxes: Toolboxes,
    /// Modes that have been found to be enforced here.
    pub(crate) confined: Mutex<Vec<SandboxMode>>,
    /// Turns that run, by the owners of their threads.
    pub(crate) open_turns: Arc<Shares<Owner>>,
    /// Bytes of the prompts of turns that wait or run.
    pub(crate) open_prompts: Arc<Shares<Owner>>,
    /// What confined threads do not see, and when that was looked for.
    pub(crate) hidden: Mutex<Option<(Instant, Arc<[PathBuf]>)>>,
    /// Files that are read at this moment, by the owners of the threads that read.
    pub(crate) reads: Arc<Shares<Owner>>,
    /// Threads in memory, by their owners.
    pub(crate) places: Arc<Shares<Owner>>,
    /// Bytes of the histories of threads in memory, by their owners.
    pub(crate) histories: Arc<Shares<Owner>>,
    /// News of all threads.
    pub(crate) changes: Changes,
    /// Makes rollouts durable.
    pub(crate) sync: Arc<SyncQueue>,
    pub(crate) store: Option<Arc<dyn ThreadStore>>,
    /// Diffs that memory alone has.
    pub(crate) kept_diffs: KeptDiffs,
    /// What rollouts take; none where nothing bounds that.
    pub(crate) disk_use: Option<DiskUse>,
}

impl Core {
    /// The tools of a thread.
    pub(crate) fn tools(&self, thread: &ThreadConfig) -> &Toolbox {
        let access = match (thread.read_only_tools, self.can_confine(SandboxMode::ReadOnly)) {
            (false, _) => ToolAccess::Full,
            (true, true) => ToolAccess::Query,
            // No command can be held to reading.
            (true, false) => ToolAccess::Read,
        };
        // A question on a thread begins as the thread does; a thread that only reads has fewer tools from the start.
        let offered = if thread.question_on.is_some() { ToolAccess::Full } else { access };
        let sees = self.config.provider.facts(&thread.model).images;
        self.toolboxes.of(ToolKind { access, offered, sees, style: EditStyle::of(&thread.model) })
    }

    /// How many tokens a conversation with a model may have.
    pub(crate) fn room(&self, model: &str) -> u64 {
        self.compact_at(model).unwrap_or_else(|| self.config.provider.facts(model).context_window)
    }

    /// The length of a thread of this model, in tokens, from which on it is summed up.
    pub(crate) fn compact_at(&self, model: &str) -> Option<u64> {
        let limit = self.config.auto_compact_token_limit;
        let limit = limit.unwrap_or_else(|| self.config.provider.facts(model).context_window / 10 * 9);
        (limit > 0).then_some(limit)
    }

    /// Files and directories that confined threads do not see, as a command that only reads would find them. Blocks on the
    /// disk now and then.
    pub(crate) fn hidden_places(&self) -> Arc<[PathBuf]> {
        let mut known = lock(&self.hidden);
        if let Some((_, places)) = known.as_ref().filter(|(looked, _)| looked.elapsed() < HIDDEN_FOR) {
            return Arc::clone(places);
        }
        let places: Arc<[PathBuf]> = places::hidden_places(self.config.launcher.host_paths()).into();
        *known = Some((Instant::now(), Arc::clone(&places)));
        places
    }

    /// Refuses a directory that lies in what is the server's own, whatever the mode, or where the thread is confined, among
    /// credentials.
    pub(crate) fn check_place(&self, path: &Path, mode: SandboxMode) -> Result<(), CoreError> {
        match mode {
            SandboxMode::DangerFullAccess => {
                places::check_not_in(path, &self.config.launcher.host_paths().own_secrets())
            }
            SandboxMode::ReadOnly | SandboxMode::WorkspaceWrite => places::check_not_in(path, &self.hidden_places()),
        }
    }

    /// What commands of a thread may touch.
    pub(crate) fn sandbox_policy(&self, thread: &ThreadConfig) -> SandboxPolicy {
        SandboxPolicy::new(thread.sandbox, thread.cwd.clone(), self.config.workspace_write.clone())
    }

    /// Finds out whether a policy can be enforced here; what was found out for a mode holds for the process.
    pub(crate) fn probe(&self, policy: &SandboxPolicy) -> Result<(), String> {
        let mode = policy.mode;
        if mode == SandboxMode::DangerFullAccess || self.can_confine(mode) {
            return Ok(());
        }
        // No thread asks, so that there is no directory to stand for `/tmp`; whether there is makes no difference to the means.
        let workspace_write = WorkspaceWrite { private_tmp: None, ..policy.workspace_write.clone() };
        self.runner.probe(&SandboxPolicy { workspace_write, ..policy.clone() })?;
        lock(&self.confined).push(mode);
        Ok(())
    }

    pub(crate) fn can_confine(&self, mode: SandboxMode) -> bool {
        lock(&self.confined).contains(&mode)
    }
}
