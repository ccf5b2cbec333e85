//! What a turn begins with: the thread's directory, opened, and what the model is to know ahead of the next prompt. It is read
//! on a thread for that, since the files are the caller's and their disk may not answer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use openoxide_llm::HistoryItem;
use openoxide_sandbox::{HostPaths, Workspace};
use tokio::time::timeout;

use super::context;
use super::host::{ContextDue, TurnHost};
use crate::CoreError;
use crate::tools::Reader;

/// The longest that reading a thread's directory may take as a turn begins.
const CONTEXT_LIMIT: Duration = Duration::from_secs(30);

/// Opens the thread's directory and reads what the model is to know ahead of the next prompt, on a thread for that.
pub(super) async fn read_context(
    host: &Arc<dyn TurnHost>,
    due: ContextDue,
) -> Result<(Arc<Workspace>, (Vec<HistoryItem>, Vec<String>)), String> {
    let host = Arc::clone(host);
    let read = move || {
        let workspace = host.hold_directory()?;
        let view = host.view(Arc::clone(&workspace), Reader::Server);
        Ok((workspace, context::due(due, host.process_config(), host.shell(), host.config(), &host.history(), &view)))
    };
    let read: Result<_, CoreError> = match timeout(CONTEXT_LIMIT, tokio::task::spawn_blocking(read)).await {
        Ok(Ok(read)) => read,
        Ok(Err(_)) => return Err("reading the thread's directory failed inside".to_owned()),
        Err(_) => {
            let seconds = CONTEXT_LIMIT.as_secs();
            return Err(format!(
                "the thread's directory could not be read within {seconds} s; see whether its disk answers"
            ));
        }
    };
    read.map_err(|error| match error.hint() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    })
}

/// What a person should know of a thread that works in this directory.
pub(super) fn home_warning(path: &Path, host_paths: &HostPaths) -> Option<String> {
    let home = host_paths.home.as_ref()?.canonicalize().ok()?;
    (path == home).then(|| {
        format!(
            "the thread works in the home directory {}: start-up files of programs there can be changed by commands; work \
             in a project's directory instead",
            openoxide_display::quote_path(path)
        )
    })
}
