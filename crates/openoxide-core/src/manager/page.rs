//! Orders of lists at some moments, kept for those who read on, and where a page ends.

use std::sync::{Arc, Mutex};

use crate::mutex::lock;
use crate::store::Listing;

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
    pub(super) listing: u64,
    pub(super) at: usize,
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
    pub(super) fn find(&self, number: u64) -> Option<Arc<Listing>> {
        lock(&self.inner).kept.iter().find(|(kept, _)| *kept == number).map(|(_, listing)| Arc::clone(listing))
    }

    pub(super) fn keep(&self, listing: &Arc<Listing>) -> u64 {
        let mut inner = lock(&self.inner);
        inner.last += 1;
        let number = inner.last;
        inner.kept.push((number, Arc::clone(listing)));
        if inner.kept.len() > KEPT {
            inner.kept.remove(0);
        }
        number
    }

    pub(super) fn forget(&self, number: u64) {
        lock(&self.inner).kept.retain(|(kept, _)| *kept != number);
    }
}
