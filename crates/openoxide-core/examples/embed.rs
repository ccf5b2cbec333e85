//! Core in a program of one's own: a model, a thread, one turn that writes a file, and what came of it.
//!
//! The model here is a script; `openoxide-providers` has real ones, and `Offline`, which follows plain instructions.

use openoxide_core::{Config, Event, HostPaths, Interruption, Launcher, Op, ThreadManager};
use openoxide_test_support::{Say, ScriptedModel};

const PATCH: &str = "*** Begin Patch\n*** Add File: hello.txt\n+Hello, world!\n*** End Patch\n";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Commands run under a supervisor, which is this program started again: first of all, before there are threads.
    openoxide_sandbox::dispatch_helper_with(Some(openoxide_core::serve_reads));
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let workspace = tempfile::tempdir()?;
    let model = ScriptedModel::new([Say::Patch(PATCH.to_owned()), Say::Text("I wrote hello.txt.")]);
    let launcher = Launcher::new(std::env::current_exe()?, HostPaths::default());
    // Every default; with `home` set, threads are kept on disk and go on after a restart.
    let manager = ThreadManager::new(Config::new(workspace.path().to_owned(), "script".to_owned(), model, launcher));
    let thread = manager.start_thread(manager.config().thread_defaults())?;
    let (_, mut attachment) = thread.submit_and_attach(Op::UserInput { text: "Write a greeting.".to_owned() })?;
    while let Some(event) = attachment.events.next().await {
        match event {
            // Whoever can ask a person answers with `Op::Approval`; a question without an answer counts as denied in time.
            Event::ApprovalRequested { request, .. } => eprintln!("may it? {request:?}"),
            Event::TurnEnded { result, .. } => {
                eprintln!("{:?}: {}\n{}", result.status, result.content, result.diff.as_deref().unwrap_or_default());
                break;
            }
            other => eprintln!("{other:?}"),
        }
    }
    manager.shutdown(&Interruption::ServerStopped).await;
    Ok(())
}
