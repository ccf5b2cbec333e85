//! Readers: processes that run a function of this very program in the view of a thread's commands, for what the model asks to read.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::backend::Backend;
use crate::kept::Kept;
use crate::link::{LaunchMode, TERMINATE};
use crate::refusal::Refusal;
use crate::{CommandSpec, Launcher, SandboxError, keepers};

/// A process that runs the program's [`crate::Reader`]. Dropping it ends the process.
#[derive(Debug)]
pub struct ReaderProcess {
    /// The other end of what the function was given.
    socket: tokio::net::UnixStream,
    used: keepers::Use,
    lifeline: OwnedWriteHalf,
    /// Kept open, so that what is told at the end finds somebody.
    _control: OwnedReadHalf,
}

impl Launcher {
    /// Starts the function that [`crate::dispatch_helper_with`] was given, in a process of its own: with the view that the commands of
    /// the spec's thread have under its policy, in which nothing can be written; in the spec's directory's place `/`; without
    /// network, environment or open files; with at most so many bytes of memory; and ended when the result is dropped. `argv`,
    /// `cwd`, `env` and `tty` of the spec mean nothing here.
    ///
    /// The first reader or command of a thread starts the thread's keeper; a further one costs about a fork. None is there where
    /// commands of the thread have no keeper: in full access, and by other means of confinement than namespaces.
    ///
    /// # Errors
    /// As [`Launcher::spawn`], and [`SandboxError::NoReader`] where the thread has no keeper.
    pub async fn reader(&self, mut spec: CommandSpec, memory: u64) -> Result<ReaderProcess, SandboxError> {
        spec.argv = vec!["reader".to_owned(), memory.to_string()];
        spec.cwd = "/".into();
        spec.env.clear();
        spec.tty = false;
        let Some(key) = self.keeper_key(&spec) else { return Err(SandboxError::NoReader) };
        let mut confinement = self.confinement(&spec.policy.of_thread())?;
        if confinement.private_tmp.is_none() {
            // It writes nowhere, so that its view is that of a command that only reads: nothing is protected, and nothing is
            // made in the directories to protect it. With a `/tmp` of the thread's own they are attached where they are seen.
            confinement.writable.clear();
        }
        let confinement = Arc::new(confinement);
        let io = |source| SandboxError::Io { what: "making a socket", source };
        let (ours, theirs) = UnixStream::pair().map_err(io)?;
        ours.set_nonblocking(true).map_err(io)?;
        let socket = tokio::net::UnixStream::from_std(ours).map_err(io)?;
        let manner = LaunchMode { backend: Backend::Namespaces, probe: false, stdin: false, entry: None, reader: true };
        match self.start_kept(&spec, &confinement, &key, manner, &OwnedFd::from(theirs)).await {
            Ok(Kept { used, control, lifeline, .. }) => Ok(ReaderProcess { socket, used, lifeline, _control: control }),
            Err(Refusal::Failed(error)) => Err(error),
            Err(Refusal::Unavailable { .. }) => Err(SandboxError::NoReader),
        }
    }
}

impl ReaderProcess {
    /// The socket to the function.
    pub fn socket(&mut self) -> &mut tokio::net::UnixStream {
        &mut self.socket
    }

    /// Kills it, whatever it is doing.
    pub fn kill(&self) {
        self.used.keeper.kill(self.used.id);
    }
}

impl Drop for ReaderProcess {
    fn drop(&mut self) {
        let _ = self.lifeline.try_write(&[TERMINATE]);
        self.kill();
    }
}
