//! What goes to standard error: log lines, panics, and the program's own sentences.
//!
//! Nobody who logs ever waits for standard error, and nothing fails when it is closed, full, or a pipe that nobody reads:
//! lines go through a queue with a bound to a thread of their own, and those that find no room are left out and counted.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tracing_subscriber::filter::{EnvFilter, LevelFilter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

/// Lines that wait for standard error.
const WAITING: usize = 1024;
/// Bytes that wait for standard error.
const WAITING_BYTES: usize = 1 << 20;
/// How long the end of the program waits for lines that are queued.
const FLUSH: Duration = Duration::from_millis(50);

/// The queue to standard error; all of the program shares one.
static QUEUE: OnceLock<Queue> = OnceLock::new();

enum Message {
    Line(Vec<u8>),
    /// Everything before it is written. The receiver waits for a moment at most.
    Flush(SyncSender<()>),
}

/// The sending side. It lives as long as the program, so that the thread ends with that.
#[derive(Clone)]
struct Queue {
    lines: SyncSender<Message>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Bytes in the queue.
    bytes: AtomicUsize,
    /// Lines that found no room since the last one that did.
    lost: AtomicUsize,
}

impl Queue {
    fn start() -> Self {
        let (lines, queued) = sync_channel(WAITING);
        let shared = Arc::<Shared>::default();
        let writers = Arc::clone(&shared);
        // Without the thread nothing is logged, and the queue drops what comes.
        drop(std::thread::Builder::new().name("log".to_owned()).spawn(move || write(&queued, &writers)));
        Self { lines, shared }
    }

    fn push(&self, line: &[u8]) {
        let bytes = self.shared.bytes.fetch_add(line.len(), Ordering::Relaxed) + line.len();
        let is_queued = bytes <= WAITING_BYTES && self.lines.try_send(Message::Line(line.to_vec())).is_ok();
        if !is_queued {
            self.shared.bytes.fetch_sub(line.len(), Ordering::Relaxed);
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn flush(&self) {
        let (done, written) = sync_channel(1);
        match self.lines.try_send(Message::Flush(done)) {
            // An error is the time that is over, or a thread that is gone.
            Ok(()) => drop(written.recv_timeout(FLUSH)),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}

/// The thread that writes. What cannot be written is dropped: there is no other place to say so.
fn write(queued: &Receiver<Message>, shared: &Shared) {
    let mut stderr = std::io::stderr();
    while let Ok(message) = queued.recv() {
        match message {
            Message::Line(line) => {
                let _ = stderr.write_all(&line);
                shared.bytes.fetch_sub(line.len(), Ordering::Relaxed);
                match shared.lost.swap(0, Ordering::Relaxed) {
                    0 => {}
                    lost => drop(writeln!(stderr, "openoxide: {lost} log lines were left out here")),
                }
            }
            Message::Flush(done) => drop(done.try_send(())),
        }
    }
}

/// Writes one event; a part of the interface that `tracing-subscriber` wants.
struct EventWriter;

impl std::io::Write for EventWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        QUEUE.get_or_init(Queue::start).push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Says a sentence of the program's own on standard error.
pub(crate) fn say(sentence: &str) {
    QUEUE.get_or_init(Queue::start).push(format!("openoxide: {sentence}\n").as_bytes());
}

/// Lets the last lines out; the last thing that the program does.
pub(crate) fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush();
    }
}

/// Kept until the end of the program: exports the last spans.
pub(crate) struct Logging {
    #[cfg(feature = "otel")]
    _exporting: Option<crate::otel::Exporting>,
}

/// Starts logging. Lines are few unless asked for, because hosts show them as problems: errors alone, more with `-v`, else
/// what `RUST_LOG` says.
///
/// # Errors
/// The settings of the exporter of spans are not understood.
pub(crate) fn start(verbose: u8) -> anyhow::Result<Logging> {
    std::panic::set_hook(Box::new(|info| say(&format!("internal error: {info}"))));
    let (filter, complaint) = filter(verbose, crate::config::variable("RUST_LOG").ok().as_deref());
    let lines = fmt::layer().with_writer(|| EventWriter).with_target(false).log_internal_errors(false);
    #[cfg(feature = "otel")]
    let (spans, exporting) = crate::otel::layer()?.unzip();
    let registry = tracing_subscriber::registry();
    #[cfg(feature = "otel")]
    let registry = registry.with(spans);
    registry.with(lines.with_filter(filter)).init();
    if let Some(complaint) = complaint {
        say(&complaint);
    }
    Ok(Logging {
        #[cfg(feature = "otel")]
        _exporting: exporting,
    })
}

/// What is logged, and what to say of a `RUST_LOG` that is not understood.
fn filter(verbose: u8, variable: Option<&str>) -> (EnvFilter, Option<String>) {
    let only = |level: LevelFilter| EnvFilter::default().add_directive(level.into());
    match (verbose, variable.filter(|value| !value.trim().is_empty())) {
        (0, None) => (only(LevelFilter::ERROR), None),
        (0, Some(value)) => match EnvFilter::builder().parse(value) {
            Ok(filter) => (filter, None),
            Err(error) => {
                let complaint = format!(
                    "RUST_LOG is {value:?}, which is no filter ({error}); errors alone are logged. Give a level such as \
                     info, or target=level pairs"
                );
                (only(LevelFilter::ERROR), Some(complaint))
            }
        },
        (1, _) => (only(LevelFilter::INFO), None),
        (_, _) => (only(LevelFilter::TRACE), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_goes_before_the_variable_and_a_bad_variable_is_told() {
        let shown = |verbose, variable| filter(verbose, variable).0.to_string();
        assert_eq!(shown(0, None), "error");
        assert_eq!(shown(0, Some("debug")), "debug");
        assert_eq!(shown(1, Some("debug")), "info");
        assert_eq!(shown(2, None), "trace");
        let (fallback, complaint) = filter(0, Some("a=b=c"));
        assert_eq!(fallback.to_string(), "error");
        assert!(complaint.unwrap().contains("RUST_LOG is \"a=b=c\""));
    }

    #[test]
    fn a_queue_that_nobody_drains_takes_its_bound_and_holds_nobody_up() {
        let (lines, _queued) = sync_channel(WAITING);
        let queue = Queue { lines, shared: Arc::default() };
        for _ in 0..10 * WAITING {
            queue.push(&[b'x'; 4096]);
        }
        assert_eq!(queue.shared.bytes.load(Ordering::Relaxed), WAITING_BYTES);
        assert_eq!(queue.shared.lost.load(Ordering::Relaxed), 10 * WAITING - WAITING_BYTES / 4096);
    }
}
