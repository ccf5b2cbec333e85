//! Every thread in memory, by id: starts them, finds them, loads them from their rollouts, forks them, lets those go that
//! nobody uses, and ends them all.

mod opening;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use openoxide_sandbox::{SandboxMode, SandboxPolicy};

pub use self::opening::{Entrance, Pass, Ticket};
use crate::changes::{Changes, ThreadChanges};
use crate::context::Shell;
use crate::events::lock;
use crate::rollout::restore::{self, Restored};
use crate::rollout::{
    EventRecord, FORMAT, JsonlStore, Opened, Rollout, RolloutItem, SessionMeta, SyncQueue, ThreadStore,
};
use crate::runner::{Runner, UnderCeiling};
use crate::thread::SHUTDOWN_LIMIT;
use crate::thread_state::{ContextDue, State};
use crate::tools::{Reach, Toolbox, Toolboxes};
use crate::{
    ApprovalPolicy, Config, CoreError, Limits, Shares, Thread, ThreadConfig, ThreadId, ThreadSummary, Transcript,
    TurnId, share_of,
};

/// Whose a thread is; none where it belongs to nobody in particular.
pub(crate) type Owner = Option<Arc<str>>;

/// What every thread of a process shares; made once.
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) runner: Arc<dyn Runner>,
    pub(crate) shell: Shell,
    toolboxes: Toolboxes,
    /// Modes that have been found to be enforced here.
    confined: Mutex<Vec<SandboxMode>>,
    /// Turns that run, by the owners of their threads.
    pub(crate) open_turns: Arc<Shares<Owner>>,
    /// Bytes of the prompts of turns that wait or run.
    pub(crate) open_prompts: Arc<Shares<Owner>>,
    /// News of all threads.
    pub(crate) changes: Changes,
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
    lines: Arc<opening::Lines>,
    /// Held while a thread is loaded.
    loading: Mutex<()>,
    /// Whether the task that lets idle threads go has been started.
    is_tidied: AtomicBool,
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
        let runner = Arc::new(UnderCeiling { runner, ceiling: config.ceiling.clone() });
        let Limits { share_percent, owners, .. } = config.limits;
        let share = |limit| Shares::new(limit, share_of(limit, share_percent, owners));
        let core = Core {
            runner,
            shell: Shell::find(&config.child_env),
            toolboxes: Toolboxes::new(),
            confined: Mutex::default(),
            open_turns: share(config.limits.max_open_turns),
            open_prompts: share(config.limits.max_open_prompt_bytes),
            changes: Changes::default(),
            sync: Arc::default(),
            store,
            config,
        };
        Arc::new_cyclic(|this| Self {
            core: Arc::new(core),
            threads: Mutex::new(HashMap::new()),
            lines: Arc::default(),
            loading: Mutex::default(),
            is_tidied: AtomicBool::new(false),
            this: Weak::clone(this),
        })
    }

    /// News of threads that are kept on disk, from now on: each that is begun, and each end of a turn.
    pub fn changes(&self) -> ThreadChanges {
        self.core.changes.watch()
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
            Some(store) => Rollout::Pending(Arc::clone(store), Box::new(SessionMeta::of(id, &config))),
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

    /// Whose a thread is, whoever has it open; none where it belongs to nobody in particular. Blocks on the disk where it
    /// is not in memory.
    ///
    /// # Errors
    /// There is no such thread, or its rollout cannot be read.
    pub fn owner_of(&self, id: ThreadId) -> Result<Option<Arc<str>>, CoreError> {
        if let Some(thread) = self.in_memory(id) {
            return Ok(thread.config().owner.clone());
        }
        let owner = self.lines_of(id)?.into_iter().find_map(|line| match line.item {
            RolloutItem::SessionMeta(meta) => Some(meta.owner),
            _ => None,
        });
        Ok(owner.flatten().as_deref().map(Arc::from))
    }

    /// A thread that is in memory.
    pub fn in_memory(&self, id: ThreadId) -> Option<Arc<Thread>> {
        lock(&self.threads).get(&id).cloned()
    }

    /// A thread: the one in memory, or else loaded from its rollout with its history, settings, what was approved for it
    /// and its totals. Blocks for as long as the disk takes; see [`ThreadManager::enter`] for those who must not.
    ///
    /// # Errors
    /// There is no such thread, another process has it, or its settings go beyond what is allowed today.
    pub fn get_or_load(&self, id: ThreadId) -> Result<Arc<Thread>, CoreError> {
        if let Some(thread) = self.in_memory(id) {
            return Ok(thread);
        }
        let store = self.core.store.as_ref().ok_or(CoreError::ThreadNotFound { id })?;
        // One at a time, so that whoever comes second finds what the first has loaded.
        let _loading = lock(&self.loading);
        if let Some(thread) = self.in_memory(id) {
            return Ok(thread);
        }
        let (mut writer, lines) = open_patiently(store.as_ref(), id).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::InvalidInput => CoreError::ThreadNotFound { id },
            std::io::ErrorKind::WouldBlock => CoreError::ThreadBusy { id, holder: store.holder(id) },
            _ => CoreError::Rollout { id, source },
        })?;
        let mut restored = self.restored(id, restore::restore(lines))?;
        let config = self.config_of(&restored)?;
        if let Some(turn) = restored.cut_off.take() {
            let (items, result) = restore::crash_ending(id, &restored, &turn);
            for item in items {
                let item = Arc::new(item);
                let written = writer.append(&RolloutItem::ResponseItem(Arc::clone(&item)));
                written.map_err(|source| CoreError::Rollout { id, source })?;
                restored.history.push(item);
            }
            let written = writer.append(&RolloutItem::EventMsg(EventRecord::turn_ended(&result)));
            written.map_err(|source| CoreError::Rollout { id, source })?;
            restored.results.push(result);
        }
        self.insert(id, config, state_of(restored), Rollout::Open(writer))
    }

    fn restored(&self, id: ThreadId, restored: Option<Restored>) -> Result<Restored, CoreError> {
        let restored = restored.ok_or_else(|| {
            let source = std::io::Error::other("its first line does not say whose it is");
            CoreError::Rollout { id, source }
        })?;
        match restored.meta.format {
            format if format > FORMAT => Err(CoreError::ThreadTooNew { id, format, known: FORMAT }),
            _ => Ok(restored),
        }
    }

    /// What a thread ran with, if it still may.
    fn config_of(&self, restored: &Restored) -> Result<ThreadConfig, CoreError> {
        let meta = &restored.meta;
        let SessionMeta { cwd, base_instructions, developer_instructions, read_only_tools, overrides, owner, .. } =
            meta;
        let defaults = self.core.config.thread_defaults();
        let context = restored.context.as_ref();
        let config = ThreadConfig {
            cwd: usable_directory(&self.core.config.cwd, context.map_or(cwd, |context| &context.cwd))?,
            model: context.map_or(defaults.model, |context| context.model.clone()),
            sandbox: context.map_or(defaults.sandbox, |context| context.sandbox),
            approval_policy: context.map_or(defaults.approval_policy, |context| context.approval_policy),
            base_instructions: base_instructions.clone(),
            developer_instructions: developer_instructions.clone(),
            compact_prompt: meta.compact_prompt.clone(),
            read_only_tools: *read_only_tools,
            tool_output_token_limit: overrides.tool_output_token_limit,
            project_doc_max_bytes: overrides.project_doc_max_bytes,
            max_turn_tokens: overrides.max_turn_tokens,
            max_turn_seconds: overrides.max_turn_seconds,
            max_steps: overrides.max_steps,
            owner: owner.as_deref().map(Arc::from),
        };
        self.core.config.ceiling.check(&config)?;
        self.check_sandbox(&config)?;
        Ok(config)
    }

    /// A new thread that can only read and knows what the given one knew when its last turn ended; the given one
    /// stays as it is, also where another process has it. The new thread is kept in memory only. Blocks for as long as
    /// the disk takes where the given one is not in memory.
    pub fn fork_for_query(self: &Arc<Self>, id: ThreadId) -> Result<Arc<Thread>, CoreError> {
        let (history, config) = match self.in_memory(id) {
            Some(source) => (source.finished_history(), source.config().clone()),
            None => {
                let restored = self.restored(id, restore::restore(self.lines_of(id)?))?;
                let config = self.config_of(&restored)?;
                let finished = restored.cut_off.as_ref().map_or(restored.history.len(), |turn| turn.begins);
                (Arc::new(restored.history[..finished].to_vec()), config)
            }
        };
        let context_due = if history.is_empty() { ContextDue::Everything } else { ContextDue::Environment };
        let config = ThreadConfig {
            sandbox: SandboxMode::ReadOnly,
            approval_policy: ApprovalPolicy::Never,
            read_only_tools: true,
            ..config
        };
        self.check_sandbox(&config)?;
        self.insert(ThreadId::new(), config, State::new(history, context_due), Rollout::Ephemeral)
    }

    /// The threads that are kept and `wanted`, the one used last first, at most so many. Those in directories that the
    /// operator does not allow are left out. Blocks on the disk.
    pub fn summaries(
        &self,
        limit: usize,
        wanted: impl Fn(&ThreadSummary) -> bool,
    ) -> Result<Vec<ThreadSummary>, CoreError> {
        let Some(home) = &self.core.config.home else { return Ok(Vec::new()) };
        let store = JsonlStore::new(home);
        let ceiling = &self.core.config.ceiling;
        let is_shown = |thread: &ThreadSummary| wanted(thread) && ceiling.check_directory(&thread.cwd).is_ok();
        // As many are read as are shown where all are shown, which is the rule; else the rest is read as well.
        let mut read = limit;
        loop {
            let found = crate::summaries(&store, read).map_err(|source| CoreError::Listing { source })?;
            let was_all = found.len() < read;
            let mut shown: Vec<_> = found.into_iter().filter(is_shown).collect();
            if shown.len() >= limit || was_all || read == usize::MAX {
                shown.truncate(limit);
                return Ok(shown);
            }
            read = usize::MAX;
        }
    }

    /// What was said and done on a thread, as far as it is written, whoever has it open. Blocks on the disk.
    pub fn transcript(&self, id: ThreadId) -> Result<Transcript, CoreError> {
        let transcript = Transcript::of(self.lines_of(id)?);
        self.core.config.ceiling.check_directory(Path::new(&transcript.cwd))?;
        Ok(transcript)
    }

    fn lines_of(&self, id: ThreadId) -> Result<Vec<crate::RolloutLine>, CoreError> {
        let store = self.core.store.as_ref().ok_or(CoreError::ThreadNotFound { id })?;
        store.load(id).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::InvalidInput => CoreError::ThreadNotFound { id },
            _ => CoreError::Rollout { id, source },
        })
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
        if threads.len() >= max && self.core.store.is_some() {
            // Those on which nothing happens can be loaded again.
            let_go(&mut threads, Duration::ZERO);
        }
        if threads.len() >= max {
            return Err(CoreError::TooManyThreads { max });
        }
        threads.insert(id, Arc::clone(&thread));
        drop(threads);
        self.tidy();
        Ok(thread)
    }

    /// Starts the task that ends what nobody follows and lets go what nobody uses, once, where there is a runtime.
    fn tidy(&self) {
        let limits = &self.core.config.limits;
        // What is not on disk would be lost.
        let idle = limits.idle_thread.filter(|_| self.core.store.is_some());
        let abandoned = limits.abandoned_turn;
        let Some(shortest) = idle.into_iter().chain(abandoned).min() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.is_tidied.swap(true, Ordering::Relaxed) {
            return;
        }
        let this = Weak::clone(&self.this);
        runtime.spawn(async move {
            let round = (shortest / 10).max(Duration::from_secs(1));
            loop {
                tokio::time::sleep(round).await;
                let Some(manager) = this.upgrade() else { return };
                if let Some(limit) = abandoned {
                    let threads: Vec<_> = lock(&manager.threads).values().cloned().collect();
                    threads.iter().for_each(|thread| thread.end_if_abandoned(limit));
                }
                if let Some(limit) = idle {
                    let_go(&mut lock(&manager.threads), limit);
                }
            }
        });
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

/// Drops threads that nobody has used for so long. Their rollouts stay, and their background commands end.
fn let_go(threads: &mut HashMap<ThreadId, Arc<Thread>>, limit: Duration) {
    // Only the map holds it: no call is attached, no turn runs.
    threads.retain(|_, thread| Arc::strong_count(thread) > 1 || !thread.is_idle_since(limit));
}

/// Opens a rollout. One that is just being given up (its last lines are made durable) is waited for a moment.
fn open_patiently(store: &dyn ThreadStore, id: ThreadId) -> std::io::Result<Opened> {
    const ROUNDS: u32 = 20;
    const ROUND: Duration = Duration::from_millis(10);
    for _ in 0..ROUNDS {
        match store.open(id) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => std::thread::sleep(ROUND),
            other => return other,
        }
    }
    store.open(id)
}

/// The state of a thread that was loaded.
fn state_of(restored: Restored) -> State {
    let due = if restored.history.is_empty() { ContextDue::Everything } else { ContextDue::Nothing };
    let mut state = State::new(Arc::new(restored.history), due);
    (state.remembered, state.usage) = (restored.remembered, restored.usage);
    restored.results.into_iter().for_each(|result| state.keep_result(Arc::new(result)));
    state
}

/// Copies a thread as it is in its rollout, to a new one, whole or up to the end of a turn. The original may be in use.
///
/// # Errors
/// There is no such thread or turn, or the disk fails.
pub fn fork_rollout(store: &dyn ThreadStore, id: ThreadId, turn: Option<TurnId>) -> Result<ThreadId, CoreError> {
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::InvalidInput => CoreError::ThreadNotFound { id },
        _ => CoreError::Rollout { id, source },
    };
    let lines = store.load(id).map_err(failed)?;
    let lines = match turn {
        Some(turn_id) => restore::up_to(lines, turn).ok_or(CoreError::TurnNotFound { id, turn_id })?,
        None => lines,
    };
    let fork = ThreadId::new();
    let mut writer = store.lock(fork).map_err(failed)?;
    for line in lines {
        let item = match line.item {
            RolloutItem::SessionMeta(meta) => {
                RolloutItem::SessionMeta(SessionMeta { id: fork, forked_from: Some(id), ..meta })
            }
            other => other,
        };
        writer.append(&item).map_err(failed)?;
    }
    writer.syncer().and_then(|sync| sync()).map_err(failed)?;
    Ok(fork)
}

fn usable_directory(base: &Path, wanted: &Path) -> Result<PathBuf, CoreError> {
    let path = base.join(wanted);
    match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => Ok(path),
        Ok(_) => Err(CoreError::CwdNotADirectory { path }),
        Err(source) => Err(CoreError::CwdUnusable { path, source }),
    }
}
