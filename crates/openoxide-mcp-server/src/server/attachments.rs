//! Which calls are attached to which turn, and which of them is asked.
//!
//! A call is a visit: it enters a turn, reports on it and leaves, and the turn goes on. An approval is put to the newest
//! visitor that can be asked. When that visitor leaves without an answer, the others are woken and the question is
//! put again; when it leaves by parking (`input_required`), its client holds the question and may come back with the
//! answer, and only a call that attaches anew is asked as well. The first answer counts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use openoxide_core::{ApprovalId, ThreadId, TurnId};
use tokio::sync::Notify;

use openoxide_rpc::lock;

/// Everybody who is attached to anything.
#[derive(Default)]
pub(crate) struct Visits {
    turns: Mutex<HashMap<(ThreadId, TurnId), Turn>>,
}

#[derive(Default)]
struct Turn {
    /// In order of arrival.
    visitors: Vec<Visitor>,
    /// Which visitor was asked what.
    asked: HashMap<ApprovalId, u64>,
}

struct Visitor {
    key: u64,
    can_be_asked: bool,
    /// Wakes the visitor's runner when a question is to be put again; the runner is the only one who waits.
    reoffer: Arc<Notify>,
}

/// Who is to ask.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The claimant; nobody else will.
    Ask,
    /// Another visitor, or it is asked already.
    Elsewhere,
    /// There are visitors, and none of them can be asked.
    NobodyAskable,
}

/// One call's stay at a turn. Leaves when dropped.
pub(crate) struct Visit {
    visits: Arc<Visits>,
    at: (ThreadId, TurnId),
    key: u64,
    /// Wakes when a question is to be put again.
    pub(crate) reoffer: Arc<Notify>,
    left: bool,
}

impl Visits {
    fn with_turn<T>(&self, at: (ThreadId, TurnId), act: impl FnOnce(&mut Turn) -> T) -> T {
        let mut turns = lock(&self.turns);
        let turn = turns.entry(at).or_default();
        let result = act(turn);
        if turn.visitors.is_empty() && turn.asked.is_empty() {
            turns.remove(&at);
        }
        result
    }

    /// Attaches a call. `key` rises with each call.
    pub(crate) fn enter(self: &Arc<Self>, thread: ThreadId, turn: TurnId, key: u64, can_be_asked: bool) -> Visit {
        let reoffer = Arc::new(Notify::new());
        let visitor = Visitor { key, can_be_asked, reoffer: Arc::clone(&reoffer) };
        self.with_turn((thread, turn), |turn| turn.visitors.push(visitor));
        Visit { visits: Arc::clone(self), at: (thread, turn), key, reoffer, left: false }
    }

    /// Forgets a question that is settled.
    pub(crate) fn settled(&self, thread: ThreadId, turn: TurnId, approval: ApprovalId) {
        self.with_turn((thread, turn), |turn| turn.asked.remove(&approval));
    }
}

impl Visit {
    /// Decides who asks `approval`.
    pub(crate) fn claim(&self, approval: ApprovalId) -> Claim {
        self.visits.with_turn(self.at, |turn| {
            if turn.asked.contains_key(&approval) {
                return Claim::Elsewhere;
            }
            match turn.visitors.iter().rev().find(|visitor| visitor.can_be_asked) {
                Some(newest) if newest.key == self.key => {
                    turn.asked.insert(approval, self.key);
                    Claim::Ask
                }
                Some(_) => Claim::Elsewhere,
                None => Claim::NobodyAskable,
            }
        })
    }

    /// Leaves; the questions this call was asked go to whoever else is there. Returns whether nobody is left.
    pub(crate) fn leave(mut self) -> bool {
        self.depart(false)
    }

    /// Leaves with its questions: its client holds them and comes back with the answers.
    pub(crate) fn park(mut self) {
        self.depart(true);
    }

    fn depart(&mut self, park: bool) -> bool {
        self.left = true;
        self.visits.with_turn(self.at, |turn| {
            turn.visitors.retain(|visitor| visitor.key != self.key);
            let before = turn.asked.len();
            turn.asked.retain(|_, owner| *owner != self.key);
            if turn.asked.len() < before && !park {
                turn.visitors.iter().for_each(|visitor| visitor.reoffer.notify_one());
            }
            turn.visitors.is_empty()
        })
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if !self.left {
            self.depart(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> (Arc<Visits>, ThreadId, TurnId, ApprovalId) {
        (Arc::default(), ThreadId::new(), TurnId::new(), ApprovalId::new())
    }

    #[test]
    fn the_newest_that_can_be_asked_is_asked_once() {
        let (visits, thread, turn, approval) = setup();
        let old = visits.enter(thread, turn, 1, true);
        let new = visits.enter(thread, turn, 2, true);
        let deaf = visits.enter(thread, turn, 3, false);
        assert_eq!(old.claim(approval), Claim::Elsewhere);
        assert_eq!(deaf.claim(approval), Claim::Elsewhere);
        assert_eq!(new.claim(approval), Claim::Ask);
        assert_eq!(new.claim(approval), Claim::Elsewhere, "one question, one asking");
    }

    #[test]
    fn when_the_asked_one_leaves_the_next_is_woken_and_asked() {
        let (visits, thread, turn, approval) = setup();
        let old = visits.enter(thread, turn, 1, true);
        let new = visits.enter(thread, turn, 2, true);
        assert_eq!(new.claim(approval), Claim::Ask);
        assert!(!new.leave());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(old.reoffer.notified());
        assert_eq!(old.claim(approval), Claim::Ask);
        assert!(old.leave(), "nobody is left");
    }

    #[test]
    fn a_parked_question_is_put_to_nobody_who_was_there_and_to_whoever_comes() {
        let (visits, thread, turn, approval) = setup();
        let other = visits.enter(thread, turn, 1, true);
        let parked = visits.enter(thread, turn, 2, true);
        assert_eq!(parked.claim(approval), Claim::Ask);
        parked.park();
        let reoffer = Arc::clone(&other.reoffer);
        let mut woken = std::pin::pin!(reoffer.notified());
        assert!(!woken.as_mut().enable(), "the one who was there is not woken");
        let back = visits.enter(thread, turn, 3, true);
        assert_eq!(back.claim(approval), Claim::Ask);
        visits.settled(thread, turn, approval);
        drop((other, back));
        assert!(visits.turns.lock().unwrap().is_empty(), "nothing is remembered of a turn nobody visits");
    }

    #[test]
    fn nobody_who_can_be_asked_is_told_apart() {
        let (visits, thread, turn, approval) = setup();
        let deaf = visits.enter(thread, turn, 1, false);
        assert_eq!(deaf.claim(approval), Claim::NobodyAskable);
    }
}
