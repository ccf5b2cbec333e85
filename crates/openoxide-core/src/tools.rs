//! The tools given to the model: what each is called, what it takes, and what a call comes down to.
//!
//! A call goes through two steps. [`plan`] understands its arguments, without IO; a plan is then run by its tool's own
//! file. Whatever goes wrong reaches the model as a sentence that names the field and says what to do.

mod apply_patch;
mod args;
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

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use openoxide_llm::ToolSpec;

use self::args::Args;
use self::output::StopFlag;
use crate::diff::{Before, TurnDiff};
use crate::directory::Reader;
use crate::events::lock;
use crate::turn::PictureRoom;
use crate::turn::step::{CallOutcome, Prepared, ToolCall, refused_item};
use crate::{Event, ItemStatus, Thread, TurnId, TurnItemKind};

/// The tools of one kind of thread, in a fixed order so that a provider's cache holds; made once.
pub(crate) struct Toolbox {
    specs: Vec<ToolSpec>,
}

impl Toolbox {
    /// Every tool.
    fn all() -> Self {
        let mut specs = vec![exec_command::spec(), write_stdin::spec(), apply_patch::spec()];
        specs.extend(Self::reading().specs);
        specs.push(request_user_input::spec());
        Self { specs }
    }

    /// The tools of a query: commands run in a sandbox that only reads.
    fn query() -> Self {
        let mut specs = vec![exec_command::spec(), write_stdin::spec()];
        specs.extend(Self::reading().specs);
        Self { specs }
    }

    /// The tools that change nothing and run no command.
    fn reading() -> Self {
        Self { specs: vec![read_file::spec(), list_dir::spec(), grep::spec(), update_plan::spec()] }
    }

    /// The same, for a model that takes pictures.
    fn with_pictures(mut self) -> Self {
        self.specs.push(view_image::spec());
        self
    }

    /// What is offered to the model.
    pub(crate) fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.specs.iter().map(ToolSpec::name)
    }
}

/// The tools of every kind of thread.
pub(crate) struct Toolboxes {
    /// For models that read text alone, then for those that take pictures.
    boxes: [[Toolbox; 3]; 2],
}

/// What a thread may do, as far as its tools go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Everything.
    All,
    /// See [`Toolbox::query`].
    Query,
    /// See [`Toolbox::reading`].
    Reading,
}

impl Toolboxes {
    /// Makes all of them.
    pub(crate) fn new() -> Self {
        let plain = || [Toolbox::all(), Toolbox::query(), Toolbox::reading()];
        Self { boxes: [plain(), plain().map(Toolbox::with_pictures)] }
    }

    /// The tools of one kind of thread, for a model that takes pictures or not.
    pub(crate) fn of(&self, reach: Reach, sees: bool) -> &Toolbox {
        &self.boxes[usize::from(sees)][reach as usize]
    }
}

/// A call whose arguments are understood.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    Exec(exec_command::ExecCommand),
    Stdin(write_stdin::WriteStdin),
    Patch(apply_patch::ApplyPatch),
    ReadFile(read_file::ReadFile),
    ListDir(list_dir::ListDir),
    Grep(grep::Grep),
    UpdatePlan(update_plan::UpdatePlan),
    ViewImage(view_image::ViewImage),
    RequestUserInput(request_user_input::RequestUserInput),
}

/// What a tool needs of the turn that calls it.
#[derive(Clone)]
pub(crate) struct ToolContext {
    pub(crate) thread: Arc<Thread>,
    pub(crate) turn_id: TurnId,
    pub(crate) call_id: String,
    pub(crate) diff: Arc<Mutex<TurnDiff>>,
    /// Held while a command of the turn is made ready, so that commands start in the order of their calls.
    pub(crate) starts: Arc<tokio::sync::Mutex<()>>,
    /// Room for the pictures of the response that the call is of.
    pub(crate) pictures: Arc<PictureRoom>,
}

impl ToolContext {
    /// A path of the model's, absolute and without a slash at its end.
    fn resolve(&self, path: &str) -> PathBuf {
        self.thread.config().cwd.join(path).components().collect()
    }

    /// Notes what the thread's directory holds, before the turn's first command that may write runs.
    async fn look_before(&self) {
        let looked = Arc::clone(&lock(&self.diff).looked);
        let look = || async {
            let thread = Arc::clone(&self.thread);
            let look = move |_: &StopFlag| {
                let workspace = thread.hold_directory().ok()?;
                Before::look(thread.view(workspace, Reader::Server))
            };
            if let Ok(Some(before)) = reading::blocking(&self.thread, look).await {
                lock(&self.diff).set_before(before);
            }
        };
        looked.get_or_init(look).await;
    }

    /// The most bytes of one output that the model is given.
    fn output_limit(&self) -> usize {
        let own = self.thread.config().tool_output_token_limit;
        output::bytes_of(own.unwrap_or(self.thread.core.config.tool_output_token_limit))
    }

    fn emit_delta(&self, item_id: u64, delta: String) {
        self.thread.hub.emit(Event::ItemDelta { turn_id: self.turn_id, item_id, delta });
    }

    /// The item of a tool that has no kind of its own.
    fn tool_item(&self, name: &str, summary: String, status: ItemStatus) -> TurnItemKind {
        TurnItemKind::Tool { call_id: self.call_id.clone(), name: name.to_owned(), summary, status }
    }
}

/// Understands a call, or says in a sentence why it cannot be done.
pub(crate) fn plan(context: &ToolContext, call: &ToolCall) -> Result<Plan, String> {
    let thread = &context.thread;
    let toolbox = thread.core.tools(thread.config());
    if !toolbox.names().any(|name| name == call.name) {
        let names: Vec<&str> = toolbox.names().collect();
        return Err(format!("There is no tool named `{}` here; the tools are {}.", call.name, names.join(", ")));
    }
    if call.name == apply_patch::NAME {
        let text = if call.custom { call.input.clone() } else { Args::parse(&call.input)?.text("input")? };
        return apply_patch::ApplyPatch::new(context, &text).map(Plan::Patch);
    }
    if call.custom {
        return Err(format!("`{}` takes a JSON object, not plain text.", call.name));
    }
    let mut args = Args::parse(&call.input)?;
    let args = &mut args;
    match call.name.as_str() {
        exec_command::NAME => exec_command::plan(context, args),
        write_stdin::NAME => write_stdin::WriteStdin::new(args).map(Plan::Stdin),
        read_file::NAME => read_file::ReadFile::new(context, args).map(Plan::ReadFile),
        list_dir::NAME => list_dir::ListDir::new(context, args).map(Plan::ListDir),
        grep::NAME => grep::Grep::new(context, args).map(Plan::Grep),
        request_user_input::NAME => request_user_input::RequestUserInput::new(args).map(Plan::RequestUserInput),
        view_image::NAME => view_image::ViewImage::new(context, args).map(Plan::ViewImage),
        _ => update_plan::UpdatePlan::new(args).map(Plan::UpdatePlan),
    }
}

/// Finds out what a planned call would do. Quick and without IO, except for patches, which are checked against the
/// files elsewhere ([`Plan::is_patch`]).
pub(crate) async fn prepare(context: ToolContext, plan: &mut Plan) -> Prepared {
    match plan {
        Plan::Exec(exec) => exec.prepared(&context),
        Plan::Stdin(stdin) => stdin.prepared(&context),
        Plan::Patch(patch) => patch.prepare(&context).await,
        Plan::ReadFile(read) => prepared(&context, read_file::NAME, read.summary()),
        Plan::ListDir(list) => prepared(&context, list_dir::NAME, list.summary()),
        Plan::Grep(grep) => prepared(&context, grep::NAME, grep.summary()),
        Plan::ViewImage(view) => prepared(&context, view_image::NAME, view.summary()),
        Plan::RequestUserInput(request) => request.prepared(&context),
        Plan::UpdatePlan(_) => prepared(&context, update_plan::NAME, "updating the plan".to_owned()),
    }
}

impl Plan {
    /// Lets it leave the sandbox when it runs again.
    pub(crate) fn leave_sandbox(&mut self) {
        if let Self::Exec(exec) = self {
            exec.leave_sandbox();
        }
    }

    /// Whether preparing it reads files, and so must not be waited for.
    pub(crate) fn is_patch(&self) -> bool {
        matches!(self, Self::Patch(_))
    }
}

/// Runs a planned call under an item.
pub(crate) fn run(context: ToolContext, plan: Plan, item_id: u64) -> BoxFuture<'static, CallOutcome> {
    match plan {
        Plan::Exec(exec) => exec.run(context, item_id).boxed(),
        Plan::Stdin(stdin) => stdin.run(context, item_id).boxed(),
        Plan::Patch(patch) => patch.run(context).boxed(),
        Plan::ReadFile(read) => {
            let summary = read.summary();
            reading::run(context, read_file::NAME, summary, move |view, _| read.run(view)).boxed()
        }
        Plan::ListDir(list) => {
            let summary = list.summary();
            reading::run(context, list_dir::NAME, summary, move |view, stop| list.run(view, stop)).boxed()
        }
        Plan::Grep(grep) => {
            let summary = grep.summary();
            reading::run(context, grep::NAME, summary, move |view, stop| grep.run(view, stop)).boxed()
        }
        Plan::ViewImage(view) => view.run(context).boxed(),
        Plan::RequestUserInput(request) => futures_util::future::ready(request.run(&context)).boxed(),
        Plan::UpdatePlan(plan) => futures_util::future::ready(plan.run(&context)).boxed(),
    }
}

/// The outcome of a call that was refused before it began.
pub(crate) fn refused(call: &ToolCall, message: String) -> Prepared {
    Prepared::Refused { message, item: refused_item(call), later: false }
}

fn prepared(context: &ToolContext, name: &str, summary: String) -> Prepared {
    Prepared::Ready { item: context.tool_item(name, summary, ItemStatus::InProgress), question: None, exclusive: false }
}
