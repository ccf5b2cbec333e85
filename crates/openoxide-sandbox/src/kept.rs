//! Starts commands by the keeper of their thread (`keepers.rs`), which is started where there is none. What is told of them, and
//! how they are read, is the same as with a supervisor of their own (`launcher.rs`).

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Arc;

use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::backend::Backend;
use crate::hold::Hold;
use crate::launcher::{Reaper, START_LIMIT, Start, send, watched};
use crate::link::{self, LaunchMode, Record, Records};
use crate::pump::Pump;
use crate::refusal::Refusal;
use crate::terminal::{self, Ends};
use crate::{CommandSpec, Confinement, HELPER_ARG, Launcher, RunningCommand, SandboxError, descriptors, keepers};

impl Launcher {
    /// Whose keeper the command would be for; none where it gets a supervisor of its own.
    pub(crate) fn keeper_key(&self, spec: &CommandSpec) -> Option<keepers::Key> {
        let thread = spec.thread_marker.clone()?;
        self.shares_boxes(spec.policy.mode).then(|| keepers::Key { thread, policy: spec.policy.of_thread() })
    }

    /// Has the keeper of a thread start a command.
    pub(crate) async fn spawn_kept(
        &self,
        spec: &CommandSpec,
        confinement: &Arc<Confinement>,
        key: &keepers::Key,
    ) -> Result<RunningCommand, Refusal> {
        let io = |what| move |source| SandboxError::Io { what, source };
        let Ends { ours, theirs } = match spec.tty {
            false => terminal::pipe().map_err(io("making a pipe"))?,
            true => terminal::terminal().map_err(io("making a terminal"))?,
        };
        let output = Arc::new(watched(ours).map_err(io("watching the output"))?);
        let manner =
            LaunchMode { backend: Backend::Namespaces, probe: false, stdin: false, entry: None, reader: false };
        let Kept { pid, used, records, control, lifeline } =
            self.start_kept(spec, confinement, key, manner, &theirs).await?;
        drop(theirs);
        let hold = Hold::Keeper(Arc::clone(&used.keeper), used.id);
        let pump = Pump::new(hold.clone(), control, records, Arc::clone(&output), pid, spec.output_limit).using(used);
        let terminal = spec.tty.then_some(output);
        Ok(RunningCommand::new(pid, lifeline, terminal, pump, hold))
    }

    /// Has a keeper start what a request says, with a descriptor that is its output or its socket.
    pub(crate) async fn start_kept(
        &self,
        spec: &CommandSpec,
        confinement: &Arc<Confinement>,
        key: &keepers::Key,
        manner: LaunchMode<'_>,
        theirs: &OwnedFd,
    ) -> Result<Kept, Refusal> {
        let io = |what| move |source| SandboxError::Io { what, source };
        let mut request = link::encode_request(spec, confinement, manner)?;
        // The keeper starts, where there is none, while this looks.
        let mut used = self.keeper(key)?;
        if !confinement.writable.is_empty() {
            let (launcher, confinement) = (self.clone(), Arc::clone(confinement));
            let places = tokio::task::spawn_blocking(move || launcher.places(&confinement)).await;
            // It ends early only with the runtime, or by a fault of its own.
            request.extend(places.map_err(|error| io("looking for what is protected")(io::Error::other(error)))??);
        }
        // One that ends while it is asked has not taken the command, which goes to the next.
        let mut is_last = false;
        loop {
            let (socket, their_socket) = UnixStream::pair().map_err(io("making a socket"))?;
            socket.set_nonblocking(true).map_err(io("making a socket"))?;
            let handed = used.start(&their_socket, theirs);
            drop(their_socket);
            let (mut control, lifeline) =
                tokio::net::UnixStream::from_std(socket).map_err(io("watching the supervisor"))?.into_split();
            let mut start =
                Start { child: None, records: Records::default(), helper: self.helper(), spec, taken: false };
            let answer = async {
                if handed.is_err() {
                    return Err(SandboxError::HelperLost { helper: self.helper().to_path_buf() }.into());
                }
                send(&lifeline, &request).await?;
                start.pid(&mut control).await
            };
            let late = || Err(SandboxError::HelperTimeout { seconds: START_LIMIT.as_secs() }.into());
            let told = tokio::time::timeout(START_LIMIT, answer).await.unwrap_or_else(|_| late());
            match told {
                Ok(pid) => return Ok(Kept { pid, used, records: start.records, control, lifeline }),
                Err(Refusal::Failed(SandboxError::HelperLost { .. })) if !start.taken => {
                    let words = tokio::time::timeout(START_LIMIT, used.keeper.last_words()).await;
                    if let Some(refusal) = words.ok().and_then(|words| refusal_in(words, spec)) {
                        return Err(refusal);
                    }
                    if is_last {
                        return Err(SandboxError::HelperLost { helper: self.helper().to_path_buf() }.into());
                    }
                    is_last = true;
                    used = self.keeper(key)?;
                }
                Err(refusal) => return Err(refusal),
            }
        }
    }

    /// The keeper for a key, started where there is none.
    fn keeper(&self, key: &keepers::Key) -> Result<keepers::Use, SandboxError> {
        self.keepers().take(key, || {
            let failed = |source| SandboxError::HelperStart { helper: self.helper().to_path_buf(), source };
            let (socket, theirs) = UnixStream::pair().map_err(failed)?;
            #[expect(clippy::disallowed_methods, reason = "this is the sandbox crate")]
            let mut command = std::process::Command::new(self.helper());
            command.arg(HELPER_ARG).arg(crate::KEEPER_ARG).args(descriptors::argument()).arg(&key.thread).env_clear();
            command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).stderr(Stdio::null());
            Ok((socket, Reaper::of(command.spawn().map_err(failed)?)))
        })
    }
}

/// What a keeper has started.
pub(crate) struct Kept {
    pid: u32,
    pub(crate) used: keepers::Use,
    records: Records,
    pub(crate) control: OwnedReadHalf,
    pub(crate) lifeline: OwnedWriteHalf,
}

/// Why a keeper could not be made, in its last words; none where it says nothing of that.
fn refusal_in(mut words: Records, spec: &CommandSpec) -> Option<Refusal> {
    let mut detail = Vec::new();
    while let Some(record) = words.next() {
        match record {
            Record::Detail { text } => detail.extend(text),
            Record::Failed { step, errno } => return Some(Refusal::of(spec, step, errno, &detail)),
            _ => {}
        }
    }
    None
}
