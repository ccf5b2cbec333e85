//! A turn as the work of calls and tasks: core's events and approvals in the words of [`crate::backend`].

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use openoxide_core::{
    ApprovalId, ApprovalRequest, Decider, Event, EventReceiver, Interruption, Op, Snapshot, SteerId, Thread, TurnId,
    TurnResult,
};
use openoxide_mcp_protocol::request_state::WorkName;
use openoxide_mcp_protocol::tools::codex::{self, CODEX};
use openoxide_mcp_protocol::tools::{OPENOXIDE, QUERY};
use openoxide_mcp_protocol::{AskKind, Era};
use serde_json::Value;

use super::report::Reporter;
use super::submit::{Admission, Place};
use super::{Agent, Shape, approvals};
use crate::backend::{Begun, Call, Happening, OpenQuestion, Outcome, Settlement, Work, WorkEvents};
use crate::compat::codex::question as codex_question;
use crate::convert::event::phase_of;
use crate::convert::output;

/// One turn of one thread.
pub(super) struct Turn {
    agent: Arc<Agent>,
    thread: Arc<Thread>,
    turn: TurnId,
    id: String,
}

impl Turn {
    pub(super) fn new(agent: &Arc<Agent>, thread: Arc<Thread>, turn: TurnId) -> Self {
        Self { agent: Arc::clone(agent), id: format!("{}/{turn}", thread.id()), thread, turn }
    }

    fn pending(&self) -> impl Iterator<Item = Arc<ApprovalRequest>> + use<> {
        let turn = self.turn;
        self.thread.pending_approvals().into_iter().filter(move |request| request.turn_id == turn)
    }

    fn find(&self, question: &str) -> Option<Arc<ApprovalRequest>> {
        let id: ApprovalId = question.parse().ok()?;
        self.pending().find(|request| request.id == id)
    }
}

impl Work for Turn {
    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> WorkName {
        super::name(self.thread.id(), self.turn)
    }

    fn questions(&self) -> Vec<OpenQuestion> {
        self.pending().map(|request| OpenQuestion { id: request.id.to_string(), kind: AskKind::Form }).collect()
    }

    fn wording(&self, question: &str, call: Option<&Call>) -> Option<Value> {
        let request = self.find(question)?;
        let as_codex = call
            .filter(|call| codex::is_codex(&call.name))
            .and_then(|call| codex_question(&request, &self.thread.config().cwd, &call.id));
        Some(as_codex.unwrap_or_else(|| approvals::wording(&request)))
    }

    fn settle(&self, question: &str, how: Settlement<'_>, client: Option<&str>) {
        if let Some(request) = self.find(question) {
            let by = Decider::Client(client.map(str::to_owned));
            approvals::settle(&self.thread, &request, how, by, self.agent.strategy);
        }
    }

    fn interrupt(&self, why: Interruption) {
        // Its end is the news.
        if let Err(error) = self.thread.submit(Op::Interrupt { turn_id: Some(self.turn), why }) {
            tracing::debug!(%error, thread = %self.thread.id(), "the turn was not there to interrupt");
        }
    }

    fn attach(self: Arc<Self>, call: &Arc<Call>) -> Begun {
        let attachment = self.thread.attach();
        let (thread, turn, snapshot) = (Arc::clone(&self.thread), self.turn, &attachment.snapshot);
        let admission = if snapshot.running == Some(turn) || snapshot.queued.contains(&turn) {
            Admission::Place(Box::new(Place { thread, turn, attachment, began: true, steer: None }))
        } else if let Some(result) = thread.kept_result(turn) {
            Admission::Ended(thread, result)
        } else {
            use crate::backend::Backend as _;
            return Begun::Answer(self.agent.gone(call, &self.name()));
        };
        self.agent.begun(call, admission, None)
    }
}

/// What happens on a turn, for one call.
pub(super) struct TurnEvents {
    work: Arc<Turn>,
    events: EventReceiver,
    reporter: Reporter,
    shape: Shape,
    /// How it stood when the call came.
    snapshot: Snapshot,
    /// Whether this call's prompt began the turn, so that cancelling the call ends it.
    began: bool,
    /// The steering text that this call gave the turn.
    steer: Option<SteerId>,
    /// Whether the thread is still to be told of.
    tells_thread: bool,
    started: Option<Instant>,
    last: Option<Event>,
    result: Option<Arc<TurnResult>>,
}

impl TurnEvents {
    pub(super) fn new(agent: &Arc<Agent>, call: &Arc<Call>, place: Place, shape: Shape) -> Self {
        let Place { thread, turn, attachment, began, steer } = place;
        let snapshot = attachment.snapshot;
        // A call that comes back to its parked turn finds it running.
        let begins_thread = matches!(call.name.as_str(), CODEX | OPENOXIDE | QUERY);
        Self {
            reporter: Reporter::new(call, &thread, turn, shape.is_codex),
            tells_thread: begins_thread && snapshot.running.is_none() && began,
            started: snapshot.started_at.filter(|_| snapshot.running == Some(turn)),
            work: Arc::new(Turn::new(agent, thread, turn)),
            events: attachment.events,
            shape,
            snapshot,
            began,
            steer,
            last: None,
            result: None,
        }
    }

    fn abandon(&self) {
        let op = Op::Abandon { turn_id: self.work.turn, why: Interruption::Cancelled };
        if let Err(error) = self.work.thread.submit(op) {
            tracing::debug!(%error, "a cancelled turn was not there to interrupt");
        }
    }
}

impl WorkEvents for TurnEvents {
    fn work(&self) -> Arc<dyn Work> {
        Arc::clone(&self.work) as Arc<dyn Work>
    }

    fn open(&mut self, call: &Call) {
        if self.started.is_some() {
            call.phase("working");
        } else if self.snapshot.running.is_some() {
            call.phase("waiting for the turn before");
        }
    }

    fn next(&mut self) -> BoxFuture<'_, Option<Happening>> {
        // Cancel-safe: an event is kept in the poll that takes it.
        Box::pin(async {
            let event = loop {
                let event = self.events.next().await?;
                if event.turn_id() == self.work.turn {
                    break event;
                }
            };
            let happening = match &event {
                Event::TurnStarted { .. } => {
                    self.started = Some(Instant::now());
                    Happening::Other
                }
                Event::TurnEnded { result, .. } => {
                    self.result = Some(Arc::clone(result));
                    Happening::Ended
                }
                Event::ApprovalRequested { .. } => Happening::Asked,
                Event::ApprovalSettled { id, .. } => Happening::Settled(id.to_string()),
                _ => Happening::Other,
            };
            self.last = Some(event);
            Some(happening)
        })
    }

    fn tell<'a>(&'a mut self, call: &'a Call) -> BoxFuture<'a, ()> {
        // The turn is on disk by then, and so is the thread: what is named here can be asked for.
        if std::mem::take(&mut self.tells_thread) {
            self.reporter.thread_started(call);
        }
        Box::pin(async {
            if let Some(event) = &self.last {
                self.reporter.event(call, event).await;
            }
        })
    }

    fn phase(&self) -> Option<String> {
        self.last.as_ref().and_then(phase_of)
    }

    fn unfinished(&self, era: Era) -> Outcome {
        Ok(self.shape.apply(output::running(era, &self.work.thread, self.work.turn, self.started)))
    }

    fn outcome(self: Box<Self>, era: Era) -> BoxFuture<'static, Outcome> {
        let Self { work, shape, result, .. } = *self;
        Box::pin(async move {
            Ok(shape.apply(match result {
                Some(result) => output::ended(era, &work.thread, &result),
                None => output::cut_short(era, &work.thread, work.turn).await,
            }))
        })
    }

    /// What the call began ends, and so does what nobody follows any more. Steering text that the model was not given is
    /// taken back.
    fn cancelled(&self, nobody_left: bool) {
        if let Some(steer) = self.steer
            && let Err(error) = self.work.thread.submit(Op::Withdraw { steer })
        {
            tracing::debug!(%error, "the thread of a cancelled call is closed");
        }
        if self.began || nobody_left {
            self.abandon();
        }
    }
}
