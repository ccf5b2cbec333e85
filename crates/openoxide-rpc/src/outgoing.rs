//! The outgoing queue between everybody who has something to say and the one task that writes stdout.
//!
//! Its budget is counted in bytes. Answers and questions always get in: losing one would hang a client. Log messages
//! wait for room, so that the events behind them merge in core's queue instead of piling up here as text. Progress is
//! dropped when there is no room: the next one says more. When answers alone pass the hard bound, the processor
//! stops serving input until the queue drains, and with it the reader.
//!
//! What is long is made by one task at a time and only when there is room for it ([`Outgoing::room_to_answer`],
//! [`Outgoing::room_to_tell`]), so that a client that never reads costs the bound and a few lines more, however much it
//! asks for. A queue that stays full means that the client is lost ([`Outgoing::stays_full`]). Where a client has a queue for
//! each response, all of them together have one more bound ([`Unread`]).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::mutex::lock;
use crate::unread::{Charge, Meter, Turn, Unread};
use crate::{Header, RequestId};

/// Lines from this length on, in bytes, take no more memory than they need.
const LONG: usize = 64 << 10;

/// Bytes queued from which log messages wait and progress is dropped.
const SOFT_BOUND: usize = 256 * 1024;
/// Bytes queued from which no more input is read.
const HARD_BOUND: usize = 8 * 1024 * 1024;
/// How long a full queue is kept for a client that has ended its input and takes nothing.
const HURRY: Duration = Duration::from_millis(200);
/// Bytes written at once, about.
const BATCH: usize = 64 * 1024;

/// Ties messages to their call. Closing it takes back what is still queued for the call, and keeps out the rest.
#[derive(Debug)]
pub struct Gate {
    key: u64,
    open: AtomicBool,
}

impl Gate {
    /// An open gate of its own.
    pub fn new() -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self { key: NEXT.fetch_add(1, Ordering::Relaxed), open: AtomicBool::new(true) })
    }

    /// Unique in the process; later calls have larger keys.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Whether messages of the call are still wanted.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }
}

/// A message that waits.
struct Line {
    /// The call it belongs to, 0 for none.
    key: u64,
    bytes: Vec<u8>,
    /// The code of the error that it answers with.
    error: Option<i32>,
    charge: Option<Charge>,
}

/// A line that was taken from the queue to be sent.
pub struct Taken {
    /// The line with its newline.
    pub bytes: Vec<u8>,
    /// The code of the error where it answers a request with one.
    pub error: Option<i32>,
    /// Counts it as unread until this is dropped.
    pub charge: Option<Charge>,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Line>,
    bytes: usize,
    closed: bool,
}

/// The queue. One writer task drains it; everybody else pushes.
pub struct Outgoing {
    /// How messages are written.
    header: Header,
    /// Whether it ends with the answer it is for.
    is_for_one_answer: bool,
    /// Counts its lines for the client, where that has other queues as well.
    meter: Option<Arc<Meter>>,
    queue: Mutex<Queue>,
    /// Wakes the writer: there is something to write, or the queue was closed.
    filled: Notify,
    /// Wakes the tasks that wait for room: the writer took something, or the queue was closed.
    drained: Notify,
    /// Wakes the tasks that wait for the queue to be full.
    grown: Notify,
    /// Wakes the same when there is less time left.
    hurried: Notify,
    /// Whether the client has little time left to read: it has ended its input.
    is_hurried: AtomicBool,
    /// Whether the client has ended the connection itself.
    was_said_goodbye: AtomicBool,
    /// One permit each, for a task that makes an answer or a log message.
    answering: Semaphore,
    telling: Semaphore,
}

/// The right to make a line and queue it. Nobody else who asks for one makes a line until it is dropped.
#[allow(dead_code, reason = "their drop lets the next in")]
pub struct Room<'a>(Option<SemaphorePermit<'a>>, Option<Turn<'a>>);

impl Default for Outgoing {
    fn default() -> Self {
        Self {
            header: Header::default(),
            is_for_one_answer: false,
            meter: None,
            queue: Mutex::default(),
            filled: Notify::new(),
            drained: Notify::new(),
            grown: Notify::new(),
            hurried: Notify::new(),
            is_hurried: AtomicBool::new(false),
            was_said_goodbye: AtomicBool::new(false),
            answering: Semaphore::new(1),
            telling: Semaphore::new(1),
        }
    }
}

impl Outgoing {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // A panic while the lock is held leaves a queue that is still whole: each critical section is one push or pop.
        lock(&self.queue)
    }

    /// A queue for a protocol whose messages are written so.
    #[must_use]
    pub fn new(header: Header) -> Self {
        Self { header, ..Self::default() }
    }

    /// How messages of this connection are written.
    pub fn header(&self) -> Header {
        self.header
    }

    /// Queues a notification, which is not lost.
    pub fn notify<T: serde::Serialize>(&self, method: &str, params: &T) {
        self.push(self.header.notification(method, params));
    }

    /// Queues a request of ours.
    pub fn request<T: serde::Serialize>(&self, id: &RequestId, method: &str, params: &T) {
        self.push(self.header.request(id, method, params));
    }

    /// A queue for what belongs to one request, which ends with its answer. Its lines count among what the client has not
    /// read.
    pub fn for_one_answer(unread: &Arc<Unread>) -> Arc<Self> {
        Arc::new(Self { is_for_one_answer: true, meter: Some(Meter::new(unread)), ..Self::default() })
    }

    /// A queue for what belongs to no request, of a client that has others.
    pub fn beside_others(unread: &Arc<Unread>) -> Arc<Self> {
        Arc::new(Self { meter: Some(Meter::new(unread)), ..Self::default() })
    }

    /// Counts its lines, where the client has other queues as well.
    pub fn meter(&self) -> Option<&Arc<Meter>> {
        self.meter.as_ref()
    }

    /// Queues the answer to a request, which may end the queue. `error` is its code where it is an error.
    pub fn answer(&self, line: Vec<u8>, error: Option<i32>, gate: Option<&Gate>) {
        self.put(line, error, gate, self.is_for_one_answer);
    }

    /// Notes that there is no more to come for a request.
    pub fn answered(&self) {
        if self.is_for_one_answer {
            self.close();
        }
    }

    /// Whether no more can be queued.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Whether no more can be queued, and all was taken.
    pub fn is_done(&self) -> bool {
        let queue = self.lock();
        queue.closed && queue.lines.is_empty()
    }

    /// Queues a message that must not be lost: an answer, a question, an end.
    pub fn push(&self, line: Vec<u8>) {
        self.put(line, None, None, false);
    }

    /// The same for a message of a call; nothing is queued once the call's gate is closed.
    pub fn push_for(&self, gate: &Gate, line: Vec<u8>) {
        self.put(line, None, Some(gate), false);
    }

    fn put(&self, mut line: Vec<u8>, error: Option<i32>, gate: Option<&Gate>, is_last: bool) {
        // A long line may wait for a slow client; what it was written into can be twice as large.
        if line.len() > LONG {
            line.shrink_to_fit();
        }
        let mut queue = self.lock();
        if queue.closed {
            return;
        }
        queue.closed = is_last;
        if gate.is_some_and(|gate| !gate.is_open()) {
            drop(queue);
            return self.filled.notify_one();
        }
        queue.bytes += line.len();
        let charge = self.meter.as_ref().map(|meter| meter.charge(line.len()));
        queue.lines.push_back(Line { key: gate.map_or(0, Gate::key), bytes: line, error, charge });
        let is_full = queue.bytes >= HARD_BOUND;
        drop(queue);
        self.filled.notify_one();
        if is_last {
            self.drained.notify_waiters();
        }
        if is_full {
            self.grown.notify_waiters();
        }
    }

    /// Queues a message that more will follow; drops it when there is no room.
    pub fn offer(&self, line: Vec<u8>) {
        if self.is_below(SOFT_BOUND) && self.has_share() {
            self.push(line);
        }
    }

    /// Queues a message that the next one of its kind replaces; drops it when there is no room.
    pub fn offer_for(&self, gate: &Gate, line: Vec<u8>) {
        if self.lock().bytes < SOFT_BOUND && self.has_share() {
            self.push_for(gate, line);
        }
    }

    /// Whether the client's queues together have room.
    fn has_share(&self) -> bool {
        self.meter.as_ref().is_none_or(|meter| meter.all().has_room())
    }

    /// Waits until a message that can wait may be queued. Cancel-safe: nothing is taken or queued here.
    pub async fn room(&self) {
        self.wait_below(SOFT_BOUND).await;
    }

    /// Waits for the room to make a log message, and for those who asked before. Cancel-safe.
    pub async fn room_to_tell(&self) -> Room<'_> {
        let room = self.room_for_one(&self.telling, SOFT_BOUND).await;
        self.with_share(room, Unread::room_to_tell).await
    }

    /// Waits for the room to make an answer, and for those who asked before. Cancel-safe.
    pub async fn room_to_answer(&self) -> Room<'_> {
        let room = self.room_for_one(&self.answering, HARD_BOUND).await;
        self.with_share(room, Unread::room_to_answer).await
    }

    async fn room_for_one<'a>(&self, permits: &'a Semaphore, bound: usize) -> Room<'a> {
        // An error is a closed semaphore, and these are never closed.
        let permit = permits.acquire().await.ok();
        self.wait_below(bound).await;
        Room(permit, None)
    }

    /// The same where the client's queues together must have room too. Ready at once when the queue is closed.
    async fn with_share<'a, F: Future<Output = Turn<'a>>>(
        &'a self,
        room: Room<'a>,
        wait: impl FnOnce(&'a Unread) -> F,
    ) -> Room<'a> {
        let Some(meter) = &self.meter else { return room };
        // Cancel-safe: nothing is queued here.
        tokio::select! {
            turn = wait(meter.all()) => Room(room.0, Some(turn)),
            () = self.closed() => room,
        }
    }

    /// Ready when no more can be queued. Cancel-safe.
    async fn closed(&self) {
        loop {
            let mut drained = std::pin::pin!(self.drained.notified());
            // Registered before the look, so that an end in between is not missed.
            drained.as_mut().enable();
            if self.is_closed() {
                return;
            }
            drained.await;
        }
    }

    /// Ready when the queue is full and has been for this time without a byte taken from it. Cancel-safe. Asked by the
    /// writer while it waits for the client, so that nobody else takes anything.
    pub async fn stays_full(&self, time: Duration) {
        loop {
            let mut grown = std::pin::pin!(self.grown.notified());
            // Registered before the look, so that a push in between is not missed.
            grown.as_mut().enable();
            if self.lock().bytes < HARD_BOUND {
                grown.await;
                continue;
            }
            let mut hurried = std::pin::pin!(self.hurried.notified());
            hurried.as_mut().enable();
            let is_hurried = self.is_hurried.load(Ordering::Acquire);
            let over = tokio::time::sleep(if is_hurried { time.min(HURRY) } else { time });
            tokio::select! {
                () = over => {
                    if self.lock().bytes >= HARD_BOUND {
                        return;
                    }
                }
                () = hurried => {}
            }
        }
    }

    /// Gives a client that has ended its input little time to make room in a full queue.
    pub fn hurry(&self) {
        self.is_hurried.store(true, Ordering::Release);
        self.hurried.notify_waiters();
    }

    /// Whether the client has ended the connection itself, by a close or the end of its stream. Otherwise it may have been
    /// cut off.
    pub fn was_said_goodbye(&self) -> bool {
        self.was_said_goodbye.load(Ordering::Acquire)
    }

    /// Notes that. For transports, before they let go of the input.
    pub(crate) fn say_goodbye(&self) {
        self.was_said_goodbye.store(true, Ordering::Release);
    }

    /// Waits until more input may be read. Cancel-safe.
    pub async fn room_for_input(&self) -> Room<'_> {
        self.wait_below(HARD_BOUND).await;
        self.with_share(Room(None, None), Unread::room_to_answer).await
    }

    async fn wait_below(&self, bound: usize) {
        loop {
            let mut drained = std::pin::pin!(self.drained.notified());
            // Registered before the look, so that a drain in between is not missed.
            drained.as_mut().enable();
            if self.is_below(bound) {
                return;
            }
            drained.await;
        }
    }

    fn is_below(&self, bound: usize) -> bool {
        let queue = self.lock();
        queue.bytes < bound || queue.closed
    }

    /// Closes a call's gate and takes back what is queued for it.
    pub fn silence(&self, gate: &Gate) {
        let mut queue = self.lock();
        gate.open.store(false, Ordering::Release);
        let mut taken = 0;
        queue.lines.retain(|line| {
            let keep = line.key != gate.key;
            taken += if keep { 0 } else { line.bytes.len() };
            keep
        });
        queue.bytes -= taken;
        drop(queue);
        self.drained.notify_waiters();
    }

    /// Drops what is queued: nobody reads it. A queue for one answer ends so.
    pub fn lose(&self) {
        let mut queue = self.lock();
        queue.bytes = 0;
        let lost = std::mem::take(&mut queue.lines);
        queue.closed |= self.is_for_one_answer;
        drop(queue);
        drop(lost);
        self.filled.notify_one();
        self.drained.notify_waiters();
    }

    /// Lets the writer finish what is queued and end; later messages are dropped.
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
        self.drained.notify_waiters();
    }

    /// The next lines to write, joined; `None` when the queue is closed and empty. For the writer alone.
    pub async fn next_batch(&self) -> Option<Vec<u8>> {
        let take = |queue: &mut Queue| {
            let mut batch = queue.lines.pop_front()?.bytes;
            while batch.len() < BATCH
                && let Some(line) = queue.lines.pop_front()
            {
                batch.extend_from_slice(&line.bytes);
            }
            queue.bytes -= batch.len();
            Some(batch)
        };
        self.next(take).await
    }

    /// The next line; `None` as above. For the one who sends it alone.
    pub async fn next_line(&self) -> Option<Taken> {
        let take = |queue: &mut Queue| {
            let line = queue.lines.pop_front()?;
            queue.bytes -= line.bytes.len();
            Some(Taken { bytes: line.bytes, error: line.error, charge: line.charge })
        };
        self.next(take).await
    }

    async fn next<T>(&self, take: impl Fn(&mut Queue) -> Option<T>) -> Option<T> {
        loop {
            {
                let mut queue = self.lock();
                if let Some(taken) = take(&mut queue) {
                    drop(queue);
                    self.drained.notify_waiters();
                    return Some(taken);
                }
                if queue.closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_out_in_order_and_the_end_last() {
        let out = Outgoing::default();
        out.push(b"a\n".to_vec());
        out.push(b"b\n".to_vec());
        out.close();
        out.push(b"late\n".to_vec());
        assert_eq!(out.next_batch().await.unwrap(), b"a\nb\n");
        assert!(out.next_batch().await.is_none());
    }

    #[tokio::test]
    async fn a_silenced_call_says_nothing_more() {
        let (out, one, two) = (Outgoing::default(), Gate::new(), Gate::new());
        out.push_for(&one, b"one\n".to_vec());
        out.push_for(&two, b"two\n".to_vec());
        out.silence(&one);
        out.push_for(&one, b"more\n".to_vec());
        assert_eq!(out.next_batch().await.unwrap(), b"two\n");
        assert_eq!(out.lock().bytes, 0);
    }

    #[tokio::test]
    async fn progress_is_dropped_and_logs_wait_when_there_is_no_room() {
        let (out, gate) = (Outgoing::default(), Gate::new());
        out.push(vec![b'x'; SOFT_BOUND]);
        out.offer_for(&gate, b"progress\n".to_vec());
        let mut room = std::pin::pin!(out.room());
        assert!(futures_util::poll!(room.as_mut()).is_pending());
        assert!(futures_util::poll!(std::pin::pin!(out.room_for_input())).is_ready());
        assert_eq!(out.next_batch().await.unwrap().len(), SOFT_BOUND);
        room.await;
        out.close();
        assert!(out.next_batch().await.is_none(), "the progress was dropped");
    }
}
