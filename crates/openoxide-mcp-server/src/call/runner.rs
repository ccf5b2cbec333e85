//! The call runner: one task for one `tools/call`. It attaches to a turn, reports its events, asks its questions and
//! answers the call. The turn belongs to core and goes on whatever becomes of the runner.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use openoxide_core::{ApprovalId, ApprovalRequest, Event, Interruption, Op, SteerId, Thread, TurnId};
use openoxide_mcp_protocol::request_state::{Binding, ParkedCall};
use openoxide_mcp_protocol::tools::codex::CODEX;
use openoxide_mcp_protocol::tools::{OPENOXIDE, QUERY};
use openoxide_mcp_protocol::{Era, input_required, request};
use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval_at, sleep_until};

use super::{Shape, turn_result};
use crate::call::CallBinding;
use crate::call::follow;
use crate::call::report::{HEARTBEAT, Reporter};
use crate::call::submit::{SubmitOutcome, TurnHandle};
use crate::connection::Connection;
use crate::connection::calls::{Call, OpenCall};
use crate::connection::questions;
use crate::convert::result::CallResult;
use crate::server::attachments::{AskRight, Attachment};
use crate::server::lifecycle::{OpenRequest, Submitting};
use openoxide_rpc::Responder;

/// The longest wait: a year. Longer is the same as no limit.
const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// What one runner is given.
pub(crate) struct CallSpec {
    pub(crate) connection: Arc<Connection>,
    pub(crate) open: OpenCall,
    pub(crate) responder: Responder,
    /// Answer after this time even if the turn goes on.
    pub(crate) limit: Option<Duration>,
    /// What a parked call is bound to.
    pub(crate) binding: CallBinding,
    /// What its answer looks like.
    pub(crate) shape: Shape,
    /// Dropped when the call has its answer.
    pub(crate) open_request: OpenRequest,
    /// Dropped when the call has got to its turn.
    pub(crate) submitting: Submitting,
}

/// How a call ended.
enum End {
    /// With a result, which becomes an answer when there is room for one.
    Result(CallResult),
    /// With an answer of the protocol's own: questions, or a task.
    Answer(Value),
    /// The client does not want one any more.
    Cancelled,
}

/// Runs a call to its answer. `submit` gets it to its turn.
pub(crate) async fn run(spec: CallSpec, submit: impl Future<Output = SubmitOutcome> + Send) {
    let CallSpec { connection, open, responder, limit, binding, shape, open_request, submitting } = spec;
    let call = Arc::clone(&open.call);
    let work = async {
        let outcome = submit.await;
        drop(submitting);
        if let SubmitOutcome::Turn(handle) = &outcome {
            handle.thread.used_by(call.client.name.as_deref());
        }
        match outcome {
            SubmitOutcome::Result(result) => End::Result(result),
            SubmitOutcome::Cancelled => End::Cancelled,
            SubmitOutcome::Ended(thread, kept) => {
                let result = turn_result::whole(&thread, kept.turn_id).await.unwrap_or(kept);
                End::Result(CallResult::Ended(thread, result))
            }
            SubmitOutcome::Turn(handle) if call.client.takes_tasks && call.era == Era::Modern && !call.is_codex => {
                into_task(&connection, &call, *handle, &open_request, binding).await
            }
            SubmitOutcome::Turn(handle) => {
                CallRunner::new(&connection, &call, *handle, binding, &shape).run(limit).await
            }
        }
    };
    let end = match AssertUnwindSafe(work).catch_unwind().await {
        Ok(end) => end,
        Err(_) => {
            tracing::error!(id = %call.id, "a call runner panicked");
            let message = "internal error: the call could not be completed; the thread can be used again";
            End::Result(CallResult::Invalid(message.to_owned()))
        }
    };
    // A client that does not read has no more answers made for it than it has room for. One that cancels meanwhile wants none.
    let room = match &end {
        End::Cancelled => None,
        End::Answer(_) | End::Result(_) => tokio::select! {
            biased;
            () = call.cancelled.notified() => None,
            // Nobody is left to read it where the queue is closed.
            room = call.out.room_to_answer() => (!call.out.is_closed()).then_some(room),
        },
    };
    let answer = match end {
        End::Result(result) if room.is_some() => Some(shape.result(call.era, &result)),
        End::Answer(answer) => Some(answer),
        End::Cancelled | End::Result(_) => None,
    };
    // The id is free again before the answer is out, so that a client may use it at once.
    drop(open);
    match answer {
        Some(answer) => responder.answer_call(Ok(&answer), &call.gate),
        None => drop(responder),
    }
    drop((room, open_request));
}

/// Answers with a task, which follows the turn from now on.
async fn into_task(
    connection: &Arc<Connection>,
    call: &Arc<Call>,
    handle: TurnHandle,
    open_request: &OpenRequest,
    binding: CallBinding,
) -> End {
    let server = &connection.server;
    let created = server.tasks.create(&connection.principal, handle.thread.id(), handle.turn, call.client.can_be_asked);
    match created {
        Ok(task) => {
            let answer = task.state(&server.tasks).created();
            tokio::spawn(follow::follow(Arc::clone(server), task, handle, open_request.clone()));
            End::Answer(answer)
        }
        Err(error) => {
            tracing::warn!(%error, "a task could not be written, so its call waits for the turn");
            CallRunner::new(connection, call, handle, binding, &Shape::Native).run(None).await
        }
    }
}

/// Serves one call at one turn.
struct CallRunner<'a> {
    connection: &'a Arc<Connection>,
    call: &'a Arc<Call>,
    thread: Arc<Thread>,
    turn: TurnId,
    began: bool,
    /// The steering text that this call gave the turn.
    steer: Option<SteerId>,
    binding: CallBinding,
    shape: &'a Shape,
    start: Option<openoxide_core::Attachment>,
}

impl<'a> CallRunner<'a> {
    fn new(
        connection: &'a Arc<Connection>,
        call: &'a Arc<Call>,
        handle: TurnHandle,
        binding: CallBinding,
        shape: &'a Shape,
    ) -> Self {
        let TurnHandle { thread, turn, attachment, began, steer } = handle;
        Self { connection, call, thread, turn, began, steer, binding, shape, start: Some(attachment) }
    }

    async fn run(mut self, limit: Option<Duration>) -> End {
        let Some(start) = self.start.take() else { return End::Cancelled };
        let (snapshot, mut events) = (start.snapshot, start.events);
        let attachment = self.connection.server.attachments.attach(
            self.thread.id(),
            self.turn,
            self.call.gate.key(),
            self.connection.key,
            self.call.client.can_be_asked,
        );
        let mut reporter =
            Reporter::new(Arc::clone(self.call), Arc::clone(&self.connection.log_level), &self.thread, self.turn);
        // A call that comes back to its parked turn finds it running.
        let begins_thread = matches!(self.binding.tool.as_str(), CODEX | OPENOXIDE | QUERY);
        let mut tells_thread = begins_thread && snapshot.running.is_none() && self.began;
        let mut started = snapshot.started_at.filter(|_| snapshot.running == Some(self.turn));
        if started.is_some() {
            reporter.phase("working");
        } else if snapshot.running.is_some() {
            reporter.phase("waiting for the turn before");
        }
        if let Some(answer) = self.ask_pending(&attachment) {
            attachment.park();
            return End::Answer(answer);
        }
        let now = tokio::time::Instant::now();
        let deadline = limit.filter(|limit| *limit < LONGEST_WAIT).map(|limit| now + limit);
        let mut heartbeat = interval_at(now + HEARTBEAT, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            // Cancel-safe: notifications keep their permit, the sleep is remade from its deadline, `next` takes an
            // event only when it returns it. The turn's own events come first, so that an answer that is there wins
            // over a deadline that has passed.
            tokio::select! {
                biased;
                () = self.call.cancelled.notified() => return self.cancelled(attachment),
                event = events.next() => {
                    let Some(event) = event else {
                        return End::Result(turn_result::cut_short(&self.thread, self.turn).await);
                    };
                    if event.turn_id() != self.turn {
                        continue;
                    }
                    // The turn is on disk by then, and so is the thread: what is named here can be asked for.
                    if std::mem::take(&mut tells_thread) {
                        reporter.thread_started();
                    }
                    if matches!(event, Event::TurnStarted { .. }) {
                        started = Some(Instant::now());
                    }
                    tokio::select! {
                        () = reporter.event(&event) => {}
                        () = self.call.cancelled.notified() => return self.cancelled(attachment),
                    }
                    match event {
                        Event::TurnEnded { result, .. } => {
                            self.withdraw_questions();
                            return End::Result(CallResult::Ended(Arc::clone(&self.thread), result));
                        }
                        Event::ApprovalRequested { .. } => {
                            if let Some(answer) = self.ask_pending(&attachment) {
                                attachment.park();
                                return End::Answer(answer);
                            }
                        }
                        Event::ApprovalSettled { id, .. } => self.settled(id),
                        Event::TurnStarted { .. }
                        | Event::ItemStarted { .. }
                        | Event::ItemDelta { .. }
                        | Event::ItemCompleted { .. }
                        | Event::Usage { .. }
                        | Event::Plan { .. }
                        | Event::Warning { .. } => {}
                    }
                }
                () = attachment.ask_again.notified() => {
                    if let Some(answer) = self.ask_pending(&attachment) {
                        attachment.park();
                        return End::Answer(answer);
                    }
                }
                () = wait_until(deadline) => {
                    self.withdraw_questions();
                    let thread = Arc::clone(&self.thread);
                    return End::Result(CallResult::Running { thread, turn: self.turn, started });
                }
                _ = heartbeat.tick(), if reporter.wants_progress() => reporter.heartbeat(),
            }
        }
    }

    /// Puts every question of the turn that is this call's to put. Returns the answer to park with, in the modern era.
    fn ask_pending(&self, attachment: &Attachment) -> Option<Value> {
        let pending = self.thread.pending_approvals();
        let mut parked = Vec::new();
        for request in pending.iter().filter(|request| request.turn_id == self.turn) {
            match attachment.ask_right(request.id, self.connection.can_answer()) {
                AskRight::Elsewhere => {}
                AskRight::NobodyAskable => {
                    questions::settle_unasked(self.connection.server.approval_strategy, &self.thread, request);
                }
                AskRight::Disconnected => {
                    questions::settle_disconnected(&self.thread, request.id, self.call.client.name.clone());
                }
                AskRight::Ask => match self.call.era {
                    Era::Legacy => {
                        let id = self.connection.questions.enter(&self.thread, request, self.call);
                        let params = self.wording(request);
                        self.call.out.push(self::request(&id, "elicitation/create", &params));
                    }
                    Era::Modern => parked.push((request.id.to_string(), self.wording(request))),
                },
            }
        }
        if parked.is_empty() {
            return None;
        }
        let state = ParkedCall {
            thread_id: self.thread.id().to_string(),
            turn_id: self.turn.to_string(),
            approvals: parked.iter().map(|(id, _)| id.clone()).collect(),
        };
        let sealed = |binding: &Binding<'_>| self.connection.server.seal(&state, binding);
        Some(input_required(parked, self.binding.with(&self.connection.principal, sealed)))
    }

    fn wording(&self, request: &ApprovalRequest) -> Value {
        self.shape.question(request, &self.thread, &self.call.id)
    }

    /// A question is settled, perhaps elsewhere: a client that still shows it is told.
    fn settled(&self, approval: ApprovalId) {
        self.connection.server.attachments.settled(self.thread.id(), self.turn, approval);
        self.connection.questions.withdraw(approval);
    }

    fn withdraw_questions(&self) {
        self.connection.questions.withdraw_call(self.call);
    }

    /// The client cancelled: what it began ends, and so does what nobody watches any more. Steering text that the model
    /// was not given is taken back.
    fn cancelled(self, attachment: Attachment) -> End {
        self.withdraw_questions();
        if let Some(steer) = self.steer
            && let Err(error) = self.thread.submit(Op::Withdraw { steer })
        {
            tracing::debug!(%error, "the thread of a cancelled call is closed");
        }
        let nobody_left = attachment.detach();
        if (self.began || nobody_left)
            && let Err(error) = self.thread.submit(Op::Abandon { turn_id: self.turn, why: Interruption::Cancelled })
        {
            tracing::debug!(%error, "a cancelled turn was not there to interrupt");
        }
        End::Cancelled
    }
}

/// Sleeps until the deadline, for ever without one.
async fn wait_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
