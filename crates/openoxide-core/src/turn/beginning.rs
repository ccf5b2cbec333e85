//! What a turn begins with: the thread's directory, opened, and what the model is to know ahead of the next prompt. It is read
//! on a thread for that, since the files are the caller's and their disk may not answer.

use std::sync::Arc;
use std::time::Duration;

use openoxide_llm::HistoryItem;
use openoxide_sandbox::Workspace;
use tokio::time::timeout;

use crate::directory::Reader;
use crate::thread_state::ContextDue;
use crate::{CoreError, Thread, context};

/// The longest that reading a thread's directory may take as a turn begins.
const CONTEXT_LIMIT: Duration = Duration::from_secs(30);

/// Opens the thread's directory and reads what the model is to know ahead of the next prompt, on a thread for that.
pub(super) async fn read_context(
    thread: &Arc<Thread>,
    due: ContextDue,
) -> Result<(Arc<Workspace>, (Vec<HistoryItem>, Vec<String>)), String> {
    let thread = Arc::clone(thread);
    let read = move || {
        let workspace = thread.hold_directory()?;
        let view = thread.view(Arc::clone(&workspace), Reader::Server);
        let core = &thread.core;
        Ok((workspace, context::due(due, &core.config, core.shell, thread.config(), &view)))
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
