//! Which tools there are, and which of them a thread has.

use openoxide_llm::ToolSpec;

use super::call::ToolCall;
use super::env::ToolEnv;
use super::families::EditStyle;
use super::tool::{PreparedCall, Tool, ToolAccess};
use super::{
    apply_patch, edit, exec_command, grep, list_dir, read_file, request_user_input, update_plan, view_image,
    write_file, write_stdin,
};

/// Every tool, in the order in which models are told of them: fixed, so that a provider's cache holds.
const TOOLS: &[&dyn Tool] = &[
    &exec_command::Tool,
    &write_stdin::Tool,
    &apply_patch::Tool,
    &edit::Tool,
    &write_file::Tool,
    &read_file::Tool,
    &list_dir::Tool,
    &grep::Tool,
    &update_plan::Tool,
    &request_user_input::Tool,
    &view_image::Tool,
];

/// Names that other harnesses have for a tool, where its arguments are understood as well. The name of the tool itself is
/// among them where not every model is told of it.
const OTHER_NAMES: &[(&str, &[&str])] = &[
    (apply_patch::NAME, &["apply_patch", "applypatch", "ApplyPatch"]),
    (
        edit::NAME,
        &["edit", "Edit", "MultiEdit", "edit_file", "str_replace", "str_replace_editor", "replace", "search_replace"],
    ),
    (write_file::NAME, &["write_file", "Write", "write", "create_file"]),
    (
        exec_command::NAME,
        &["shell", "shell_command", "local_shell", "container.exec", "Bash", "bash", "run_shell_command"],
    ),
];

/// The tools of one kind of thread, made once.
pub(crate) struct Toolbox {
    tools: Vec<(&'static dyn Tool, ToolSpec)>,
    specs: Vec<ToolSpec>,
    /// What calls may do. More may be on offer: a query has the tools of the thread that it asks about.
    access: ToolAccess,
}

impl Toolbox {
    fn new(Kind { access, offered, sees, style }: Kind) -> Self {
        let tools = TOOLS.iter().copied().filter(|tool| tool.access() <= offered && (sees || !tool.gives_pictures()));
        let tools = tools.filter(|tool| tool.style().is_none_or(|only| only == style));
        let tools: Vec<_> = tools.map(|tool| (tool, tool.spec())).collect();
        Self { specs: tools.iter().map(|(_, spec)| spec.clone()).collect(), tools, access }
    }

    /// What is offered to the model.
    pub(crate) fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// Understands a call, or says in a sentence why it cannot be done.
    pub(crate) fn parse(&self, env: &ToolEnv, call: &ToolCall) -> Result<Box<dyn PreparedCall>, String> {
        let offered = self.tools.iter().find(|(_, spec)| spec.name() == call.name);
        let Some((tool, spec)) = offered.cloned().or_else(|| self.understood(&call.name)) else {
            let names: Vec<&str> = self.specs.iter().map(ToolSpec::name).collect();
            return Err(format!("There is no tool named `{}` here; the tools are {}.", call.name, names.join(", ")));
        };
        if tool.access() > self.access {
            return Err(format!(
                "`{}` was not run: this is a question about the thread, and nothing is changed while it is answered. Answer from what \
                 can be read; where a change is wanted, say which.",
                call.name
            ));
        }
        match spec {
            ToolSpec::Function { .. } if call.custom => {
                Err(format!("`{}` takes a JSON object, not plain text.", call.name))
            }
            ToolSpec::Function { .. } | ToolSpec::Freeform { .. } => tool.parse(env, call),
        }
    }

    /// A tool that is meant by a name which is not in the list: what a thread may not do it may not do by another name.
    fn understood(&self, name: &str) -> Option<(&'static dyn Tool, ToolSpec)> {
        let (own, _) = OTHER_NAMES.iter().find(|(_, names)| names.contains(&name))?;
        let tools = TOOLS.iter().copied().filter(|tool| tool.access() <= self.access);
        tools.map(|tool| (tool, tool.spec())).find(|(_, spec)| spec.name() == *own)
    }
}

/// A kind of thread, as far as its tools go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    /// What calls may do.
    pub(crate) access: ToolAccess,
    /// What the model is told of; at least that.
    pub(crate) offered: ToolAccess,
    /// Whether its model takes pictures.
    pub(crate) sees: bool,
    /// How its model changes files.
    pub(crate) style: EditStyle,
}

/// The tools of every kind of thread.
pub(crate) struct Toolboxes(Vec<(Kind, Toolbox)>);

impl Toolboxes {
    /// Makes all of them.
    pub(crate) fn new() -> Self {
        let all = [ToolAccess::Read, ToolAccess::Query, ToolAccess::Full];
        let pairs = all.into_iter().flat_map(|access| all.map(|offered| (access, offered)));
        let kinds = pairs.filter(|(access, offered)| access <= offered);
        let kinds = kinds.flat_map(|(access, offered)| [false, true].map(|sees| (access, offered, sees)));
        let styles = [EditStyle::Patch, EditStyle::Edit];
        let kinds = kinds.flat_map(|(access, offered, sees)| styles.map(|style| Kind { access, offered, sees, style }));
        Self(kinds.map(|kind| (kind, Toolbox::new(kind))).collect())
    }

    /// The tools of one kind of thread.
    pub(crate) fn of(&self, kind: Kind) -> &Toolbox {
        let found = self.0.iter().find(|(known, _)| *known == kind);
        &found.expect("there is one for every kind").1
    }
}
