//! The product's backend: the tools that run turns on the threads of core, and those threads as resources.
//!
//! A call is read into core's words ([`submit`]), gets to a [`turn`], and what happens there is told by [`report`]. What the
//! turn asks for is settled in [`approvals`], and [`shape`] says what its results and questions look like. How calls, questions and tasks are kept is not known here.

mod approvals;
mod naming;
mod report;
mod shape;
mod submit;
mod turn;
mod turn_result;

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use openoxide_core::{CoreError, Interruption, Thread, ThreadChange, ThreadManager, TurnResult};
use openoxide_mcp_protocol::request_state::WorkName;
use openoxide_mcp_protocol::tools::{ToolCall, ToolCallError, ToolFamilies, ToolSet};
use openoxide_mcp_protocol::{Description, Era, Tool, WireError, agent_description};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::backend::{
    Backend, Begun, Call, CallKind, Change, Changed, List, Outcome, Prepared, PreparedCall, Recent, Refusal, Standing,
    Work,
};
use crate::convert::result::CallResult;
use crate::convert::{choices, resources};
use crate::principal::Principal;
pub use approvals::ApprovalStrategy;
use naming::Named;
use shape::Shape;
use submit::{Reply, SubmitOutcome};
use turn::Turn;

/// See the module.
pub(crate) struct Agent {
    this: Weak<Self>,
    manager: Arc<ThreadManager>,
    strategy: ApprovalStrategy,
    tools: ToolSet,
}

impl Agent {
    /// Runs turns on the threads of `manager`.
    pub(crate) fn new(manager: Arc<ThreadManager>, strategy: ApprovalStrategy, families: ToolFamilies) -> Arc<Self> {
        let tools = ToolSet::new(choices::of(manager.config())).with(families);
        Arc::new_cyclic(|this| Self { this: Weak::clone(this), manager, strategy, tools })
    }

    /// Whether tokens tell several callers apart.
    fn has_many_callers(&self) -> bool {
        self.manager.config().limits.owners > 1
    }

    fn this(&self) -> Arc<Self> {
        self.this.upgrade().expect("whoever calls holds the agent")
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
            Ok(tool_call) if self.has_many_callers() && tool_call.lacks_directory() => Err(Refusal::Result(
                "cwd is missing or relative, and this server has several callers, so that its own directory is not yours; send cwd, \
                 the absolute path of the directory to work in"
                    .to_owned(),
            )),
            Ok(tool_call) => Ok(Box::new(PreparedTurn { agent: self.this(), tool: name.to_owned(), tool_call })),
            Err(ToolCallError::UnknownTool(message)) => Err(Refusal::Error(WireError::invalid_params(message))),
            Err(ToolCallError::BadArguments(message)) => Err(Refusal::Result(message)),
        }
    }

    fn work(&self, name: &WorkName) -> Option<Arc<dyn Work>> {
        let (thread, turn) = turn::ids(name)?;
        // A turn that goes on is in memory.
        let thread = self.manager.in_memory(thread)?;
        Some(Arc::new(Turn::new(thread, turn, self.strategy)))
    }

    fn gone(&self, call: &Call, name: &WorkName) -> Outcome {
        turn::gone(call, name)
    }

    fn standing(&self, name: &WorkName) -> Standing {
        let over = |result: CallResult| Standing::Over(Ok(result.to_wire(Era::Modern)));
        let Some((thread_id, turn_id)) = turn::ids(name) else {
            return Standing::Over(Err(WireError::internal("the record of the task names no turn")));
        };
        let lost = |why: &str| {
            let why = format!(
                "The turn was interrupted: {why}. What it did until then stands. Continue the thread with openoxide-reply"
            );
            over(CallResult::interrupted(thread_id.to_string(), &why))
        };
        let thread = match self.manager.get_or_load(thread_id) {
            Ok(thread) => thread,
            Err(CoreError::ThreadBusy { .. }) => {
                let message = Some("another process works on it".to_owned());
                return Standing::Working { message, questions: Vec::new() };
            }
            Err(error) => return lost(&error.to_string()),
        };
        let ended = |thread: Arc<Thread>, result: Arc<TurnResult>| over(CallResult::Ended(thread, result));
        if let Some(result) = thread.result_of(turn_id) {
            return ended(thread, result);
        }
        let now = thread.snapshot();
        if now.running != Some(turn_id) && !now.queued.contains(&turn_id) {
            // It may have ended in between.
            return match thread.result_of(turn_id) {
                Some(result) => ended(thread, result),
                None => lost("the program ended before the turn did"),
            };
        }
        Turn::new(thread, turn_id, self.strategy).standing()
    }

    fn work_title(&self, name: &WorkName) -> Option<String> {
        Some(format!("thread {}", turn::ids(name)?.0))
    }

    fn work_meta(&self, name: &WorkName) -> Option<Value> {
        let (thread, turn) = turn::ids(name)?;
        Some(json!({ "threadId": thread.to_string(), "turnId": turn.to_string() }))
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

/// A call that is going to start or continue a thread.
struct PreparedTurn {
    agent: Arc<Agent>,
    tool: String,
    tool_call: ToolCall,
}

impl PreparedCall for PreparedTurn {
    fn wait(&self) -> Option<Duration> {
        // More than can be told is more than anybody lives.
        self.tool_call.wait_seconds().map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    /// Hosts that were made for Codex know no tool that fetches a result.
    fn may_answer_early(&self) -> bool {
        Shape::of(&self.tool, &self.tool_call) == Shape::Native
    }

    fn too_late(&self, era: Era) -> Outcome {
        let thread = self.tool_call.thread_id().filter(|name| *name != naming::LAST);
        let refused = CallResult::refused(thread, CoreError::Ending);
        Ok(Shape::of(&self.tool, &self.tool_call).result(era, &refused))
    }

    fn begin(self: Box<Self>, call: &Arc<Call>) -> BoxFuture<'static, Begun> {
        let Self { agent, tool, tool_call } = *self;
        let (manager, principal) = (Arc::clone(&agent.manager), call.principal.clone());
        let shape = Shape::of(&tool, &tool_call);
        let outcome: BoxFuture<'static, SubmitOutcome> = match tool_call {
            // Here and not in the future: prompts of one thread queue in the order they came.
            ToolCall::Reply(mut params) => {
                let named = match shape {
                    Shape::Native => naming::find(call, &manager, &params.thread_id, params.prompt.is_some()),
                    Shape::Codex { .. } => Named::Now(Ok(params.thread_id.clone())),
                };
                match named {
                    Named::Now(Err(refused)) => Box::pin(std::future::ready(refused)),
                    Named::Now(Ok(thread)) => {
                        params.thread_id = thread;
                        match submit::reply(&manager, &principal, params) {
                            Reply::Now(outcome) => {
                                naming::note(call, &outcome);
                                Box::pin(std::future::ready(outcome))
                            }
                            Reply::Later(outcome) => continued(call, outcome),
                        }
                    }
                    Named::Later(found) => {
                        let reply = async move {
                            let (found, slot) = found.await;
                            params.thread_id = match found {
                                Ok(thread) => thread,
                                Err(refused) => return refused,
                            };
                            let reply = submit::reply(&manager, &principal, params);
                            drop(slot);
                            match reply {
                                Reply::Now(outcome) => outcome,
                                Reply::Later(outcome) => outcome.await,
                            }
                        };
                        continued(call, Box::pin(reply))
                    }
                }
            }
            ToolCall::Start(params) => {
                let slot = call.recent.as_ref().map(Recent::reserve);
                Box::pin(async move {
                    let outcome = submit::start(&manager, &principal, *params);
                    naming::note_in(slot, &outcome);
                    outcome
                })
            }
            ToolCall::Query(mut params) => {
                let named = params.thread_id.as_deref().map(|name| naming::find(call, &manager, name, true));
                let slot = call.recent.as_ref().map(Recent::reserve);
                Box::pin(async move {
                    let found = match named {
                        None => None,
                        Some(Named::Now(found)) => Some(found),
                        Some(Named::Later(found)) => Some(found.await.0),
                    };
                    params.thread_id = match found.transpose() {
                        Ok(thread) => thread,
                        Err(refused) => return refused,
                    };
                    let outcome = submit::query_in_background(manager, principal, params).await;
                    naming::note_in(slot, &outcome);
                    outcome
                })
            }
        };
        let call = Arc::clone(call);
        Box::pin(async move { turn::begun(&call, outcome.await, shape, agent.strategy) })
    }
}

/// Where a reply gets to that has to wait, unless it is cancelled.
fn continued(call: &Arc<Call>, outcome: BoxFuture<'static, SubmitOutcome>) -> BoxFuture<'static, SubmitOutcome> {
    let call = Arc::clone(call);
    Box::pin(async move {
        let outcome = submit::unless_cancelled(&call, outcome).await;
        naming::note(&call, &outcome);
        outcome
    })
}
