//! Which user of this machine is at the other end of a connection over the loopback. Only asks the kernel; what follows
//! is for [`super::guard`] to decide.
//!
//! Linux lists every TCP socket of a network namespace in `/proc/net/tcp` and `/proc/net/tcp6` with the user who made it
//! (proc_pid_net(5)). The socket at the other end has this end's addresses the other way round. A peer in another network
//! namespace is not in the list, and neither is one on another machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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

/// Who is at the other end of the connection from `peer` to `local`. Reads files of the kernel, in a time that grows with
/// the number of open sockets.
pub(super) fn user_of(peer: SocketAddr, local: SocketAddr) -> PeerUser {
    let found = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().find_map(|table| {
        let table = std::fs::read_to_string(table).ok()?;
        owner_in(&table, peer, local)
    });
    let own = rustix::process::geteuid().as_raw();
    match found {
        Some(uid) if uid != own => PeerUser::Other(uid),
        Some(_) if !is_ambiguous(own) => PeerUser::Same,
        _ => PeerUser::Unknown,
    }
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

/// The user of the socket whose own address is `own` and whose other end is `other`.
fn owner_in(table: &str, own: SocketAddr, other: SocketAddr) -> Option<u32> {
    let is_same = |one: SocketAddr, two: SocketAddr| {
        one.port() == two.port() && one.ip().to_canonical() == two.ip().to_canonical()
    };
    table.lines().skip(1).find_map(|line| {
        // Number, own address, other address, state, queues, timer, retransmissions, user, time-outs, inode.
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, from, to, state, _, _, _, uid, _, inode, ..] = fields[..] else { return None };
        let fits = is_same(address(from)?, own) && is_same(address(to)?, other);
        // A socket that no process has any more is listed as root's, with no inode.
        (fits && is_connected(state) && inode != "0").then(|| uid.parse().ok()).flatten()
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
        owner_in(&format!("{HEAD}{row}\n"), "127.0.0.1:50330".parse().unwrap(), "127.0.0.1:44000".parse().unwrap())
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

    #[test]
    fn a_connection_of_this_process_is_the_same_users_in_every_family() {
        for (listen, connect) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1"), ("127.0.0.1:0", "::ffff:127.0.0.1")]
        {
            // A machine without IPv6 has nothing to find there.
            let Ok(listener) = TcpListener::bind(listen) else { continue };
            let at = SocketAddr::new(connect.parse().unwrap(), listener.local_addr().unwrap().port());
            let client = TcpStream::connect(at).unwrap();
            let (server, peer) = listener.accept().unwrap();
            assert_eq!(user_of(peer, server.local_addr().unwrap()), PeerUser::Same, "{listen} from {connect}");
            drop(client);
            assert_eq!(user_of(peer, server.local_addr().unwrap()), PeerUser::Unknown, "nobody is there any more");
        }
    }
}
