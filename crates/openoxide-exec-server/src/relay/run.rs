//! Between the server and one command: starts it, passes its three streams on, tells its exit.
//!
//! One thread, which waits for whatever is ready. The command's exit is told when what it had written by then is told; what
//! its descendants write later follows, and the relay ends with the last of them that holds an output open. SIGTERM does not
//! end it before the command: it passes on what that still writes.

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::frames::{FromRelay, INPUT_WINDOW, Lines, OUTPUT_WINDOW, ToRelay};
use super::{open_pipe, tell};

/// Bytes read at once.
const READ: usize = 32 << 10;

/// Runs the command and gives the relay's own exit code.
pub(super) fn run(pipe: &OsString, command: Command, has_input: bool) -> i32 {
    // Whatever fails here, there is nobody left to be told: the server is gone, and the sandbox ends this.
    begin(pipe, command, has_input).unwrap_or(1)
}

fn begin(pipe: &OsString, mut command: Command, has_input: bool) -> io::Result<i32> {
    let signals = openoxide_sandbox::ending_signals()?;
    let from_server = open_pipe(pipe)?;
    rustix::io::ioctl_fionbio(&from_server, true)?;
    let (stdout, theirs_out) = io::pipe()?;
    let (stderr, theirs_err) = io::pipe()?;
    let input = has_input.then(io::pipe).transpose()?;
    let (stdin, to_command) = match input {
        Some((theirs, ours)) => (Stdio::from(theirs), Some(ours)),
        None => (Stdio::null(), None),
    };
    // A group of its own, for SIGINT.
    command.stdin(stdin).stdout(theirs_out).stderr(theirs_err).process_group(0);
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            tell(&FromRelay::Failed(error.raw_os_error().unwrap_or(0)).encode())?;
            return Ok(127);
        }
    };
    // It holds the command's ends of the pipes.
    drop(command);
    for fd in [stdout.as_fd(), stderr.as_fd()].into_iter().chain(to_command.as_ref().map(AsFd::as_fd)) {
        rustix::io::ioctl_fionbio(fd, true)?;
    }
    tell(&FromRelay::Ready.encode())?;
    let group = Pid::from_child(&child);
    let exit = Exit::of(&child, group)?;
    let mut relay = Relay {
        child,
        group,
        exit,
        code: None,
        signals: Some(signals),
        from_server: Some(from_server),
        lines: Lines::default(),
        outputs: [Some(stdout), Some(stderr)],
        untaken: 0,
        to_command,
        input: Vec::new(),
    };
    while relay.code.is_none() || relay.outputs.iter().any(Option::is_some) {
        relay.step()?;
    }
    Ok(0)
}

/// How the command's exit is noticed.
struct Exit {
    #[cfg(target_os = "linux")]
    pidfd: OwnedFd,
}

impl Exit {
    #[cfg(target_os = "linux")]
    fn of(_: &Child, pid: Pid) -> io::Result<Self> {
        Ok(Self { pidfd: rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())? })
    }

    #[cfg(not(target_os = "linux"))]
    fn of(_: &Child, _: Pid) -> io::Result<Self> {
        Ok(Self {})
    }
}

struct Relay {
    child: Child,
    group: Pid,
    exit: Exit,
    code: Option<i32>,
    signals: Option<PipeReader>,
    from_server: Option<std::fs::File>,
    lines: Lines,
    /// Standard output and standard error, while they are open.
    outputs: [Option<PipeReader>; 2],
    /// Bytes that the server has not taken yet.
    untaken: usize,
    to_command: Option<PipeWriter>,
    /// What the command has not taken yet.
    input: Vec<u8>,
}

/// What can be ready.
#[derive(Clone, Copy)]
enum Source {
    Signals,
    Server,
    Output(usize),
    Input,
    Exit,
}

impl Relay {
    /// Waits until something is ready, and does what it asks for.
    fn step(&mut self) -> io::Result<()> {
        let ready = self.wait()?;
        for source in ready {
            match source {
                Source::Signals => self.drain_signals(),
                Source::Server => self.hear()?,
                Source::Output(which) => drop(self.pass_on(which)?),
                Source::Input => self.feed()?,
                Source::Exit => self.reap()?,
            }
        }
        Ok(())
    }

    fn wait(&self) -> io::Result<Vec<Source>> {
        let mut sources = Vec::with_capacity(6);
        let mut fds = Vec::with_capacity(6);
        if let Some(signals) = &self.signals {
            sources.push(Source::Signals);
            fds.push(PollFd::new(signals, PollFlags::IN));
        }
        if let Some(server) = &self.from_server {
            sources.push(Source::Server);
            fds.push(PollFd::new(server, PollFlags::IN));
        }
        for (which, output) in self.outputs.iter().enumerate() {
            if let Some(output) = output.as_ref().filter(|_| self.untaken < OUTPUT_WINDOW) {
                sources.push(Source::Output(which));
                fds.push(PollFd::new(output, PollFlags::IN));
            }
        }
        if let Some(input) = self.to_command.as_ref().filter(|_| !self.input.is_empty()) {
            sources.push(Source::Input);
            fds.push(PollFd::new(input, PollFlags::OUT));
        }
        #[cfg(target_os = "linux")]
        let timeout = None;
        #[cfg(not(target_os = "linux"))]
        let timeout = Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 10_000_000 });
        if self.code.is_none() {
            sources.push(Source::Exit);
            #[cfg(target_os = "linux")]
            fds.push(PollFd::new(&self.exit.pidfd, PollFlags::IN));
        }
        loop {
            match poll(&mut fds, timeout) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let is_ready = |at: usize| fds.get(at).is_none_or(|fd| !fd.revents().is_empty());
        Ok(sources.into_iter().enumerate().filter(|(at, _)| is_ready(*at)).map(|(_, source)| source).collect())
    }

    /// The tree is being ended, the command included; this goes on until it is.
    fn drain_signals(&mut self) {
        let mut bytes = [0; 64];
        if !matches!(self.signals.as_mut().map(|signals| signals.read(&mut bytes)), Some(Ok(1..))) {
            self.signals = None;
        }
    }

    fn hear(&mut self) -> io::Result<()> {
        let mut bytes = [0; READ];
        let Some(server) = &mut self.from_server else { return Ok(()) };
        match server.read(&mut bytes) {
            Ok(0) => self.from_server = None,
            Ok(read) => self.lines.push(&bytes[..read]),
            Err(error) if is_passing(&error) => {}
            Err(_) => self.from_server = None,
        }
        while let Some(line) = self.lines.next() {
            match ToRelay::parse(&line) {
                Some(ToRelay::Input(bytes)) => {
                    if self.to_command.is_some() {
                        self.input.extend(bytes);
                        self.feed()?;
                    } else {
                        tell(&FromRelay::InputClosed.encode())?;
                    }
                }
                Some(ToRelay::Taken(bytes)) => self.untaken = self.untaken.saturating_sub(bytes),
                Some(ToRelay::Interrupt) if self.code.is_none() => {
                    let _ = kill_process_group(self.group, Signal::INT);
                }
                Some(ToRelay::Interrupt | ToRelay::Order(_)) | None => {}
            }
        }
        Ok(())
    }

    /// Gives the command what it takes.
    fn feed(&mut self) -> io::Result<()> {
        let mut taken = 0;
        while let Some(writer) = self.to_command.as_mut().filter(|_| taken < self.input.len()) {
            match writer.write(&self.input[taken..]) {
                Ok(written) => taken += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.to_command = None;
                    self.input.clear();
                    return tell(&FromRelay::InputClosed.encode());
                }
            }
        }
        self.input.drain(..taken);
        if self.input.is_empty() && self.input.capacity() > INPUT_WINDOW {
            self.input.shrink_to_fit();
        }
        if taken > 0 { tell(&FromRelay::Taken(taken).encode()) } else { Ok(()) }
    }

    /// Reads once; false where there was nothing.
    fn pass_on(&mut self, which: usize) -> io::Result<bool> {
        let mut bytes = [0; READ];
        let Some(output) = &mut self.outputs[which] else { return Ok(false) };
        match output.read(&mut bytes) {
            Ok(0) => self.outputs[which] = None,
            Ok(read) => {
                self.untaken += read;
                let bytes = bytes[..read].to_vec();
                let frame = if which == 0 { FromRelay::Stdout(bytes) } else { FromRelay::Stderr(bytes) };
                tell(&frame.encode())?;
                return Ok(true);
            }
            Err(error) if is_passing(&error) => {}
            Err(_) => self.outputs[which] = None,
        }
        Ok(false)
    }

    fn reap(&mut self) -> io::Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        // What it wrote is in the pipes, which hold no more than a few windows.
        for which in 0..self.outputs.len() {
            let mut rounds = 0;
            while rounds < MOST_LEFT / READ && self.pass_on(which)? {
                rounds += 1;
            }
        }
        self.to_command = None;
        self.input.clear();
        self.code = Some(code_of(status));
        tell(&FromRelay::Exited(code_of(status)).encode())
    }
}

/// More than a pipe holds: descendants may go on writing, and are not waited for.
const MOST_LEFT: usize = 1 << 20;

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn code_of(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}
