//! A call of a tool: as the model made it, as it was understood, and what it came to.

use openoxide_llm::HistoryItem;

use crate::rules::approvals::Question;
use crate::{ItemStatus, PlanStep, TurnItemKind};

/// A tool call of the model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolCall {
    /// Ties the call to its output.
    pub(crate) call_id: String,
    /// The tool's name.
    pub(crate) name: String,
    /// A JSON object, or the text of a freeform tool.
    pub(crate) input: String,
    /// Whether `input` is the text of a freeform tool.
    pub(crate) custom: bool,
}

/// What a call comes down to.
#[derive(Debug)]
pub(crate) enum Prepared {
    /// It can run.
    Ready {
        /// What it shows while it runs.
        item: TurnItemKind,
        /// What a person may have to decide first.
        question: Option<Question>,
        /// It changes files and runs alone.
        exclusive: bool,
    },
    /// It cannot run.
    Refused {
        /// The sentence for the model.
        message: String,
        /// What it shows.
        item: TurnItemKind,
        /// It may be possible once the calls before it have run.
        later: bool,
    },
}

/// What a call came to.
#[derive(Debug)]
pub(crate) struct CallOutcome {
    /// The text for the model.
    pub(crate) output: String,
    /// The finished item.
    pub(crate) item: TurnItemKind,
    /// A new plan.
    pub(crate) plan: Option<Vec<PlanStep>>,
    /// A picture for the model, given to it after the outputs of the response's calls.
    pub(crate) image: Option<HistoryItem>,
    /// The sandbox stopped it: the question whether to do it again without.
    pub(crate) again: Option<Box<Question>>,
}

impl CallOutcome {
    /// An outcome that is all there is to it.
    pub(crate) fn plain(output: String, item: TurnItemKind) -> Self {
        Self { output, item, plan: None, image: None, again: None }
    }
}

/// What a call shows that was never understood.
pub(crate) fn refused_item(call: &ToolCall) -> TurnItemKind {
    TurnItemKind::Tool {
        call_id: call.call_id.clone(),
        name: call.name.clone(),
        summary: "refused".to_owned(),
        status: ItemStatus::Failed,
    }
}
