//! `update_plan`: the model's own list of steps, told to whoever watches.

use openoxide_llm::ToolSpec;
use serde_json::json;

use super::ToolContext;
use super::args::Args;
use crate::turn::step::CallOutcome;
use crate::{ItemStatus, PlanStatus, PlanStep};

/// Its name.
pub(super) const NAME: &str = "update_plan";

/// What is offered to the model.
pub(super) fn spec() -> ToolSpec {
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

/// A call whose arguments are understood.
#[derive(Debug, Clone)]
pub(crate) struct UpdatePlan {
    steps: Vec<PlanStep>,
}

impl UpdatePlan {
    /// Understands a call.
    pub(super) fn new(args: &mut Args) -> Result<Self, String> {
        let plan = args.take("plan").ok_or("`plan` is missing; give a list of {step, status}.")?;
        let steps: Vec<PlanStep> = serde_json::from_value(plan).map_err(|error| {
            format!(
                "`plan` must be a list of {{step, status}} with status `pending`, `in_progress` or `completed` ({error})."
            )
        })?;
        if steps.iter().filter(|step| step.status == PlanStatus::InProgress).count() > 1 {
            return Err("`plan` has more than one step in progress; keep it to one.".to_owned());
        }
        Ok(Self { steps })
    }

    /// Sets the plan.
    pub(super) fn run(self, context: &ToolContext) -> CallOutcome {
        CallOutcome {
            output: "The plan is set.".to_owned(),
            item: context.tool_item(NAME, "updating the plan".to_owned(), ItemStatus::Completed),
            plan: Some(self.steps),
            image: None,
            again: None,
        }
    }
}
