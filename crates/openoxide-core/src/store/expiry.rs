//! How many bytes the threads of each principal take on disk, and what is deleted when they get too old or too many. The
//! one owner of that count: a turn that ends notes what its rollout takes, and [`DiskUse::look`] counts anew and deletes.
//!
//! A principal is the owner of threads; threads without one belong to one principal together. Threads that were put aside
//! are in another store and do not count.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;

use super::{StoredThread, ThreadStore};
use crate::mutex::lock;
use crate::{CoreError, Limits, ThreadId};

/// Whose threads; none are those without an owner.
type Owner = Option<Arc<str>>;

/// What one thread takes.
#[derive(Debug, Clone)]
struct Entry {
    owner: Owner,
    bytes: u64,
    modified: SystemTime,
}

/// See the module.
pub(crate) struct DiskUse {
    store: Arc<dyn ThreadStore>,
    max_age: Option<Duration>,
    max_bytes: Option<u64>,
    max_bytes_per_principal: Option<u64>,
    known: Mutex<Known>,
    /// Held by the one that looks at the disk.
    looking: Mutex<()>,
    due: Arc<Notify>,
}

#[derive(Default)]
struct Known {
    threads: HashMap<ThreadId, Entry>,
    /// Principals that were beyond their quota after the last look, since all that was left was in use.
    full: Vec<Owner>,
}

impl DiskUse {
    /// The count for a store; none where nothing is bounded.
    pub(crate) fn of(store: &Arc<dyn ThreadStore>, limits: &Limits) -> Option<Self> {
        let Limits { history_max_age, history_max_bytes, history_max_bytes_per_principal, .. } = *limits;
        let is_bounded =
            history_max_age.is_some() || history_max_bytes.is_some() || history_max_bytes_per_principal.is_some();
        is_bounded.then(|| Self {
            store: Arc::clone(store),
            max_age: history_max_age,
            max_bytes: history_max_bytes,
            max_bytes_per_principal: history_max_bytes_per_principal,
            known: Mutex::default(),
            looking: Mutex::default(),
            due: Arc::default(),
        })
    }

    /// Told when a bound was passed, so that [`DiskUse::look`] is due.
    pub(crate) fn due(&self) -> Arc<Notify> {
        Arc::clone(&self.due)
    }

    /// Notes what a thread takes now that a turn of it has ended.
    pub(crate) fn note(&self, id: ThreadId, owner: &Owner, bytes: u64) {
        let mut known = lock(&self.known);
        known.threads.insert(id, Entry { owner: owner.clone(), bytes, modified: SystemTime::now() });
        let is_over = |used: u64, most: Option<u64>| most.is_some_and(|most| used > most);
        let all = known.threads.values().map(|entry| entry.bytes).sum();
        if is_over(known.used(owner), self.max_bytes_per_principal) || is_over(all, self.max_bytes) {
            self.due.notify_one();
        }
    }

    /// Whether a principal may begin another turn.
    ///
    /// # Errors
    /// [`CoreError::HistoryFull`] where its quota is used up and deleting older threads cannot make room: the thread used
    /// last, or those in use, exceed it alone.
    pub(crate) fn check(&self, owner: &Owner) -> Result<(), CoreError> {
        let Some(max) = self.max_bytes_per_principal else { return Ok(()) };
        let known = lock(&self.known);
        let own = known.threads.values().filter(|entry| entry.owner == *owner);
        let last = own.max_by_key(|entry| entry.modified).map_or(0, |entry| entry.bytes);
        if last <= max && !known.full.contains(owner) {
            return Ok(());
        }
        // Somebody may have made room behind the server's back; then the next try finds it.
        self.due.notify_one();
        Err(CoreError::HistoryFull { used: known.used(owner), max })
    }

    /// Counts what is on disk and deletes what is older or more than is kept: first what is too old, then the oldest
    /// threads of each principal beyond its quota, but for the one used last, then the oldest threads of whoever takes
    /// most until all together fit. What is in use stays. `after` is given what was deleted, before another look begins.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// The threads cannot be listed.
    pub(crate) fn look(&self, after: impl FnOnce(&[ThreadId])) -> io::Result<()> {
        let _looking = lock(&self.looking);
        let mut threads = self.store.list()?;
        threads.sort_by_key(|thread| (thread.modified, thread.id));
        let mut shares = self.shares(&threads);
        let newest = threads.last().map(|thread| thread.id);
        let mut deleted = Vec::new();
        let mut delete = |share: &mut Share, thread: StoredThread| {
            if self.store.delete(thread.id).is_ok() {
                share.bytes = share.bytes.saturating_sub(thread.bytes);
                deleted.push(thread.id);
            } else {
                share.in_use.push(thread);
            }
        };
        let now = SystemTime::now();
        for share in shares.values_mut() {
            // A clock that was set back makes nothing old.
            let is_old = |thread: &StoredThread| {
                let age = now.duration_since(thread.modified).unwrap_or_default();
                self.max_age.is_some_and(|most| age > most)
            };
            while let Some(thread) = share.idle.pop_front_if(|thread| is_old(thread)) {
                delete(share, thread);
            }
            while self.max_bytes_per_principal.is_some_and(|most| share.bytes > most) && share.idle.len() > 1 {
                if let Some(thread) = share.idle.pop_front() {
                    delete(share, thread);
                }
            }
        }
        while self.max_bytes.is_some_and(|most| shares.values().map(|share| share.bytes).sum::<u64>() > most) {
            let can_give =
                |share: &&mut Share| share.idle.front().is_some_and(|thread| newest.is_none_or(|id| id != thread.id));
            let Some(share) = shares.values_mut().filter(can_give).max_by_key(|share| share.bytes) else { break };
            if let Some(thread) = share.idle.pop_front() {
                delete(share, thread);
            }
        }
        self.remember(shares);
        after(&deleted);
        Ok(())
    }

    /// The threads by principal. Owners do not change, so each is read once.
    fn shares(&self, threads: &[StoredThread]) -> HashMap<Owner, Share> {
        let known: HashMap<ThreadId, Owner> =
            lock(&self.known).threads.iter().map(|(id, entry)| (*id, entry.owner.clone())).collect();
        let mut shares: HashMap<Owner, Share> = HashMap::new();
        for thread in threads {
            // One that cannot be read is nobody's in particular.
            let read = || self.store.owner(thread.id).ok().flatten().map(Arc::from);
            let share = shares.entry(known.get(&thread.id).cloned().unwrap_or_else(read)).or_default();
            share.bytes = share.bytes.saturating_add(thread.bytes);
            share.idle.push_back(thread.clone());
        }
        shares
    }

    fn remember(&self, shares: HashMap<Owner, Share>) {
        let mut known = lock(&self.known);
        *known = Known::default();
        for (owner, share) in shares {
            if self.max_bytes_per_principal.is_some_and(|most| share.bytes > most) {
                known.full.push(owner.clone());
            }
            for StoredThread { id, bytes, modified } in share.idle.into_iter().chain(share.in_use) {
                known.threads.insert(id, Entry { owner: owner.clone(), bytes, modified });
            }
        }
    }
}

impl Known {
    fn used(&self, owner: &Owner) -> u64 {
        self.threads.values().filter(|entry| entry.owner == *owner).map(|entry| entry.bytes).sum()
    }
}

/// The threads of one principal.
#[derive(Default)]
struct Share {
    bytes: u64,
    /// The one used last at the end.
    idle: VecDeque<StoredThread>,
    /// Those that could not be deleted.
    in_use: Vec<StoredThread>,
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::{JsonlStore, RolloutItem, SessionMeta};

    struct Disk {
        home: tempfile::TempDir,
        store: JsonlStore,
    }

    impl Disk {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            Self { store: JsonlStore::new(home.path()), home }
        }

        /// A thread that was used so many seconds ago.
        fn add(&self, owner: Option<&str>, age: u64) -> ThreadId {
            let id = ThreadId::new();
            let meta = SessionMeta { id, owner: owner.map(str::to_owned), ..SessionMeta::sample() };
            self.store.lock(id).unwrap().append(&RolloutItem::SessionMeta(meta)).unwrap();
            let mut file = std::fs::File::options().append(true).open(self.store.path_of(id).unwrap()).unwrap();
            // Empty lines say nothing.
            let padding = 1000 - file.metadata().unwrap().len();
            file.write_all("\n".repeat(padding as usize).as_bytes()).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
            id
        }

        fn bounded(&self, limits: Limits) -> DiskUse {
            let store: Arc<dyn ThreadStore> = Arc::new(JsonlStore::new(self.home.path()));
            DiskUse::of(&store, &limits).unwrap()
        }

        fn left(&self, ids: &[ThreadId]) -> Vec<bool> {
            ids.iter().map(|id| self.store.contains(*id)).collect()
        }
    }

    fn deleted(disk_use: &DiskUse) -> Vec<ThreadId> {
        let mut deleted = Vec::new();
        disk_use.look(|ids| deleted = ids.to_vec()).unwrap();
        deleted
    }

    #[test]
    fn the_oldest_go_first_and_what_is_open_stays() {
        let disk = Disk::new();
        let ids: Vec<ThreadId> = (0..4).map(|age| disk.add(None, age * 1000)).collect();
        let old = disk.bounded(Limits { history_max_age: Some(Duration::from_secs(2500)), ..Limits::default() });
        assert_eq!(deleted(&old), [ids[3]]);
        let open = disk.store.claim(ids[2]).unwrap();
        let all = disk.bounded(Limits { history_max_bytes: Some(1000), ..Limits::default() });
        assert_eq!(deleted(&all), [ids[1]], "the one between");
        drop(open);
        assert_eq!(disk.left(&ids), [true, false, true, false]);
        assert!(deleted(&all) == [ids[2]] && deleted(&all).is_empty(), "the one used last stays");
    }

    #[test]
    fn a_quota_takes_only_from_the_one_that_exceeds_it() {
        let disk = Disk::new();
        let bob = disk.add(Some("bob"), 9000);
        let alice: Vec<ThreadId> = (0..4).map(|age| disk.add(Some("alice"), age * 1000)).collect();
        let own = disk.bounded(Limits { history_max_bytes_per_principal: Some(2500), ..Limits::default() });
        assert_eq!(deleted(&own), [alice[3], alice[2]]);
        assert_eq!(disk.left(&[bob, alice[0], alice[1]]), [true; 3]);
        let all = disk.bounded(Limits { history_max_bytes: Some(2000), ..Limits::default() });
        assert_eq!(deleted(&all), [alice[1]], "whoever takes most gives first");
        assert_eq!(disk.left(&[bob, alice[0]]), [true; 2]);
    }

    #[test]
    fn a_thread_that_exceeds_the_quota_alone_stays_and_its_owner_is_refused() {
        let disk = Disk::new();
        let (alice, bob) = (Some(Arc::from("alice")), Some(Arc::from("bob")));
        let id = disk.add(Some("alice"), 0);
        let own = disk.bounded(Limits { history_max_bytes_per_principal: Some(900), ..Limits::default() });
        assert!(own.check(&alice).is_ok(), "nothing is known yet");
        own.note(id, &alice, 1000);
        for _ in 0..2 {
            let refused = own.check(&alice).unwrap_err().to_string();
            assert!(refused.contains("1000 bytes") && refused.contains("max_bytes_per_principal"), "{refused}");
            assert!(own.check(&bob).is_ok() && deleted(&own).is_empty() && disk.store.contains(id));
        }
        disk.store.delete(id).unwrap();
        deleted(&own);
        assert!(own.check(&alice).is_ok());
    }

    #[test]
    fn threads_in_use_that_exceed_the_quota_together_are_counted_until_they_are_not() {
        let disk = Disk::new();
        let ids = [disk.add(None, 1000), disk.add(None, 0)];
        let own = disk.bounded(Limits { history_max_bytes_per_principal: Some(1500), ..Limits::default() });
        let open = disk.store.claim(ids[0]).unwrap();
        assert!(deleted(&own).is_empty() && own.check(&None).is_err());
        drop(open);
        assert_eq!(deleted(&own), [ids[0]]);
        assert!(own.check(&None).is_ok());
    }
}
