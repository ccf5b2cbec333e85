//! Calls that read files: what they have in common, from the view they look through to what is said where something is
//! not opened.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::blocking::{NoAnswer, READ_LIMIT};
use super::env::ToolEnv;
use super::files::{FileView, OpenError};
use super::host::Reader;
use super::output::{StopFlag, truncate};
use super::tool::{PreparedCall, ready};
use super::{CallOutcome, Prepared};
use crate::ItemStatus;

/// A call that reads files and answers with text.
pub(super) trait ReadingCall: Clone + Send + 'static {
    /// The tool's name.
    const NAME: &'static str;

    /// What the call shows.
    fn summary(&self) -> String;

    /// Reads what the thread may read, or says in a sentence what is wrong. Blocks on the disk, until the flag is raised.
    fn read(&self, view: &FileView, stop: &StopFlag) -> Result<String, String>;
}

impl<C: ReadingCall> PreparedCall for C {
    fn prepare<'a>(&'a mut self, env: &'a ToolEnv) -> BoxFuture<'a, Prepared> {
        ready(env, C::NAME, self.summary())
    }

    fn run(self: Box<Self>, env: ToolEnv, _: u64) -> BoxFuture<'static, CallOutcome> {
        async move {
            let (limit, summary) = (env.output_limit(), self.summary());
            let read = with_view(&env, C::NAME, Reader::Tool, move |view, stop| self.read(view, stop)).await;
            let (text, status) = match read {
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

/// Runs work over what a thread may read. The work says in a sentence what is wrong.
pub(super) async fn with_view<T: Send + 'static>(
    env: &ToolEnv,
    name: &str,
    reader: Reader,
    work: impl FnOnce(&FileView, &StopFlag) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let done = env.blocking(move |files, stop| {
        let view = files.view(reader).map_err(|error| format!("{}.", error.told()))?;
        work(&view, stop)
    });
    match done.await {
        Ok(done) => done,
        Err(NoAnswer::Failed) => Err(format!("`{name}` failed inside; try it another way.")),
        Err(NoAnswer::Late) => {
            Err(format!("`{name}` did not end within {} s; the disk may not answer.", READ_LIMIT.as_secs()))
        }
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

    use super::*;

    /// A view of a directory that does not show some places in it.
    pub(in crate::tools) fn view(root: &Path, hidden: &[&str]) -> FileView {
        let workspace = Workspace::resolve(root).unwrap();
        let hidden: Vec<PathBuf> = hidden.iter().map(|name| workspace.path().join(name)).collect();
        FileView::new(Arc::new(workspace), hidden)
    }
}
