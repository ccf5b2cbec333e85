//! `update_plan`: the model's own list of steps, told to whoever watches.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use openoxide_llm::ToolSpec;
use serde::Deserialize;
use serde_json::json;

use super::ToolEnv;
use super::args::Args;
use super::tool::{PreparedCall, ToolAccess, ready};
use super::{CallOutcome, Prepared, ToolCall};
use crate::{ItemStatus, PlanStatus, PlanStep};

/// Its name.
const NAME: &str = "update_plan";

/// What a call of it shows.
const SUMMARY: &str = "updating the plan";

/// What is offered to the model.
fn spec() -> ToolSpec {
    ToolSpec::Function {
        name: NAME.to_owned(),
        description: "Sets the plan of a task of several steps. At most one step is in progress.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "explanation": {"type": "string", "description": "Why the plan changed."},
                "plan": {
                    "type": "array",
                    "description": "All steps, in order.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "step": {"type": "string"},
                            "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]}
                        },
                        "required": ["step", "status"],
                        "additionalProperties": false
                    }
                }
            },
            "required": ["plan"],
            "additionalProperties": false
        }),
    }
}

/// A step as the model writes it.
#[derive(Deserialize)]
struct Step {
    step: String,
    status: Status,
}

/// How it stands.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
}

impl From<Step> for PlanStep {
    fn from(Step { step, status }: Step) -> Self {
        let status = match status {
            Status::Pending => PlanStatus::Pending,
            Status::InProgress => PlanStatus::InProgress,
            Status::Completed => PlanStatus::Completed,
        };
        Self { step, status }
    }
}

/// See the module.
pub(super) struct Tool;

impl super::tool::Tool for Tool {
    fn spec(&self) -> ToolSpec {
        spec()
    }

    fn access(&self) -> ToolAccess {
        ToolAccess::Read
    }

    fn gives_pictures(&self) -> bool {
        false
    }

    fn parse(&self, _: &ToolEnv, call: &ToolCall) -> Result<Box<dyn PreparedCall>, String> {
        Ok(Box::new(UpdatePlan::new(&mut Args::parse(&call.input)?)?))
    }
}

/// A call whose arguments are understood.
#[derive(Debug, Clone)]
struct UpdatePlan {
    steps: Vec<PlanStep>,
}

impl UpdatePlan {
    /// Understands a call.
    fn new(args: &mut Args) -> Result<Self, String> {
        let plan = args.take("plan").ok_or("`plan` is missing; give a list of {step, status}.")?;
        let steps: Vec<Step> = serde_json::from_value(plan).map_err(|error| {
            format!(
                "`plan` must be a list of {{step, status}} with status `pending`, `in_progress` or `completed` ({error})."
            )
        })?;
        let steps: Vec<_> = steps.into_iter().map(PlanStep::from).collect();
        if steps.iter().filter(|step| step.status == PlanStatus::InProgress).count() > 1 {
            return Err("`plan` has more than one step in progress; keep it to one.".to_owned());
        }
        Ok(Self { steps })
    }
}

impl PreparedCall for UpdatePlan {
    fn prepare<'a>(&'a mut self, env: &'a ToolEnv) -> BoxFuture<'a, Prepared> {
        ready(env, NAME, SUMMARY.to_owned())
    }

    fn run(self: Box<Self>, env: ToolEnv, _: u64) -> BoxFuture<'static, CallOutcome> {
        let item = env.tool_item(NAME, SUMMARY.to_owned(), ItemStatus::Completed);
        let outcome = CallOutcome::plain("The plan is set.".to_owned(), item);
        std::future::ready(CallOutcome { plan: Some(self.steps), ..outcome }).boxed()
    }

    fn again(&self) -> Box<dyn PreparedCall> {
        Box::new(self.clone())
    }
}
