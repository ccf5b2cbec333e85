//! Which tools there are, and which of them a thread has.

use openoxide_llm::ToolSpec;

use super::call::ToolCall;
use super::env::ToolEnv;
use super::tool::{PreparedCall, Tool, ToolAccess};
use super::{
    apply_patch, exec_command, grep, list_dir, read_file, request_user_input, update_plan, view_image, write_stdin,
};

/// Every tool, in the order in which models are told of them: fixed, so that a provider's cache holds.
const TOOLS: &[&dyn Tool] = &[
    &exec_command::Tool,
    &write_stdin::Tool,
    &apply_patch::Tool,
    &read_file::Tool,
    &list_dir::Tool,
    &grep::Tool,
    &update_plan::Tool,
    &request_user_input::Tool,
    &view_image::Tool,
];

/// The tools of one kind of thread, made once.
pub(crate) struct Toolbox {
    tools: Vec<(&'static dyn Tool, ToolSpec)>,
    specs: Vec<ToolSpec>,
}

impl Toolbox {
    fn new(access: ToolAccess, sees: bool) -> Self {
        let tools = TOOLS.iter().copied().filter(|tool| tool.access() <= access && (sees || !tool.gives_pictures()));
        let tools: Vec<_> = tools.map(|tool| (tool, tool.spec())).collect();
        Self { specs: tools.iter().map(|(_, spec)| spec.clone()).collect(), tools }
    }

    /// What is offered to the model.
    pub(crate) fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// Understands a call, or says in a sentence why it cannot be done.
    pub(crate) fn parse(&self, env: &ToolEnv, call: &ToolCall) -> Result<Box<dyn PreparedCall>, String> {
        let Some((tool, spec)) = self.tools.iter().find(|(_, spec)| spec.name() == call.name) else {
            let names: Vec<&str> = self.specs.iter().map(ToolSpec::name).collect();
            return Err(format!("There is no tool named `{}` here; the tools are {}.", call.name, names.join(", ")));
        };
        match spec {
            ToolSpec::Function { .. } if call.custom => {
                Err(format!("`{}` takes a JSON object, not plain text.", call.name))
            }
            ToolSpec::Function { .. } | ToolSpec::Freeform { .. } => tool.parse(env, call),
        }
    }
}

/// The tools of every kind of thread.
pub(crate) struct Toolboxes(Vec<((ToolAccess, bool), Toolbox)>);

impl Toolboxes {
    /// Makes all of them.
    pub(crate) fn new() -> Self {
        let kinds = [ToolAccess::Read, ToolAccess::Query, ToolAccess::Full];
        let kinds = kinds.into_iter().flat_map(|access| [(access, false), (access, true)]);
        Self(kinds.map(|(access, sees)| ((access, sees), Toolbox::new(access, sees))).collect())
    }

    /// The tools of one kind of thread, for a model that takes pictures or not.
    pub(crate) fn of(&self, access: ToolAccess, sees: bool) -> &Toolbox {
        let found = self.0.iter().find(|(kind, _)| *kind == (access, sees));
        &found.expect("there is one for every kind").1
    }
}
