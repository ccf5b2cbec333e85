//! Which calls are attached to which turn, and which of them is asked.
//!
//! A call attaches to a turn, reports on it and leaves, and the turn goes on. An approval is put to the newest call that
//! can be asked. When that call leaves without an answer, the others are woken and the question is
//! put again; when it leaves by parking (`input_required`), its client holds the question and may come back with the
//! answer, and only a call that attaches anew is asked as well. The first answer counts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use openoxide_core::{ApprovalId, ThreadId, TurnId};
use tokio::sync::Notify;

use openoxide_rpc::lock;

/// Every call that is attached to a turn.
#[derive(Default)]
pub(crate) struct Attachments {
    turns: Mutex<HashMap<(ThreadId, TurnId), Turn>>,
}

#[derive(Default)]
struct Turn {
    /// In order of arrival.
    calls: Vec<AttachedCall>,
    /// Which call was asked what.
    asked: HashMap<ApprovalId, u64>,
}

struct AttachedCall {
    key: u64,
    can_be_asked: bool,
    /// Wakes the call's runner when a question is to be put again; the runner is the only one who waits.
    ask_again: Arc<Notify>,
}

/// Who is to ask.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AskRight {
    /// The claimant; nobody else will.
    Ask,
    /// Another call, or it is asked already.
    Elsewhere,
    /// There are calls, and none of them can be asked.
    NobodyAskable,
}

/// One call that is attached to a turn. Leaves when dropped.
pub(crate) struct Attachment {
    attachments: Arc<Attachments>,
    at: (ThreadId, TurnId),
    key: u64,
    /// Wakes when a question is to be put again.
    pub(crate) ask_again: Arc<Notify>,
    is_gone: bool,
}

impl Attachments {
    fn with_turn<T>(&self, at: (ThreadId, TurnId), act: impl FnOnce(&mut Turn) -> T) -> T {
        let mut turns = lock(&self.turns);
        let turn = turns.entry(at).or_default();
        let result = act(turn);
        if turn.calls.is_empty() && turn.asked.is_empty() {
            turns.remove(&at);
        }
        result
    }

    /// Attaches a call. `key` rises with each call.
    pub(crate) fn attach(self: &Arc<Self>, thread: ThreadId, turn: TurnId, key: u64, can_be_asked: bool) -> Attachment {
        let ask_again = Arc::new(Notify::new());
        let call = AttachedCall { key, can_be_asked, ask_again: Arc::clone(&ask_again) };
        self.with_turn((thread, turn), |turn| turn.calls.push(call));
        Attachment { attachments: Arc::clone(self), at: (thread, turn), key, ask_again, is_gone: false }
    }

    /// Forgets a question that is settled.
    pub(crate) fn settled(&self, thread: ThreadId, turn: TurnId, approval: ApprovalId) {
        self.with_turn((thread, turn), |turn| turn.asked.remove(&approval));
    }
}

impl Attachment {
    /// Decides who asks `approval`.
    pub(crate) fn ask_right(&self, approval: ApprovalId) -> AskRight {
        self.attachments.with_turn(self.at, |turn| {
            if turn.asked.contains_key(&approval) {
                return AskRight::Elsewhere;
            }
            match turn.calls.iter().rev().find(|call| call.can_be_asked) {
                Some(newest) if newest.key == self.key => {
                    turn.asked.insert(approval, self.key);
                    AskRight::Ask
                }
                Some(_) => AskRight::Elsewhere,
                None => AskRight::NobodyAskable,
            }
        })
    }

    /// Leaves; the questions this call was asked go to the other calls. Returns whether nobody is left.
    pub(crate) fn detach(mut self) -> bool {
        self.remove(false)
    }

    /// Leaves with its questions: its client holds them and comes back with the answers.
    pub(crate) fn park(mut self) {
        self.remove(true);
    }

    fn remove(&mut self, park: bool) -> bool {
        self.is_gone = true;
        self.attachments.with_turn(self.at, |turn| {
            turn.calls.retain(|call| call.key != self.key);
            let before = turn.asked.len();
            turn.asked.retain(|_, owner| *owner != self.key);
            if turn.asked.len() < before && !park {
                turn.calls.iter().for_each(|call| call.ask_again.notify_one());
            }
            turn.calls.is_empty()
        })
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if !self.is_gone {
            self.remove(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> (Arc<Attachments>, ThreadId, TurnId, ApprovalId) {
        (Arc::default(), ThreadId::new(), TurnId::new(), ApprovalId::new())
    }

    #[test]
    fn the_newest_that_can_be_asked_is_asked_once() {
        let (attachments, thread, turn, approval) = setup();
        let old = attachments.attach(thread, turn, 1, true);
        let new = attachments.attach(thread, turn, 2, true);
        let deaf = attachments.attach(thread, turn, 3, false);
        assert_eq!(old.ask_right(approval), AskRight::Elsewhere);
        assert_eq!(deaf.ask_right(approval), AskRight::Elsewhere);
        assert_eq!(new.ask_right(approval), AskRight::Ask);
        assert_eq!(new.ask_right(approval), AskRight::Elsewhere, "one question, one asking");
    }

    #[test]
    fn when_the_asked_one_leaves_the_next_is_woken_and_asked() {
        let (attachments, thread, turn, approval) = setup();
        let old = attachments.attach(thread, turn, 1, true);
        let new = attachments.attach(thread, turn, 2, true);
        assert_eq!(new.ask_right(approval), AskRight::Ask);
        assert!(!new.detach());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(old.ask_again.notified());
        assert_eq!(old.ask_right(approval), AskRight::Ask);
        assert!(old.detach(), "nobody is left");
    }

    #[test]
    fn a_parked_question_is_put_to_nobody_who_was_there_and_to_the_next_that_comes() {
        let (attachments, thread, turn, approval) = setup();
        let other = attachments.attach(thread, turn, 1, true);
        let parked = attachments.attach(thread, turn, 2, true);
        assert_eq!(parked.ask_right(approval), AskRight::Ask);
        parked.park();
        let ask_again = Arc::clone(&other.ask_again);
        let mut woken = std::pin::pin!(ask_again.notified());
        assert!(!woken.as_mut().enable(), "the one who was there is not woken");
        let back = attachments.attach(thread, turn, 3, true);
        assert_eq!(back.ask_right(approval), AskRight::Ask);
        attachments.settled(thread, turn, approval);
        drop((other, back));
        assert!(
            attachments.turns.lock().unwrap().is_empty(),
            "nothing is remembered of a turn that no call is attached to"
        );
    }

    #[test]
    fn nobody_who_can_be_asked_is_told_apart() {
        let (attachments, thread, turn, approval) = setup();
        let deaf = attachments.attach(thread, turn, 1, false);
        assert_eq!(deaf.ask_right(approval), AskRight::NobodyAskable);
    }
}
