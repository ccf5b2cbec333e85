//! The names core gives to what lasts: threads, turns, items and approvals.

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::{ContextV7, Timestamp, Uuid};

use crate::mutex::lock;

/// A UUID v7 of this moment, later than every one made before it in this process. A clock that stands before 1970, which
/// a UUID cannot tell, counts as 1970.
fn v7(now: SystemTime) -> Uuid {
    static ORDER: Mutex<ContextV7> = Mutex::new(ContextV7::new());
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    Uuid::new_v7(Timestamp::from_unix(&*lock(&ORDER), since.as_secs(), since.subsec_nanos()))
}

macro_rules! uuid_v7_id {
    ($name:ident) => {
        impl $name {
            /// A new id, later than every id made before it in this process.
            #[allow(clippy::new_without_default)]
            pub fn new() -> Self {
                Self(v7(SystemTime::now()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::try_parse(text).map(Self)
            }
        }
    };
}

/// A thread: a conversation that lasts. UUID v7 (RFC 9562).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(Uuid);

/// A turn: from a prompt to its end. UUID v7 (RFC 9562).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TurnId(Uuid);

uuid_v7_id!(ThreadId);
uuid_v7_id!(TurnId);

impl ThreadId {
    /// When the thread was made, in whole seconds of the Unix epoch, as its id tells; `None` for an id that is not a
    /// UUID v7.
    pub(crate) fn unix_seconds(self) -> Option<i64> {
        let (seconds, _) = self.0.get_timestamp()?.to_unix();
        i64::try_from(seconds).ok()
    }
}

/// A piece of steering text that the model has not been given yet. Holds within the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SteerId(u64);

impl SteerId {
    /// The next id.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A question that waits for a [`crate::Decision`]. Random (UUID v4), so that it cannot be guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ApprovalId(Uuid);

impl ApprovalId {
    /// A new random id.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(Uuid::new_v4())
    }
}

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ApprovalId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::try_parse(text).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_before_1970_still_gives_ids_in_order() {
        let moments = [UNIX_EPOCH - Duration::from_secs(9), UNIX_EPOCH, UNIX_EPOCH - Duration::from_secs(1)];
        let ids = moments.map(v7);
        assert!(ids.is_sorted() && ids[0] != ids[1] && ids[1] != ids[2], "{ids:?}");
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
        let now: Vec<_> = (0..10_000).map(|_| TurnId::new()).collect();
        assert!(now.is_sorted_by(|a, b| a < b));
    }
}
