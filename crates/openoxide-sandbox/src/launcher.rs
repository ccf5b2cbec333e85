//! Starts commands: re-executes this program as a supervisor, hands it the request and waits until it says that the
//! command runs. What happens afterwards is `pump.rs`; what the supervisor does is `supervisor.rs`.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::backend::Backend;
use crate::cgroup;
use crate::descriptors;
use crate::hold::Hold;
#[cfg(target_os = "linux")]
use crate::keepers;
use crate::ledger::{CommandId, Entry};
use crate::link::{self, LaunchMode, Record, Records, details};
use crate::listings::Listings;
use crate::pins::Pins;
use crate::pump::Pump;
use crate::refusal::{Refusal, Tried};
use crate::terminal::{self, Ends};
use crate::{
    CommandSpec, Confinement, HELPER_ARG, HostPaths, RunningCommand, SandboxError, SandboxMode, SandboxPolicy,
};

/// How long a supervisor may take to start its command. Far above what it needs, so that only a system that is stuck
/// meets it.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(30);

/// Starts commands. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Launcher {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    helper: PathBuf,
    host_paths: HostPaths,
    /// Shared with the copies that try one means alone, as what is known of directories is.
    pins: Arc<Pins>,
    listings: Arc<Listings>,
    /// The place in [`Backend::ALL`] of the one that worked last; it is tried first.
    worked: AtomicUsize,
    /// Where set, nothing else is tried.
    only: Option<Backend>,
    /// Where control groups for commands may be made; asked for when the first one needs it.
    groups: OnceLock<Option<PathBuf>>,
    /// The keepers of threads, shared with the copies that try one means alone.
    #[cfg(target_os = "linux")]
    keepers: Arc<keepers::Keepers>,
}

impl Launcher {
    /// Takes the path of this program, whose `main` calls [`crate::dispatch_helper`] first, and the user's places.
    #[must_use]
    pub fn new(helper: PathBuf, host_paths: HostPaths) -> Self {
        Self {
            shared: Arc::new(Shared {
                helper,
                host_paths,
                pins: Arc::default(),
                listings: Arc::default(),
                worked: AtomicUsize::new(0),
                only: None,
                groups: OnceLock::new(),
                #[cfg(target_os = "linux")]
                keepers: Arc::new(keepers::Keepers::new(keepers::IDLE)),
            }),
        }
    }

    /// The same launcher, which tries one means of confinement and no other.
    #[must_use]
    pub fn only(&self, backend: Backend) -> Self {
        self.with(|shared| shared.only = Some(backend))
    }

    /// The same launcher, whose threads keep what holds their commands for so long after the last of them; 30 s where nothing is
    /// said.
    #[must_use]
    pub fn keeping(&self, idle: Duration) -> Self {
        self.with(|shared| {
            #[cfg(target_os = "linux")]
            {
                shared.keepers = Arc::new(keepers::Keepers::new(idle));
            }
            #[cfg(not(target_os = "linux"))]
            let _ = (shared, idle);
        })
    }

    fn with(&self, change: impl FnOnce(&mut Shared)) -> Self {
        let old = &self.shared;
        let mut shared = Shared {
            helper: old.helper.clone(),
            host_paths: old.host_paths.clone(),
            pins: Arc::clone(&old.pins),
            listings: Arc::clone(&old.listings),
            worked: AtomicUsize::new(0),
            only: old.only,
            groups: OnceLock::new(),
            #[cfg(target_os = "linux")]
            keepers: Arc::clone(&old.keepers),
        };
        change(&mut shared);
        Self { shared: Arc::new(shared) }
    }

    /// The program that is the supervisor.
    pub(crate) fn helper(&self) -> &Path {
        &self.shared.helper
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn keepers(&self) -> &Arc<keepers::Keepers> {
        &self.shared.keepers
    }

    /// The places of the user that policies speak of.
    #[must_use]
    pub fn host_paths(&self) -> &HostPaths {
        &self.shared.host_paths
    }

    /// A policy on this machine, as it is now: each directory that commands may write in is opened, and is the one that it
    /// was. Made anew for each command; it looks at a few dozen places, which takes some tens of microseconds.
    ///
    /// # Errors
    /// A workspace or configured root that cannot be opened, was moved or replaced, lies in a place that is kept from
    /// commands, or is so wide that nothing would be protected.
    pub fn confinement(&self, policy: &SandboxPolicy) -> Result<Confinement, SandboxError> {
        Confinement::of(policy, self.host_paths(), &self.shared.pins)
    }

    /// The policy for one command, with the repositories that it may write to.
    pub(crate) fn confinement_of(&self, spec: &CommandSpec) -> Result<Confinement, SandboxError> {
        let mut confinement = self.confinement(&spec.policy)?;
        if spec.policy.opens_git() && !spec.git_from.is_empty() {
            confinement.open_git(&spec.git_from);
        }
        Ok(confinement)
    }

    /// What is protected beneath the writable directories, as it goes to a supervisor. Blocks on the disk.
    pub(crate) fn places(&self, confinement: &Confinement) -> Result<Vec<u8>, SandboxError> {
        let found = confinement.find_protected(&self.shared.listings);
        link::encode_places(found.iter().map(PathBuf::as_path))
    }

    /// Starts a command and returns once it runs.
    ///
    /// Dropping the future ends what was started. It has to be called within a tokio runtime that drives IO and time.
    ///
    /// # Errors
    /// Where the mode cannot be enforced, the command cannot be run as asked, or the system refuses.
    pub async fn spawn(&self, mut spec: CommandSpec) -> Result<RunningCommand, SandboxError> {
        spec.check()?;
        spec.mark();
        let mode = spec.policy.mode;
        let backends: Vec<Backend> = self.backends(mode).collect();
        #[cfg(target_os = "linux")]
        if let Some(key) = self.keeper_key(&spec) {
            let confinement = Arc::new(self.confinement_of(&spec)?);
            spec.settle(&confinement);
            match self.spawn_kept(&spec, &confinement, &key).await {
                Err(Refusal::Failed(error)) => return Err(error),
                Ok(command) => return Ok(command),
                // What follows tries all means, and says what is wrong with each.
                Err(Refusal::Unavailable { .. }) => {}
            }
        }
        let launch = |spec: &CommandSpec, backend| self.launch(spec, self.entry(mode, backend));
        // The program starts while this process finds out what it is to do.
        let mut early = backends.first().map(|backend| launch(&spec, *backend)).transpose()?;
        let confinement = Arc::new(self.confinement_of(&spec)?);
        spec.settle(&confinement);
        let mut tried = Vec::new();
        for backend in backends {
            let launched = early.take().map_or_else(|| launch(&spec, backend), Ok)?;
            match self.start(launched, &spec, &confinement, backend).await {
                Ok(command) => {
                    self.worked_with(backend);
                    return Ok(command);
                }
                Err(Refusal::Unavailable { what, source }) => tried.push(Tried { backend, what, source }),
                Err(Refusal::Failed(error)) => return Err(error),
            }
        }
        Err(SandboxError::Unavailable { mode: confinement.mode, tried })
    }

    /// Ends what holds the commands of a thread, as soon as none of them is left: nobody is about to use it.
    pub fn release(&self, thread: &str) {
        #[cfg(target_os = "linux")]
        self.shared.keepers.release(thread);
        #[cfg(not(target_os = "linux"))]
        let _ = thread;
    }

    /// Whether the commands of one thread share their processes and loopback, as far as is known: the means that is tried first
    /// allows it.
    #[must_use]
    pub fn shares_boxes(&self, mode: SandboxMode) -> bool {
        let first = self.backends(mode).next();
        mode != SandboxMode::DangerFullAccess && first == Some(Backend::Namespaces) && cfg!(target_os = "linux")
    }

    /// For how many threads and policies there is something that holds commands, with or without any.
    #[must_use]
    pub fn kept(&self) -> usize {
        #[cfg(target_os = "linux")]
        return self.shared.keepers.count();
        #[cfg(not(target_os = "linux"))]
        0
    }

    /// The means, in the order in which they are tried: what worked last, then the best first. One that cannot hold the
    /// mode is refused by the supervisor, which says so.
    pub(crate) fn backends(&self, mode: SandboxMode) -> impl Iterator<Item = Backend> + use<> {
        let (last, only) = (Backend::ALL[self.shared.worked.load(Ordering::Relaxed)], self.shared.only);
        let others = Backend::ALL.into_iter().filter(move |backend| *backend != last);
        let all = std::iter::once(last).chain(others);
        let fitting = all.filter(move |backend| only.is_none_or(|only| only == *backend));
        // Where nothing is confined there is nothing to choose.
        fitting.take(if mode == SandboxMode::DangerFullAccess { 1 } else { usize::MAX })
    }

    pub(crate) fn worked_with(&self, backend: Backend) {
        let place = Backend::ALL.iter().position(|known| *known == backend).unwrap_or(0);
        self.shared.worked.store(place, Ordering::Relaxed);
    }

    /// The entry of a command that nothing but its supervisors holds together, still to be written; none where its end is the
    /// kernel's own part, or there is no home to write to.
    pub(crate) fn entry(&self, mode: SandboxMode, backend: Backend) -> Option<Entry> {
        let home = self.host_paths().state.as_deref()?;
        let is_held = mode != SandboxMode::DangerFullAccess && backend != Backend::Landlock;
        if is_held || !cfg!(target_os = "linux") {
            return None;
        }
        let groups = self.shared.groups.get_or_init(|| cgroup::delegated().ok());
        Entry::new(home, groups.as_deref()).ok()
    }

    /// Whether each command in full access gets a control group of its own, by which all of it is ended.
    ///
    /// # Errors
    /// Why it does not: then two supervisors and the ledger hold it.
    pub fn groups_commands(&self) -> Result<(), String> {
        #[cfg(target_os = "linux")]
        return cgroup::try_here();
        #[cfg(not(target_os = "linux"))]
        Err("this system has no control groups".to_owned())
    }

    /// Starts a supervisor, which waits for its request. `entry` is what its command will be in the ledger.
    fn launch(&self, spec: &CommandSpec, entry: Option<Entry>) -> Result<Launched, SandboxError> {
        let io = |what| move |source| SandboxError::Io { what, source };
        let Ends { ours, theirs } = match spec.tty {
            false => terminal::pipe().map_err(io("making a pipe"))?,
            true => terminal::terminal().map_err(io("making a terminal"))?,
        };
        let (socket, their_socket) = UnixStream::pair().map_err(io("making a socket"))?;
        socket.set_nonblocking(true).map_err(io("making a socket"))?;
        let child = Reaper::of(self.start_helper(spec, entry.as_ref(), their_socket, theirs)?);
        Ok(Launched { child, socket, output: ours, entry })
    }

    async fn start(
        &self,
        launched: Launched,
        spec: &CommandSpec,
        confinement: &Arc<Confinement>,
        backend: Backend,
    ) -> Result<RunningCommand, Refusal> {
        let Launched { child, socket, output, entry } = launched;
        let mut start =
            Start { child: Some(child), records: Records::default(), helper: self.helper(), spec, taken: true };
        // While the supervisor's program is loaded; it starts nothing before it has the request.
        let unlisted = entry.as_ref().and_then(|entry| entry.write().err()).map(|error| error.to_string());
        let manner = LaunchMode { backend, probe: false, stdin: false, entry: entry.as_ref(), reader: false };
        let request = link::encode_request(spec, confinement, manner)?;
        let io = |what| move |source| SandboxError::Io { what, source };
        let output = Arc::new(watched(output).map_err(io("watching the output"))?);
        // Most requests fit the socket's buffer.
        let sent = match (&socket).write(&request) {
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            // It is gone already; what it says below, or that it says nothing, is the answer.
            Err(_) => request.len(),
        };
        let places = (!confinement.writable.is_empty()).then(|| {
            let (launcher, confinement) = (self.clone(), Arc::clone(confinement));
            tokio::task::spawn_blocking(move || launcher.places(&confinement))
        });
        // The write half is the lifeline: dropping it tells the supervisor to end everything.
        let (mut control, lifeline) =
            tokio::net::UnixStream::from_std(socket).map_err(io("watching the supervisor"))?.into_split();
        let answer = async {
            send(&lifeline, &request[sent..]).await?;
            if let Some(places) = places {
                // It ends early only with the runtime, or by a fault of its own.
                let places =
                    places.await.map_err(|error| io("looking for what is protected")(io::Error::other(error)))?;
                send(&lifeline, &places?).await?;
            }
            start.pid(&mut control).await
        };
        let seconds = START_LIMIT.as_secs();
        let late = || Err(SandboxError::HelperTimeout { seconds }.into());
        let told = tokio::time::timeout(START_LIMIT, answer).await.unwrap_or_else(|_| late());
        if let (Err(Refusal::Failed(SandboxError::HelperLost { .. })), Some(entry)) = (&told, &entry) {
            // It may have started the command before it was killed.
            entry.end().await;
        }
        let pid = told?;
        let Start { child, records, .. } = start;
        let Some(child) = child else {
            return Err(SandboxError::HelperLost { helper: self.helper().to_path_buf() }.into());
        };
        let hold = Hold::Supervisor { supervisor: child, entry, unlisted };
        let pump = Pump::new(hold.clone(), control, records, Arc::clone(&output), pid, spec.output_limit);
        let terminal = spec.tty.then_some(output);
        Ok(RunningCommand::new(pid, lifeline, terminal, pump, hold))
    }

    /// Starts the supervisor with the socket as its stdin and the command's output as its stdout and stderr.
    ///
    /// Three plain descriptors and no work between fork and exec: so the standard library can use `posix_spawn`,
    /// whose cost does not grow with this process. The environment is empty, because every command could read it, but
    /// for what the supervisor is known by where it is killed or stopped.
    fn start_helper(
        &self,
        spec: &CommandSpec,
        entry: Option<&Entry>,
        socket: UnixStream,
        output: OwnedFd,
    ) -> Result<Child, SandboxError> {
        let failed = |source| SandboxError::HelperStart { helper: self.helper().to_path_buf(), source };
        let errors = output.try_clone().map_err(failed)?;
        #[expect(clippy::disallowed_methods, reason = "this is the sandbox crate")]
        let mut command = std::process::Command::new(self.helper());
        command.arg(HELPER_ARG).args(descriptors::argument()).args(&spec.thread_marker).env_clear();
        command.envs(entry.map(|entry| (CommandId::VARIABLE, entry.id.to_string())));
        command.stdin(Stdio::from(OwnedFd::from(socket))).stdout(Stdio::from(output)).stderr(Stdio::from(errors));
        // Our copies of the command's ends are closed with `command` on return.
        command.spawn().map_err(failed)
    }
}

/// A supervisor that has no request yet.
struct Launched {
    child: Reaper,
    /// Our end: what it is told, and its lifeline.
    socket: UnixStream,
    /// Our end of the command's output.
    output: OwnedFd,
    /// Its command's entry in the ledger, still to be written.
    entry: Option<Entry>,
}

/// Sends to a supervisor. Nothing is said of one that does not take it: its own words, if it has any, say more.
pub(crate) async fn send(lifeline: &OwnedWriteHalf, mut rest: &[u8]) -> Result<(), SandboxError> {
    while !rest.is_empty() {
        let ready = lifeline.writable().await;
        ready.map_err(|source| SandboxError::Io { what: "sending the request", source })?;
        match lifeline.try_write(rest) {
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    Ok(())
}

/// Has the runtime watch a descriptor.
pub(crate) fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned, so that it stays open and the same for as long as the watch has it.
    #[allow(unsafe_code)]
    let watched = unsafe { AsyncFd::register(fd) };
    watched.map_err(io::Error::from)
}

/// A supervisor that has not yet said whether the command runs.
pub(crate) struct Start<'a> {
    /// Its process; none where a keeper has the command.
    pub(crate) child: Option<Reaper>,
    pub(crate) records: Records,
    pub(crate) helper: &'a Path,
    pub(crate) spec: &'a CommandSpec,
    /// Whether the command may have been started.
    pub(crate) taken: bool,
}

impl Start<'_> {
    pub(crate) async fn pid(&mut self, control: &mut OwnedReadHalf) -> Result<u32, Refusal> {
        let mut bytes = [0; 64];
        let (mut detail, mut exit, mut failure) = (Vec::new(), None, None);
        loop {
            control.readable().await.map_err(|source| SandboxError::Io { what: "hearing the supervisor", source })?;
            let read = match control.try_read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                // A supervisor that died with the request unread resets the connection.
                Err(_) | Ok(0) => {
                    if let Some(refusal) = failure {
                        return Err(refusal);
                    }
                    if self.child.is_some() || !self.taken {
                        return Err(SandboxError::HelperLost { helper: self.helper.to_path_buf() }.into());
                    }
                    // It may have run, and was killed with those who would have told; what they said stands at its end.
                    details(&String::from_utf8_lossy(&detail)).for_each(|words| self.records.push(&words.encode()));
                    return Ok(0);
                }
                Ok(read) => read,
            };
            self.records.push(&bytes[..read]);
            while let Some(record) = self.records.next() {
                match record {
                    Record::Started { pid } => {
                        exit.into_iter().for_each(|exit| self.records.unread(exit));
                        return Ok(pid);
                    }
                    Record::Detail { text } => detail.extend(text),
                    Record::Failed { step, errno } => {
                        let refusal = Refusal::of(self.spec, step, errno, &detail);
                        match &mut self.child {
                            Some(child) => {
                                child.reap();
                                return Err(refusal);
                            }
                            // When what was made for the command is taken away, the socket closes.
                            None => failure = Some(refusal),
                        }
                    }
                    early @ (Record::Exited { .. } | Record::Signaled { .. }) => exit = Some(early),
                    Record::Taken => self.taken = true,
                    Record::Gone => {}
                }
            }
        }
    }
}

/// Makes sure that a supervisor leaves no zombie, whichever way its owner ends. Copies are for the same supervisor; the
/// lock is held for single calls, but while an exit is taken that is there or about to be.
#[derive(Debug, Clone)]
pub(crate) struct Reaper(Arc<Mutex<Option<Child>>>);

impl Reaper {
    pub(crate) fn of(child: Child) -> Self {
        Self(Arc::new(Mutex::new(Some(child))))
    }

    /// Takes the exit of a supervisor that has closed its socket or said its last word, so that this does not wait.
    pub(crate) fn reap(&mut self) {
        let mut child = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut child) = child.take() {
            // It fails only for a process that is not our child any more.
            let _ = child.wait();
        }
    }

    /// Continues a supervisor that somebody has stopped. It continues the one below itself.
    pub(crate) fn wake(&self) {
        // Where the lock is held it has ended. Until its exit is taken its id is no other process's.
        if let Ok(child) = self.0.try_lock()
            && let Some(child) = &*child
        {
            let _ =
                rustix::process::kill_process(rustix::process::Pid::from_child(child), rustix::process::Signal::CONT);
        }
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        // Others still look after it.
        let Some(child) = Arc::get_mut(&mut self.0) else { return };
        let Some(mut child) = child.get_mut().unwrap_or_else(PoisonError::into_inner).take() else { return };
        // The lifeline closes with the owner, but the supervisor may need two seconds to end what runs; that is not
        // waited for here. Where no thread can be had, the zombie lasts as long as this process.
        if !matches!(child.try_wait(), Ok(Some(_))) {
            let _ = std::thread::Builder::new().name("supervisor-reaper".to_owned()).spawn(move || child.wait());
        }
    }
}
