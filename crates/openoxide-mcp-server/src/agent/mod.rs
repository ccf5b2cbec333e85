//! The product's backend: the tools that run turns on the threads of core, and those threads as resources.
//!
//! A call is read into core's words ([`submit`]), gets to a [`turn`], and what happens there is told by [`report`]. What the
//! turn asks for is worded and settled in [`approvals`]. How calls, questions and tasks are kept is not known here.

mod approvals;
mod report;
mod submit;
mod turn;

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use openoxide_core::{CoreError, Interruption, ThreadChange, ThreadId, ThreadManager, TurnId, TurnResult};
use openoxide_mcp_protocol::request_state::WorkName;
use openoxide_mcp_protocol::tools::{ToolCall, ToolCallError, ToolSet, codex};
use openoxide_mcp_protocol::{CallStatus, Description, Era, Tool, WireError, agent_description};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::backend::{
    Backend, Begun, Call, CallKind, Change, Changed, List, Outcome, Prepared, PreparedCall, Refusal, Standing, Work,
};
use crate::compat::codex::result as codex_result;
use crate::convert::{choices, output, resources};
use crate::principal::Principal;
use submit::{Admission, Reply};
use turn::{Turn, TurnEvents};

/// What becomes of a question where no attached caller can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApprovalStrategy {
    /// What stays within the sandbox is done; what would leave it, or is not confined at all, is denied.
    #[default]
    AutoWithinPolicy,
    /// Every question is denied.
    DenyOnApproval,
}

impl ApprovalStrategy {
    /// Its name in rollouts.
    fn name(self) -> &'static str {
        match self {
            Self::AutoWithinPolicy => "auto-within-policy",
            Self::DenyOnApproval => "deny-on-approval",
        }
    }
}

/// See the module.
pub(crate) struct Agent {
    this: Weak<Self>,
    manager: Arc<ThreadManager>,
    strategy: ApprovalStrategy,
    tools: ToolSet,
}

impl Agent {
    /// Runs turns on the threads of `manager`.
    pub(crate) fn new(manager: Arc<ThreadManager>, strategy: ApprovalStrategy, codex: bool) -> Arc<Self> {
        let tools = ToolSet::new(choices::offer(manager.config()));
        let tools = if codex { tools.with_codex() } else { tools };
        Arc::new_cyclic(|this| Self { this: Weak::clone(this), manager, strategy, tools })
    }

    fn this(&self) -> Arc<Self> {
        self.this.upgrade().expect("whoever calls holds the agent")
    }

    /// Where a call got to, in the words of its runner. `named_thread` is the thread that a call of Codex's tools names.
    fn begun(self: &Arc<Self>, call: &Arc<Call>, admission: Admission, named_thread: Option<String>) -> Begun {
        let (era, shape) = (call.era, Shape::of(call, named_thread));
        match admission {
            Admission::Answer(answer) => Begun::Answer(Ok(shape.apply(answer))),
            Admission::Cancelled => Begun::Cancelled,
            Admission::Ended(thread, kept) => Begun::Later(Box::pin(async move {
                let result = output::whole(&thread, kept.turn_id).await.unwrap_or(kept);
                Ok(shape.apply(output::ended(era, &thread, &result)))
            })),
            Admission::Place(place) => {
                place.thread.used_by(call.client.name.as_deref());
                let may_be_task = !shape.is_codex;
                Begun::Work { events: Box::new(TurnEvents::new(self, call, *place, shape)), may_be_task }
            }
        }
    }
}

/// What results of a call look like: ours, or those of Codex.
#[derive(Debug, Clone)]
struct Shape {
    is_codex: bool,
    named_thread: Option<String>,
}

impl Shape {
    fn of(call: &Call, named_thread: Option<String>) -> Self {
        Self { is_codex: codex::is_codex(&call.name), named_thread }
    }

    fn apply(&self, answer: Value) -> Value {
        if self.is_codex { codex_result(answer, self.named_thread.as_deref()) } else { answer }
    }
}

impl Backend for Agent {
    fn description(&self) -> Description {
        agent_description()
    }

    fn tools(&self) -> &[Tool] {
        self.tools.list()
    }

    fn prepare(&self, kind: CallKind, name: &str, arguments: Option<&RawValue>) -> Prepared {
        if kind == CallKind::Prompt {
            let message = format!("unknown prompt {name:?}; this server has no prompts");
            return Err(Refusal::Error(WireError::invalid_params(message)));
        }
        match self.tools.parse(name, arguments) {
            Ok(tool_call) => Ok(Box::new(PreparedTurn { agent: self.this(), tool_call })),
            Err(ToolCallError::UnknownTool(message)) => Err(Refusal::Error(WireError::invalid_params(message))),
            Err(ToolCallError::BadArguments(message)) => Err(Refusal::Result(message)),
        }
    }

    fn work(&self, name: &WorkName) -> Option<Arc<dyn Work>> {
        let (thread, turn) = ids(name)?;
        // A turn that goes on is in memory.
        let thread = self.manager.in_memory(thread)?;
        Some(Arc::new(Turn::new(&self.this(), thread, turn)))
    }

    fn gone(&self, call: &Call, name: &WorkName) -> Outcome {
        let why = "the turn that asked was interrupted; its questions are void. Continue the thread with a new prompt";
        let thread = name.get(THREAD).and_then(Value::as_str).unwrap_or_default().to_owned();
        let answer = output::failed_on(Era::Modern, thread, CallStatus::Interrupted, why);
        Ok(Shape::of(call, None).apply(answer))
    }

    fn standing(&self, name: &WorkName) -> Standing {
        let over = |answer| Standing::Over(Ok(answer));
        let Some((thread_id, turn_id)) = ids(name) else {
            return over(output::lost(String::new(), "its record names no turn"));
        };
        let lost = |why: &str| over(output::lost(thread_id.to_string(), why));
        let thread = match self.manager.get_or_load(thread_id) {
            Ok(thread) => thread,
            Err(CoreError::ThreadBusy { .. }) => {
                let message = Some("another process works on it".to_owned());
                return Standing::Working { message, questions: Vec::new() };
            }
            Err(error) => return lost(&error.to_string()),
        };
        let ended = |result: Arc<TurnResult>| over(output::ended(Era::Modern, &thread, &result));
        if let Some(result) = thread.result_of(turn_id) {
            return ended(result);
        }
        let now = thread.attach().snapshot;
        if now.running != Some(turn_id) && !now.queued.contains(&turn_id) {
            // It may have ended in between.
            return match thread.result_of(turn_id) {
                Some(result) => ended(result),
                None => lost("the program ended before the turn did"),
            };
        }
        Turn::new(&self.this(), thread, turn_id).standing()
    }

    fn work_meta(&self, name: &WorkName) -> Option<Value> {
        let (thread, turn) = ids(name)?;
        Some(json!({ "threadId": thread, "turnId": turn }))
    }

    fn question_timeout(&self) -> Duration {
        self.manager.config().approval_timeout
    }

    fn abandoned_after(&self) -> Option<Duration> {
        self.manager.config().limits.abandoned_turn
    }

    fn resources(&self, principal: &Principal, cursor: Option<&str>) -> Outcome {
        resources::list(&self.manager, principal, cursor)
    }

    fn read_resource(&self, principal: &Principal, era: Era, uri: &str) -> Outcome {
        resources::read(&self.manager, principal, uri, era)
    }

    fn has_resource(&self, uri: &str) -> bool {
        resources::exists(uri)
    }

    fn resource_templates(&self) -> Value {
        resources::templates()
    }

    fn changes(&self, principal: &Principal) -> BoxStream<'static, Change> {
        let principal = principal.clone();
        let may_know = move |change: &ThreadChange| change.id.is_none() || principal.may_use(change.owner.as_deref());
        stream::unfold(self.manager.changes(), |mut changes| async move { Some((changes.next().await?, changes)) })
            .filter(move |change| std::future::ready(may_know(change)))
            .map(|change| Change {
                list: change.is_new.then_some(List::Resources),
                resources: resources::touched_by(&change).map_or(Changed::Any, |uris| Changed::Some(uris.into())),
            })
            .boxed()
    }

    fn interrupt_all<'a>(&'a self, why: &'a Interruption) -> BoxFuture<'a, ()> {
        Box::pin(self.manager.end_all(why))
    }

    fn shut_down<'a>(&'a self, why: &'a Interruption) -> BoxFuture<'a, ()> {
        Box::pin(self.manager.shutdown(why))
    }
}

const THREAD: &str = "thread_id";
const TURN: &str = "turn_id";

/// What finds a turn again.
fn name(thread: ThreadId, turn: TurnId) -> WorkName {
    WorkName::from_iter([(THREAD.to_owned(), json!(thread)), (TURN.to_owned(), json!(turn))])
}

fn ids(name: &WorkName) -> Option<(ThreadId, TurnId)> {
    let field = |key| name.get(key).and_then(Value::as_str);
    Some((field(THREAD)?.parse().ok()?, field(TURN)?.parse().ok()?))
}

/// A call that is going to start or continue a thread.
struct PreparedTurn {
    agent: Arc<Agent>,
    tool_call: ToolCall,
}

impl PreparedCall for PreparedTurn {
    fn wait(&self) -> Option<Duration> {
        // More than can be told is more than anybody lives.
        self.tool_call.wait_seconds().map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    fn too_late(&self, era: Era) -> Outcome {
        Ok(output::refused(era, self.tool_call.thread_id(), &CoreError::Ending))
    }

    fn begin(self: Box<Self>, call: &Arc<Call>) -> BoxFuture<'static, Begun> {
        let Self { agent, tool_call } = *self;
        let (manager, principal, era) = (Arc::clone(&agent.manager), call.principal.clone(), call.era);
        let named_thread = tool_call.thread_id().map(str::to_owned);
        let admission: BoxFuture<'static, Admission> = match tool_call {
            // Here and not in the future: prompts of one thread queue in the order they came.
            ToolCall::Reply(params) => match submit::reply(&manager, &principal, era, params) {
                Reply::Now(admission) => Box::pin(std::future::ready(admission)),
                Reply::Later(admission) => Box::pin(submit::unless_cancelled(Arc::clone(call), admission)),
            },
            ToolCall::Start(params) => Box::pin(async move { submit::start(&manager, &principal, era, params) }),
            ToolCall::Query(params) => Box::pin(submit::query_in_background(manager, principal, era, params)),
        };
        let call = Arc::clone(call);
        Box::pin(async move { agent.begun(&call, admission.await, named_thread) })
    }
}
