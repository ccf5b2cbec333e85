//! Which calls are attached to which work, and which of them is asked.
//!
//! A call attaches to a turn, or to other work, reports on it and leaves, and the work goes on. A question is put to the newest
//! attached call that can be asked. When that call leaves without an answer, the others are woken and the question is put
//! again; when it leaves by parking (`input_required`), its client holds the question and may come back with the answer,
//! and only a call that attaches anew is asked as well. The first answer counts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use openoxide_mcp_protocol::{AskKind, ClientFacts};
use tokio::sync::Notify;

use openoxide_rpc::lock;

/// Every call that is attached to anything.
#[derive(Default)]
pub(crate) struct Attachments {
    /// By the id of the work.
    works: Mutex<HashMap<Arc<str>, Attached>>,
}

#[derive(Default)]
struct Attached {
    /// In order of arrival.
    calls: Vec<AttachedCall>,
    /// Which call was asked what.
    asked: HashMap<String, u64>,
}

struct AttachedCall {
    key: u64,
    client: ClientFacts,
    /// Wakes the call's runner when a question is to be put again; the runner is the only one who waits.
    ask_again: Arc<Notify>,
}

/// Who is to ask.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AskRight {
    /// The call that wants to know; no other will.
    Ask,
    /// Another call, or it is asked already.
    Elsewhere,
    /// There are calls, and none of their clients can be asked.
    NobodyAskable,
}

/// One call that is attached. Leaves when dropped.
pub(crate) struct Attachment {
    all: Arc<Attachments>,
    work: Arc<str>,
    key: u64,
    /// Wakes when a question is to be put again.
    pub(crate) ask_again: Arc<Notify>,
    left: bool,
}

impl Attachments {
    fn with_work<T>(&self, work: &Arc<str>, act: impl FnOnce(&mut Attached) -> T) -> T {
        let mut works = lock(&self.works);
        let attached = works.entry(Arc::clone(work)).or_default();
        let result = act(attached);
        if attached.calls.is_empty() && attached.asked.is_empty() {
            works.remove(work);
        }
        result
    }

    /// Attaches a call of `client`. `key` rises with each call.
    pub(crate) fn attach(self: &Arc<Self>, work: &str, key: u64, client: ClientFacts) -> Attachment {
        let (work, ask_again) = (Arc::from(work), Arc::new(Notify::new()));
        let call = AttachedCall { key, client, ask_again: Arc::clone(&ask_again) };
        self.with_work(&work, |attached| attached.calls.push(call));
        Attachment { all: Arc::clone(self), work, key, ask_again, left: false }
    }
}

impl Attachment {
    /// Decides who asks a question.
    pub(crate) fn ask_right(&self, question: &str, kind: AskKind) -> AskRight {
        self.all.with_work(&self.work, |attached| {
            if attached.asked.contains_key(question) {
                return AskRight::Elsewhere;
            }
            match attached.calls.iter().rev().find(|call| call.client.can(kind)) {
                Some(newest) if newest.key == self.key => {
                    attached.asked.insert(question.to_owned(), self.key);
                    AskRight::Ask
                }
                Some(_) => AskRight::Elsewhere,
                None => AskRight::NobodyAskable,
            }
        })
    }

    /// Forgets a question that is settled.
    pub(crate) fn settled(&self, question: &str) {
        self.all.with_work(&self.work, |attached| attached.asked.remove(question));
    }

    /// Leaves; the questions this call was asked go to the other calls. Returns whether nobody is left.
    pub(crate) fn detach(mut self) -> bool {
        self.depart(false)
    }

    /// Leaves with its questions: its client holds them and comes back with the answers.
    pub(crate) fn park(mut self) {
        self.depart(true);
    }

    fn depart(&mut self, park: bool) -> bool {
        self.left = true;
        self.all.with_work(&self.work, |attached| {
            attached.calls.retain(|call| call.key != self.key);
            let before = attached.asked.len();
            attached.asked.retain(|_, owner| *owner != self.key);
            if attached.asked.len() < before && !park {
                attached.calls.iter().for_each(|call| call.ask_again.notify_one());
            }
            attached.calls.is_empty()
        })
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if !self.left {
            self.depart(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: AskKind = AskKind::Form;

    fn askable() -> ClientFacts {
        ClientFacts { can_be_asked: true, ..ClientFacts::default() }
    }

    #[test]
    fn the_newest_that_can_be_asked_is_asked_once() {
        let all: Arc<Attachments> = Arc::default();
        let old = all.attach("turn", 1, askable());
        let new = all.attach("turn", 2, askable());
        let deaf = all.attach("turn", 3, ClientFacts::default());
        assert_eq!(old.ask_right("q", FORM), AskRight::Elsewhere);
        assert_eq!(deaf.ask_right("q", FORM), AskRight::Elsewhere);
        assert_eq!(new.ask_right("q", FORM), AskRight::Ask);
        assert_eq!(new.ask_right("q", FORM), AskRight::Elsewhere, "one question, one asking");
        assert_eq!(new.ask_right("model", AskKind::Sampling), AskRight::NobodyAskable, "none of them has a model");
    }

    #[test]
    fn when_the_asked_one_leaves_the_next_is_woken_and_asked() {
        let all: Arc<Attachments> = Arc::default();
        let old = all.attach("turn", 1, askable());
        let new = all.attach("turn", 2, askable());
        assert_eq!(new.ask_right("q", FORM), AskRight::Ask);
        assert!(!new.detach());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(old.ask_again.notified());
        assert_eq!(old.ask_right("q", FORM), AskRight::Ask);
        assert!(old.detach(), "nobody is left");
    }

    #[test]
    fn a_parked_question_is_put_to_nobody_who_was_there_and_to_whoever_comes() {
        let all: Arc<Attachments> = Arc::default();
        let other = all.attach("turn", 1, askable());
        let parked = all.attach("turn", 2, askable());
        assert_eq!(parked.ask_right("q", FORM), AskRight::Ask);
        parked.park();
        let ask_again = Arc::clone(&other.ask_again);
        let mut woken = std::pin::pin!(ask_again.notified());
        assert!(!woken.as_mut().enable(), "the one who was there is not woken");
        let back = all.attach("turn", 3, askable());
        assert_eq!(back.ask_right("q", FORM), AskRight::Ask);
        back.settled("q");
        drop((other, back));
        assert!(all.works.lock().unwrap().is_empty(), "nothing is remembered of work that nobody follows");
    }

    #[test]
    fn nobody_who_can_be_asked_is_told_apart() {
        let all: Arc<Attachments> = Arc::default();
        let deaf = all.attach("turn", 1, ClientFacts::default());
        assert_eq!(deaf.ask_right("q", FORM), AskRight::NobodyAskable);
    }
}
