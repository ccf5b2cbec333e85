//! The tools given to the model: what each is called, what it takes, and how a call of it is done.
//!
//! Every tool is one file with a type that implements [`Tool`] and a type for its calls that implements [`PreparedCall`];
//! [`TOOLS`] names them all. A call is understood without IO, prepared, perhaps asked about, and then run. Whatever goes
//! wrong reaches the model as a sentence that names the field and says what to do.

mod apply_patch;
mod args;
mod env;
mod exec_command;
mod grep;
mod list_dir;
pub(crate) mod output;
mod read_file;
pub(crate) mod reading;
mod request_user_input;
mod update_plan;
mod view_image;
mod write_stdin;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use openoxide_llm::ToolSpec;

pub(crate) use self::env::{ToolEnv, TurnEnv};
use crate::ItemStatus;
use crate::turn::step::{CallOutcome, Prepared, ToolCall, refused_item};

/// Every tool, in the order in which models are told of them: fixed, so that a provider's cache holds.
const TOOLS: [&dyn Tool; 9] = [
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

/// What a thread may do, as far as its tools go. Each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ToolAccess {
    /// Read, and change nothing.
    Read,
    /// Run commands in a sandbox that only reads, as a query does.
    Query,
    /// Everything.
    Full,
}

/// A tool of the model.
pub(crate) trait Tool: Sync {
    /// What the model is told of it: its name, what it does, what it takes.
    fn spec(&self) -> ToolSpec;

    /// The least access of a thread that has it.
    fn access(&self) -> ToolAccess;

    /// Whether it is for models that take pictures alone.
    fn gives_pictures(&self) -> bool;

    /// Understands a call, or says in a sentence why it cannot be done. Without IO.
    fn parse(&self, env: &ToolEnv, call: &ToolCall) -> Result<Box<dyn PreparedCall>, String>;
}

/// A call whose arguments are understood.
pub(crate) trait PreparedCall: Send {
    /// Finds out what it would do: what it shows, and what a person may have to decide first.
    fn prepare<'a>(&'a mut self, env: &'a ToolEnv) -> BoxFuture<'a, Prepared>;

    /// Does it, under an item.
    fn run(self: Box<Self>, env: ToolEnv, item_id: u64) -> BoxFuture<'static, CallOutcome>;

    /// The same call once more, as it is prepared.
    fn again(&self) -> Box<dyn PreparedCall>;

    /// Whether it changes files, and so runs alone.
    fn changes_files(&self) -> bool {
        false
    }

    /// Whether preparing it looks at files, and so must not be waited for.
    fn waits_for_files(&self) -> bool {
        self.changes_files()
    }

    /// Lets it leave the sandbox when it runs again.
    fn leave_sandbox(&mut self) {}
}

/// The tools of one kind of thread, made once.
pub(crate) struct Toolbox {
    tools: Vec<(&'static dyn Tool, ToolSpec)>,
    specs: Vec<ToolSpec>,
}

impl Toolbox {
    fn new(access: ToolAccess, sees: bool) -> Self {
        let tools = TOOLS.into_iter().filter(|tool| tool.access() <= access && (sees || !tool.gives_pictures()));
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

/// The outcome of a call that was refused before it began.
pub(crate) fn refused(call: &ToolCall, message: String) -> Prepared {
    Prepared::Refused { message, item: refused_item(call), later: false }
}

/// A call that shows a line and that nobody is asked about.
fn ready(env: &ToolEnv, name: &str, summary: String) -> BoxFuture<'static, Prepared> {
    let item = env.tool_item(name, summary, ItemStatus::InProgress);
    std::future::ready(Prepared::Ready { item, question: None, exclusive: false }).boxed()
}
