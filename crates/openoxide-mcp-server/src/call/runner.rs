//! The runner of a call: one task for one `tools/call` or `prompts/get`. It attaches to the call's work, has its events told,
//! asks its questions and answers the call. The work goes on whatever becomes of the runner.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openoxide_mcp_protocol::request_state::{Binding, ParkedCall};
use openoxide_mcp_protocol::{Ask, Era, complete, input_required, request};
use openoxide_rpc::Responder;
use serde_json::{Map, Value};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::{CallBinding, follow};
use crate::backend::{Begun, Call, CallKind, Happening, Outcome, Settlement, Work, WorkEvents};
use crate::connection::Connection;
use crate::connection::calls::OpenCall;
use crate::connection::questions::SETTLED;
use crate::server::attachments::{AskRight, Attachment};
use crate::server::lifecycle::{OpenRequest, Submitting};
use crate::server::tasks::Task;

/// Progress is sent at least this often while a call is open.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Why a question is taken back that still waits.
const ANSWERED: &str =
    "the call that asked has its answer; the question waits, and the next call on the thread puts it again";

/// The longest wait: a year. Longer is the same as no limit.
const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// What one runner is given.
pub(super) struct CallSpec {
    pub(super) connection: Arc<Connection>,
    pub(super) open: OpenCall,
    pub(super) responder: Responder,
    pub(super) kind: CallKind,
    /// When it is answered even if the work goes on.
    pub(super) limit: Option<Limit>,
    /// What a parked call is bound to.
    pub(super) binding: CallBinding,
    /// Answers that a call has begun with, by the keys of their questions.
    pub(super) answers: Map<String, Value>,
    /// Dropped when the call has its answer.
    pub(super) open_request: OpenRequest,
    /// Dropped when the call has got to its work.
    pub(super) submitting: Submitting,
}

/// When a call is answered although its work goes on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Limit {
    /// So long after it got to its work: its caller or the operator says so.
    Asked(Duration),
    /// So long after it came: its client would give up.
    Patience { within: Duration, since: Instant },
}

impl Limit {
    /// When that is for a call that gets to its work now.
    fn deadline(self) -> Option<Instant> {
        match self {
            Self::Asked(after) => (after < LONGEST_WAIT).then(|| Instant::now() + after),
            Self::Patience { within, since } => (within < LONGEST_WAIT).then(|| since + within),
        }
    }
}

/// How a runner is done with the work of its call.
enum End {
    /// With an answer for the call.
    Answer(Outcome),
    /// With one that is made when there is room for it.
    Later(BoxFuture<'static, Outcome>),
    /// The client does not want one any more.
    Cancelled,
}

/// Runs a call to its answer. `begun` gets to its work.
pub(super) async fn run(spec: CallSpec, begun: BoxFuture<'static, Begun>) {
    let CallSpec { connection, open, responder, kind, limit, binding, answers, open_request, submitting } = spec;
    let call = Arc::clone(&open.call);
    let failed = || {
        tracing::error!(id = %call.id, "the runner of a call panicked");
        let message = "internal error: the call could not be completed; the thread can be used again";
        kind.failed(call.era, message)
    };
    let work = async {
        let begun = begun.await;
        drop(submitting);
        match begun {
            Begun::Answer(outcome) => End::Answer(outcome),
            Begun::Later(outcome) => End::Later(outcome),
            Begun::Cancelled => End::Cancelled,
            Begun::Work { events, task } => {
                let takes_tasks = call.client.takes_tasks && call.era == Era::Modern;
                let task_after = task.after(connection.server.task_after).filter(|_| takes_tasks);
                let runner = CallRunner {
                    connection: &connection,
                    call: &call,
                    work: events.work(),
                    events,
                    binding,
                    answers,
                    phase: None,
                    open_request: &open_request,
                };
                runner.run(limit, task_after).await
            }
        }
    };
    let end = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| End::Answer(failed()));
    // A client that does not read has no more answers made for it than it has room for. One that cancels meanwhile wants none.
    let room = match &end {
        End::Cancelled => None,
        End::Answer(_) | End::Later(_) => tokio::select! {
            biased;
            () = call.cancelled.notified() => None,
            // Nobody is left to read it where the queue is closed.
            room = call.out.room_to_answer() => (!call.out.is_closed()).then_some(room),
        },
    };
    let answer = match end {
        End::Answer(outcome) => Some(outcome),
        End::Later(outcome) if room.is_some() => {
            Some(AssertUnwindSafe(outcome).catch_unwind().await.unwrap_or_else(|_| failed()))
        }
        End::Later(_) | End::Cancelled => None,
    };
    // The id is free again before the answer is out, so that a client may use it at once.
    drop(open);
    match answer {
        Some(outcome) => {
            let outcome = outcome.map(|result| complete(call.era, result));
            responder.answer_call(outcome.as_ref(), &call.gate);
        }
        None => drop(responder),
    }
    drop((room, open_request));
}

/// One call on its work.
struct CallRunner<'a> {
    connection: &'a Arc<Connection>,
    call: &'a Arc<Call>,
    work: Arc<dyn Work>,
    events: Box<dyn WorkEvents>,
    binding: CallBinding,
    answers: Map<String, Value>,
    /// What goes on, for a person.
    phase: Option<String>,
    /// A task that takes over holds it as well.
    open_request: &'a OpenRequest,
}

impl CallRunner<'_> {
    /// Waits for the work, until `limit`, or until it becomes a task: after `task_after`, or where it asks. None where it
    /// becomes none.
    async fn run(mut self, limit: Option<Limit>, task_after: Option<Duration>) -> End {
        let (key, client) = (self.call.gate.key(), self.call.client.clone());
        let attachment = self.connection.server.attachments.attach(self.work.id(), key, self.connection.key, client);
        let mut may_be_task = task_after.is_some();
        if task_after == Some(Duration::ZERO) {
            match self.create_task() {
                Some(task) => return self.hand_over(&task, attachment),
                None => may_be_task = false,
            }
        }
        self.events.open(self.call);
        let parked = self.ask_pending(&attachment);
        if !parked.is_empty() {
            return self.park(parked, attachment, may_be_task);
        }
        let now = Instant::now();
        let mut deadline = limit.and_then(Limit::deadline);
        // A caller that waits for less gets its task by then.
        let mut task_at = task_after.map(|after| deadline.map_or(now + after, |limit| limit.min(now + after)));
        let mut heartbeat = interval_at(now + HEARTBEAT, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            // Cancel-safe: notifications keep their permit, the sleeps are remade from their deadlines, `next` takes an
            // event only when it returns it. The work's own events come first, so that an answer that is there wins
            // over a deadline that has passed, and a question over both.
            tokio::select! {
                biased;
                () = self.call.cancelled.notified() => return self.cancelled(attachment),
                happening = self.events.next() => {
                    let Some(happening) = happening else { return self.ended() };
                    if let Some(phase) = self.events.phase() {
                        self.phase = Some(phase);
                    }
                    tokio::select! {
                        () = self.events.tell(self.call) => {}
                        () = self.call.cancelled.notified() => return self.cancelled(attachment),
                    }
                    match happening {
                        Happening::Ended => return self.ended(),
                        Happening::Asked => {
                            let parked = self.ask_pending(&attachment);
                            if !parked.is_empty() {
                                return self.park(parked, attachment, may_be_task);
                            }
                        }
                        Happening::Settled(question) => {
                            attachment.settled(&question);
                            self.connection.questions.withdraw(self.work.id(), &question);
                        }
                        Happening::Other => {}
                    }
                }
                () = attachment.ask_again.notified() => {
                    let parked = self.ask_pending(&attachment);
                    if !parked.is_empty() {
                        return self.park(parked, attachment, may_be_task);
                    }
                }
                () = wait_until(task_at) => {
                    task_at = None;
                    // A client whose input is over cannot ask for a task any more.
                    if self.connection.can_answer() && let Some(task) = self.create_task() {
                        return self.hand_over(&task, attachment);
                    }
                    may_be_task = false;
                }
                () = wait_until(deadline) => match limit {
                    // Whoever ends its input and stays to read has all the patience there is.
                    Some(Limit::Patience { .. }) if !self.connection.can_answer() => deadline = None,
                    _ => {
                        self.withdraw_questions(ANSWERED);
                        return End::Answer(self.events.unfinished(self.call.era));
                    }
                },
                _ = heartbeat.tick(), if self.call.wants_progress() => self.call.heartbeat(),
            }
        }
    }

    /// Makes a task for the work; none where it could not be written down.
    fn create_task(&self) -> Option<Arc<Task>> {
        let (tasks, client) = (&self.connection.server.tasks, &self.call.client);
        match tasks.create(&self.call.principal, self.work.name(), client.can_be_asked) {
            Ok(task) => Some(task),
            Err(error) => {
                tracing::warn!(%error, "a task could not be written, so its call waits for the work");
                None
            }
        }
    }

    /// Answers with a task, which follows the work from now on.
    fn hand_over(self, task: &Arc<Task>, attachment: Attachment) -> End {
        let server = &self.connection.server;
        let answer = task.created(&server.tasks, self.phase);
        // Before the call leaves, so that somebody is always there to be asked.
        let following = follow::attach(server, &*self.work, self.call.client.clone());
        drop(attachment);
        let (server, task, open) = (Arc::clone(server), Arc::clone(task), self.open_request.clone());
        tokio::spawn(follow::follow(server, task, following, self.events, open));
        End::Answer(Ok(answer))
    }

    /// Answers with questions: in the state of a task where there may be one, else in a result to come back from.
    fn park(self, parked: Vec<(String, Ask)>, attachment: Attachment, may_be_task: bool) -> End {
        if may_be_task && let Some(task) = self.create_task() {
            return self.hand_over(&task, attachment);
        }
        let state = ParkedCall { work: self.work.name(), approvals: parked.iter().map(|(id, _)| id.clone()).collect() };
        let sealed = |binding: &Binding<'_>| self.connection.server.seal(&state, binding);
        attachment.park();
        End::Answer(Ok(input_required(parked, self.binding.with(&self.connection.principal, sealed))))
    }

    fn ended(self) -> End {
        self.withdraw_questions(SETTLED);
        End::Later(self.events.outcome(self.call.era))
    }

    /// Puts every question of the work that is this call's to put. Returns those to park with, in the modern era.
    fn ask_pending(&mut self, attachment: &Attachment) -> Vec<(String, Ask)> {
        let client = self.call.client.name.as_deref();
        for question in self.work.questions() {
            if let Some(answer) = self.answers.remove(&question.id) {
                self.work.settle(&question.id, Settlement::Answer(&answer), client);
            }
        }
        let mut parked = Vec::new();
        for question in self.work.questions() {
            match attachment.ask_right(&question.id, question.kind, self.connection.can_answer()) {
                AskRight::Elsewhere => {}
                AskRight::NobodyAskable => {
                    self.work.settle(&question.id, Settlement::NobodyAskable, client);
                }
                AskRight::Disconnected => {
                    self.work.settle(&question.id, Settlement::Disconnected, client);
                }
                AskRight::Ask => {
                    let Some(params) = self.work.wording(&question.id, Some(self.call)) else { continue };
                    match self.call.era {
                        Era::Legacy => {
                            let id = self.connection.questions.enter(&self.work, &question.id, self.call);
                            self.call.out.push(request(&id, question.kind.method(), &params));
                        }
                        Era::Modern => parked.push((question.id, Ask { kind: question.kind, params })),
                    }
                }
            }
        }
        parked
    }

    /// The client need not show the questions of this call any more.
    fn withdraw_questions(&self, why: &str) {
        self.connection.questions.withdraw_call(self.call, why);
    }

    fn cancelled(self, attachment: Attachment) -> End {
        self.withdraw_questions("the call that asked was cancelled");
        let nobody_left = attachment.detach();
        // A client that has waited too long still wants the work, which goes on like any that nobody follows.
        if !self.call.has_timed_out() {
            self.events.cancelled(nobody_left);
        }
        End::Cancelled
    }
}

/// Sleeps until the deadline, for ever without one.
async fn wait_until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
