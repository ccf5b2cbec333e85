//! What a tool is to the turn that calls it. Every tool is one file with a type that implements [`Tool`] and a type for its
//! calls that implements [`PreparedCall`].

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use openoxide_llm::ToolSpec;

use super::call::{CallOutcome, Prepared, ToolCall, refused_item};
use super::env::ToolEnv;
use super::families::EditStyle;
use crate::ItemStatus;

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

    /// Which models have it; all, where none are named.
    fn style(&self) -> Option<EditStyle> {
        None
    }

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

/// The outcome of a call that was refused before it began.
pub(crate) fn refused(call: &ToolCall, message: String) -> Prepared {
    Prepared::Refused { message, item: refused_item(call), later: false }
}

/// A call that shows a line and that nobody is asked about.
pub(super) fn ready(env: &ToolEnv, name: &str, summary: String) -> BoxFuture<'static, Prepared> {
    let item = env.tool_item(name, summary, ItemStatus::InProgress);
    std::future::ready(Prepared::Ready { item, question: None, exclusive: false }).boxed()
}
