//! A turn as the work of calls and tasks: core's events and approvals in the words of [`crate::backend`].

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use openoxide_core::{
    ApprovalId, ApprovalRequest, Event, EventReceiver, Interruption, Op, Snapshot, SteerId, Thread, ThreadId, TurnId,
    TurnItem, TurnResult,
};
use openoxide_mcp_protocol::request_state::WorkName;
use openoxide_mcp_protocol::tools::codex::CODEX;
use openoxide_mcp_protocol::tools::{OPENOXIDE, QUERY};
use openoxide_mcp_protocol::{AskKind, CallMeta, Era, LogLevel, LogMessage};
use serde_json::{Value, json};

use super::approvals::{ApprovalStrategy, settle};
use super::report::Reporter;
use super::shape::Shape;
use super::submit::{SubmitOutcome, TurnHandle};
use super::turn_result;
use crate::backend::{Begun, Call, Happening, OpenQuestion, Outcome, Settlement, TaskRule, Work, WorkEvents};
use crate::convert::event::{EventData, asking, doing, phase_of};
use crate::convert::question;
use crate::convert::result::CallResult;

const THREAD: &str = "thread_id";
const TURN: &str = "turn_id";

/// The thread and the turn that a name tells.
pub(super) fn ids(name: &WorkName) -> Option<(ThreadId, TurnId)> {
    let field = |key| name.get(key).and_then(Value::as_str);
    Some((field(THREAD)?.parse().ok()?, field(TURN)?.parse().ok()?))
}

/// The answer to a call that comes back to a turn that is gone.
pub(super) fn gone(call: &Call, name: &WorkName) -> Outcome {
    let why = "the turn that asked was interrupted; its questions are void. Continue the thread with a new prompt";
    let thread = name.get(THREAD).and_then(Value::as_str).unwrap_or_default();
    Ok(Shape::of_tool(&call.name).result(call.era, &CallResult::interrupted(thread.to_owned(), why)))
}

/// Where a call got to, in the words of its runner.
pub(super) fn begun(call: &Arc<Call>, outcome: SubmitOutcome, shape: Shape, strategy: ApprovalStrategy) -> Begun {
    let era = call.era;
    match outcome {
        SubmitOutcome::Result(result) => Begun::Answer(Ok(shape.result(era, &result))),
        SubmitOutcome::Cancelled => Begun::Cancelled,
        SubmitOutcome::Ended(thread, kept) => Begun::Later(Box::pin(async move {
            let result = turn_result::whole(&thread, kept.turn_id).await.unwrap_or(kept);
            Ok(shape.result(era, &CallResult::Ended(thread, result)))
        })),
        SubmitOutcome::Turn(handle) => {
            handle.thread.used_by(call.client.name.as_deref());
            let task = match (&shape, call.name.as_str()) {
                // Codex's clients know no tasks.
                (Shape::Codex { .. }, _) => TaskRule::Never,
                (Shape::Native, QUERY) => TaskRule::VerySlow,
                (Shape::Native, _) => TaskRule::Slow,
            };
            Begun::Work { events: Box::new(TurnEvents::new(call, *handle, shape, strategy)), task }
        }
    }
}

/// One turn of one thread.
pub(super) struct Turn {
    thread: Arc<Thread>,
    turn: TurnId,
    id: String,
    strategy: ApprovalStrategy,
}

impl Turn {
    pub(super) fn new(thread: Arc<Thread>, turn: TurnId, strategy: ApprovalStrategy) -> Self {
        Self { id: format!("{}/{turn}", thread.id()), thread, turn, strategy }
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
        let (thread, turn) = (json!(self.thread.id().to_string()), json!(self.turn.to_string()));
        WorkName::from_iter([(THREAD.to_owned(), thread), (TURN.to_owned(), turn)])
    }

    fn questions(&self) -> Vec<OpenQuestion> {
        self.pending().map(|request| OpenQuestion { id: request.id.to_string(), kind: AskKind::Form }).collect()
    }

    fn wording(&self, question: &str, call: Option<&Call>) -> Option<Value> {
        let request = self.find(question)?;
        // Words are made to be put to somebody at once.
        self.thread.put_question(request.id);
        Some(match call {
            Some(call) => Shape::of_tool(&call.name).question(&request, &self.thread, &call.id),
            None => question::to_wire(&request),
        })
    }

    fn settle(&self, question: &str, how: Settlement<'_>, client: Option<&str>) -> bool {
        let request = self.find(question);
        request.is_some_and(|request| settle(&self.thread, &request, how, client, self.strategy))
    }

    fn tell_late(&self, call: &Call) {
        // Codex's clients know no such message.
        if Shape::of_tool(&call.name) != Shape::Native || !call.wants(LogLevel::Warning) {
            return;
        }
        let message = "a question was settled by somebody else before your answer came, which changed nothing";
        let meta = CallMeta {
            request_id: call.id.clone(),
            thread_id: self.thread.id().to_string(),
            turn_id: self.turn.to_string(),
        };
        let data = EventData::Warning { message };
        let message = LogMessage { level: LogLevel::Warning, logger: "openoxide", data: &data, meta: Some(&meta) };
        call.push("notifications/message", &message);
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
        let outcome = if snapshot.running == Some(turn) || snapshot.queued.contains(&turn) {
            SubmitOutcome::Turn(Box::new(TurnHandle { thread, turn, attachment, began: true, steer: None }))
        } else if let Some(result) = thread.kept_result(turn) {
            SubmitOutcome::Ended(thread, result)
        } else {
            return Begun::Answer(gone(call, &self.name()));
        };
        begun(call, outcome, Shape::of_tool(&call.name), self.strategy)
    }
}

/// What happens on a turn, for one call.
struct TurnEvents {
    work: Arc<Turn>,
    events: EventReceiver,
    reporter: Reporter,
    shape: Shape,
    /// How it stood when the call came.
    snapshot: Snapshot,
    /// What the turn was at then.
    open: Option<Arc<TurnItem>>,
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
    fn new(call: &Call, handle: TurnHandle, shape: Shape, strategy: ApprovalStrategy) -> Self {
        let TurnHandle { thread, turn, attachment, began, steer } = handle;
        let snapshot = attachment.snapshot;
        // A call that comes back to its parked turn finds it running.
        let begins_thread = matches!(call.name.as_str(), CODEX | OPENOXIDE | QUERY);
        Self {
            reporter: Reporter::new(call, &thread, turn, shape != Shape::Native),
            tells_thread: begins_thread && snapshot.running.is_none() && began,
            started: snapshot.started_at.filter(|_| snapshot.running == Some(turn)),
            work: Arc::new(Turn::new(thread, turn, strategy)),
            events: attachment.events,
            open: attachment.open_items.last().map(|open| Arc::clone(&open.item)),
            shape,
            snapshot,
            began,
            steer,
            last: None,
            result: None,
        }
    }

    /// The phase that the turn was in when the call came.
    fn going_on(&self) -> String {
        let asked = self.snapshot.pending.iter().find(|request| request.turn_id == self.work.turn);
        let asked = asked.map(|request| asking(request));
        let open = self.open.as_deref().map(doing);
        asked.or(open).unwrap_or_else(|| "thinking".to_owned())
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
            call.phase(self.going_on());
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
            self.reporter.thread_started(call, self.shape.ignored());
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
        let (thread, turn, started) = (Arc::clone(&self.work.thread), self.work.turn, self.started);
        Ok(self.shape.result(era, &CallResult::Running { thread, turn, started }))
    }

    fn outcome(self: Box<Self>, era: Era) -> BoxFuture<'static, Outcome> {
        let Self { work, shape, result, .. } = *self;
        Box::pin(async move {
            let result = match result {
                Some(result) => CallResult::Ended(Arc::clone(&work.thread), result),
                None => turn_result::cut_short(&work.thread, work.turn).await,
            };
            Ok(shape.result(era, &result))
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
