//! The commands of one thread that are alive: those a turn waits for, those left running in the background, and those
//! whose direct process has exited while what it started has not.
//!
//! A command stays here until its tree is gone, so that an interrupted turn, a closed thread and a shutdown each find
//! all of what they must end. Each is told to end once, however many ask for it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, join_all};
use openoxide_sandbox::Workspace;

use super::runner::Running;
use crate::TurnId;
use crate::mutex::lock;

/// Names a command for the model and for this registry; rises within a thread.
pub(crate) type CommandId = u64;

/// A command that is alive.
#[derive(Clone)]
pub(crate) struct LiveCommand {
    /// The command.
    pub(crate) command: Arc<dyn Running>,
    /// Its argument vector.
    pub(crate) argv: Vec<String>,
    /// Its directory.
    pub(crate) cwd: PathBuf,
    /// Whether it runs in a sandbox.
    pub(crate) confined: bool,
    turn_id: TurnId,
    /// The thread's directory, held for as long as the command lives.
    _workspace: Arc<Workspace>,
    id: CommandId,
    kind: Kind,
    ending: Option<Shared<BoxFuture<'static, ()>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A turn waits for it.
    Foreground,
    /// Left running; the model can come back to it, also when it has exited, to read the rest.
    Background,
    /// Its exit was told to the model, but what it started is alive.
    Remains,
}

/// The registry; see the module.
pub(crate) struct Commands {
    inner: Mutex<Inner>,
    max_background: usize,
}

#[derive(Default)]
struct Inner {
    next: CommandId,
    live: Vec<LiveCommand>,
}

impl Commands {
    /// A registry that keeps at most this many commands in the background.
    pub(crate) fn new(max_background: usize) -> Self {
        Self { inner: Mutex::new(Inner::default()), max_background }
    }

    /// Registers a command that was just started.
    pub(crate) fn add(
        &self,
        command: Arc<dyn Running>,
        argv: Vec<String>,
        cwd: PathBuf,
        confined: bool,
        turn_id: TurnId,
        workspace: Arc<Workspace>,
    ) -> CommandId {
        let mut inner = lock(&self.inner);
        inner.next += 1;
        let id = inner.next;
        inner.live.push(LiveCommand {
            command,
            argv,
            cwd,
            confined,
            turn_id,
            _workspace: workspace,
            id,
            kind: Kind::Foreground,
            ending: None,
        });
        id
    }

    /// A command left in the background, by its id.
    pub(crate) fn background(&self, id: CommandId) -> Option<LiveCommand> {
        let inner = lock(&self.inner);
        inner.live.iter().find(|session| session.id == id && session.kind == Kind::Background).cloned()
    }

    /// Ids of the commands in the background.
    pub(crate) fn background_ids(&self) -> Vec<CommandId> {
        let inner = lock(&self.inner);
        inner.live.iter().filter(|session| session.kind == Kind::Background).map(|session| session.id).collect()
    }

    /// Command lines of the commands that are alive, or of which something is. What is left of others is forgotten, so that
    /// it holds no descriptor.
    pub(crate) fn alive(&self) -> Vec<String> {
        let mut inner = lock(&self.inner);
        inner.live.retain(|session| session.kind != Kind::Remains || session.command.tree_alive());
        let alive = inner.live.iter().filter(|session| session.command.tree_alive());
        alive.map(|session| openoxide_display::visible(&session.argv)).collect()
    }

    /// Leaves a command running in the background. Over the bound, the oldest one there is ended; its id is returned.
    pub(crate) fn leave(self: &Arc<Self>, id: CommandId) -> Option<CommandId> {
        self.keep(id, Kind::Background)
    }

    /// Forgets a command whose exit was told, unless something it started is still alive: that is kept until the
    /// thread closes, and counts against the bound.
    pub(crate) fn exited(self: &Arc<Self>, id: CommandId) {
        let mut inner = lock(&self.inner);
        let Some(at) = inner.live.iter().position(|session| session.id == id) else { return };
        if inner.live[at].command.tree_alive() {
            drop(inner);
            self.keep(id, Kind::Remains);
        } else {
            inner.live.remove(at);
        }
    }

    fn keep(self: &Arc<Self>, id: CommandId, kind: Kind) -> Option<CommandId> {
        let mut inner = lock(&self.inner);
        inner.live.retain(|session| session.kind != Kind::Remains || session.command.tree_alive());
        if let Some(session) = inner.live.iter_mut().find(|session| session.id == id) {
            session.kind = kind;
        }
        let kept = |session: &&LiveCommand| session.kind != Kind::Foreground && session.ending.is_none();
        if inner.live.iter().filter(kept).count() <= self.max_background {
            return None;
        }
        let oldest = inner.live.iter().filter(kept).find(|session| session.id != id)?.id;
        drop(inner);
        if let Some(ending) = self.end(|session| session.id == oldest) {
            tokio::spawn(ending);
        }
        Some(oldest)
    }

    /// Sends SIGTERM now to every command that a turn (`None`: any turn) has started. The future is ready when none
    /// of their processes is left, within about two seconds; it must be polled for that.
    pub(crate) fn terminate(self: &Arc<Self>, turn_id: Option<TurnId>) -> Option<BoxFuture<'static, ()>> {
        self.end(|session| turn_id.is_none_or(|turn| session.turn_id == turn))
    }

    fn end(self: &Arc<Self>, wanted: impl Fn(&LiveCommand) -> bool) -> Option<BoxFuture<'static, ()>> {
        let mut inner = lock(&self.inner);
        let (mut ids, mut endings) = (Vec::new(), Vec::new());
        for session in inner.live.iter_mut().filter(|session| wanted(session)) {
            ids.push(session.id);
            let command = Arc::clone(&session.command);
            let ending =
                session.ending.get_or_insert_with(|| async move { command.terminate().await }.boxed().shared());
            endings.push(ending.clone());
        }
        drop(inner);
        if ids.is_empty() {
            return None;
        }
        let registry = Arc::clone(self);
        let mut ended = async move {
            join_all(endings).await;
            lock(&registry.inner).live.retain(|session| !ids.contains(&session.id));
        }
        .boxed();
        // The first poll is what sends the signals.
        match (&mut ended).now_or_never() {
            Some(()) => None,
            None => Some(ended),
        }
    }
}
