//! How much of one limit each party holds, so that neither one of them nor several together can take what is there for all.
//!
//! The number of parties is known from the start, and a part of the limit is kept for each: half of what an even split
//! would give. What is not kept belongs to whoever comes first, up to each party's share. A party that holds less than
//! what is kept for it is never refused, whatever all the others do.
//!
//! What is taken goes back when its [`Held`] is dropped. What to do about a refusal is for the caller to decide:
//! [`Shares::who_gives_way`] says whose idle things may end for it, and [`Shares::wait`] waits.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::mutex::lock;

/// One limit and who holds how much of it. `K` names a party.
#[derive(Debug)]
pub struct Shares<K: Eq + Hash + Clone> {
    limit: usize,
    /// The most that one party holds.
    each: usize,
    /// What is kept for each party.
    kept: usize,
    /// What is kept for nobody in particular.
    common: usize,
    held: Mutex<Counts<K>>,
}

#[derive(Debug)]
struct Counts<K: Eq + Hash + Clone> {
    all: usize,
    /// Taken beyond what is kept for whoever has it.
    common: usize,
    by: HashMap<K, usize>,
    /// Those who wait for 1, oldest first. [`Shares::wait`] adds them and holds the other ends; who has gone is skipped.
    waiting: HashMap<K, VecDeque<oneshot::Sender<Held<K>>>>,
}

/// Why nothing more was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exceeded {
    /// The party would hold more than its share, which is this much.
    Share(usize),
    /// The party would hold more than what the others leave, which is this much at this moment.
    Rest(usize),
    /// All together would hold more than the limit, which is this much.
    Limit(usize),
}

/// Ends a sentence that says of what there are "as many as".
impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(most) => write!(f, "one caller may have beside others ({most})"),
            Self::Rest(most) => write!(f, "one caller may have while others hold what they do now ({most})"),
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
    /// A limit of which each of so many parties may hold at most `each`, and less where it would take what is kept for the
    /// others. Kept for each is `limit / (2 * parties)`, at least 1 and at most `each`; nothing where there are more parties
    /// than the limit has units.
    #[must_use]
    pub fn new(limit: usize, each: usize, parties: usize) -> Arc<Self> {
        let parties = parties.max(1);
        let least = usize::from(parties <= limit);
        let kept = match parties {
            1 => limit,
            _ => (limit / parties / 2).max(least),
        };
        let kept = kept.min(each);
        let each = each.min(limit - (parties - 1) * kept);
        let counts = Counts { all: 0, common: 0, by: HashMap::new(), waiting: HashMap::new() };
        Arc::new(Self { limit, each, kept, common: limit - parties * kept, held: Mutex::new(counts) })
    }

    /// What a party can hold whatever the others do.
    #[must_use]
    pub fn kept_for_each(&self) -> usize {
        self.kept
    }

    /// Gives `amount` to a party.
    ///
    /// # Errors
    /// Its share, what the others leave, or the limit would be exceeded; nothing is taken then.
    pub fn take(self: &Arc<Self>, by: &K, amount: usize) -> Result<Held<K>, Exceeded> {
        self.add(&mut lock(&self.held), by, amount)?;
        Ok(Held { shares: Arc::clone(self), by: by.clone(), amount })
    }

    /// Gives 1 to a party as soon as there is room for it. Of several parties that wait, whoever holds least is next, and of
    /// one party who came first. Cancel-safe: what was given to a future that is dropped goes back.
    pub async fn wait(self: &Arc<Self>, by: &K) -> Held<K> {
        loop {
            let given = {
                let mut held = lock(&self.held);
                let is_first = held.waiting.get(by).is_none_or(|queue| queue.iter().all(oneshot::Sender::is_closed));
                if is_first && self.add(&mut held, by, 1).is_ok() {
                    return Held { shares: Arc::clone(self), by: by.clone(), amount: 1 };
                }
                let (giver, given) = oneshot::channel();
                held.waiting.entry(by.clone()).or_default().push_back(giver);
                given
            };
            // The queue keeps the other end until it gives.
            if let Ok(held) = given.await {
                return held;
            }
        }
    }

    /// Whose things may end so that `by` gets what it was refused, in this order: its own where it has its share, else
    /// those of parties that hold more than it would, the largest holder first, and then its own.
    pub fn who_gives_way(&self, by: &K, exceeded: Exceeded) -> Vec<K> {
        let held = lock(&self.held);
        let own = held.of(by);
        let mut larger: Vec<(&K, usize)> = match exceeded {
            Exceeded::Share(_) => Vec::new(),
            Exceeded::Rest(_) | Exceeded::Limit(_) => {
                held.by.iter().map(|(party, amount)| (party, *amount)).filter(|(_, amount)| *amount > own + 1).collect()
            }
        };
        larger.sort_by_key(|(_, amount)| std::cmp::Reverse(*amount));
        larger.into_iter().map(|(party, _)| party).chain([by]).cloned().collect()
    }

    fn add(&self, held: &mut Counts<K>, by: &K, amount: usize) -> Result<(), Exceeded> {
        let own = held.of(by);
        let more = own.saturating_add(amount);
        if more > self.each {
            return Err(if self.each == self.limit { Exceeded::Limit(self.limit) } else { Exceeded::Share(self.each) });
        }
        let others = held.common - self.beyond(own);
        if others + self.beyond(more) > self.common {
            return Err(Exceeded::Rest(self.kept + self.common - others));
        }
        // Where there are no more parties than were announced, this holds already.
        if held.all.saturating_add(amount) > self.limit {
            return Err(Exceeded::Limit(self.limit));
        }
        held.all += amount;
        held.common = others + self.beyond(more);
        held.by.insert(by.clone(), more);
        Ok(())
    }

    /// How much of what a party holds is not kept for it.
    fn beyond(&self, amount: usize) -> usize {
        amount.saturating_sub(self.kept)
    }

    fn give_back(self: &Arc<Self>, by: &K, amount: usize) {
        let mut held = lock(&self.held);
        let own = held.of(by);
        let less = own - amount;
        held.all -= amount;
        held.common = held.common - self.beyond(own) + self.beyond(less);
        if less == 0 {
            held.by.remove(by);
        } else {
            held.by.insert(by.clone(), less);
        }
        let mut given = Vec::new();
        while let Some(one) = self.next_waiting(&mut held) {
            given.push(one);
        }
        // What somebody does not take any more is given back here, which takes the lock.
        drop(held);
        for (giver, one) in given {
            drop(giver.send(one));
        }
    }

    /// Counts 1 for whoever holds least of those who wait and may have it.
    fn next_waiting(self: &Arc<Self>, held: &mut Counts<K>) -> Option<(oneshot::Sender<Held<K>>, Held<K>)> {
        held.waiting.retain(|_, queue| {
            while queue.front().is_some_and(oneshot::Sender::is_closed) {
                queue.pop_front();
            }
            !queue.is_empty()
        });
        let mut parties: Vec<K> = held.waiting.keys().cloned().collect();
        parties.sort_by_key(|party| held.of(party));
        let by = parties.into_iter().find(|party| self.add(held, party, 1).is_ok())?;
        let giver = held.waiting.get_mut(&by)?.pop_front()?;
        Some((giver, Held { shares: Arc::clone(self), by, amount: 1 }))
    }
}

impl<K: Eq + Hash + Clone> Counts<K> {
    fn of(&self, by: &K) -> usize {
        self.by.get(by).copied().unwrap_or(0)
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
        self.shares.add(&mut lock(&self.shares.held), &self.by, amount)?;
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
    use futures_util::FutureExt as _;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_party_leaves_room_for_the_others_and_gives_back_what_it_drops() {
        let shares = Shares::new(12, 4, 3);
        let mut ada = shares.take(&"ada", 3).unwrap();
        assert_eq!(ada.grow(2), Err(Exceeded::Share(4)));
        ada.grow(1).unwrap();
        assert_eq!(shares.take(&"ada", 1).unwrap_err(), Exceeded::Share(4));
        let _bob = shares.take(&"bob", 4).unwrap();
        let _eve = shares.take(&"eve", 4).unwrap();
        assert_eq!(shares.take(&"unknown", 1).unwrap_err(), Exceeded::Limit(12));
        drop(ada);
        assert_eq!(lock(&shares.held).all, 8);
        assert!(!lock(&shares.held).by.contains_key(&"ada"), "nobody is remembered who holds nothing");
    }

    #[test]
    fn a_single_party_has_all_and_several_have_their_part() {
        assert_eq!(share_of(1024, 25, 1), 1024);
        assert_eq!(share_of(1024, 25, 2), 256);
        assert_eq!(share_of(1, 25, 2), 1);
        assert_eq!(share_of(usize::MAX, 100, 2), usize::MAX);
        let huge = Shares::new(usize::MAX, usize::MAX, 2);
        let _one = huge.take(&1, usize::MAX / 2).unwrap();
        let _other = huge.take(&2, huge.kept_for_each()).unwrap();
    }

    #[test]
    fn four_greedy_parties_leave_the_fifth_its_part() {
        let shares = Shares::new(1024, share_of(1024, 25, 5), 5);
        let mut taken = Vec::new();
        for greedy in 0..4 {
            while let Ok(one) = shares.take(&greedy, 1) {
                taken.push(one);
            }
        }
        assert_eq!(lock(&shares.held).by[&0], 256, "the first had its whole share");
        let refused = shares.take(&3, 1).unwrap_err();
        assert_eq!(refused, Exceeded::Rest(lock(&shares.held).by[&3]));
        let first = shares.who_gives_way(&3, refused)[0];
        assert_eq!(lock(&shares.held).by[&first], 256, "the largest holder");
        let _own: Vec<_> = (0..102).map(|_| shares.take(&4, 1).unwrap()).collect();
        assert_eq!(shares.who_gives_way(&4, Exceeded::Share(1)), [4]);
    }

    #[test]
    fn whoever_holds_least_is_next_and_one_that_stopped_waiting_takes_nothing() {
        let shares = Shares::new(4, 4, 2);
        let mut ada: Vec<_> = (0..3).map(|_| shares.take(&"ada", 1).unwrap()).collect();
        let bob = shares.take(&"bob", 1).unwrap();
        let (mut more, mut gone) = (Box::pin(shares.wait(&"ada")), Box::pin(shares.wait(&"bob")));
        let mut other = Box::pin(shares.wait(&"bob"));
        assert!((&mut more).now_or_never().is_none() && (&mut gone).now_or_never().is_none());
        assert!((&mut other).now_or_never().is_none());
        drop(gone);
        drop(ada.pop());
        let second = other.now_or_never().expect("bob holds less");
        assert!((&mut more).now_or_never().is_none());
        // What is given to a future that nobody asks any more goes back.
        drop((ada, bob));
        drop(more);
        assert_eq!(lock(&shares.held).by, HashMap::from([("bob", 1)]));
        drop(second);
        assert_eq!(lock(&shares.held).common, 0);
    }

    proptest! {
        #[test]
        fn no_sequence_takes_what_is_kept_for_another(
            limit in 1usize..400,
            percent in 1u8..=100,
            parties in 1usize..12,
            steps in prop::collection::vec((0usize..12, 0usize..60, any::<bool>()), 1..300),
        ) {
            let share = share_of(limit, percent, parties);
            let shares = Shares::new(limit, share, parties);
            let kept = shares.kept_for_each();
            prop_assert!(parties > limit || kept >= (limit / (2 * parties)).clamp(1, share));
            // What is promised to one that is alone: its share, but for what is kept for the others.
            let alone = share.min(limit - (parties - 1) * kept);
            prop_assert!(shares.take(&0, alone).is_ok());
            prop_assert!(parties > 1 || alone == limit);
            let mut held: Vec<Held<usize>> = Vec::new();
            let of = |held: &[Held<usize>], party: usize| -> usize {
                held.iter().filter(|one| *one.by() == party).map(|one| one.amount).sum()
            };
            for (party, amount, gives_back) in steps {
                let party = party % parties;
                if gives_back && !held.is_empty() {
                    held.swap_remove(amount % held.len());
                } else {
                    let own = of(&held, party);
                    match shares.take(&party, amount) {
                        Ok(one) => held.push(one),
                        Err(why) => {
                            prop_assert!(own + amount > kept, "{party} holds {own} and gets no {amount}: {why:?}");
                            let by_limit = matches!(why, Exceeded::Limit(_));
                            prop_assert!(!by_limit || own + amount > limit, "{why:?} is not the bound");
                        }
                    }
                    prop_assert!(of(&held, party) <= share);
                }
                let all: usize = held.iter().map(|one| one.amount).sum();
                prop_assert!(all <= limit && lock(&shares.held).all == all);
            }
            drop(held);
            let counts = lock(&shares.held);
            prop_assert!(counts.all == 0 && counts.common == 0 && counts.by.is_empty());
        }
    }
}
