//! What the calls of one connection have got to, in their order, so that a later call may speak of the last without its id.

use std::sync::Arc;

use tokio::sync::watch;

/// As many are remembered; the oldest goes first.
const KEPT: usize = 1024;

/// The work of a connection's calls by the backend's own names, the newest last. The sender is in here, so the channel is
/// never closed.
pub(crate) struct Recent(watch::Sender<State>);

#[derive(Default)]
struct State {
    next: u64,
    entries: Vec<Entry>,
}

struct Entry {
    key: u64,
    /// None while its call is on the way.
    name: Option<RecentName>,
}

/// What a call got to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecentName {
    pub(crate) name: String,
    /// Whether only questions are asked there.
    pub(crate) is_query: bool,
}

/// The place of a call that is on its way, given up when dropped.
pub(crate) struct Slot {
    recent: Arc<Recent>,
    key: u64,
}

impl Default for Recent {
    fn default() -> Self {
        Self(watch::Sender::new(State::default()))
    }
}

impl Recent {
    /// Takes the newest place for a call that is yet to get somewhere.
    pub(crate) fn reserve(self: &Arc<Self>) -> Slot {
        let mut key = 0;
        self.0.send_modify(|state| {
            key = state.next;
            state.next += 1;
            state.entries.push(Entry { key, name: None });
        });
        Slot { recent: Arc::clone(self), key }
    }

    /// Notes what a call has got to.
    pub(crate) fn note(self: &Arc<Self>, name: RecentName) {
        self.reserve().fill(name);
    }

    /// What is known, the newest last.
    pub(crate) fn names(&self) -> Vec<RecentName> {
        self.0.borrow().entries.iter().filter_map(|entry| entry.name.clone()).collect()
    }

    /// Whether no call is on its way.
    pub(crate) fn is_settled(&self) -> bool {
        self.0.borrow().entries.iter().all(|entry| entry.name.is_some())
    }
}

impl Slot {
    /// Ready when every call before this one has got somewhere or has ended. Cancel-safe.
    pub(crate) async fn first(&self) {
        let mut state = self.recent.0.subscribe();
        let waits = |state: &State| state.entries.iter().any(|entry| entry.key < self.key && entry.name.is_none());
        // An error is a closed channel, which the sender in here excludes.
        let _ = state.wait_for(|state| !waits(state)).await;
    }

    /// What is known, the newest last.
    pub(crate) fn names(&self) -> Vec<RecentName> {
        self.recent.names()
    }

    /// Notes what the call has got to.
    pub(crate) fn fill(self, name: RecentName) {
        self.recent.0.send_modify(|state| {
            state.entries.retain(|entry| entry.name.as_ref().is_none_or(|known| known.name != name.name));
            if let Some(own) = state.entries.iter_mut().find(|entry| entry.key == self.key) {
                own.name = Some(name);
            }
            if state.entries.len() > KEPT
                && let Some(oldest) = state.entries.iter().position(|entry| entry.name.is_some())
            {
                state.entries.remove(oldest);
            }
        });
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.recent.0.send_if_modified(|state| {
            let before = state.entries.len();
            state.entries.retain(|entry| entry.key != self.key || entry.name.is_some());
            state.entries.len() != before
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    fn named(name: &str) -> RecentName {
        RecentName { name: name.to_owned(), is_query: false }
    }

    fn names(recent: &Recent) -> Vec<String> {
        recent.names().into_iter().map(|known| known.name).collect()
    }

    #[tokio::test]
    async fn the_order_is_that_of_the_calls_and_not_that_in_which_they_got_somewhere() {
        let recent = Arc::new(Recent::default());
        let (first, second, third) = (recent.reserve(), recent.reserve(), recent.reserve());
        let mut waiting = std::pin::pin!(third.first());
        second.fill(named("b"));
        assert!(poll!(waiting.as_mut()).is_pending() && !recent.is_settled());
        first.fill(named("a"));
        waiting.await;
        assert_eq!(names(&recent), ["a", "b"]);
        recent.note(named("a"));
        assert_eq!(names(&recent), ["b", "a"], "what is continued is the last");
    }

    #[tokio::test]
    async fn a_call_that_gets_nowhere_leaves_nothing_and_holds_nobody_up() {
        let recent = Arc::new(Recent::default());
        recent.note(named("a"));
        let (gone, waits) = (recent.reserve(), recent.reserve());
        let mut waiting = std::pin::pin!(waits.first());
        assert!(poll!(waiting.as_mut()).is_pending());
        drop(gone);
        waiting.await;
        assert_eq!(names(&recent), ["a"]);
    }

    #[test]
    fn only_so_many_are_remembered() {
        let recent = Arc::new(Recent::default());
        (0..=KEPT).for_each(|at| recent.note(named(&at.to_string())));
        let known = names(&recent);
        assert_eq!((known.len(), known[0].as_str()), (KEPT, "1"));
    }
}
