//! Lists of threads, a page at a time. The order is that of one moment, so that a thread that is used while somebody reads
//! on is neither missed nor shown twice; what is shown of each thread is read when its page is.

use std::sync::{Arc, Mutex};

use super::ThreadManager;
use crate::events::lock;
use crate::rollout::{JsonlStore, Listing, owner_of};
use crate::{CoreError, ThreadId, ThreadSummary};

/// Orders that are kept for those who read on. Beyond it the oldest goes, and its reader goes on in the order of a later
/// moment.
const KEPT: usize = 4;

/// Orders of some moments, by number.
#[derive(Default)]
pub(super) struct Listings {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    last: u64,
    kept: Vec<(u64, Arc<Listing>)>,
}

/// Where the next page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageCursor {
    listing: u64,
    at: usize,
}

impl std::fmt::Display for PageCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.listing, self.at)
    }
}

impl std::str::FromStr for PageCursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (listing, at) = text.split_once('.').ok_or(())?;
        Ok(Self { listing: listing.parse().map_err(drop)?, at: at.parse().map_err(drop)? })
    }
}

impl Listings {
    fn find(&self, number: u64) -> Option<Arc<Listing>> {
        lock(&self.inner).kept.iter().find(|(kept, _)| *kept == number).map(|(_, listing)| Arc::clone(listing))
    }

    fn keep(&self, listing: &Arc<Listing>) -> u64 {
        let mut inner = lock(&self.inner);
        inner.last += 1;
        let number = inner.last;
        inner.kept.push((number, Arc::clone(listing)));
        if inner.kept.len() > KEPT {
            inner.kept.remove(0);
        }
        number
    }

    fn forget(&self, number: u64) {
        lock(&self.inner).kept.retain(|(kept, _)| *kept != number);
    }
}

impl ThreadManager {
    /// The threads that are kept and `wanted`, the one used last first, at most so many. Those in directories that the
    /// operator does not allow are left out. Blocks on the disk.
    pub fn summaries(
        &self,
        limit: usize,
        wanted: impl Fn(&ThreadSummary) -> bool,
    ) -> Result<Vec<ThreadSummary>, CoreError> {
        self.page(None, limit, wanted).map(|(found, _)| found)
    }

    /// Whose a thread that is kept is, as its first line says; none as well where that cannot be read. Blocks on the disk.
    pub fn owner_of(&self, id: ThreadId) -> Option<String> {
        let store = JsonlStore::new(self.core.config.home.as_ref()?);
        owner_of(&store, id)
    }

    /// The same from where an earlier page has ended, and where the next one begins, if there may be one.
    pub fn page(
        &self,
        cursor: Option<PageCursor>,
        limit: usize,
        wanted: impl Fn(&ThreadSummary) -> bool,
    ) -> Result<(Vec<ThreadSummary>, Option<PageCursor>), CoreError> {
        let Some(home) = &self.core.config.home else { return Ok((Vec::new(), None)) };
        let store = JsonlStore::new(home);
        let failed = |source| CoreError::Listing { source };
        let kept = cursor.and_then(|cursor| Some((cursor.listing, self.listings.find(cursor.listing)?)));
        let (number, listing) = match kept {
            Some((number, listing)) => (Some(number), listing),
            None => (None, Arc::new(Listing::of(&store).map_err(failed)?)),
        };
        let ceiling = &self.core.config.ceiling;
        let is_shown = |thread: &ThreadSummary| wanted(thread) && ceiling.check_directory(&thread.cwd).is_ok();
        let from = cursor.map_or(0, |cursor| cursor.at);
        let (found, next) = listing.read(&store, from, limit, is_shown).map_err(failed)?;
        let next = match next {
            Some(at) => Some(PageCursor { listing: number.unwrap_or_else(|| self.listings.keep(&listing)), at }),
            None => {
                number.into_iter().for_each(|number| self.listings.forget(number));
                None
            }
        };
        Ok((found, next))
    }
}
