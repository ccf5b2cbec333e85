//! Every thread in memory, by id: starts them, finds them, forks them for a question, and ends them all.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use openoxide_sandbox::{SandboxMode, SandboxPolicy};

use crate::context::Shell;
use crate::events::lock;
use crate::rollout::{JsonlStore, Rollout, SessionMeta, SyncQueue, ThreadStore};
use crate::runner::Runner;
use crate::thread::SHUTDOWN_LIMIT;
use crate::thread_state::{ContextDue, State};
use crate::tools::{Reach, Toolbox, Toolboxes};
use crate::{ApprovalPolicy, Config, CoreError, Thread, ThreadConfig, ThreadId};

/// What every thread of a process shares; made once.
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) runner: Arc<dyn Runner>,
    pub(crate) shell: Shell,
    toolboxes: Toolboxes,
    /// Modes that have been found to be enforced here.
    confined: Mutex<Vec<SandboxMode>>,
    /// Makes rollouts durable.
    pub(crate) sync: Arc<SyncQueue>,
    store: Option<Arc<dyn ThreadStore>>,
}

impl Core {
    /// The tools of a thread.
    pub(crate) fn tools(&self, thread: &ThreadConfig) -> &Toolbox {
        let reach = match (thread.read_only_tools, self.can_confine(SandboxMode::ReadOnly)) {
            (false, _) => Reach::All,
            (true, true) => Reach::Query,
            // No command can be held to reading.
            (true, false) => Reach::Reading,
        };
        self.toolboxes.of(reach, self.config.provider.facts(&thread.model).images)
    }

    /// The length of a thread of this model, in tokens, from which on it is summed up.
    pub(crate) fn compact_at(&self, model: &str) -> Option<u64> {
        let limit = self.config.auto_compact_token_limit;
        let limit = limit.unwrap_or_else(|| self.config.provider.facts(model).context_window / 10 * 9);
        (limit > 0).then_some(limit)
    }

    /// What commands of a thread may touch.
    pub(crate) fn sandbox_policy(&self, thread: &ThreadConfig) -> SandboxPolicy {
        SandboxPolicy {
            mode: thread.sandbox,
            workspace: thread.cwd.clone(),
            workspace_write: self.config.workspace_write.clone(),
        }
    }

    /// Finds out whether a policy can be enforced here; what was found out for a mode holds for the process.
    fn probe(&self, policy: &SandboxPolicy) -> Result<(), String> {
        let mode = policy.mode;
        if mode == SandboxMode::DangerFullAccess || self.can_confine(mode) {
            return Ok(());
        }
        self.runner.probe(policy)?;
        lock(&self.confined).push(mode);
        Ok(())
    }

    fn can_confine(&self, mode: SandboxMode) -> bool {
        lock(&self.confined).contains(&mode)
    }
}

/// Owns the threads of a process; see the module.
pub struct ThreadManager {
    core: Arc<Core>,
    threads: Mutex<HashMap<ThreadId, Arc<Thread>>>,
    this: Weak<Self>,
}

impl ThreadManager {
    /// A manager without threads.
    pub fn new(config: Config) -> Arc<Self> {
        let runner = Arc::new(config.launcher.clone());
        Self::with_runner(config, runner)
    }

    pub(crate) fn with_runner(config: Config, runner: Arc<dyn Runner>) -> Arc<Self> {
        let store = config.home.as_deref().map(|home| Arc::new(JsonlStore::new(home)) as Arc<dyn ThreadStore>);
        let core = Core {
            runner,
            shell: Shell::find(&config.child_env),
            toolboxes: Toolboxes::new(),
            confined: Mutex::default(),
            sync: Arc::default(),
            store,
            config,
        };
        Arc::new_cyclic(|this| Self {
            core: Arc::new(core),
            threads: Mutex::new(HashMap::new()),
            this: Weak::clone(this),
        })
    }

    /// What the manager was started with.
    pub fn config(&self) -> &Config {
        &self.core.config
    }

    /// A new thread. Its directory is resolved against [`Config::cwd`] and must exist; a sandbox mode or approval
    /// policy that cannot be kept is refused by name. Nothing is written before its first turn.
    pub fn start_thread(self: &Arc<Self>, mut config: ThreadConfig) -> Result<Arc<Thread>, CoreError> {
        config.cwd = usable_directory(&self.core.config.cwd, &config.cwd)?;
        if config.model.trim().is_empty() {
            return Err(CoreError::EmptyModel);
        }
        self.core.config.ceiling.check(&config)?;
        self.check_sandbox(&config)?;
        let id = ThreadId::new();
        let rollout = match &self.core.store {
            None => Rollout::Ephemeral,
            Some(store) => Rollout::Pending(
                Arc::clone(store),
                Box::new(SessionMeta {
                    id,
                    cwd: config.cwd.clone(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    base_instructions: config.base_instructions.clone(),
                    developer_instructions: config.developer_instructions.clone(),
                    read_only_tools: config.read_only_tools,
                    forked_from: None,
                }),
            ),
        };
        self.insert(id, config, State::new(Arc::default(), ContextDue::Everything), rollout)
    }

    /// Refuses a mode that cannot be enforced here. Threads that only read do without commands then.
    fn check_sandbox(&self, config: &ThreadConfig) -> Result<(), CoreError> {
        match self.core.probe(&self.core.sandbox_policy(config)) {
            Err(reason) if !config.read_only_tools => Err(CoreError::SandboxRefused { mode: config.sandbox, reason }),
            _ => Ok(()),
        }
    }

    /// A thread that is in memory.
    pub fn get_or_load(&self, id: ThreadId) -> Result<Arc<Thread>, CoreError> {
        lock(&self.threads).get(&id).cloned().ok_or(CoreError::ThreadNotFound { id })
    }

    /// A new thread that can only read and knows what the given one knew when its last turn ended; the given one
    /// stays as it is. The new thread is kept in memory only.
    pub fn fork_for_query(self: &Arc<Self>, id: ThreadId) -> Result<Arc<Thread>, CoreError> {
        let source = self.get_or_load(id)?;
        let history = source.finished_history();
        let context_due = if history.is_empty() { ContextDue::Everything } else { ContextDue::Environment };
        let config = ThreadConfig {
            sandbox: SandboxMode::ReadOnly,
            approval_policy: ApprovalPolicy::Never,
            read_only_tools: true,
            ..source.config().clone()
        };
        self.check_sandbox(&config)?;
        self.insert(ThreadId::new(), config, State::new(history, context_due), Rollout::Ephemeral)
    }

    fn insert(
        &self,
        id: ThreadId,
        config: ThreadConfig,
        state: State,
        rollout: Rollout,
    ) -> Result<Arc<Thread>, CoreError> {
        let max = self.core.config.limits.max_threads;
        let thread = Arc::new(Thread::new(Arc::clone(&self.core), Weak::clone(&self.this), id, config, state, rollout));
        let mut threads = lock(&self.threads);
        if threads.len() >= max {
            return Err(CoreError::TooManyThreads { max });
        }
        threads.insert(id, Arc::clone(&thread));
        Ok(thread)
    }

    /// Drops a thread that was shut down.
    pub(crate) fn forget(&self, id: ThreadId) {
        lock(&self.threads).remove(&id);
    }

    /// Ends every thread: turns are interrupted, process trees get SIGTERM and, two seconds later, SIGKILL, rollouts
    /// are made durable. Takes at most 2.2 s; what is left then ends with this process.
    pub async fn shutdown(&self) {
        let threads: Vec<Arc<Thread>> = lock(&self.threads).values().cloned().collect();
        let closing = futures_util::future::join_all(threads.into_iter().map(Thread::close));
        if tokio::time::timeout(SHUTDOWN_LIMIT, closing).await.is_err() {
            tracing::warn!("threads were still closing when the time for it was over");
        }
    }
}

fn usable_directory(base: &Path, wanted: &Path) -> Result<PathBuf, CoreError> {
    let path = base.join(wanted);
    match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => Ok(path),
        Ok(_) => Err(CoreError::CwdNotADirectory { path }),
        Err(source) => Err(CoreError::CwdUnusable { path, source }),
    }
}
