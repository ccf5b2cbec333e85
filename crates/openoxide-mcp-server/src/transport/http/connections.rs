//! Which connections there are and who they count for. One that has shown nothing yet counts for its address, within a
//! small number; from the first request that is let in it counts for its principal's share.
//!
//! Nobody is kept waiting by silent connections: over the number, the one that has been silent longest is closed.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, OnceLock};

use openoxide_core::{Exceeded, Held, Shares};
use tokio::sync::Notify;

use super::peer::PeerUser;
use crate::principal::Principal;
use openoxide_rpc::lock;

/// Every connection.
pub(super) struct Connections {
    max_unauthenticated: usize,
    max_unauthenticated_per_peer: usize,
    newcomers: Mutex<Newcomers>,
    authenticated: Arc<Shares<Principal>>,
}

/// Those that have shown nothing yet, by number: oldest first.
#[derive(Default)]
struct Newcomers {
    next: u64,
    waiting: BTreeMap<u64, Newcomer>,
}

struct Newcomer {
    peer: IpAddr,
    /// Tells the task of the connection to close it; that task is the only one who waits.
    cut: Arc<Notify>,
}

/// One connection, as its requests see it. Counts until dropped.
pub(super) struct Connection {
    connections: Arc<Connections>,
    number: u64,
    user: OnceLock<PeerUser>,
    cut: Arc<Notify>,
    holder: Mutex<Option<Held<Principal>>>,
}

impl Connections {
    /// At most so many that have shown nothing, in all and from one address, and so many others.
    pub(super) fn new(
        max_unauthenticated: usize,
        max_unauthenticated_per_peer: usize,
        authenticated: Arc<Shares<Principal>>,
    ) -> Arc<Self> {
        let newcomers = Mutex::default();
        Arc::new(Self { max_unauthenticated, max_unauthenticated_per_peer, newcomers, authenticated })
    }

    /// Counts a new connection. Over a bound, the longest silent one gives way: of the same address where that has too
    /// many, else of all.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Connection {
        let (peer, cut) = (counted_as(peer), Arc::new(Notify::new()));
        let mut newcomers = lock(&self.newcomers);
        let of_peer = newcomers.waiting.values().filter(|one| one.peer == peer).count();
        if of_peer >= self.max_unauthenticated_per_peer {
            newcomers.cut_oldest(|one| one.peer == peer);
        } else if newcomers.waiting.len() >= self.max_unauthenticated {
            newcomers.cut_oldest(|_| true);
        }
        let number = newcomers.next;
        newcomers.next += 1;
        newcomers.waiting.insert(number, Newcomer { peer, cut: Arc::clone(&cut) });
        let user = OnceLock::new();
        Connection { connections: Arc::clone(self), number, user, cut, holder: Mutex::default() }
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

/// The address that a peer counts for. Whoever has one IPv6 address has its whole network of 64 bits.
fn counted_as(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

impl Connection {
    /// Who is at the other end; [`PeerUser::Unasked`] until that is found out.
    pub(super) fn user(&self) -> PeerUser {
        self.user.get().copied().unwrap_or(PeerUser::Unasked)
    }

    /// Notes who is at the other end, once.
    pub(super) fn found(&self, user: PeerUser) {
        self.user.get_or_init(|| user);
    }

    /// Counts it for a principal from here on. A proxy may send requests of several: the latest counts.
    ///
    /// # Errors
    /// The principal has its share of connections, or there are as many as there may be.
    pub(super) fn authenticate(&self, principal: &Principal) -> Result<(), Exceeded> {
        let mut holder = lock(&self.holder);
        if holder.as_ref().is_some_and(|held| held.by() == principal) {
            return Ok(());
        }
        // What was held goes first, so that one connection never counts twice.
        *holder = None;
        *holder = Some(self.connections.authenticated.take(principal, 1)?);
        lock(&self.connections.newcomers).waiting.remove(&self.number);
        Ok(())
    }

    /// Whether a request of it was let in.
    pub(super) fn is_authenticated(&self) -> bool {
        lock(&self.holder).is_some()
    }

    /// Closes it: nobody reads from it.
    pub(super) fn close(&self) {
        self.cut.notify_one();
    }

    /// Ready when it is to be closed. Cancel-safe: the word stays.
    pub(super) async fn cut(&self) {
        self.cut.notified().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        lock(&self.connections.newcomers).waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn is_cut(connection: &Connection) -> bool {
        connection.cut().now_or_never().is_some()
    }

    fn connections() -> Arc<Connections> {
        Connections::new(3, 2, Shares::new(2, 1, 2))
    }

    #[test]
    fn the_longest_silent_of_an_address_gives_way_and_then_that_of_all() {
        let connections = connections();
        let enter = |peer: &str| connections.enter(peer.parse().unwrap());
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
    fn a_network_of_64_bits_counts_as_one_peer() {
        let connections = connections();
        let enter = |peer: &str| connections.enter(peer.parse().unwrap());
        let (first, _second, _third) = (enter("2001:db8::1"), enter("2001:db8::2"), enter("2001:db8::3"));
        assert!(is_cut(&first));
    }

    #[test]
    fn one_that_is_let_in_counts_for_its_principal() {
        let connections = connections();
        let (ada, bob) = (Principal::Token("ada".into()), Principal::Token("bob".into()));
        let enter = || connections.enter(IpAddr::from([10, 0, 0, 1]));
        let first = enter();
        assert!(!first.is_authenticated());
        first.authenticate(&ada).unwrap();
        first.authenticate(&ada).unwrap();
        let (second, third) = (enter(), enter());
        assert!(!is_cut(&first) && !is_cut(&second), "it counts no more as silent");
        assert_eq!(second.authenticate(&ada), Err(Exceeded::Share(1)));
        assert!(!second.is_authenticated());
        // A proxy's connection goes over to whoever's request comes on it.
        first.authenticate(&bob).unwrap();
        third.authenticate(&ada).unwrap();
    }
}
