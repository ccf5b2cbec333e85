//! What all connections share: the threads, how many clients follow each, what was said to begin a turn, and who looks after
//! turns that nobody follows.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openoxide_core::{
    ApprovalRequest, Attachment, CoreError, Decider, Decision, DenialReason, Event, EventReceiver, Interruption, Op,
    Submitted, Thread, ThreadId, ThreadManager, TurnId,
};
use openoxide_rpc::lock;

use crate::convert::question::deny;

/// What becomes of a question where no client follows its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApprovalFallback {
    /// What stays within the sandbox is done; what would leave it, or is not confined at all, is denied.
    #[default]
    AutoWithinPolicy,
    /// Every question is denied.
    Deny,
}

/// How a server is run.
pub struct AppServerConfig {
    /// The threads.
    pub manager: Arc<ThreadManager>,
    /// What becomes of questions where nobody can be asked.
    pub fallback: ApprovalFallback,
    /// How long a client may read nothing while its queue is full.
    pub write_timeout: Duration,
    /// Where the agent keeps its files, as clients are told.
    pub home: std::path::PathBuf,
    /// The version that clients take this for: they refuse to send newer fields to an older one.
    pub codex_version: &'static str,
}

/// What all connections share; see the module.
pub struct AppServer {
    pub(crate) config: AppServerConfig,
    followers: Mutex<HashMap<ThreadId, usize>>,
    /// What began the turns of late, the newest last.
    said: Mutex<VecDeque<(TurnId, Said)>>,
    /// Threads whose turns are looked after.
    guarded: Mutex<Vec<ThreadId>>,
}

/// Something a person said to a turn.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) client_id: Option<String>,
    pub(crate) text: String,
}

impl AppServer {
    /// A server on these threads.
    pub fn new(config: AppServerConfig) -> Arc<Self> {
        Arc::new(Self { config, followers: Mutex::default(), said: Mutex::default(), guarded: Mutex::default() })
    }

    pub(crate) fn manager(&self) -> &Arc<ThreadManager> {
        &self.config.manager
    }

    /// Ends whatever goes on.
    pub async fn shut_down(&self, why: &Interruption) {
        self.manager().shutdown(why).await;
    }

    /// Gives a thread something to do: its running turn, or else a new one. What was said is known before anybody is told
    /// of the turn.
    pub(crate) fn say(self: &Arc<Self>, thread: &Arc<Thread>, said: Said) -> Result<Submitted, CoreError> {
        self.guard(thread);
        let submitted;
        {
            // Whoever is told of the turn looks here first, and waits for this.
            let mut all = lock(&self.said);
            submitted = thread.submit(Op::Steer { text: said.text.clone() })?;
            let Submitted::Turn(turn) = submitted else { return Ok(submitted) };
            all.push_back((turn, said));
            let mut bytes: usize = all.iter().map(|(_, said)| said.text.len()).sum();
            while (bytes > SAID_BYTES || all.len() > SAID) && all.len() > 1 {
                bytes -= all.pop_front().map_or(0, |(_, said)| said.text.len());
            }
        }
        // It may have come to rest in between.
        self.guard(thread);
        Ok(submitted)
    }

    /// What began a turn; none where another protocol did, or so many have begun since that it is not known any more.
    pub(crate) fn said(&self, turn: TurnId) -> Option<Said> {
        lock(&self.said).iter().find(|(of, _)| *of == turn).map(|(_, said)| said.clone())
    }

    pub(crate) fn follow(&self, thread: ThreadId) {
        *lock(&self.followers).entry(thread).or_default() += 1;
    }

    /// Notes that a client follows a thread no more. Where it was the last, what a turn asks is nobody's to answer.
    pub(crate) fn unfollow(&self, thread: &Arc<Thread>, asked: &[Arc<ApprovalRequest>]) {
        let is_last = {
            let mut followers = lock(&self.followers);
            let left = followers.get(&thread.id()).map_or(0, |count| count.saturating_sub(1));
            match left {
                0 => drop(followers.remove(&thread.id())),
                left => drop(followers.insert(thread.id(), left)),
            }
            left == 0
        };
        if !is_last {
            return;
        }
        let pending = match lock(&self.guarded).contains(&thread.id()) {
            // A question may be on its way to the client that is gone.
            true => thread.pending_approvals(),
            // The turn is another protocol's, which asks its own clients.
            false => asked.to_vec(),
        };
        for request in pending {
            settle(thread, &request, deny(DenialReason::Disconnected), Decider::Client(None));
        }
    }

    fn is_followed(&self, thread: ThreadId) -> bool {
        lock(&self.followers).contains_key(&thread)
    }

    /// Looks after the turns of a thread until none runs: questions that come while no client is there are settled, and a
    /// turn that nobody has followed for too long ends.
    fn guard(self: &Arc<Self>, thread: &Arc<Thread>) {
        {
            let mut guarded = lock(&self.guarded);
            if guarded.contains(&thread.id()) {
                return;
            }
            guarded.push(thread.id());
        }
        let Attachment { events, snapshot, .. } = thread.attach();
        if !self.is_followed(thread.id()) {
            snapshot.pending.iter().for_each(|request| self.fall_back(thread, request));
        }
        tokio::spawn(Arc::clone(self).guarding(Arc::clone(thread), events));
    }

    async fn guarding(self: Arc<Self>, thread: Arc<Thread>, mut events: EventReceiver) {
        let limit = self.manager().config().limits.abandoned_turn;
        let mut unfollowed = Duration::ZERO;
        loop {
            // Cancel-safe: an event that is not taken stays in the log.
            let event = tokio::select! {
                event = events.next() => event,
                () = tokio::time::sleep(ROUND) => {
                    unfollowed = if self.is_followed(thread.id()) { Duration::ZERO } else { unfollowed + ROUND };
                    if let Some(limit) = limit.filter(|limit| unfollowed >= *limit) {
                        let why = Interruption::Abandoned(limit);
                        drop(thread.submit(Op::Interrupt { turn_id: None, why }));
                    }
                    if self.rest_if_idle(&thread) {
                        return;
                    }
                    continue;
                }
            };
            match event {
                Some(Event::ApprovalRequested { request, .. }) if !self.is_followed(thread.id()) => {
                    self.fall_back(&thread, &request);
                }
                Some(Event::TurnEnded { .. }) => {
                    if self.rest_if_idle(&thread) {
                        return;
                    }
                }
                Some(_) => {}
                None => {
                    lock(&self.guarded).retain(|id| *id != thread.id());
                    return;
                }
            }
        }
    }

    /// Ends the looking after where no turn runs or waits.
    fn rest_if_idle(&self, thread: &Thread) -> bool {
        // Under the lock: a turn that is begun from now on has it looked after anew.
        let mut guarded = lock(&self.guarded);
        let now = thread.snapshot();
        let is_idle = now.running.is_none() && now.queued.is_empty();
        if is_idle {
            guarded.retain(|id| *id != thread.id());
        }
        is_idle
    }

    fn fall_back(&self, thread: &Arc<Thread>, request: &ApprovalRequest) {
        let (decision, name) = match self.config.fallback {
            ApprovalFallback::AutoWithinPolicy if request.confined => (Decision::Approve, "auto-within-policy"),
            ApprovalFallback::AutoWithinPolicy => (deny(DenialReason::NotAskable), "auto-within-policy"),
            ApprovalFallback::Deny => (deny(DenialReason::NotAskable), "deny-on-approval"),
        };
        settle(thread, request, decision, Decider::Strategy(name));
    }
}

/// Prompts that are kept for clients that are behind, and bytes of them.
const SAID: usize = 1024;
const SAID_BYTES: usize = 16 << 20;

/// From one look whether a client is there to the next.
const ROUND: Duration = Duration::from_secs(30);

/// Gives core what became of a question. One that comes too late changes nothing.
pub(crate) fn settle(thread: &Arc<Thread>, request: &ApprovalRequest, decision: Decision, by: Decider) {
    if let Err(error) = thread.submit(Op::Approval { id: request.id, decision, by }) {
        tracing::debug!(%error, "a late decision is ignored");
    }
}
