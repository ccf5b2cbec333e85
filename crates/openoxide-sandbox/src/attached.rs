//! One command with the standard streams of this very process, waited for: `openoxide sandbox`, and the question whether a
//! mode can be enforced here. No runtime, no capture; the supervisor is the same.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, WaitOptions};

use crate::backend::Backend;
use crate::launcher::START_LIMIT;
use crate::ledger::Entry;
use crate::link::{self, LaunchMode, Record, Records};
use crate::refusal::{Refusal, Tried};
use crate::{CommandSpec, Confinement, ExitStatus, HELPER_ARG, Launcher, SandboxError, SandboxPolicy, supervisor};

/// Where the supervisor looks for the command's input.
const INPUT: i32 = 3;

/// Each means of confinement, and why it does not work here where it does not.
pub type Survey = Vec<(Backend, Result<(), String>)>;

impl Launcher {
    /// Runs a command with this process's own stdin, stdout and stderr, and ends what it leaves behind. `tty` and
    /// `output_limit` of the spec mean nothing here. Blocks until the command has exited and nothing of it is left.
    ///
    /// # Errors
    /// As [`Launcher::spawn`].
    pub fn run_attached(&self, mut spec: CommandSpec) -> Result<ExitStatus, SandboxError> {
        spec.check()?;
        spec.mark();
        spec.tty = false;
        let confinement = self.confinement_of(&spec)?;
        spec.settle(&confinement);
        let (mut supervisor, _) = self.first_that_works(&spec, &confinement, false)?;
        let exit = supervisor.exit(self)?;
        // Closing the lifeline ends what is left; the supervisor goes when it has.
        drop(supervisor.socket);
        supervisor.process.wait();
        Ok(exit)
    }

    /// Whether the policy can be enforced here: does all of it but the last step, running the command. Blocks for a few
    /// milliseconds.
    ///
    /// # Errors
    /// [`SandboxError::Unavailable`] with what was tried, or what is wrong with the policy's own directories.
    pub fn probe(&self, policy: &SandboxPolicy) -> Result<Backend, SandboxError> {
        let spec = probe_spec(policy);
        let confinement = self.confinement(policy)?;
        let (_, backend) = self.first_that_works(&spec, &confinement, true)?;
        Ok(backend)
    }

    /// Which means can hold the policy's mode here, each tried by itself. Blocks for a few milliseconds each.
    ///
    /// # Errors
    /// What is wrong with the policy's own directories.
    pub fn survey(&self, policy: &SandboxPolicy) -> Result<Survey, SandboxError> {
        let spec = probe_spec(policy);
        let confinement = self.confinement(policy)?;
        let all = Backend::ALL.into_iter().map(|backend| {
            if !backend.can_hold(policy.mode) {
                return (backend, Err(format!("cannot hold `{}` by itself", policy.mode.as_str())));
            }
            let outcome = self.start_attached(&spec, &confinement, backend, true).map(drop);
            let outcome = outcome.map_err(|refusal| match refusal {
                Refusal::Unavailable { what, source } => format!("{what}: {source}"),
                Refusal::Failed(error) => error.to_string(),
            });
            (backend, outcome)
        });
        Ok(all.collect())
    }

    fn first_that_works(
        &self,
        spec: &CommandSpec,
        confinement: &Confinement,
        probe: bool,
    ) -> Result<(Supervisor, Backend), SandboxError> {
        let mut tried = Vec::new();
        for backend in self.backends(confinement.mode) {
            match self.start_attached(spec, confinement, backend, probe) {
                Ok(supervisor) => {
                    self.worked_with(backend);
                    return Ok((supervisor, backend));
                }
                Err(Refusal::Unavailable { what, source }) => tried.push(Tried { backend, what, source }),
                Err(Refusal::Failed(error)) => return Err(error),
            }
        }
        Err(SandboxError::Unavailable { mode: confinement.mode, tried })
    }

    /// Starts a supervisor without input or output, for a question.
    fn execute(&self, socket: UnixStream) -> Result<Process, SandboxError> {
        let mut command = self.command(socket);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|source| self.not_started(source))?;
        Ok(Process::Executed(child))
    }

    /// Starts a supervisor with the streams of this process. Before this process has a second thread a copy of it will do,
    /// which is quicker than executing the program again.
    fn fork_or_execute(&self, theirs: UnixStream) -> Result<Process, SandboxError> {
        // High enough not to be overwritten by the copy.
        let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), INPUT + 1)
            .map_err(|errno| self.not_started(errno.into()))?;
        if !has_one_thread() {
            let mut command = self.command(theirs);
            let give = move || match duplicate(input.as_raw_fd(), INPUT) {
                true => Ok(()),
                false => Err(std::io::Error::last_os_error()),
            };
            // SAFETY: between fork and exec, `dup2` alone is called.
            #[allow(unsafe_code)]
            unsafe {
                command.pre_exec(give);
            }
            let child = command.spawn().map_err(|source| self.not_started(source))?;
            return Ok(Process::Executed(child));
        }
        // SAFETY: this process has one thread, so the copy may do whatever this one may.
        #[allow(unsafe_code)]
        let forked = unsafe { libc::fork() };
        if forked == 0 {
            if !duplicate(theirs.as_raw_fd(), 0) || !duplicate(input.as_raw_fd(), INPUT) {
                supervisor::exit(1)
            }
            supervisor::run()
        }
        let pid = Pid::from_raw(forked.max(0));
        pid.map(Process::Forked).ok_or_else(|| self.not_started(std::io::Error::last_os_error()))
    }

    fn command(&self, socket: UnixStream) -> Command {
        #[expect(clippy::disallowed_methods, reason = "this is the sandbox crate")]
        let mut command = Command::new(self.helper());
        command.arg(HELPER_ARG).env_clear().stdin(Stdio::from(OwnedFd::from(socket)));
        command
    }

    fn not_started(&self, source: std::io::Error) -> SandboxError {
        SandboxError::HelperStart { helper: self.helper().to_path_buf(), source }
    }

    fn start_attached(
        &self,
        spec: &CommandSpec,
        confinement: &Confinement,
        backend: Backend,
        probe: bool,
    ) -> Result<Supervisor, Refusal> {
        let io = |what| move |source| SandboxError::Io { what, source };
        let entry = if probe { None } else { self.entry(confinement.mode, backend) };
        let manner = LaunchMode { backend, probe, stdin: !probe, entry: entry.as_ref(), reader: false };
        let request = link::encode_request(spec, confinement, manner)?;
        let (socket, theirs) = UnixStream::pair().map_err(io("making a socket"))?;
        let child = if probe { self.execute(theirs)? } else { self.fork_or_execute(theirs)? };
        let mut supervisor = Supervisor { process: child, socket, records: Records::default() };
        supervisor.socket.set_read_timeout(Some(START_LIMIT)).map_err(io("watching the supervisor"))?;
        // There is no log here to tell where it cannot be written; the supervisors hold as they do.
        let _ = entry.as_ref().map(Entry::write);
        // A supervisor that is gone says so below.
        let _ = supervisor.socket.write_all(&request);
        if !confinement.writable.is_empty() {
            let _ = supervisor.socket.write_all(&self.places(confinement)?);
        }
        let (mut detail, mut exit) = (Vec::new(), None);
        loop {
            match supervisor.next(self)? {
                Record::Started { .. } => {
                    exit.into_iter().for_each(|exit| supervisor.records.unread(exit));
                    return Ok(supervisor);
                }
                Record::Detail { text } => detail.extend(text),
                Record::Failed { step, errno } => {
                    supervisor.process.wait();
                    return Err(Refusal::of(spec, step, errno, &detail));
                }
                early @ (Record::Exited { .. } | Record::Signaled { .. }) => exit = Some(early),
                Record::Taken | Record::Gone => {}
            }
        }
    }
}

/// A supervisor's process.
enum Process {
    /// This program, executed again.
    Executed(Child),
    /// A copy of this very process.
    Forked(Pid),
}

impl Process {
    /// Waits until it has ended.
    fn wait(&mut self) {
        match self {
            Self::Executed(child) => drop(child.wait()),
            Self::Forked(pid) => drop(rustix::process::waitpid(Some(*pid), WaitOptions::empty())),
        }
    }
}

/// Whether a copy of this process may do whatever it may.
fn has_one_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

/// A copy of one descriptor at the place of another, kept across exec.
fn duplicate(from: i32, to: i32) -> bool {
    // SAFETY: both are plain numbers; in a forked copy before exec nothing else uses `to`.
    #[allow(unsafe_code)]
    unsafe {
        libc::dup2(from, to) == to
    }
}

fn probe_spec(policy: &SandboxPolicy) -> CommandSpec {
    CommandSpec {
        argv: vec!["true".to_owned()],
        cwd: policy.workspace.clone(),
        env: std::collections::BTreeMap::new(),
        tty: false,
        policy: policy.clone(),
        git_from: Vec::new(),
        output_limit: 0,
        thread_marker: None,
    }
}

/// A supervisor that was started. Its socket is the lifeline.
struct Supervisor {
    process: Process,
    socket: UnixStream,
    records: Records,
}

impl Supervisor {
    fn next(&mut self, launcher: &Launcher) -> Result<Record, SandboxError> {
        let mut bytes = [0; 64];
        loop {
            if let Some(record) = self.records.next() {
                return Ok(record);
            }
            match self.socket.read(&mut bytes) {
                Ok(0) => return Err(SandboxError::HelperLost { helper: launcher.helper().to_path_buf() }),
                Ok(read) => self.records.push(&bytes[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    return Err(SandboxError::HelperTimeout { seconds: START_LIMIT.as_secs() });
                }
                Err(_) => return Err(SandboxError::HelperLost { helper: launcher.helper().to_path_buf() }),
            }
        }
    }

    /// Waits for the command's exit.
    fn exit(&mut self, launcher: &Launcher) -> Result<ExitStatus, SandboxError> {
        let forever = self.socket.set_read_timeout(None);
        forever.map_err(|source| SandboxError::Io { what: "watching the supervisor", source })?;
        let mut exit = None;
        loop {
            let (told, is_last) = match self.next(launcher)? {
                Record::Exited { code, is_last } => (ExitStatus { code: Some(code), signal: None }, is_last),
                Record::Signaled { signal, is_last } => (ExitStatus { code: None, signal: Some(signal) }, is_last),
                // Its init was killed before it could tell.
                Record::Gone => return Ok(exit.unwrap_or(ExitStatus { code: None, signal: Some(libc::SIGKILL) })),
                Record::Taken | Record::Started { .. } | Record::Detail { .. } | Record::Failed { .. } => continue,
            };
            if !is_last {
                return Ok(told);
            }
            exit = Some(told);
        }
    }
}
