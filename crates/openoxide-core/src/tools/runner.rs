//! What this crate needs of whatever starts commands, so that a turn can be tested without starting any.
//!
//! The sandbox's launcher is the only implementation outside of tests; policy and supervision live there.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
#[cfg(target_os = "linux")]
use openoxide_sandbox::ReaderProcess;
use openoxide_sandbox::{
    CommandSpec, ExitStatus, Launcher, OUT_OF_DESCRIPTORS, Output, RunningCommand, SandboxError, SandboxPolicy,
    WaitOutcome, is_out_of_descriptors,
};

#[cfg(target_os = "linux")]
use super::reads::HelperProcess;
use super::reads::ReadHelper;
use crate::{Ceiling, ThreadId};

/// The most memory of a process that reads, the program itself included.
#[cfg(target_os = "linux")]
const READ_MEMORY: u64 = 512 << 20;

/// Starts commands.
pub(crate) trait CommandRunner: Send + Sync {
    /// Starts a command, or says in a sentence why it could not be started.
    fn spawn(&self, spec: CommandSpec) -> BoxFuture<'static, Result<Arc<dyn Running>, String>>;

    /// Starts a process that reads in the box that a thread's commands have by this policy, or says in a sentence why it could
    /// not be started. None where they have no box, or none that lasts.
    fn start_reader(
        &self,
        thread: ThreadId,
        policy: SandboxPolicy,
    ) -> BoxFuture<'static, Result<Option<ReadHelper>, String>>;

    /// Whether the policy can be enforced here, or in a sentence why not. Blocks for a few milliseconds.
    fn probe(&self, policy: &SandboxPolicy) -> Result<(), String>;

    /// Lets go of what is held for a thread's next command, as soon as none of its commands is left.
    fn release(&self, _thread: &str) {}
}

/// A command that was started. Dropping the last handle ends its whole process tree.
pub(crate) trait Running: Send + Sync {
    /// Waits for the exit, at most this long.
    fn wait(&self, timeout: Duration) -> BoxFuture<'_, WaitOutcome>;
    /// Output since the last call.
    fn take_output(&self) -> Output;
    /// Wakes when there may be output, or the exit is known.
    fn changed(&self) -> BoxFuture<'_, ()>;
    /// How it exited, once it has.
    fn exit_status(&self) -> Option<ExitStatus>;
    /// Types into its terminal; where it has none, understands the keys that interrupt it and that close its input.
    fn write_stdin<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), String>>;
    /// Whether any process of the tree is left.
    fn tree_alive(&self) -> bool;
    /// SIGTERM at the first poll, SIGKILL two seconds later; ready when nothing is left.
    fn terminate(&self) -> BoxFuture<'_, ()>;
}

/// Starts what the operator's ceiling lets run, by another runner. Whoever starts a command comes by here, whatever was
/// judged, asked and approved before.
pub(crate) struct UnderCeiling {
    pub(crate) runner: Arc<dyn CommandRunner>,
    pub(crate) ceiling: Ceiling,
}

impl CommandRunner for UnderCeiling {
    fn start_reader(
        &self,
        thread: ThreadId,
        policy: SandboxPolicy,
    ) -> BoxFuture<'static, Result<Option<ReadHelper>, String>> {
        self.runner.start_reader(thread, policy)
    }

    fn probe(&self, policy: &SandboxPolicy) -> Result<(), String> {
        self.runner.probe(policy)
    }

    fn release(&self, thread: &str) {
        self.runner.release(thread);
    }

    fn spawn(&self, spec: CommandSpec) -> BoxFuture<'static, Result<Arc<dyn Running>, String>> {
        match self.ceiling.check_command(&spec.policy) {
            Ok(()) => self.runner.spawn(spec),
            Err(error) => std::future::ready(Err(error.to_string())).boxed(),
        }
    }
}

/// Why a command could not be started or reached. Where no file can be opened, nothing else is wrong, and no other advice is given.
fn why(error: &SandboxError) -> String {
    if is_out_of_descriptors(error) { OUT_OF_DESCRIPTORS.to_owned() } else { error.to_string() }
}

impl CommandRunner for Launcher {
    #[cfg(target_os = "linux")]
    fn start_reader(
        &self,
        thread: ThreadId,
        policy: SandboxPolicy,
    ) -> BoxFuture<'static, Result<Option<ReadHelper>, String>> {
        let launcher = self.clone();
        let spec = CommandSpec {
            git_from: Vec::new(),
            argv: Vec::new(),
            cwd: std::path::PathBuf::new(),
            env: std::collections::BTreeMap::new(),
            tty: false,
            policy,
            output_limit: 0,
            thread_marker: Some(thread.to_string()),
        };
        async move {
            match Launcher::reader(&launcher, spec, READ_MEMORY).await {
                Ok(process) => Ok(Some(ReadHelper { process: Box::new(process), has_own_tmp: true })),
                Err(SandboxError::NoReader) => Ok(None),
                Err(error) => Err(why(&error)),
            }
        }
        .boxed()
    }

    #[cfg(not(target_os = "linux"))]
    fn start_reader(&self, _: ThreadId, _: SandboxPolicy) -> BoxFuture<'static, Result<Option<ReadHelper>, String>> {
        std::future::ready(Ok(None)).boxed()
    }

    fn probe(&self, policy: &SandboxPolicy) -> Result<(), String> {
        Launcher::probe(self, policy).map(drop).map_err(|error| why(&error))
    }

    fn release(&self, thread: &str) {
        Launcher::release(self, thread);
    }

    fn spawn(&self, spec: CommandSpec) -> BoxFuture<'static, Result<Arc<dyn Running>, String>> {
        let launcher = self.clone();
        async move {
            match Launcher::spawn(&launcher, spec).await {
                Ok(command) => {
                    if let Some(why) = command.unlisted() {
                        tracing::warn!(why, "a command is not in the ledger; a start after a kill would not end it");
                    }
                    Ok(Arc::new(command) as Arc<dyn Running>)
                }
                Err(error) => Err(why(&error)),
            }
        }
        .boxed()
    }
}

#[cfg(target_os = "linux")]
impl HelperProcess for ReaderProcess {
    fn stream(&mut self) -> &mut tokio::net::UnixStream {
        self.socket()
    }
}

impl Running for RunningCommand {
    fn wait(&self, timeout: Duration) -> BoxFuture<'_, WaitOutcome> {
        RunningCommand::wait(self, timeout).boxed()
    }

    fn take_output(&self) -> Output {
        RunningCommand::take_output(self)
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        RunningCommand::changed(self).boxed()
    }

    fn exit_status(&self) -> Option<ExitStatus> {
        RunningCommand::exit_status(self)
    }

    fn write_stdin<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), String>> {
        async move { RunningCommand::write_stdin(self, bytes).await.map_err(|error| why(&error)) }.boxed()
    }

    fn tree_alive(&self) -> bool {
        RunningCommand::tree_alive(self)
    }

    fn terminate(&self) -> BoxFuture<'_, ()> {
        RunningCommand::terminate(self).boxed()
    }
}
