//! Which connections there are and who they count for. One that has shown nothing yet counts for its source, within a small
//! number; from the first request that is let in it counts for its caller's share.
//!
//! Nobody is kept waiting by silent connections: over the number, the one that has been silent longest is closed.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::Notify;

use super::caller::Caller;
use super::peer::PeerUser;
use super::stream::Traffic;
use crate::lock;
use crate::transport::Carrying;

/// A place among the connections of a caller, given back when it is dropped.
pub type Held = Box<dyn Any + Send>;

/// Counts the connections of each caller.
pub trait Places: Send + Sync {
    /// A place for another connection.
    ///
    /// # Errors
    /// What ends a sentence that says of what there are "as many as".
    fn take(&self, caller: &Caller) -> Result<Held, String>;
}

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// A machine.
    Address(IpAddr),
    /// A program of this machine, over a unix socket.
    Unix,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Unix => f.write_str("the unix socket"),
        }
    }
}

impl Source {
    /// What it counts as. Whoever has one IPv6 address has its whole network of 64 bits.
    pub(super) fn counted(self) -> Self {
        match self {
            Self::Address(address) => Self::Address(match address.to_canonical() {
                IpAddr::V6(address) => {
                    let [a, b, c, d, ..] = address.segments();
                    IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
                }
                address => address,
            }),
            Self::Unix => Self::Unix,
        }
    }
}

/// Every connection.
pub struct Connections {
    max_unauthenticated: usize,
    max_unauthenticated_per_source: usize,
    newcomers: Mutex<Newcomers>,
    authenticated: Arc<dyn Places>,
}

/// Those that have shown nothing yet, by number: oldest first.
#[derive(Default)]
struct Newcomers {
    next: u64,
    waiting: BTreeMap<u64, Newcomer>,
}

struct Newcomer {
    source: Source,
    /// Tells the task of the connection to close it; that task is the only one who waits.
    cut: Arc<Notify>,
}

/// One connection, as its requests see it. Counts until dropped.
pub struct Accepted {
    connections: Arc<Connections>,
    number: u64,
    source: Source,
    user: OnceLock<PeerUser>,
    cut: Arc<Notify>,
    holder: Mutex<Option<(Caller, Held)>>,
    traffic: Arc<Traffic>,
    /// What goes on with its bytes after HTTP, until the task of the connection takes it.
    next: Mutex<Option<Carrying>>,
}

impl Connections {
    /// At most so many that have shown nothing, in all and from one address, and so many others.
    pub fn new(
        max_unauthenticated: usize,
        max_unauthenticated_per_source: usize,
        authenticated: Arc<dyn Places>,
    ) -> Arc<Self> {
        let newcomers = Mutex::default();
        Arc::new(Self { max_unauthenticated, max_unauthenticated_per_source, newcomers, authenticated })
    }

    /// Counts a new connection. Over a bound, the longest silent one gives way: of the same source where that has too
    /// many, else of all.
    pub(super) fn enter(self: &Arc<Self>, source: Source) -> Accepted {
        let (counted, cut) = (source.counted(), Arc::new(Notify::new()));
        let mut newcomers = lock(&self.newcomers);
        let of_source = newcomers.waiting.values().filter(|one| one.source == counted).count();
        if of_source >= self.max_unauthenticated_per_source {
            newcomers.cut_oldest(|one| one.source == counted);
        } else if newcomers.waiting.len() >= self.max_unauthenticated {
            newcomers.cut_oldest(|_| true);
        }
        let number = newcomers.next;
        newcomers.next += 1;
        newcomers.waiting.insert(number, Newcomer { source: counted, cut: Arc::clone(&cut) });
        Accepted {
            connections: Arc::clone(self),
            number,
            source,
            user: OnceLock::new(),
            cut,
            holder: Mutex::default(),
            traffic: Arc::default(),
            next: Mutex::default(),
        }
    }

    /// Closes the longest silent connection, where the system has no more to give. Whether there was one.
    pub(super) fn make_room(&self) -> bool {
        lock(&self.newcomers).cut_oldest(|_| true)
    }
}

impl Newcomers {
    fn cut_oldest(&mut self, wanted: impl Fn(&Newcomer) -> bool) -> bool {
        let oldest = self.waiting.iter().find(|(_, one)| wanted(one)).map(|(number, _)| *number);
        let cut = oldest.and_then(|number| self.waiting.remove(&number));
        if let Some(newcomer) = &cut {
            newcomer.cut.notify_one();
        }
        cut.is_some()
    }
}

impl Accepted {
    /// Where it comes from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// The bytes that go over it.
    pub(super) fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// Has the task of the connection go on with `next` once its last response is written.
    pub(super) fn hand_over(&self, next: Carrying) {
        *lock(&self.next) = Some(next);
    }

    /// What it is to go on with.
    pub(super) fn handed_over(&self) -> Option<Carrying> {
        lock(&self.next).take()
    }

    /// Who is at the other end; [`PeerUser::Unasked`] until that is found out.
    pub fn user(&self) -> PeerUser {
        self.user.get().copied().unwrap_or(PeerUser::Unasked)
    }

    /// Notes who is at the other end, once.
    pub(super) fn found(&self, user: PeerUser) {
        self.user.get_or_init(|| user);
    }

    /// Counts it for a caller from here on. A proxy may send requests of several: the latest counts.
    ///
    /// # Errors
    /// The caller has its share of connections, or there are as many as there may be: what [`Places::take`] says.
    pub fn authenticate(&self, caller: &Caller) -> Result<(), String> {
        let mut holder = lock(&self.holder);
        if holder.as_ref().is_some_and(|(by, _)| by == caller) {
            return Ok(());
        }
        // What was held goes first, so that one connection never counts twice.
        *holder = None;
        *holder = Some((caller.clone(), self.connections.authenticated.take(caller)?));
        lock(&self.connections.newcomers).waiting.remove(&self.number);
        Ok(())
    }

    /// Whether a request of it was let in.
    pub fn is_authenticated(&self) -> bool {
        lock(&self.holder).is_some()
    }

    /// Closes it: nobody reads from it.
    pub fn close(&self) {
        self.cut.notify_one();
    }

    /// Ready when it is to be closed. Cancel-safe: the word stays.
    pub(super) async fn cut(&self) {
        self.cut.notified().await;
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        lock(&self.connections.newcomers).waiting.remove(&self.number);
    }
}

/// The same number of places for each caller, whatever the others hold.
pub struct EvenPlaces {
    each: usize,
    held: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl EvenPlaces {
    /// So many places in all for so many callers; at least one for each.
    pub fn new(limit: usize, callers: usize) -> Arc<Self> {
        Arc::new(Self { each: (limit / callers.max(1)).max(1), held: Arc::default() })
    }
}

impl Places for EvenPlaces {
    fn take(&self, caller: &Caller) -> Result<Held, String> {
        let name = caller.to_string();
        let mut held = lock(&self.held);
        let count = held.entry(name.clone()).or_default();
        if *count >= self.each {
            return Err(format!("one caller may have ({})", self.each));
        }
        *count += 1;
        Ok(Box::new(EvenPlace { held: Arc::clone(&self.held), name }))
    }
}

struct EvenPlace {
    held: Arc<Mutex<BTreeMap<String, usize>>>,
    name: String,
}

impl Drop for EvenPlace {
    fn drop(&mut self) {
        let mut held = lock(&self.held);
        match held.get_mut(&self.name) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(held.remove(&self.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn is_cut(connection: &Accepted) -> bool {
        connection.cut().now_or_never().is_some()
    }

    fn connections() -> Arc<Connections> {
        Connections::new(3, 2, EvenPlaces::new(2, 2))
    }

    #[test]
    fn the_longest_silent_of_an_address_gives_way_and_then_that_of_all() {
        let connections = connections();
        let enter = |peer: &str| connections.enter(Source::Address(peer.parse().unwrap()));
        let (a1, a2, b1) = (enter("10.0.0.1"), enter("10.0.0.1"), enter("10.0.0.2"));
        let a3 = enter("::ffff:10.0.0.1");
        assert!(is_cut(&a1) && !is_cut(&a2) && !is_cut(&b1), "the address has two");
        let _c1 = enter("10.0.0.3");
        assert!(is_cut(&a2) && !is_cut(&b1) && !is_cut(&a3), "there are three in all");
        drop(b1);
        let _d1 = enter("10.0.0.4");
        assert!(!is_cut(&a3), "one that is closed counts no more");
    }

    #[test]
    fn a_network_of_64_bits_counts_as_one_source() {
        let connections = connections();
        let enter = |peer: &str| connections.enter(Source::Address(peer.parse().unwrap()));
        let (first, _second, _third) = (enter("2001:db8::1"), enter("2001:db8::2"), enter("2001:db8::3"));
        assert!(is_cut(&first));
    }

    #[test]
    fn one_that_is_let_in_counts_for_its_caller() {
        let connections = connections();
        let (ada, bob) = (Caller::Token("ada".into()), Caller::Token("bob".into()));
        let enter = || connections.enter(Source::Address(IpAddr::from([10, 0, 0, 1])));
        let first = enter();
        assert!(!first.is_authenticated());
        first.authenticate(&ada).unwrap();
        first.authenticate(&ada).unwrap();
        let (second, third) = (enter(), enter());
        assert!(!is_cut(&first) && !is_cut(&second), "it counts no more as silent");
        assert_eq!(second.authenticate(&ada), Err("one caller may have (1)".to_owned()));
        assert!(!second.is_authenticated());
        // A proxy's connection goes over to the caller whose request comes on it.
        first.authenticate(&bob).unwrap();
        third.authenticate(&ada).unwrap();
    }
}
