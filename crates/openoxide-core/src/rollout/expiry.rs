//! What is deleted when threads get too old or too many.

use std::io;
use std::time::{Duration, SystemTime};

use super::{StoredThread, ThreadStore};

/// Deletes threads that were not written for so long, and then the oldest until the rest takes no more than so many bytes.
/// Threads that somebody has open stay. Says how many were deleted.
///
/// # Errors
/// The threads cannot be listed.
pub fn expire(store: &dyn ThreadStore, max_age: Option<Duration>, max_bytes: Option<u64>) -> io::Result<usize> {
    let mut threads = store.list()?;
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.modified));
    let now = SystemTime::now();
    let (mut kept, mut deleted) = (0_u64, 0);
    for StoredThread { id, bytes, modified } in threads {
        // A clock that was set back makes nothing old.
        let age = now.duration_since(modified).unwrap_or_default();
        let is_too_old = max_age.is_some_and(|most| age > most);
        let is_too_much = max_bytes.is_some_and(|most| kept.saturating_add(bytes) > most);
        if (is_too_old || is_too_much) && store.delete(id).is_ok() {
            deleted += 1;
        } else {
            kept = kept.saturating_add(bytes);
        }
    }
    Ok(deleted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JsonlStore, RolloutItem, SessionMeta, ThreadId};

    #[test]
    fn the_oldest_go_first_and_what_is_open_stays() {
        let home = tempfile::tempdir().unwrap();
        let store = JsonlStore::new(home.path());
        let ids: Vec<ThreadId> = (0..4).map(|_| ThreadId::new()).collect();
        for (age, id) in ids.iter().enumerate() {
            store.lock(*id).unwrap().append(&RolloutItem::SessionMeta(SessionMeta::sample())).unwrap();
            let file = std::fs::File::options().append(true).open(store.path_of(*id).unwrap()).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age as u64 * 1000)).unwrap();
        }
        let left = || store.list().unwrap().len();
        assert_eq!((expire(&store, None, None).unwrap(), left()), (0, 4));
        assert_eq!((expire(&store, Some(Duration::from_secs(2500)), None).unwrap(), left()), (1, 3));
        assert!(!store.contains(ids[3]));
        let bytes = store.list().unwrap()[0].bytes;
        let open = store.open(ids[2]).unwrap();
        assert_eq!((expire(&store, None, Some(bytes)).unwrap(), left()), (1, 2), "the one between");
        drop(open);
        assert!(store.contains(ids[0]) && !store.contains(ids[1]));
    }
}
