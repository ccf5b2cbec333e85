//! How much of one limit each party holds, so that one of them cannot take what is counted for all.
//!
//! The table says who may take how much. What is taken goes back when its [`Held`] is dropped. What to do about a refusal
//! is for the caller to decide.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use crate::events::lock;

/// One limit and who holds how much of it. `K` names a party.
#[derive(Debug)]
pub struct Shares<K> {
    limit: usize,
    each: usize,
    held: Mutex<Counts<K>>,
}

#[derive(Debug)]
struct Counts<K> {
    all: usize,
    by: HashMap<K, usize>,
}

/// Why nothing more was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exceeded {
    /// The party would hold more than its share, which is this much.
    Share(usize),
    /// All together would hold more than the limit, which is this much.
    Limit(usize),
}

/// Ends a sentence that says of what there are "as many as".
impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(most) => write!(f, "one caller may have beside others ({most})"),
            Self::Limit(most) => write!(f, "there may be ({most})"),
        }
    }
}

/// An amount that a party holds; given back when dropped.
#[derive(Debug)]
pub struct Held<K: Eq + Hash + Clone> {
    shares: Arc<Shares<K>>,
    by: K,
    amount: usize,
}

/// The share of one party in a limit: `percent` of it where there are several parties, all of it for a single one. At
/// least 1.
#[must_use]
pub fn share_of(limit: usize, percent: u8, parties: usize) -> usize {
    if parties <= 1 {
        return limit;
    }
    // In two steps, so that no limit is too large to be multiplied.
    let percent = usize::from(percent);
    (limit / 100 * percent + limit % 100 * percent / 100).max(1)
}

impl<K: Eq + Hash + Clone> Shares<K> {
    /// A limit of which each party may hold at most `each`.
    #[must_use]
    pub fn new(limit: usize, each: usize) -> Arc<Self> {
        Arc::new(Self { limit, each, held: Mutex::new(Counts { all: 0, by: HashMap::new() }) })
    }

    /// Gives `amount` to a party.
    ///
    /// # Errors
    /// Its share or the limit would be exceeded; nothing is taken then.
    pub fn take(self: &Arc<Self>, by: &K, amount: usize) -> Result<Held<K>, Exceeded> {
        self.add(by, amount)?;
        Ok(Held { shares: Arc::clone(self), by: by.clone(), amount })
    }

    fn add(&self, by: &K, amount: usize) -> Result<(), Exceeded> {
        let mut held = lock(&self.held);
        let own = held.by.get(by).copied().unwrap_or(0);
        if own.saturating_add(amount) > self.each {
            return Err(Exceeded::Share(self.each));
        }
        if held.all.saturating_add(amount) > self.limit {
            return Err(Exceeded::Limit(self.limit));
        }
        held.all += amount;
        held.by.insert(by.clone(), own + amount);
        Ok(())
    }

    fn give_back(&self, by: &K, amount: usize) {
        let mut held = lock(&self.held);
        held.all -= amount;
        if let Some(own) = held.by.get_mut(by) {
            *own -= amount;
            if *own == 0 {
                held.by.remove(by);
            }
        }
    }
}

impl<K: Eq + Hash + Clone> Held<K> {
    /// Who holds it.
    #[must_use]
    pub fn by(&self) -> &K {
        &self.by
    }

    /// Takes more.
    ///
    /// # Errors
    /// As [`Shares::take`]; what was held before stays.
    pub fn grow(&mut self, amount: usize) -> Result<(), Exceeded> {
        self.shares.add(&self.by, amount)?;
        self.amount += amount;
        Ok(())
    }
}

impl<K: Eq + Hash + Clone> Drop for Held<K> {
    fn drop(&mut self) {
        self.shares.give_back(&self.by, self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_party_leaves_room_for_the_others_and_gives_back_what_it_drops() {
        let shares = Shares::new(10, 4);
        let mut ada = shares.take(&"ada", 3).unwrap();
        assert_eq!(ada.grow(2), Err(Exceeded::Share(4)));
        ada.grow(1).unwrap();
        assert_eq!(shares.take(&"ada", 1).unwrap_err(), Exceeded::Share(4));
        let _bob = shares.take(&"bob", 4).unwrap();
        assert_eq!(shares.take(&"eve", 3).unwrap_err(), Exceeded::Limit(10));
        drop(ada);
        let _eve = shares.take(&"eve", 3).unwrap();
        assert_eq!(lock(&shares.held).all, 7);
        assert!(!lock(&shares.held).by.contains_key(&"ada"), "nobody is remembered who holds nothing");
    }

    #[test]
    fn a_single_party_has_all_and_several_have_their_part() {
        assert_eq!(share_of(1024, 25, 1), 1024);
        assert_eq!(share_of(1024, 25, 2), 256);
        assert_eq!(share_of(1, 25, 2), 1);
        assert_eq!(share_of(usize::MAX, 100, 2), usize::MAX);
    }
}
