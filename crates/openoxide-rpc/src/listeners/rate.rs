//! How often something may be done: so many times a second for each key, with a short burst.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Instant;

use crate::lock;

/// A rate for each key.
pub(super) struct Rate<K> {
    per_second: f64,
    /// Keys that are remembered at once.
    most: usize,
    buckets: Mutex<HashMap<K, Bucket>>,
}

/// What may still be done, and when that was so.
struct Bucket {
    left: f64,
    at: Instant,
}

/// What a key has left after it asked for one more.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It may.
    Some,
    /// It may, and this was the last for now.
    Last,
    /// It may not.
    None,
}

impl<K: Eq + Hash + Clone> Rate<K> {
    /// So many times a second for each key, twice as many in a burst. Beyond `most` keys the one that has not been seen for
    /// longest is forgotten.
    pub(super) fn new(per_second: u32, most: usize) -> Self {
        Self { per_second: f64::from(per_second), most, buckets: Mutex::default() }
    }

    /// Times a second.
    pub(super) fn per_second(&self) -> f64 {
        self.per_second
    }

    /// Takes one.
    pub(super) fn take(&self, key: &K) -> Left {
        let (now, full) = (Instant::now(), 2.0 * self.per_second);
        let mut buckets = lock(&self.buckets);
        if buckets.len() >= self.most && !buckets.contains_key(key) {
            let oldest = buckets.iter().min_by_key(|(_, bucket)| bucket.at).map(|(key, _)| key.clone());
            oldest.map(|oldest| buckets.remove(&oldest));
        }
        let bucket = buckets.entry(key.clone()).or_insert(Bucket { left: full, at: now });
        bucket.left = full.min(bucket.left + now.duration_since(bucket.at).as_secs_f64() * self.per_second);
        bucket.at = now;
        if bucket.left < 1.0 {
            return Left::None;
        }
        bucket.left -= 1.0;
        if bucket.left < 1.0 { Left::Last } else { Left::Some }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_rate_is_held_up_for_each_alone() {
        let rate = Rate::new(2, 10);
        let taken: Vec<Left> = (0..10).map(|_| rate.take(&"ada")).collect();
        let passed = taken.iter().filter(|left| **left != Left::None).count();
        assert!((4..=5).contains(&passed) && taken[3] == Left::Last, "{taken:?}");
        assert_eq!(rate.take(&"bob"), Left::Some);
    }

    #[test]
    fn no_more_keys_are_remembered_than_there_may_be() {
        let rate = Rate::new(1, 3);
        for key in 0..100 {
            rate.take(&key);
        }
        let buckets = lock(&rate.buckets);
        assert!(buckets.len() == 3 && buckets.contains_key(&99), "{:?}", buckets.keys());
    }
}
