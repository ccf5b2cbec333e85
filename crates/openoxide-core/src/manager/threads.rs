//! Every thread in memory, by id: starts them, finds them, loads them from their rollouts, forks them, lets those go that
//! nobody uses, and ends them all.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use openoxide_sandbox::{Launcher, SandboxMode};

use super::{expired, load_queue, page};
use crate::api::Owner;
use crate::mutex::lock;
use crate::store::{DiskUse, FORMAT, JsonlStore, Rollout, SessionMeta, ThreadStore};
use crate::thread::{
    Changes, Claim, Core, KeptDiffs, Registry, Restored, SHUTDOWN_LIMIT, State, ThreadChanges, ThreadDirectory,
    damage_sentence, failure, restore, sweep_left, unreadable,
};
use crate::tools::runner::{CommandRunner, UnderCeiling};
use crate::tools::{MAX_READS, MAX_READS_OF_ONE, Shell, Toolboxes};
use crate::turn::ContextDue;
use crate::{
    ApprovalPolicy, Config, CoreError, Held, Interruption, Limits, Shares, Thread, ThreadConfig, ThreadId, Transcript,
    share_of,
};

/// Owns the threads of a process; see the module.
pub struct ThreadManager {
    pub(super) core: Arc<Core>,
    pub(super) threads: Mutex<HashMap<ThreadId, Arc<Thread>>>,
    pub(super) lines: Arc<load_queue::LoadQueues>,
    /// Threads that are being loaded. Whoever comes second for one waits for that one alone.
    loading: Mutex<HashMap<ThreadId, Weak<Mutex<()>>>>,
    /// Threads that were kept in memory alone and left it.
    pub(super) expired: Mutex<expired::Expired>,
    pub(super) listings: page::Listings,
    /// Whether the task that lets idle threads go has been started.
    is_tidied: AtomicBool,
    /// Whether the task that deletes what is too old or too much has been started.
    pub(super) is_history_watched: AtomicBool,
    /// Set under the lock of `threads` when the end begins: no thread is added from then on.
    pub(super) is_ending: AtomicBool,
    /// Threads that were closed and may still have a turn to end.
    leaving: Mutex<Vec<Weak<Thread>>>,
    pub(super) this: Weak<Self>,
}

/// Ends commands of servers that are gone, and removes their temporary files.
fn end_leftovers(launcher: &Launcher) {
    #[cfg(target_os = "linux")]
    {
        let openoxide_sandbox::Leftovers { commands, processes, stuck } = launcher.end_leftovers();
        if processes > 0 {
            tracing::info!(commands, processes, "ended what commands of a server that was killed had left running");
        }
        if !stuck.is_empty() {
            tracing::warn!(?stuck, "processes of commands of a server that was killed could not be ended");
        }
    }
    sweep_left(launcher.host_paths());
}

impl ThreadManager {
    /// A manager without threads.
    ///
    /// What servers on the same home left behind that were killed is ended and removed first.
    pub fn new(config: Config) -> Arc<Self> {
        end_leftovers(&config.launcher);
        let runner = Arc::new(config.launcher.clone());
        Self::with_runner(config, runner)
    }

    pub(crate) fn with_runner(config: Config, runner: Arc<dyn CommandRunner>) -> Arc<Self> {
        let store = config.home.as_deref().map(|home| Arc::new(JsonlStore::recovered(home)) as Arc<dyn ThreadStore>);
        Self::with_store(config, runner, store)
    }

    /// The same with a store of its own.
    pub(crate) fn with_store(
        config: Config,
        runner: Arc<dyn CommandRunner>,
        store: Option<Arc<dyn ThreadStore>>,
    ) -> Arc<Self> {
        let runner = Arc::new(UnderCeiling { runner, ceiling: config.ceiling.clone() });
        let Limits { share_percent, owners, .. } = config.limits;
        let share = |limit| Shares::new(limit, share_of(limit, share_percent, owners), owners);
        let core = Core {
            runner,
            shell: Shell::find(&config.child_env),
            toolboxes: Toolboxes::new(),
            confined: Mutex::default(),
            open_turns: share(config.limits.max_open_turns),
            open_prompts: share(config.limits.max_open_prompt_bytes),
            hidden: Mutex::default(),
            reads: Shares::new(MAX_READS, MAX_READS_OF_ONE, owners),
            places: share(config.limits.max_threads),
            histories: share(config.limits.max_history_bytes),
            changes: Changes::default(),
            sync: Arc::default(),
            kept_diffs: KeptDiffs::new(config.limits.max_diff_bytes),
            disk_use: store.as_ref().and_then(|store| DiskUse::of(store, &config.limits)),
            store,
            config,
        };
        let manager = Arc::new_cyclic(|this| Self {
            core: Arc::new(core),
            threads: Mutex::new(HashMap::new()),
            lines: Arc::default(),
            loading: Mutex::default(),
            expired: Mutex::default(),
            listings: page::Listings::default(),
            is_tidied: AtomicBool::new(false),
            is_history_watched: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            leaving: Mutex::default(),
            this: Weak::clone(this),
        });
        manager.watch_history();
        manager
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
        let directory = ThreadDirectory::resolve(&self.core.config.cwd, &config.cwd)?;
        directory.path().clone_into(&mut config.cwd);
        if config.model.trim().is_empty() {
            return Err(CoreError::EmptyModel);
        }
        self.check_config(&config)?;
        let id = ThreadId::new();
        let meta = SessionMeta::of(id, &config);
        let rollout = match &self.core.store {
            None => Rollout::ephemeral(meta),
            Some(store) => Rollout::pending(Arc::clone(store), meta),
        };
        self.insert(id, config, directory, State::new(Arc::default(), ContextDue::Everything), rollout)
    }

    /// Whether a thread may be run like this, here and today.
    fn check_config(&self, config: &ThreadConfig) -> Result<(), CoreError> {
        self.core.config.ceiling.check(config)?;
        self.core.check_place(&config.cwd, config.sandbox)?;
        self.check_sandbox(config)
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
        let home = self.core.config.home.as_ref().ok_or(CoreError::ThreadNotFound { id })?;
        let store = JsonlStore::new(home);
        if !store.contains(id) {
            return Err(CoreError::ThreadNotFound { id });
        }
        Ok(crate::store::owner_of(&store, id).as_deref().map(Arc::from))
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
        self.claim(id).map(|(thread, _claim)| thread)
    }

    /// A thread for somebody who is about to use it: as it is on disk, and nobody else's while the claim is held. Blocks
    /// for as long as the disk takes.
    pub(crate) fn claim(&self, id: ThreadId) -> Result<(Arc<Thread>, Claim), CoreError> {
        let one_at_a_time = {
            let mut loading = lock(&self.loading);
            loading.retain(|_, held| held.strong_count() > 0);
            let known = loading.get(&id).and_then(Weak::upgrade);
            let held = known.unwrap_or_default();
            loading.insert(id, Arc::downgrade(&held));
            held
        };
        let _loading = lock(&one_at_a_time);
        match self.in_memory(id) {
            Some(thread) => thread.claim().map(|claim| (thread, claim)),
            None => self.load(id),
        }
    }

    fn load(&self, id: ThreadId) -> Result<(Arc<Thread>, Claim), CoreError> {
        let store = self.core.store.as_ref().ok_or_else(|| self.unknown(id))?;
        let limits = &self.core.config.limits;
        let writer = store.claim(id).map_err(|error| match failure(store.as_ref(), id, error) {
            CoreError::ThreadNotFound { id } => self.unknown(id),
            other => other,
        })?;
        let reading = writer.read_back(limits.max_load_bytes);
        let reading = reading.map_err(|error| unreadable(id, writer.stamp(), limits, error))?;
        let damage = damage_sentence(&reading.damage);
        let mut restored = self.restored(id, restore(reading.lines))?;
        let (config, directory) = self.config_of(&restored)?;
        let meta = restored.meta.clone();
        let closing = restored.close_cut_off();
        let mut rollout = Rollout::open(Arc::clone(store), meta, writer);
        for line in &closing {
            rollout.append(line);
        }
        let mut state = State::new(Arc::default(), ContextDue::Everything);
        state.adopt(restored);
        if let Some(damage) = damage {
            tracing::warn!(thread = %id, "{damage}");
            state.warnings.push(damage);
        }
        let thread = self.insert(id, config, directory, state, rollout)?;
        let claim = thread.hold();
        Ok((thread, claim))
    }

    /// Why there is no such thread.
    fn unknown(&self, id: ThreadId) -> CoreError {
        if lock(&self.expired).contains(id) {
            CoreError::ThreadExpired { id }
        } else {
            CoreError::ThreadNotFound { id }
        }
    }

    fn restored(&self, id: ThreadId, restored: Option<Restored>) -> Result<Restored, CoreError> {
        let restored = restored.ok_or(CoreError::ThreadDamaged { id })?;
        match restored.meta.format {
            format if format > FORMAT => Err(CoreError::ThreadTooNew { id, format, known: FORMAT }),
            _ => Ok(restored),
        }
    }

    /// What a thread ran with, if it still may.
    fn config_of(&self, restored: &Restored) -> Result<(ThreadConfig, ThreadDirectory), CoreError> {
        let meta = &restored.meta;
        let SessionMeta { cwd, base_instructions, developer_instructions, read_only_tools, overrides, owner, .. } =
            meta;
        let defaults = self.core.config.thread_defaults();
        let context = restored.context.as_ref();
        let directory = ThreadDirectory::reopen(
            context.map_or(cwd, |context| &context.cwd),
            context.and_then(|context| context.directory.as_deref()),
        )?;
        let config = ThreadConfig {
            cwd: directory.path().to_owned(),
            model: context.map_or(defaults.model, |context| context.model.clone()),
            sandbox: context.map_or(defaults.sandbox, |context| context.sandbox),
            approval_policy: context.map_or(defaults.approval_policy, |context| context.approval_policy),
            base_instructions: base_instructions.clone(),
            developer_instructions: developer_instructions.clone(),
            compact_prompt: meta.compact_prompt.clone(),
            reasoning_effort: meta.reasoning_effort.clone(),
            reasoning_summary: meta.reasoning_summary.clone(),
            read_only_tools: *read_only_tools,
            tool_output_token_limit: overrides.tool_output_token_limit,
            project_doc_max_bytes: overrides.project_doc_max_bytes,
            max_turn_tokens: overrides.max_turn_tokens,
            max_turn_seconds: overrides.max_turn_seconds,
            max_steps: overrides.max_steps,
            owner: owner.as_deref().map(Arc::from),
        };
        self.check_config(&config)?;
        Ok((config, directory))
    }

    /// A new thread that can only read and knows what the given one knew when its last turn ended; the given one
    /// stays as it is, also where another process has it. The new thread is kept in memory only. Blocks for as long as
    /// the disk takes where the given one is not in memory.
    pub fn fork_for_query(self: &Arc<Self>, id: ThreadId) -> Result<Arc<Thread>, CoreError> {
        // What another process has added to a thread is only on disk.
        let (history, (config, directory)) = match self.in_memory(id).filter(|source| source.is_current()) {
            Some(source) => (source.finished_history(), (source.config().clone(), source.directory().share())),
            None => {
                let restored = self.restored(id, restore(self.lines_of(id)?))?;
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
        let fork = ThreadId::new();
        let rollout = Rollout::ephemeral(SessionMeta::of(fork, &config));
        self.insert(fork, config, directory, State::new(history, context_due), rollout)
    }

    /// What was said and done on a thread, as far as it is written, whoever has it open. Blocks on the disk.
    pub fn transcript(&self, id: ThreadId) -> Result<Transcript, CoreError> {
        let transcript = Transcript::of(self.lines_of(id)?);
        self.core.config.ceiling.check_directory(&openoxide_display::unquote_path(&transcript.cwd))?;
        Ok(transcript)
    }

    pub(super) fn lines_of(&self, id: ThreadId) -> Result<Vec<crate::RolloutLine>, CoreError> {
        let store = self.core.store.as_ref().ok_or_else(|| self.unknown(id))?;
        store.load(id).map_err(|source| match failure(store.as_ref(), id, source) {
            CoreError::ThreadNotFound { id } => self.unknown(id),
            other => other,
        })
    }

    fn insert(
        &self,
        id: ThreadId,
        config: ThreadConfig,
        directory: ThreadDirectory,
        state: State,
        rollout: Rollout,
    ) -> Result<Arc<Thread>, CoreError> {
        if let Some(login_path) = &self.core.config.login_path {
            // So that it is known when the model asks for the first command.
            login_path.begin();
        }
        let (core, registry) = (Arc::clone(&self.core), Weak::clone(&self.this) as Weak<dyn Registry>);
        let thread = Arc::new(Thread::new(core, registry, id, config, directory, state, rollout));
        let mut threads = lock(&self.threads);
        if self.is_ending.load(Ordering::Relaxed) {
            return Err(CoreError::Ending);
        }
        let mut lost = Vec::new();
        let place = loop {
            let owner = &thread.config().owner;
            let exceeded = match self.core.places.take(owner, 1) {
                Ok(place) => break place,
                Err(exceeded) => exceeded,
            };
            let holders = self.core.places.who_gives_way(owner, exceeded);
            match holders.iter().find_map(|holder| longest_idle(&mut threads, holder)) {
                Some(gone) => lost.extend(gone.is_ephemeral().then_some(gone.id())),
                None => return Err(CoreError::TooManyThreads { exceeded }),
            }
        };
        thread.take_place(place);
        threads.insert(id, Arc::clone(&thread));
        drop(threads);
        self.lost(lost);
        thread.count_history();
        self.tidy();
        self.watch_history();
        Ok(thread)
    }

    /// Starts the task that ends what nobody follows, lets go what nobody uses and writes what waits for the disk, once,
    /// where there is a runtime.
    fn tidy(&self) {
        let limits = &self.core.config.limits;
        let (idle, abandoned) = (limits.idle_thread, limits.abandoned_turn);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.is_tidied.swap(true, Ordering::Relaxed) {
            return;
        }
        let this = Weak::clone(&self.this);
        let shortest = idle.into_iter().chain(abandoned).min().unwrap_or(LONGEST_ROUND * 10);
        let round = (shortest / 10).clamp(Duration::from_secs(1), LONGEST_ROUND);
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(round).await;
                let Some(manager) = this.upgrade() else { return };
                if let Some(limit) = abandoned {
                    manager.all().iter().for_each(|thread| thread.end_if_abandoned(limit));
                }
                if let Some(limit) = idle {
                    let left = let_go(&mut lock(&manager.threads), limit);
                    manager.lost(left);
                }
                // The disk may take its time.
                let behind = tokio::task::spawn_blocking(move || {
                    manager.all().iter().for_each(Thread::catch_up);
                });
                drop(behind.await);
            }
        });
    }

    fn all(&self) -> Vec<Arc<Thread>> {
        lock(&self.threads).values().cloned().collect()
    }

    /// Ends the threads that are there: turns are interrupted for the reason given, process trees get SIGTERM and, two
    /// seconds later, SIGKILL, rollouts are made durable. Others can be started meanwhile. Takes at most 2.2 s; what is
    /// left then ends with this process.
    pub async fn end_all(&self, why: &Interruption) {
        let threads: Vec<Arc<Thread>> = lock(&self.threads).values().cloned().collect();
        let leaving: Vec<Arc<Thread>> = lock(&self.leaving).iter().filter_map(Weak::upgrade).collect();
        let closing = threads.into_iter().chain(leaving).map(|thread| thread.close(why.clone()));
        if tokio::time::timeout(SHUTDOWN_LIMIT, futures_util::future::join_all(closing)).await.is_err() {
            tracing::warn!("threads were still closing when the time for it was over");
        }
    }

    /// [`ThreadManager::end_all`] for good: from now on a new thread is refused, and so is one that would be loaded. A
    /// thread whose beginning was under way is either refused or ended with the rest.
    pub async fn shutdown(&self, why: &Interruption) {
        {
            // Under the lock: a thread that is added before is among those that end.
            let _threads = lock(&self.threads);
            self.is_ending.store(true, Ordering::Relaxed);
        }
        self.end_all(why).await;
    }
}

impl Registry for ThreadManager {
    fn forget(&self, id: ThreadId) {
        let Some(thread) = lock(&self.threads).remove(&id) else { return };
        let mut leaving = lock(&self.leaving);
        leaving.retain(|thread| thread.strong_count() > 0);
        leaving.push(Arc::downgrade(&thread));
    }

    fn has(&self, id: ThreadId) -> bool {
        self.in_memory(id).is_some()
    }

    fn room_for_history(&self, owner: &Owner, bytes: usize) -> Option<Held<Owner>> {
        loop {
            let exceeded = match self.core.histories.take(owner, bytes) {
                Ok(room) => return Some(room),
                Err(exceeded) => exceeded,
            };
            let holders = self.core.histories.who_gives_way(owner, exceeded);
            let gone = {
                let mut threads = lock(&self.threads);
                holders.iter().find_map(|holder| longest_idle(&mut threads, holder))
            }?;
            self.lost(gone.is_ephemeral().then_some(gone.id()).into_iter().collect());
        }
    }
}

/// The longest time between two looks at the threads in memory.
const LONGEST_ROUND: Duration = Duration::from_secs(60);

/// Drops threads that nobody has used for so long; their background commands end. Returns those of which nothing is left.
fn let_go(threads: &mut HashMap<ThreadId, Arc<Thread>>, limit: Duration) -> Vec<ThreadId> {
    let mut lost = Vec::new();
    threads.retain(|id, thread| {
        // Where only the map holds it, no call is attached and no turn runs. Nobody else holds the thread's lock then and
        // wants the map's.
        let goes = Arc::strong_count(thread) == 1 && thread.unused_for().is_some_and(|unused| unused >= limit);
        if goes && thread.is_ephemeral() {
            lost.push(*id);
        }
        !goes
    });
    lost
}

/// Removes an owner's thread that has been idle longest, if one is idle: a query before the others, since it has its
/// answer. Nobody else holds it then.
fn longest_idle(threads: &mut HashMap<ThreadId, Arc<Thread>>, owner: &Owner) -> Option<Arc<Thread>> {
    let idle = threads
        .iter()
        .filter(|(_, thread)| thread.config().owner == *owner && Arc::strong_count(thread) == 1 && thread.is_idle());
    let ranked = idle.map(|(id, thread)| (thread.config().read_only_tools, thread.unused_for(), *id));
    let id = ranked.max()?.2;
    threads.remove(&id)
}
