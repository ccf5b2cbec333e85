//! Lists of threads, a page at a time. The order is that of one moment, so that a thread that is used while somebody reads
//! on is neither missed nor shown twice; what is shown of each thread is read when its page is.

use std::sync::Arc;

use super::page::PageCursor;
use super::threads::ThreadManager;
use crate::store::{JsonlStore, Listing};
use crate::{CoreError, ThreadSummary};

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
