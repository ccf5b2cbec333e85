//! Calls that read files and answer with text: what they have in common, from how they run to what is said where something
//! is not opened.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::env::ToolEnv;
use super::files::OpenError;
use super::host::Reader;
use super::output::truncate;
use super::reads::ReadWork;
use super::tool::{PreparedCall, ready};
use super::{CallOutcome, Prepared};
use crate::ItemStatus;

/// Bytes of a text beside what it may have: its length, and the note of what was cut.
const CUT_NOTE: usize = 200;

/// A call that reads files and answers with text.
pub(super) trait ReadingCall: ReadWork<Found = String> + Clone {
    /// The tool's name.
    const NAME: &'static str;

    /// What the call shows.
    fn summary(&self) -> String;
}

/// The most bytes of a text that was cut to size, as it travels.
pub(super) fn max_text(max_bytes: usize) -> usize {
    max_bytes.saturating_add(CUT_NOTE)
}

impl<C: ReadingCall> PreparedCall for C {
    fn prepare<'a>(&'a mut self, env: &'a ToolEnv) -> BoxFuture<'a, Prepared> {
        ready(env, C::NAME, self.summary())
    }

    fn run(self: Box<Self>, env: ToolEnv, _: u64) -> BoxFuture<'static, CallOutcome> {
        async move {
            let (limit, summary) = (env.output_limit(), self.summary());
            let (text, status) = match env.read(C::NAME, Reader::Tool, *self).await {
                Ok(text) => (text, ItemStatus::Completed),
                Err(text) => (text, ItemStatus::Failed),
            };
            CallOutcome::plain(truncate(&text, limit), env.tool_item(C::NAME, summary, status))
        }
        .boxed()
    }

    fn again(&self) -> Box<dyn PreparedCall> {
        Box::new(self.clone())
    }
}

/// What the model is told where something is not opened.
pub(super) fn refusal(shown: &str, error: OpenError) -> String {
    match error {
        OpenError::NotFound => format!("There is no file {shown}."),
        OpenError::Hidden => format!("{shown} is not read: {error}. Go on without it."),
        error => format!("{shown} is not read: {error}."),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use openoxide_sandbox::Workspace;

    use super::super::files::FileView;

    /// A view of a directory that does not show some places in it.
    pub(in crate::tools) fn view(root: &Path, hidden: &[&str]) -> FileView {
        let workspace = Workspace::resolve(root).unwrap();
        let hidden: Vec<PathBuf> = hidden.iter().map(|name| workspace.path().join(name)).collect();
        FileView::new(Arc::new(workspace), hidden)
    }
}
