//! The end that depends on nothing: a plain thread that leaves [`LIMIT`] after the first signal or the end of input, whatever the
//! async runtime, a lock or the disk hangs at.
//!
//! ```text
//! SIGTERM, SIGINT, SIGHUP ──pipe──┐                      ┌──> the graceful end is asked for
//! hang-up of standard input ──────┼──> thread, in poll ──┤
//! Watchdog::arm() ────────pipe────┘                      └──> LIMIT later: _exit
//! ```
//!
//! The graceful end takes less than that, and the thread goes with the process.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;

/// From the first signal or the end of input to the end of the process.
const LIMIT: Duration = Duration::from_millis(2_500);

/// The exit code of a process that had to be cut short.
const CUT_SHORT: i32 = 1;

/// Where the end of the input is looked for, beside [`Watchdog::arm`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// On standard input, whose other end hangs up. What the runtime has not read by then is not waited for.
    Standard,
    /// Nowhere: the input is no stream of this process.
    Elsewhere,
}

/// A handle on the thread. Cheap to clone; dropping all of them ends nothing.
#[derive(Debug, Clone)]
pub(crate) struct Watchdog {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The thread sends once, [`Watchdog::asked`] receives; a permit is kept for who asks later.
    asked: Notify,
    /// [`Watchdog::arm`] writes a byte, the thread reads. It is not blocking, and one byte is enough.
    armed: PipeWriter,
}

impl Watchdog {
    /// Takes over the signals that end a process, and starts the thread. Once in a process, before its runtime is made.
    ///
    /// # Errors
    /// The system gives no pipe, handler or thread.
    pub(crate) fn start(input: Input) -> anyhow::Result<Self> {
        let failed = "cannot watch for signals";
        let signals = openoxide_sandbox::ending_signals().context(failed)?;
        let (arming, armed) = std::io::pipe().context(failed)?;
        rustix::io::ioctl_fionbio(&armed, true).context(failed)?;
        let shared = Arc::new(Shared { asked: Notify::new(), armed });
        let watched = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("watchdog".to_owned());
        thread.spawn(move || watch(signals, arming, input, &watched)).context(failed)?;
        Ok(Self { shared })
    }

    /// Begins the time in which the process has to end, if nothing has before. It never blocks.
    pub(crate) fn arm(&self) {
        // It fails where the pipe is full, of bytes that say the same.
        let _ = (&self.shared.armed).write(&[0]);
    }

    /// Ready when a signal has asked this process to end. Cancel-safe: what was told is kept for the next call.
    pub(crate) async fn asked(&self) {
        self.shared.asked.notified().await;
    }

    /// The same input, whose end or failure arms. It serves files and terminals, which do not hang up.
    pub(crate) fn watching<R>(&self, input: R) -> Watched<R> {
        Watched { input, watchdog: self.clone() }
    }
}

/// An input whose end arms the watchdog.
#[derive(Debug)]
pub(crate) struct Watched<R> {
    input: R,
    watchdog: Watchdog,
}

impl<R: AsyncRead + Unpin> AsyncRead for Watched<R> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        let (before, room) = (into.filled().len(), into.remaining());
        let polled = Pin::new(&mut this.input).poll_read(context, into);
        let is_end = match &polled {
            Poll::Ready(Ok(())) => room > 0 && into.filled().len() == before,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if is_end {
            this.watchdog.arm();
        }
        polled
    }
}

/// The thread.
fn watch(mut signals: PipeReader, arming: PipeReader, input: Input, shared: &Shared) {
    let stdin = std::io::stdin();
    // A hang-up is told unasked. The end of what a socket brings is not one where its other direction is open.
    #[cfg(target_os = "linux")]
    let hang_up = PollFlags::RDHUP;
    #[cfg(not(target_os = "linux"))]
    let hang_up = PollFlags::empty();
    let mut deadline: Option<Instant> = None;
    let mut why = "the end of its input";
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            say(&format!("openoxide: still busy {} s after {why}; leaving without waiting\n", LIMIT.as_secs_f32()));
            openoxide_sandbox::end_now(CUT_SHORT);
        }
        let left = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let mut watched = vec![PollFd::new(&signals, PollFlags::IN)];
        if deadline.is_none() {
            watched.push(PollFd::new(&arming, PollFlags::IN));
            if input == Input::Standard {
                watched.push(PollFd::from_borrowed_fd(stdin.as_fd(), hang_up));
            }
        }
        // An interrupted wait is begun again, with what is left of the time.
        let ready = poll(&mut watched, left.as_ref()).unwrap_or(0) > 0;
        let is_signal = ready && !watched[0].revents().is_empty();
        let is_end = watched.iter().skip(1).any(|one| !one.revents().is_empty());
        drop(watched);
        if is_signal {
            let mut number = [0];
            let _ = signals.read(&mut number);
            shared.asked.notify_one();
        }
        if deadline.is_none() && (is_signal || is_end) {
            deadline = Some(Instant::now() + LIMIT);
            if is_signal {
                why = "a signal to end";
            }
        }
    }
}

/// Writes to standard error if that takes it at once: neither the lock of another thread nor a reader that stands still is waited
/// for.
fn say(text: &str) {
    let stderr = rustix::stdio::stderr();
    let mut watched = [PollFd::from_borrowed_fd(stderr, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut watched, Some(&now)).unwrap_or(0) > 0 && watched[0].revents().contains(PollFlags::OUT) {
        let _ = rustix::io::write(stderr, text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, ExitStatus, Stdio};

    use super::*;

    const ROLE: &str = "OPENOXIDE_TEST_OF_WATCHDOG";

    /// This very test as a program of its own. It says on standard error when it hangs.
    fn child(test: &str, role: &str, stdin: Stdio) -> Child {
        #[expect(clippy::disallowed_methods, reason = "a test starts itself")]
        let mut command = Command::new(std::env::current_exe().unwrap());
        let test = format!("watchdog::tests::{test}");
        let command = command.args(["--exact", &test, "--nocapture"]).env(ROLE, role);
        let mut child = command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = Vec::new();
        let stderr = child.stderr.as_mut().unwrap();
        while !said.ends_with(b"hangs\n") {
            let mut byte = [0];
            assert_eq!(stderr.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&said));
            said.push(byte[0]);
        }
        child
    }

    /// In the child: every worker of the runtime, and the thread that drives it, are blocked for good.
    fn hang(input: Input) -> ! {
        const WORKERS: usize = 2;
        let watchdog = Watchdog::start(input).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build().unwrap();
        runtime.block_on(async move {
            let (told, all) = std::sync::mpsc::sync_channel(WORKERS);
            for _ in 0..WORKERS {
                let told = told.clone();
                tokio::spawn(async move {
                    told.send(()).unwrap();
                    block();
                });
            }
            for _ in 0..WORKERS {
                all.recv().unwrap();
            }
            if role().as_deref() == Some("arm") {
                watchdog.arm();
            }
            eprintln!("hangs");
            // Standard error may be locked by another thread as well.
            let _held = std::io::stderr().lock();
            block();
        });
        unreachable!("nothing ends the wait");
    }

    fn block() {
        loop {
            std::thread::park();
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a test tells itself what to be")]
    fn role() -> Option<String> {
        std::env::var(ROLE).ok()
    }

    /// How the child ended, and the time until then, which has to be within three times the promise.
    fn ended(mut child: Child) -> (ExitStatus, Duration) {
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return (status, begun.elapsed());
            }
            if begun.elapsed() > LIMIT * 3 {
                let _ = child.kill();
                panic!("it is still there");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn expect_cut_short(child: Child) {
        let (status, took) = ended(child);
        assert_eq!(status.code(), Some(CUT_SHORT), "{status}");
        assert!(took >= LIMIT - Duration::from_millis(200), "the graceful end has its time: {took:?}");
    }

    #[test]
    fn a_signal_ends_a_process_whose_runtime_hangs() {
        if role().is_some() {
            hang(Input::Standard);
        }
        for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT, rustix::process::Signal::HUP] {
            let child = child("a_signal_ends_a_process_whose_runtime_hangs", "hang", Stdio::piped());
            let pid = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(pid, signal).unwrap();
            expect_cut_short(child);
        }
    }

    #[test]
    fn the_end_of_input_ends_a_process_whose_runtime_hangs() {
        if role().is_some() {
            hang(Input::Standard);
        }
        // A pipe, with something in it that nobody reads any more; and a pair of sockets, as Node makes them.
        let mut by_pipe = child("the_end_of_input_ends_a_process_whose_runtime_hangs", "hang", Stdio::piped());
        by_pipe.stdin.as_mut().unwrap().write_all(b"unread\n").unwrap();
        drop(by_pipe.stdin.take());
        expect_cut_short(by_pipe);
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let theirs = std::os::fd::OwnedFd::from(theirs);
        let by_socket = child("the_end_of_input_ends_a_process_whose_runtime_hangs", "hang", theirs.into());
        drop(ours);
        expect_cut_short(by_socket);
    }

    #[test]
    fn arming_ends_a_process_whose_runtime_hangs() {
        if role().is_some() {
            hang(Input::Elsewhere);
        }
        expect_cut_short(child("arming_ends_a_process_whose_runtime_hangs", "arm", Stdio::null()));
    }

    #[tokio::test]
    async fn the_end_of_a_file_arms() {
        let (mut arming, armed) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&armed, true).unwrap();
        let watchdog = Watchdog { shared: Arc::new(Shared { asked: Notify::new(), armed }) };
        let mut input = watchdog.watching(&b"line\n"[..]);
        let mut text = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut input, &mut text).await.unwrap();
        assert_eq!(text, "line\n");
        let mut byte = [1];
        arming.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [0]);
    }
}
