//! What one caller has not read yet, counted over all responses that are open for it.
//!
//! A line counts from the moment it is queued until the connection has taken the last of it, no matter who holds it meanwhile.
//! Where a caller's lines come to its bound, nothing more is made for it and no request of it is begun until it reads. Whoever
//! waits for that room sees to it that it comes: a response from which nothing was taken for the time-out is lost.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::mutex::lock;

/// How long a caller may take nothing once the server ends.
const HURRY: Duration = Duration::from_millis(200);
/// From one look for responses that nobody reads to the next, at most and at least.
const LOOK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(10));

/// The lines of one caller.
pub struct Unread {
    limit: usize,
    /// How long a response may stand still while the bound is reached.
    patience: Duration,
    bytes: AtomicUsize,
    /// Wakes the tasks that wait for room: a line was taken, or there is less time left.
    released: Notify,
    is_hurried: AtomicBool,
    readers: Mutex<Vec<Weak<dyn Reader>>>,
    /// One permit each, for a task that makes an answer, makes a log message, or begins a request.
    answering: Semaphore,
    telling: Semaphore,
    admitting: Semaphore,
}

/// A response that may be given up.
pub trait Reader: Send + Sync {
    /// How long nothing has been taken from it, where there is something to take.
    fn stands_still(&self) -> Option<Duration>;

    /// Drops what it holds and ends it.
    fn lose(&self);
}

/// The lines of one response.
pub struct Meter {
    of: Arc<Unread>,
    bytes: AtomicUsize,
    /// When something was taken last, or queued where there was nothing.
    moved: Mutex<Instant>,
}

/// One line that is counted until this is dropped.
pub struct Charge {
    meter: Arc<Meter>,
    bytes: usize,
}

/// What somebody may make. Nobody else of the same caller makes anything of the kind until it is dropped.
pub struct Turn<'a>(#[allow(dead_code, reason = "its drop lets the next in")] Option<SemaphorePermit<'a>>);

impl Unread {
    /// Of one caller, with its bound.
    pub fn new(limit: usize, patience: Duration) -> Arc<Self> {
        Arc::new(Self {
            limit,
            patience,
            bytes: AtomicUsize::new(0),
            released: Notify::new(),
            is_hurried: AtomicBool::new(false),
            readers: Mutex::default(),
            answering: Semaphore::new(1),
            telling: Semaphore::new(1),
            admitting: Semaphore::new(1),
        })
    }

    /// Whether there is room.
    pub fn has_room(&self) -> bool {
        self.bytes.load(Ordering::Acquire) < self.limit
    }

    /// Waits for room to make an answer. Cancel-safe, as are the next two.
    pub async fn room_to_answer(&self) -> Turn<'_> {
        self.room(&self.answering).await
    }

    /// Waits for room to make a log message.
    pub async fn room_to_tell(&self) -> Turn<'_> {
        self.room(&self.telling).await
    }

    /// Waits for room to begin a request, which may be answered at once.
    pub async fn room_to_admit(&self) -> Turn<'_> {
        self.room(&self.admitting).await
    }

    async fn room<'a>(&self, permits: &'a Semaphore) -> Turn<'a> {
        // An error is a closed semaphore, and these are never closed.
        let permit = permits.acquire().await.ok();
        if self.has_room() {
            return Turn(permit);
        }
        let (most, least) = LOOK;
        let mut looks = tokio::time::interval((self.patience / 4).clamp(least, most));
        loop {
            let mut released = std::pin::pin!(self.released.notified());
            // Registered before the look, so that a release in between is not missed.
            released.as_mut().enable();
            if self.has_room() {
                return Turn(permit);
            }
            // Cancel-safe: a release is looked for above, and a tick that is lost comes again.
            tokio::select! {
                () = released => {}
                _ = looks.tick() => self.lose_what_stands_still(),
            }
        }
    }

    /// Gives this caller little time to read: the server ends.
    pub fn hurry(&self) {
        self.is_hurried.store(true, Ordering::Release);
        self.released.notify_waiters();
    }

    /// Counts a response among those that can be given up.
    pub fn watch(&self, reader: Weak<dyn Reader>) {
        let mut readers = lock(&self.readers);
        if readers.len() == readers.capacity() {
            readers.retain(|reader| reader.strong_count() > 0);
        }
        readers.push(reader);
    }

    fn lose_what_stands_still(&self) {
        let is_hurried = self.is_hurried.load(Ordering::Acquire);
        let patience = if is_hurried { self.patience.min(HURRY) } else { self.patience };
        let readers: Vec<_> = lock(&self.readers).iter().filter_map(Weak::upgrade).collect();
        let lost = readers.iter().filter(|reader| reader.stands_still().is_some_and(|time| time >= patience));
        let count = lost.map(|reader| reader.lose()).count();
        if count > 0 {
            tracing::info!("{count} responses count as lost: nothing of them was read for {} s", patience.as_secs());
        }
    }
}

impl Meter {
    /// For a response to this caller.
    pub fn new(of: &Arc<Unread>) -> Arc<Self> {
        Arc::new(Self { of: Arc::clone(of), bytes: AtomicUsize::new(0), moved: Mutex::new(Instant::now()) })
    }

    /// All that the caller has not read.
    pub fn all(&self) -> &Arc<Unread> {
        &self.of
    }

    /// Counts a line.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        if self.bytes.fetch_add(bytes, Ordering::AcqRel) == 0 {
            self.touch();
        }
        self.of.bytes.fetch_add(bytes, Ordering::AcqRel);
        Charge { meter: Arc::clone(self), bytes }
    }

    /// How long nothing has been taken, where there is something to take.
    pub fn stands_still(&self) -> Option<Duration> {
        let has_some = self.bytes.load(Ordering::Acquire) > 0;
        has_some.then(|| lock(&self.moved).elapsed())
    }

    fn touch(&self) {
        *lock(&self.moved) = Instant::now();
    }
}

impl Charge {
    /// Notes that a part of the line was taken.
    pub fn moves(&self) {
        self.meter.touch();
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.meter.touch();
        self.meter.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        let all = &self.meter.of;
        let before = all.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        if before >= all.limit && before - self.bytes < all.limit {
            all.released.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    struct Response {
        meter: Arc<Meter>,
        held: Mutex<Option<Charge>>,
    }

    impl Reader for Response {
        fn stands_still(&self) -> Option<Duration> {
            self.meter.stands_still()
        }

        fn lose(&self) {
            *lock(&self.held) = None;
        }
    }

    fn response(unread: &Arc<Unread>, bytes: usize) -> Arc<Response> {
        let meter = Meter::new(unread);
        let held = Mutex::new(Some(meter.charge(bytes)));
        let response = Arc::new(Response { meter, held });
        let reader: Weak<dyn Reader> = Arc::downgrade(&(Arc::clone(&response) as Arc<dyn Reader>));
        unread.watch(reader);
        response
    }

    #[tokio::test]
    async fn at_the_bound_one_waits_until_something_is_read() {
        let unread = Unread::new(10, Duration::from_secs(3600));
        let (one, _two) = (response(&unread, 6), response(&unread, 6));
        let mut room = Box::pin(unread.room_to_answer());
        assert!(room.as_mut().now_or_never().is_none());
        assert!(unread.room_to_admit().now_or_never().is_none() && unread.room_to_tell().now_or_never().is_none());
        one.lose();
        let held = room.await;
        assert!(unread.room_to_answer().now_or_never().is_none(), "one at a time");
        assert!(unread.room_to_tell().now_or_never().is_some());
        drop(held);
        assert!(unread.room_to_answer().now_or_never().is_some());
    }

    #[tokio::test]
    async fn what_nobody_reads_is_lost_and_what_moves_is_not() {
        let unread = Unread::new(10, Duration::from_millis(60));
        let (still, moving) = (response(&unread, 6), response(&unread, 6));
        let mut room = std::pin::pin!(unread.room_to_answer());
        while tokio::time::timeout(Duration::from_millis(5), room.as_mut()).await.is_err() {
            lock(&moving.held).as_ref().unwrap().moves();
        }
        assert!(lock(&still.held).is_none() && lock(&moving.held).is_some());
        assert_eq!(unread.bytes.load(Ordering::Acquire), 6);
    }
}
