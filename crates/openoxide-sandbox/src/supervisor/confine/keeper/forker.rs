//! The keeper's child that copies itself for each command, and the keeper's side of it.
//!
//! It stays behind the scopes of the thread, where no mount can be made: views come from the keeper.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process};

use super::super::super::failure::{Failure, errno_of};
use super::super::super::{Control, exit, signals};
use super::super::landlock::{self, Rules};
use super::super::privileges;
use super::super::syscalls::Filters;
use super::command::{self, Ready};
use super::socket_pair;
use crate::link::{Request, Step};
use crate::{Reader, passing};

/// Two numbers: the length of the request, and which descriptors came along.
const HEADER: usize = 8;
const WITH_RULES: u32 = 1;
const WITH_NETWORK: u32 = 2;

/// An answer: a mark, a number, the length of the text that follows.
const ANSWER: usize = 9;
const DONE: u8 = b'+';
const FAILED: u8 = b'-';

/// A command, as the keeper hands it on.
pub(super) struct Job<'a> {
    pub(super) request: &'a Request,
    /// The mounts that it sees.
    pub(super) view: &'a OwnedFd,
    pub(super) control: &'a Control,
    pub(super) output: &'a OwnedFd,
    /// The thread's own network; none for a command in the host's.
    pub(super) network: Option<&'a OwnedFd>,
    pub(super) rules: Option<Rules>,
}

/// The forker, as the keeper knows it.
pub(super) struct Forker {
    pub(super) pid: Pid,
    channel: UnixStream,
    /// Whether its first word was heard.
    is_ready: bool,
}

impl Forker {
    /// Makes it. It works on what it needs while the keeper goes on.
    pub(super) fn start(server: &Control, null: &OwnedFd, reader: Option<Reader>) -> Result<Self, Failure> {
        let (channel, theirs) = socket_pair()?;
        // SAFETY: this process has one thread, so the copy may do whatever this one may.
        #[allow(unsafe_code)]
        let forked = unsafe { libc::fork() };
        if forked == 0 {
            // The server's socket is the keeper's alone.
            for descriptor in [server.socket.as_raw_fd(), channel.as_raw_fd()] {
                // SAFETY: nothing in this copy uses it.
                #[allow(unsafe_code)]
                unsafe {
                    libc::close(descriptor);
                }
            }
            run(theirs, null, reader)
        }
        let failed = || Failure::new(Step::Fork, errno_of(&std::io::Error::last_os_error()));
        let pid = Pid::from_raw(forked.max(0)).ok_or_else(failed)?;
        Ok(Self { pid, channel, is_ready: false })
    }

    /// Starts the subreaper of a command, and with it the command; returns the former's process.
    pub(super) fn start_command(&mut self, job: &Job<'_>) -> Result<Pid, Failure> {
        if !self.is_ready {
            self.answer()?;
            self.is_ready = true;
        }
        self.send(job).map_err(|errno| Failure::new(Step::Prepare, errno))?;
        let number = self.answer()?;
        Pid::from_raw(number).ok_or_else(|| Failure::new(Step::Fork, Errno::SRCH))
    }

    fn send(&self, job: &Job<'_>) -> Result<(), Errno> {
        let mut request = Vec::new();
        job.request.write(&mut request).map_err(|error| errno_of(&error))?;
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(|_| Errno::TOOBIG);
        let mut flags = 0;
        let mut descriptors: Vec<BorrowedFd<'_>> =
            vec![job.control.socket.as_fd(), job.output.as_fd(), job.view.as_fd()];
        if let Some(rules) = &job.rules {
            descriptors.push(rules.as_fd());
            flags |= WITH_RULES;
        }
        if let Some(network) = job.network {
            descriptors.push(network.as_fd());
            flags |= WITH_NETWORK;
        }
        let header: Vec<u8> = [length(&request)?, flags].iter().flat_map(|number| number.to_ne_bytes()).collect();
        passing::send(self.channel.as_fd(), &header, &descriptors, true)?;
        (&self.channel).write_all(&request).map_err(|error| errno_of(&error))
    }

    /// Waits for an answer. A command may have stopped it; then it is continued.
    fn answer(&self) -> Result<i32, Failure> {
        let gone = || Failure::new(Step::Prepare, Errno::CONNRESET);
        while !signals::wait(Some(self.channel.as_fd()), None) {
            // Its exit is left where it is, for whoever takes all of them; the channel tells of it as well.
            if let Ok(Some((_, status))) =
                rustix::process::waitpid(Some(self.pid), WaitOptions::UNTRACED | WaitOptions::NOHANG)
            {
                match status.stopped() {
                    true => drop(kill_process(self.pid, Signal::CONT)),
                    false => return Err(gone()),
                }
            }
        }
        let mut answer = [0; ANSWER];
        let (read, _) = passing::receive(self.channel.as_fd(), &mut answer).map_err(|_| gone())?;
        let [mark, a, b, c, d, e, f, g, h] = answer;
        if read != ANSWER {
            return Err(gone());
        }
        let (number, length) = (i32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]));
        let mut text = vec![0; length as usize];
        (&self.channel).read_exact(&mut text).map_err(|_| gone())?;
        match mark {
            DONE => Ok(number),
            _ => Err(failure_of(number, &text)),
        }
    }
}

/// A failure as the text of an answer: its step, and what was being done.
fn failure_of(errno: i32, text: &[u8]) -> Failure {
    let (step, detail) = text.split_first().map_or((None, &[][..]), |(step, detail)| (Step::from_wire(*step), detail));
    Failure {
        step: step.unwrap_or(Step::Prepare),
        errno: Errno::from_raw_os_error(errno),
        detail: String::from_utf8_lossy(detail).into_owned(),
    }
}

/// The forker.
fn run(channel: UnixStream, null: &OwnedFd, reader: Option<Reader>) -> ! {
    match begin() {
        Ok(filters) => {
            answer(&channel, Ok(0));
            let mut forker = Inside { channel, null, reader, filters };
            while let Some(received) = forker.receive() {
                let started = forker.start(received);
                answer(&forker.channel, started);
            }
        }
        Err(failure) => answer(&channel, Err(failure)),
    }
    exit(0)
}

fn begin() -> Result<Filters, Failure> {
    rustix::thread::set_no_new_privs(true).map_err(|errno| Failure::confine("giving up new privileges", errno))?;
    landlock::enforce_scopes()?;
    // What is the same for all commands is done once.
    privileges::close_bounding_set().map_err(|errno| Failure::confine("giving up capabilities", errno))?;
    privileges::max_processes();
    let (here, of_each) = Filters::compile_in_parts()?;
    here.install()?;
    Ok(of_each)
}

fn answer(channel: &UnixStream, what: Result<i32, Failure>) {
    let (mark, number, text) = match what {
        Ok(number) => (DONE, number, Vec::new()),
        Err(failure) => {
            let text = [&[failure.step as u8], failure.detail.as_bytes()].concat();
            (FAILED, failure.errno.raw_os_error(), text)
        }
    };
    let mut answer = vec![mark];
    answer.extend(number.to_ne_bytes());
    answer.extend(u32::try_from(text.len()).unwrap_or(0).to_ne_bytes());
    answer.extend(text);
    let mut channel = channel;
    // The keeper is process 1: where it is gone, so is this.
    let _ = channel.write_all(&answer);
}

/// The forker's own state.
struct Inside<'a> {
    channel: UnixStream,
    null: &'a OwnedFd,
    reader: Option<Reader>,
    filters: Filters,
}

/// A job as it arrives.
struct Received {
    request: Request,
    control: OwnedFd,
    output: OwnedFd,
    view: OwnedFd,
    rules: Option<OwnedFd>,
    network: Option<OwnedFd>,
}

impl Inside<'_> {
    /// Waits for the next command; none where the keeper is gone.
    fn receive(&mut self) -> Option<Received> {
        let mut header = [0; HEADER];
        let (read, descriptors) = passing::receive(self.channel.as_fd(), &mut header).ok()?;
        if read != HEADER {
            return None;
        }
        let mut numbers = header.chunks_exact(4).map(|four| u32::from_ne_bytes([four[0], four[1], four[2], four[3]]));
        let (length, flags) = (numbers.next()?, numbers.next()?);
        let mut request = vec![0; length as usize];
        self.channel.read_exact(&mut request).ok()?;
        let mut descriptors = descriptors.into_iter();
        Some(Received {
            request: Request::read(request.as_slice())?,
            control: descriptors.next()?,
            output: descriptors.next()?,
            view: descriptors.next()?,
            rules: if flags & WITH_RULES != 0 { Some(descriptors.next()?) } else { None },
            network: if flags & WITH_NETWORK != 0 { Some(descriptors.next()?) } else { None },
        })
    }

    /// Copies this process, as the subreaper of a command, and returns its number.
    fn start(&mut self, received: Received) -> Result<i32, Failure> {
        // SAFETY: without a stack of its own and without shared memory this is a fork, and this process has one thread, so the
        // copy may do whatever this one may. The last three arguments are not looked at without their flags.
        #[allow(unsafe_code)]
        let cloned = unsafe {
            libc::syscall(libc::SYS_clone, libc::c_long::from(libc::CLONE_PARENT | libc::SIGCHLD), 0, 0, 0, 0)
        };
        if cloned == 0 {
            // SAFETY: nothing in this copy uses it.
            #[allow(unsafe_code)]
            unsafe {
                libc::close(self.channel.as_raw_fd());
            }
            let Received { request, control, output, view, rules, network } = received;
            let (rules, filters) = (rules.map(Rules::from), &self.filters);
            let (null, reader) = (self.null, self.reader);
            command::run(Ready { request, output, view, rules, network, filters, null, reader }, control)
        }
        match i32::try_from(cloned) {
            Ok(pid) if pid > 0 => Ok(pid),
            _ => Err(Failure::new(Step::Fork, errno_of(&std::io::Error::last_os_error()))),
        }
    }
}
