//! Which calls are attached to which work, and which of them asks.
//!
//! A call attaches to a turn, or to other work, reports on it and leaves, and the work goes on. A question is put to every connection with
//! a call that can be asked, once each, through the newest such call. The first answer counts, and the runners of the
//! others take their questions back. When a call leaves without an answer, the newest call that its connection still has
//! is asked in its place, and where no connection is left that can be asked, the others are woken to say so. When it
//! leaves by parking (`input_required`), its client holds the question and may come back with the answer; until then only
//! a call of that connection that attaches anew is asked as well.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use openoxide_mcp_protocol::{AskKind, ClientFacts};
use tokio::sync::Notify;

use openoxide_rpc::lock;

/// Every call that is attached to anything.
pub(crate) struct Attachments {
    /// By the id of the work.
    works: Mutex<HashMap<Arc<str>, Attached>>,
    /// How long a question waits for its answer: a client that holds one for longer holds nothing.
    question_timeout: Duration,
    next_connection: AtomicU64,
}

/// Tells connections apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionKey(u64);

#[derive(Default)]
struct Attached {
    /// In order of arrival.
    calls: Vec<AttachedCall>,
    /// Which connections were asked what; each has one entry for a question.
    asked: HashMap<String, Vec<Asked>>,
}

struct AttachedCall {
    key: u64,
    connection: ConnectionKey,
    client: ClientFacts,
    /// Whether its client can answer no more.
    is_lost: bool,
    /// Wakes the call's runner when questions are to be looked at again; the runner is the only one who waits.
    ask_again: Arc<Notify>,
}

struct Asked {
    connection: ConnectionKey,
    /// The call that asked.
    call: u64,
    /// Since when the client holds the question and the call is over.
    parked: Option<Instant>,
}

/// Who is to ask.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AskRight {
    /// The claimant; no other call of its connection will.
    Ask,
    /// Others ask, or it is asked already.
    Elsewhere,
    /// The claimant could have asked, but its client can answer no more, and nobody else is asked.
    Disconnected,
    /// There are calls, and none of them can be asked.
    NobodyAskable,
}

/// One call that is attached. Leaves when dropped.
pub(crate) struct Attachment {
    attachments: Arc<Attachments>,
    work: Arc<str>,
    key: u64,
    /// Wakes when questions are to be looked at again.
    pub(crate) ask_again: Arc<Notify>,
    is_gone: bool,
}

impl AttachedCall {
    fn is_askable(&self, kind: AskKind) -> bool {
        self.client.can(kind) && !self.is_lost
    }
}

impl Attached {
    fn wake(&self) {
        self.calls.iter().for_each(|call| call.ask_again.notify_one());
    }

    /// Forgets who was asked, where this says so.
    fn forget(&mut self, goes: impl Fn(&Asked) -> bool) {
        self.asked.retain(|_, asked| {
            asked.retain(|one| !goes(one));
            !asked.is_empty()
        });
    }
}

impl Attachments {
    /// Nothing is attached yet. A question waits for its answer for `question_timeout`.
    pub(crate) fn new(question_timeout: Duration) -> Self {
        Self { works: Mutex::default(), question_timeout, next_connection: AtomicU64::new(0) }
    }

    /// A key for a connection, or for what asks like one.
    pub(crate) fn connection_key(&self) -> ConnectionKey {
        ConnectionKey(self.next_connection.fetch_add(1, Ordering::Relaxed))
    }

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
    pub(crate) fn attach(
        self: &Arc<Self>,
        work: &str,
        key: u64,
        connection: ConnectionKey,
        client: ClientFacts,
    ) -> Attachment {
        let (work, ask_again) = (Arc::from(work), Arc::new(Notify::new()));
        let call = AttachedCall { key, connection, client, is_lost: false, ask_again: Arc::clone(&ask_again) };
        self.with_work(&work, |attached| attached.calls.push(call));
        Attachment { attachments: Arc::clone(self), work, key, ask_again, is_gone: false }
    }

    /// Notes that nothing more comes from a connection: what it was asked goes to whoever else can be asked.
    pub(crate) fn lose(&self, connection: ConnectionKey) {
        lock(&self.works).retain(|_, attached| {
            for call in attached.calls.iter_mut().filter(|call| call.connection == connection) {
                call.is_lost = true;
            }
            attached.forget(|asked| asked.connection == connection);
            attached.wake();
            !attached.calls.is_empty() || !attached.asked.is_empty()
        });
    }

    /// Forgets what clients hold that never came back: its time is over.
    fn sweep(&self) {
        let is_over = |asked: &Asked| asked.parked.is_some_and(|since| since.elapsed() > self.question_timeout);
        lock(&self.works).retain(|_, attached| {
            if attached.calls.is_empty() {
                attached.forget(is_over);
            }
            !attached.calls.is_empty() || !attached.asked.is_empty()
        });
    }
}

impl Attachment {
    /// Decides who asks a question. `can_answer` says whether the client of this call still can.
    pub(crate) fn ask_right(&self, question: &str, kind: AskKind, can_answer: bool) -> AskRight {
        self.attachments.with_work(&self.work, |attached| {
            let Some(own) = attached.calls.iter_mut().find(|call| call.key == self.key) else {
                return AskRight::Elsewhere;
            };
            own.is_lost |= !can_answer;
            let (connection, could_be_asked, is_askable) = (own.connection, own.client.can(kind), own.is_askable(kind));
            let newest =
                attached.calls.iter().rev().find(|call| call.connection == connection && call.is_askable(kind));
            let is_newest = newest.is_some_and(|call| call.key == self.key);
            let asked = attached.asked.entry(question.to_owned()).or_default();
            // A call that attaches after another of its connection was parked is asked as well.
            let is_asked = |one: &Asked| one.connection == connection && (one.parked.is_none() || one.call > self.key);
            let right = if is_askable && is_newest && !asked.iter().any(is_asked) {
                asked.retain(|one| one.connection != connection);
                asked.push(Asked { connection, call: self.key, parked: None });
                AskRight::Ask
            } else if !asked.is_empty() || attached.calls.iter().any(|call| call.is_askable(kind)) {
                AskRight::Elsewhere
            } else if could_be_asked {
                AskRight::Disconnected
            } else {
                AskRight::NobodyAskable
            };
            attached.forget(|_| false);
            right
        })
    }

    /// Forgets a question that is settled.
    pub(crate) fn settled(&self, question: &str) {
        self.attachments.with_work(&self.work, |attached| attached.asked.remove(question));
    }

    /// Leaves; the questions this call was asked go to the other calls of its connection. Returns whether nobody is left.
    pub(crate) fn detach(mut self) -> bool {
        self.remove(false)
    }

    /// Leaves with its questions: its client holds them and comes back with the answers.
    pub(crate) fn park(mut self) {
        self.remove(true);
        self.attachments.sweep();
    }

    fn remove(&mut self, park: bool) -> bool {
        self.is_gone = true;
        self.attachments.with_work(&self.work, |attached| {
            let was_there = attached.calls.iter().any(|call| call.key == self.key && !call.is_lost);
            attached.calls.retain(|call| call.key != self.key);
            if park {
                let held = attached.asked.values_mut().flatten().filter(|asked| asked.call == self.key);
                held.for_each(|asked| asked.parked = Some(Instant::now()));
            } else {
                attached.forget(|asked| asked.call == self.key);
                // Also where it has not asked yet: the others may have counted on it.
                if was_there {
                    attached.wake();
                }
            }
            attached.calls.is_empty()
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

    struct Room {
        attachments: Arc<Attachments>,
    }

    impl Room {
        fn new() -> Self {
            Self { attachments: Arc::new(Attachments::new(Duration::from_secs(600))) }
        }

        fn attach(&self, key: u64, connection: ConnectionKey, can_be_asked: bool) -> Attachment {
            let client = ClientFacts { can_be_asked, ..ClientFacts::default() };
            self.attachments.attach("turn", key, connection, client)
        }

        fn connections<const N: usize>(&self) -> [ConnectionKey; N] {
            std::array::from_fn(|_| self.attachments.connection_key())
        }

        fn is_empty(&self) -> bool {
            lock(&self.attachments.works).is_empty()
        }

        fn right(&self, call: &Attachment) -> AskRight {
            call.ask_right("q", AskKind::Form, true)
        }
    }

    fn is_woken(call: &Attachment) -> bool {
        let ask_again = Arc::clone(&call.ask_again);
        let mut woken = std::pin::pin!(ask_again.notified());
        woken.as_mut().enable()
    }

    #[test]
    fn each_connection_is_asked_once_through_its_newest_call_that_can_be() {
        let room = Room::new();
        let [one, other] = room.connections();
        let old = room.attach(1, one, true);
        let beside = room.attach(2, other, true);
        let new = room.attach(3, one, true);
        let deaf = room.attach(4, one, false);
        assert_eq!(room.right(&deaf), AskRight::Elsewhere);
        assert_eq!(room.right(&old), AskRight::Elsewhere);
        assert_eq!(room.right(&new), AskRight::Ask);
        assert_eq!(room.right(&new), AskRight::Elsewhere, "one connection, one asking");
        assert_eq!(room.right(&beside), AskRight::Ask, "and the other connection as well");
        assert_eq!(room.right(&beside), AskRight::Elsewhere);
        let later = room.attach(5, other, true);
        assert_eq!(room.right(&later), AskRight::Elsewhere, "its connection was asked");
        let [third] = room.connections();
        let late = room.attach(6, third, true);
        assert_eq!(room.right(&late), AskRight::Ask, "a connection that comes later is asked");
    }

    #[test]
    fn when_the_asked_call_leaves_its_connection_is_asked_through_another_and_the_others_stand() {
        let room = Room::new();
        let [one, other] = room.connections();
        let (old, beside, new) = (room.attach(1, one, true), room.attach(2, other, true), room.attach(3, one, true));
        assert_eq!((room.right(&new), room.right(&beside)), (AskRight::Ask, AskRight::Ask));
        assert!(!new.detach());
        assert!(is_woken(&old) && is_woken(&beside));
        assert_eq!((room.right(&old), room.right(&beside)), (AskRight::Ask, AskRight::Elsewhere));
        assert!(!beside.detach() && old.detach(), "nobody is left");
        assert!(room.is_empty());
    }

    #[test]
    fn when_the_last_that_can_be_asked_leaves_the_others_are_woken_to_say_that_nobody_can() {
        let room = Room::new();
        let [one, other] = room.connections();
        let (deaf, asked) = (room.attach(1, one, false), room.attach(2, other, true));
        assert_eq!(room.right(&deaf), AskRight::Elsewhere, "somebody will be asked");
        // It leaves before its runner got to ask.
        assert!(!asked.detach());
        assert!(is_woken(&deaf));
        assert_eq!(room.right(&deaf), AskRight::NobodyAskable);
    }

    #[test]
    fn a_parked_question_is_put_to_no_call_of_its_connection_but_those_that_come() {
        let room = Room::new();
        let [one, other] = room.connections();
        let (before, parked) = (room.attach(1, one, true), room.attach(2, one, true));
        let deaf = room.attach(3, other, false);
        assert_eq!(room.right(&parked), AskRight::Ask);
        parked.park();
        assert!(!is_woken(&before) && !is_woken(&deaf));
        assert_eq!(room.right(&before), AskRight::Elsewhere, "the client holds the question");
        assert_eq!(room.right(&deaf), AskRight::Elsewhere, "nor is it decided without the client");
        let back = room.attach(4, one, true);
        assert_eq!(room.right(&back), AskRight::Ask);
        back.settled("q");
        drop((before, deaf, back));
        assert!(room.is_empty(), "nothing is remembered of work that no call is attached to");
    }

    #[test]
    fn what_a_client_held_that_never_came_back_is_forgotten_in_time() {
        let room = Room { attachments: Arc::new(Attachments::new(Duration::ZERO)) };
        let [one] = room.connections();
        let parked = room.attach(1, one, true);
        assert_eq!(room.right(&parked), AskRight::Ask);
        parked.park();
        // The clock may stand still between two looks.
        while !room.is_empty() {
            room.attachments.sweep();
        }
    }

    #[test]
    fn a_lost_connection_leaves_the_question_to_the_others_and_is_told_where_there_are_none() {
        let room = Room::new();
        let [one, other] = room.connections();
        let (lost, stays) = (room.attach(1, one, true), room.attach(2, other, true));
        assert_eq!((room.right(&lost), room.right(&stays)), (AskRight::Ask, AskRight::Ask));
        room.attachments.lose(one);
        assert!(is_woken(&lost));
        assert_eq!(lost.ask_right("q", AskKind::Form, false), AskRight::Elsewhere, "the other still stands");
        drop(stays);
        assert!(is_woken(&lost));
        assert_eq!(lost.ask_right("q", AskKind::Form, false), AskRight::Disconnected);
    }

    #[test]
    fn nobody_who_can_be_asked_is_told_apart() {
        let room = Room::new();
        let [one] = room.connections();
        let deaf = room.attach(1, one, false);
        assert_eq!(room.right(&deaf), AskRight::NobodyAskable);
    }

    #[test]
    fn a_client_without_a_model_is_not_asked_for_what_one_says() {
        let room = Room::new();
        let [one] = room.connections();
        let call = room.attach(1, one, true);
        assert_eq!(call.ask_right("model", AskKind::Sampling, true), AskRight::NobodyAskable);
    }
}
