//! Runs what reads files on threads for it: bounded in number for each principal, ended by a deadline and with the turn.
//!
//! A thread that hangs in the system (a disk that does not answer) keeps its place until it comes back; whoever waits for
//! it does not.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, timeout};

use super::output::{StopFlag, truncate};
use super::{PreparedCall, ToolEnv, ready};
use crate::directory::Reader;
use crate::files::{FileView, OpenError};
use crate::turn::step::{CallOutcome, Prepared};
use crate::{ItemStatus, Thread};

/// The longest that one reading tool works. It then answers with what it has.
pub(crate) const READ_LIMIT: Duration = Duration::from_secs(60);

/// What is waited for after that, for work that does not see the deadline because the system holds it.
const GRACE: Duration = Duration::from_secs(5);

/// Reads that run at once: of all principals, and of one. The runtime has 512 threads for them and others. Beyond it a read
/// waits.
pub(crate) const MAX_READS: usize = 256;
pub(crate) const MAX_READS_OF_ONE: usize = 64;

/// Why blocking work gave nothing.
pub(crate) enum NoAnswer {
    /// It panicked.
    Failed,
    /// It did not end in time.
    Late,
}

/// Runs blocking work for a thread's principal. Dropping the future, or the deadline, tells the work to stop.
pub(crate) async fn blocking<T: Send + 'static>(
    thread: &Thread,
    work: impl FnOnce(&StopFlag) -> T + Send + 'static,
) -> Result<T, NoAnswer> {
    let place = thread.core.reads.wait(&thread.config().owner).await;
    let stop = StopFlag::until(Instant::now() + READ_LIMIT);
    let _stops_when_dropped = stop.on_drop();
    let work = move || {
        let done = work(&stop);
        drop(place);
        done
    };
    match timeout(READ_LIMIT + GRACE, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(_)) => Err(NoAnswer::Failed),
        Err(_) => Err(NoAnswer::Late),
    }
}

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
