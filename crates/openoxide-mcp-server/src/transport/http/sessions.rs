//! Legacy sessions: which there are, whose they are, and when they end. Where a principal has its share of them, or all
//! there may be are there, an idle one gives way.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use openoxide_core::{Exceeded, Held, Shares};
use openoxide_mcp_protocol::LEGACY_LATEST;
use tokio::sync::watch;

use super::stream::EventStream;
use crate::principal::Principal;
use crate::random;
use crate::service::Session;
use openoxide_rpc::{Outgoing, Unread, lock};

/// Bytes of each stream that can be read again.
const KEPT: usize = 256 << 10;
/// Streams of a session that have ended and can still be read again.
const ENDED: usize = 16;
/// Names the stream of what belongs to no request.
const STANDALONE: &str = "0";

/// One session.
pub(super) struct LegacySession {
    id: String,
    principal: Principal,
    /// Serves its messages.
    pub(super) session: Mutex<Box<dyn Session>>,
    /// What its principal has not read.
    unread: Arc<Unread>,
    out: Arc<Outgoing>,
    standalone: Arc<EventStream>,
    /// The streams of requests, oldest first.
    streams: Mutex<VecDeque<Arc<EventStream>>>,
    next_stream: AtomicU64,
    used: Mutex<Instant>,
    /// Its place among the sessions, until it ends.
    place: Mutex<Option<Held<Principal>>>,
    /// Counts the readers of the stand-alone stream; the latest is the one.
    reader: watch::Sender<u64>,
}

impl LegacySession {
    /// Its id, for `Mcp-Session-Id`.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Whether its streams begin with an empty event: those of the latest legacy revision do (MCP 2025-11-25 "Sending
    /// Messages").
    pub(super) fn primes(&self) -> bool {
        lock(&self.session).agreed_version() == Some(LEGACY_LATEST)
    }

    /// What its principal has not read.
    pub(super) fn unread(&self) -> &Arc<Unread> {
        &self.unread
    }

    /// A stream for a request, which ends with its answer.
    pub(super) fn new_stream(&self) -> (Arc<Outgoing>, Arc<EventStream>) {
        let out = Outgoing::for_one_answer(&self.unread);
        let name = self.next_stream.fetch_add(1, Ordering::Relaxed).to_string();
        let events = EventStream::new(name, Arc::clone(&out), KEPT);
        let mut streams = lock(&self.streams);
        streams.push_back(Arc::clone(&events));
        let mut over = streams.iter().filter(|stream| stream.is_ended()).count().saturating_sub(ENDED);
        streams.retain(|stream| {
            let goes = over > 0 && stream.is_ended();
            over -= usize::from(goes);
            !goes
        });
        (out, events)
    }

    /// The stream and number that an event id names.
    pub(super) fn resume(&self, event_id: &str) -> Option<(Arc<EventStream>, u64)> {
        let (name, number) = event_id.split_once('-')?;
        let number = number.parse().ok()?;
        if name == STANDALONE {
            return Some((Arc::clone(&self.standalone), number));
        }
        let found = lock(&self.streams).iter().find(|stream| stream.name() == name).cloned();
        Some((found?, number))
    }

    /// The stream of what belongs to no request, for a new reader; the one before is let go.
    pub(super) fn read_standalone(&self) -> (Arc<EventStream>, watch::Receiver<u64>) {
        self.reader.send_modify(|count| *count += 1);
        (Arc::clone(&self.standalone), self.reader.subscribe())
    }

    fn end(&self) {
        lock(&self.session).close();
        self.out.close();
        *lock(&self.place) = None;
    }

    /// Whether nobody reads from it and no request of it is open.
    fn is_idle(&self) -> bool {
        self.reader.receiver_count() == 0 && !lock(&self.session).is_busy()
    }

    fn used(&self) -> Instant {
        *lock(&self.used)
    }
}

/// Every session.
pub(super) struct Sessions {
    places: Arc<Shares<Principal>>,
    idle: Duration,
    all: Mutex<HashMap<String, Arc<LegacySession>>>,
}

impl Sessions {
    /// As many as there are places, each unused for so long at most.
    pub(super) fn new(places: Arc<Shares<Principal>>, idle: Duration) -> Self {
        Self { places, idle, all: Mutex::default() }
    }

    /// A place for another session. Where there is none, an idle session ends for it, the one that was used least recently:
    /// the principal's own where it has its share, else that of whoever has most.
    ///
    /// # Errors
    /// Which bound it is: no session that could end is idle.
    pub(super) fn place(&self, principal: &Principal) -> Result<Held<Principal>, Exceeded> {
        loop {
            let exceeded = match self.places.take(principal, 1) {
                Ok(place) => return Ok(place),
                Err(exceeded) => exceeded,
            };
            let holders = self.places.who_gives_way(principal, exceeded);
            match holders.iter().find_map(|holder| self.oldest_idle(holder)) {
                Some(session) => self.remove(&session),
                None => return Err(exceeded),
            }
        }
    }

    fn oldest_idle(&self, principal: &Principal) -> Option<Arc<LegacySession>> {
        let all = lock(&self.all);
        let theirs = all.values().filter(|session| session.principal == *principal && session.is_idle());
        theirs.min_by_key(|session| session.used()).cloned()
    }

    /// A session that is not found until it is [`Sessions::enter`]ed.
    pub(super) fn prepare(
        &self,
        place: Held<Principal>,
        unread: Arc<Unread>,
        connect: impl FnOnce(Arc<Outgoing>) -> Box<dyn Session>,
    ) -> Arc<LegacySession> {
        let out = Outgoing::beside_others(&unread);
        Arc::new(LegacySession {
            id: random::id(),
            principal: place.by().clone(),
            place: Mutex::new(Some(place)),
            session: Mutex::new(connect(Arc::clone(&out))),
            standalone: EventStream::new(STANDALONE.to_owned(), Arc::clone(&out), KEPT),
            unread,
            out,
            streams: Mutex::default(),
            next_stream: AtomicU64::new(1),
            used: Mutex::new(Instant::now()),
            reader: watch::Sender::new(0),
        })
    }

    /// Lets a session be found.
    pub(super) fn enter(&self, session: Arc<LegacySession>) {
        lock(&self.all).insert(session.id.clone(), session);
    }

    /// The session of this id, if it is this principal's.
    pub(super) fn find(&self, id: &str, principal: &Principal) -> Option<Arc<LegacySession>> {
        let session = lock(&self.all).get(id).filter(|session| session.principal == *principal).cloned()?;
        *lock(&session.used) = Instant::now();
        Some(session)
    }

    /// Ends a session: its requests are cancelled, and it is not found any more.
    pub(super) fn remove(&self, session: &LegacySession) {
        lock(&self.all).remove(&session.id);
        session.end();
    }

    /// Ends sessions that nobody uses.
    pub(super) fn tidy(&self) {
        let idle: Vec<_> = {
            let all = lock(&self.all);
            let is_over = |session: &&Arc<LegacySession>| session.used().elapsed() >= self.idle && session.is_idle();
            all.values().filter(is_over).cloned().collect()
        };
        idle.iter().for_each(|session| self.remove(session));
    }

    /// Tells the listeners of every session that there is no more to come.
    pub(super) fn end_subscriptions(&self) {
        for session in lock(&self.all).values() {
            lock(&session.session).end_subscriptions();
            session.out.close();
        }
    }

    /// Ends all.
    pub(super) fn close_all(&self) {
        let all = std::mem::take(&mut *lock(&self.all));
        all.values().for_each(|session| session.end());
    }
}
