//! Which user of this machine is at the other end of a connection over the loopback. Only asks the kernel; what follows
//! is for [`super::guard`] to decide.
//!
//! Linux lists every TCP socket of a network namespace in `/proc/net/tcp` and `/proc/net/tcp6` with the user who made it
//! (proc_pid_net(5)). The socket at the other end has this end's addresses the other way round. A peer in another network
//! namespace is not in the list, and neither is one on another machine.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use openoxide_rpc::lock;

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerUser {
    /// Nobody has asked: tokens tell who it is.
    Unasked,
    /// The user this process runs as.
    Same,
    /// This other user.
    Other(u32),
    /// It cannot be told.
    Unknown,
}

/// Tells who is at the other end. A look takes the kernel some milliseconds, so that one look serves all who ask at that moment.
pub(super) struct PeerUsers {
    tables: Arc<Tables>,
    /// Those whose look has not begun.
    asked: Mutex<Vec<Question>>,
    /// Held by whoever looks for all.
    looking: tokio::sync::Mutex<()>,
}

/// The kernel's tables, opened once: there may be no descriptor to spare when they are needed.
struct Tables {
    /// One look at a time: a look begins at a table's start.
    files: Mutex<Vec<File>>,
    /// The user this process runs as; none where the kernel may show others under the same number.
    own: Option<u32>,
}

/// One connection whose other end is asked for.
struct Question {
    ends: Ends,
    /// Its task waits at the other end, unless the connection was closed.
    answer: oneshot::Sender<PeerUser>,
}

/// The own address of a socket and that of its other end, IPv4 as such.
type Ends = (SocketAddr, SocketAddr);

impl PeerUsers {
    /// Asks the tables of this process's network namespace, as far as there are any.
    pub(super) fn open() -> Self {
        let files = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().filter_map(|table| File::open(table).ok());
        let own = Some(rustix::process::geteuid().as_raw()).filter(|own| !is_ambiguous(*own));
        let tables = Arc::new(Tables { files: Mutex::new(files.collect()), own });
        Self { tables, asked: Mutex::default(), looking: tokio::sync::Mutex::default() }
    }

    /// Who is at the other end of the connection from `peer` to `local`, which is open before this is called.
    pub(super) async fn user_of(&self, peer: SocketAddr, local: SocketAddr) -> PeerUser {
        let (answer, mut found) = oneshot::channel();
        lock(&self.asked).push(Question { ends: ends(peer, local), answer });
        // Cancel-safe: an answer stays until it is received, and whoever looks has asked as well.
        tokio::select! {
            user = &mut found => return user.unwrap_or(PeerUser::Unknown),
            _looking = self.looking.lock() => {
                let questions = std::mem::take(&mut *lock(&self.asked));
                let tables = Arc::clone(&self.tables);
                // It answers all of them, also where this task is dropped meanwhile.
                let looked = tokio::task::spawn_blocking(move || tables.answer(questions)).await;
                if looked.is_err() {
                    return PeerUser::Unknown;
                }
            }
        }
        found.await.unwrap_or(PeerUser::Unknown)
    }
}

impl Tables {
    fn answer(&self, questions: Vec<Question>) {
        if questions.is_empty() {
            return;
        }
        let mut owners = HashMap::new();
        for file in lock(&self.files).iter_mut() {
            // Most are found in the first table.
            if questions.iter().all(|question| owners.contains_key(&question.ends)) {
                break;
            }
            let mut text = String::new();
            if file.rewind().and_then(|()| file.read_to_string(&mut text)).is_ok() {
                owners.extend(owners_in(&text));
            }
        }
        for Question { ends, answer } in questions {
            // Whoever has asked may be gone.
            let _ = answer.send(self.user(owners.get(&ends).copied()));
        }
    }

    fn user(&self, owner: Option<u32>) -> PeerUser {
        match (owner, self.own) {
            (Some(uid), Some(own)) if uid == own => PeerUser::Same,
            (Some(uid), Some(_)) => PeerUser::Other(uid),
            (None, _) | (_, None) => PeerUser::Unknown,
        }
    }
}

fn ends(own: SocketAddr, other: SocketAddr) -> Ends {
    let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    (plain(own), plain(other))
}

/// Whether the kernel may show other users under this number. Within a user namespace it shows each user that the
/// namespace does not have as one and the same (user_namespaces(7)).
fn is_ambiguous(uid: u32) -> bool {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u32>().ok();
    let has_all = || {
        let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        map.split_whitespace().eq(["0", "0", "4294967295"])
    };
    number("/proc/sys/kernel/overflowuid").is_none_or(|overflow| overflow == uid) && !has_all()
}

/// The connected sockets of a table, with the user of each.
fn owners_in(table: &str) -> impl Iterator<Item = (Ends, u32)> {
    table.lines().skip(1).filter_map(|line| {
        // Number, own address, other address, state, queues, timer, retransmissions, user, time-outs, inode.
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, own, other, state, _, _, _, uid, _, inode, ..] = fields[..] else { return None };
        // A socket that no process has any more is listed as root's, with no inode.
        let is_owned = is_connected(state) && inode != "0";
        is_owned.then(|| Some((ends(address(own)?, address(other)?), uid.parse().ok()?))).flatten()
    })
}

/// Whether a socket in this state has been connected: not one that is only about to be, by whoever has taken the same port
/// since.
fn is_connected(state: &str) -> bool {
    // ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING (include/net/tcp_states.h).
    matches!(state, "01" | "04" | "05" | "08" | "09" | "0B")
}

/// An address as the tables have it: words of 32 bits in the byte order of the machine, and the port in the usual one.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for at in 0..4 {
                bytes[at * 4..at * 4 + 4].copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
#[cfg(all(target_os = "linux", target_endian = "little"))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const HEAD: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    fn found(row: &str) -> Option<u32> {
        let owners: HashMap<_, _> = owners_in(&format!("{HEAD}{row}\n")).collect();
        let ends = ends("127.0.0.1:50330".parse().unwrap(), "127.0.0.1:44000".parse().unwrap());
        owners.get(&ends).copied()
    }

    #[test]
    fn the_row_of_the_other_end_names_its_user() {
        let rest = "00000000:00000000 00:00000000 00000000  1000        0 77 1 0 20 4 30 10 -1";
        assert_eq!(found(&format!("1: 0100007F:C49A 0100007F:ABE0 01 {rest}")), Some(1000));
        let mapped = "0000000000000000FFFF00000100007F";
        assert_eq!(found(&format!("1: {mapped}:C49A {mapped}:ABE0 01 {rest}")), Some(1000), "IPv4 in IPv6");
        assert_eq!(found(&format!("1: 0100007F:C49A 0100007F:ABE0 05 {rest}")), Some(1000), "half closed");
        for (other, why) in [
            ("1: 0100007F:ABE0 0100007F:C49A 01", "this end"),
            ("1: 0200007F:C49A 0100007F:ABE0 01", "another address"),
            ("1: 0100007F:C49B 0100007F:ABE0 01", "another port"),
            ("1: 0100007F:C49A 0100007F:ABE0 02", "not connected yet"),
            ("1: 0100007F:C49A 0100007F:ABE0 06", "closed"),
            ("1: nonsense", "no row"),
        ] {
            assert_eq!(found(&format!("{other} {rest}")), None, "{why}");
        }
        let orphan = "00000000:00000000 00:00000000 00000000     0        0 0 1 0 20 4 30 10 -1";
        assert_eq!(found(&format!("1: 0100007F:C49A 0100007F:ABE0 05 {orphan}")), None, "nobody's any more");
    }

    #[tokio::test]
    async fn a_connection_of_this_process_is_the_same_users_in_every_family() {
        let users = PeerUsers::open();
        for (listen, connect) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1"), ("127.0.0.1:0", "::ffff:127.0.0.1")]
        {
            // A machine without IPv6 has nothing to find there.
            let Ok(listener) = TcpListener::bind(listen) else { continue };
            let at = SocketAddr::new(connect.parse().unwrap(), listener.local_addr().unwrap().port());
            let client = TcpStream::connect(at).unwrap();
            let (server, peer) = listener.accept().unwrap();
            assert_eq!(
                users.user_of(peer, server.local_addr().unwrap()).await,
                PeerUser::Same,
                "{listen} from {connect}"
            );
            drop(client);
            assert_eq!(
                users.user_of(peer, server.local_addr().unwrap()).await,
                PeerUser::Unknown,
                "nobody is there any more"
            );
        }
    }

    #[tokio::test]
    async fn many_who_ask_at_once_are_all_answered_also_where_some_go_away() {
        let users = PeerUsers::open();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let local = listener.local_addr().unwrap();
        let clients: Vec<_> = (0..20).map(|_| TcpStream::connect(local).unwrap()).collect();
        let mut asking: Vec<_> =
            clients.iter().map(|client| Box::pin(users.user_of(client.local_addr().unwrap(), local))).collect();
        // The first looks for all. It is dropped in the middle of that.
        for one in &mut asking {
            assert!(futures_util::FutureExt::now_or_never(one.as_mut()).is_none());
        }
        drop(asking.remove(0));
        for user in futures_util::future::join_all(asking).await {
            assert_eq!(user, PeerUser::Same);
        }
    }
}
