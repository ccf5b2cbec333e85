//! Starts commands: re-executes this program as a supervisor, hands it the request and waits until it says that the
//! command runs. What happens afterwards is `pump.rs`; what the supervisor does is `supervisor.rs`.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::net::unix::OwnedReadHalf;

use crate::link::{self, Record, Records, Step};
use crate::pump::Pump;
use crate::terminal::{self, Ends};
use crate::{CommandSpec, HELPER_ARG, RunningCommand, SandboxError};

/// How long a supervisor may take to start its command. Far above what it needs, so that only a system that is stuck
/// meets it.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Starts commands. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Launcher {
    helper: Arc<Path>,
}

impl Launcher {
    /// Takes the path of this program, whose `main` calls [`crate::dispatch_helper`] first.
    #[must_use]
    pub fn new(helper: PathBuf) -> Self {
        Self { helper: helper.into() }
    }

    /// Starts a command and returns once it runs.
    ///
    /// Dropping the future ends what was started. It has to be called within a tokio runtime that drives IO and time.
    ///
    /// # Errors
    /// Where the mode is not enforced, the command cannot be run as asked, or the system refuses.
    pub async fn spawn(&self, mut spec: CommandSpec) -> Result<RunningCommand, SandboxError> {
        spec.check()?;
        spec.mark();
        let request = link::encode_request(&spec)?;
        let io = |what| move |source| SandboxError::Io { what, source };
        let Ends { ours, theirs } = match spec.tty {
            false => terminal::pipe().map_err(io("making a pipe"))?,
            true => terminal::terminal().map_err(io("making a terminal"))?,
        };
        let output = Arc::new(watched(ours).map_err(io("watching the output"))?);
        let (socket, their_socket) = UnixStream::pair().map_err(io("making a socket"))?;
        socket.set_nonblocking(true).map_err(io("making a socket"))?;
        // Most requests fit the socket's buffer and are there when the supervisor first looks.
        let sent = match (&socket).write(&request) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            other => other.map_err(io("sending the request"))?,
        };
        let mut start = Start {
            child: Reaper(Some(self.start_helper(&spec, their_socket, theirs)?)),
            records: Records::default(),
            helper: &self.helper,
            spec: &spec,
        };
        // The write half is the lifeline: dropping it tells the supervisor to end everything.
        let (mut control, lifeline) =
            tokio::net::UnixStream::from_std(socket).map_err(io("watching the supervisor"))?.into_split();
        let answer = async {
            let mut rest = &request[sent..];
            while !rest.is_empty() {
                lifeline.writable().await.map_err(io("sending the request"))?;
                match lifeline.try_write(rest) {
                    Ok(written) => rest = &rest[written..],
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    // The supervisor's own words, if it has any, say more than a broken pipe.
                    Err(_) => break,
                }
            }
            start.pid(&mut control).await
        };
        let seconds = START_LIMIT.as_secs();
        let pid =
            tokio::time::timeout(START_LIMIT, answer).await.unwrap_or(Err(SandboxError::HelperTimeout { seconds }))?;
        let Start { child, records, .. } = start;
        let pump = Pump::new(child, control, records, Arc::clone(&output), pid, spec.output_limit);
        let terminal = spec.tty.then_some(output);
        Ok(RunningCommand::new(pid, lifeline, terminal, pump))
    }

    /// Starts the supervisor with the socket as its stdin and the command's output as its stdout and stderr.
    ///
    /// Three plain descriptors and no work between fork and exec: so the standard library can use `posix_spawn`,
    /// whose cost does not grow with this process. The environment is empty, because every command could read it.
    fn start_helper(&self, spec: &CommandSpec, socket: UnixStream, output: OwnedFd) -> Result<Child, SandboxError> {
        let failed = |source| SandboxError::HelperStart { helper: self.helper.to_path_buf(), source };
        let errors = output.try_clone().map_err(failed)?;
        #[expect(clippy::disallowed_methods, reason = "this is the sandbox crate")]
        let mut command = std::process::Command::new(&*self.helper);
        command.arg(HELPER_ARG).args(&spec.thread_marker).env_clear();
        command.stdin(Stdio::from(OwnedFd::from(socket))).stdout(Stdio::from(output)).stderr(Stdio::from(errors));
        // Our copies of the command's ends are closed with `command` on return.
        command.spawn().map_err(failed)
    }
}

/// Has the runtime watch a descriptor.
fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned, so that it stays open and the same for as long as the watch has it.
    #[allow(unsafe_code)]
    let watched = unsafe { AsyncFd::register(fd) };
    watched.map_err(io::Error::from)
}

/// A supervisor that has not yet said whether the command runs.
struct Start<'a> {
    child: Reaper,
    records: Records,
    helper: &'a Path,
    spec: &'a CommandSpec,
}

impl Start<'_> {
    async fn pid(&mut self, control: &mut OwnedReadHalf) -> Result<u32, SandboxError> {
        let mut bytes = [0; 64];
        loop {
            control.readable().await.map_err(|source| SandboxError::Io { what: "hearing the supervisor", source })?;
            let read = match control.try_read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                // A supervisor that died with the request unread resets the connection.
                Err(_) | Ok(0) => return Err(SandboxError::HelperLost { helper: self.helper.to_path_buf() }),
                Ok(read) => read,
            };
            self.records.push(&bytes[..read]);
            match self.records.next() {
                Some(Record::Started { pid }) => return Ok(pid),
                Some(Record::Failed { step, errno }) => {
                    self.child.reap();
                    return Err(self.failure(step, io::Error::from_raw_os_error(errno)));
                }
                _ => {}
            }
        }
    }

    fn failure(&self, step: Step, source: io::Error) -> SandboxError {
        let step = match step {
            Step::Exec => {
                let program = self.spec.argv.first().cloned().unwrap_or_default();
                return match source.kind() {
                    io::ErrorKind::NotFound => SandboxError::CommandNotFound { program },
                    _ => SandboxError::Exec { program, source },
                };
            }
            Step::Directory => return SandboxError::Cwd { path: self.spec.cwd.clone(), source },
            Step::Prepare => "prepare",
            Step::Fork => "start a process",
            Step::Session => "give the command its own session",
            Step::Terminal => "give the command its terminal",
            Step::Confine => "confine the command",
        };
        SandboxError::Setup { step, source }
    }
}

/// Makes sure that a supervisor leaves no zombie, whichever way its owner ends.
#[derive(Debug)]
pub(crate) struct Reaper(Option<Child>);

impl Reaper {
    /// Takes the exit of a supervisor that has closed its socket or said its last word, so that this does not wait.
    pub(crate) fn reap(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It fails only for a process that is not our child any more.
            let _ = child.wait();
        }
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else { return };
        // The lifeline closes with the owner, but the supervisor may need two seconds to end what runs; that is not
        // waited for here. Where no thread can be had, the zombie lasts as long as this process.
        if !matches!(child.try_wait(), Ok(Some(_))) {
            let _ = std::thread::Builder::new().name("supervisor-reaper".to_owned()).spawn(move || child.wait());
        }
    }
}
