//! The network and the sockets of the host are out of reach; a command's own loopback is not.

use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use openoxide_sandbox::Backend;

use crate::support::house::{House, WORKSPACE_WRITE};
use crate::support::mark;

/// A name and a script that tries it.
type Way = (&'static str, String);

/// Listeners of the host, which answer nobody. What reaches them waits in them, for loopback delivers before it returns.
struct Host {
    tcp: TcpListener,
    udp: UdpSocket,
    stream: UnixListener,
    datagram: UnixDatagram,
    abstract_stream: UnixListener,
    abstract_datagram: UnixDatagram,
    name: String,
}

impl Host {
    fn new(house: &House) -> Self {
        let name = format!("house-{}", mark());
        let (stream, datagram) = (house.at("outside/stream"), house.at("outside/datagram"));
        let named = |kind: &str| SocketAddr::from_abstract_name(format!("{name}-{kind}")).unwrap();
        let host = Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            stream: UnixListener::bind(&stream).unwrap(),
            datagram: UnixDatagram::bind(&datagram).unwrap(),
            abstract_stream: UnixListener::bind_addr(&named("stream")).unwrap(),
            abstract_datagram: UnixDatagram::bind_addr(&named("datagram")).unwrap(),
            name,
        };
        for path in [stream, datagram] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
        }
        host.tcp.set_nonblocking(true).unwrap();
        host.udp.set_nonblocking(true).unwrap();
        host.stream.set_nonblocking(true).unwrap();
        host.datagram.set_nonblocking(true).unwrap();
        host.abstract_stream.set_nonblocking(true).unwrap();
        host.abstract_datagram.set_nonblocking(true).unwrap();
        host
    }

    /// Ways to the Unix sockets, and to those of the network.
    fn ways(&self) -> (Vec<Way>, Vec<Way>) {
        let (tcp, udp) = (self.tcp.local_addr().unwrap(), self.udp.local_addr().unwrap());
        let name = &self.name;
        let unix = vec![
            ("a stream by path", "try stream $out/stream".to_owned()),
            ("a datagram by path", "try datagram $out/datagram".to_owned()),
            ("from a pair, by path", "try pair $out/datagram".to_owned()),
            ("an abstract stream", format!("try stream @{name}-stream")),
            ("an abstract datagram", format!("try datagram @{name}-datagram")),
            ("from a pair, abstract", format!("try pair @{name}-datagram")),
            ("a stream by path, through /proc", "cd $out && try stream /proc/self/cwd/stream".to_owned()),
        ];
        (unix, vec![("tcp", format!("try tcp {tcp}")), ("udp", format!("try udp {udp}"))])
    }

    /// How many of the six were reached since the last time.
    fn reached(&self) -> usize {
        let mut buffer = [0; 8];
        let reached = [
            drains(|| self.tcp.accept().map(drop)),
            drains(|| self.udp.recv(&mut buffer).map(drop)),
            drains(|| self.stream.accept().map(drop)),
            drains(|| self.datagram.recv(&mut buffer).map(drop)),
            drains(|| self.abstract_stream.accept().map(drop)),
            drains(|| self.abstract_datagram.recv(&mut buffer).map(drop)),
        ];
        reached.into_iter().filter(|reached| *reached).count()
    }
}

/// Takes all that waits; true where there was any.
fn drains(mut take: impl FnMut() -> std::io::Result<()>) -> bool {
    let mut any = false;
    loop {
        match take() {
            Ok(()) => any = true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                return any;
            }
        }
    }
}

fn words(ways: &[Way]) -> Vec<(&'static str, &str)> {
    ways.iter().map(|(name, script)| (*name, script.as_str())).collect()
}

pub fn the_host_is_out_of_reach(house: &House) {
    let host = Host::new(house);
    let (unix, network) = host.ways();
    let all = [words(&unix), words(&network)].concat();
    for mode in house.modes() {
        house.refuses(mode, &all);
        assert_eq!(host.reached(), 0, "in {mode}");
    }
    house.allows(crate::support::house::FULL_ACCESS, &all);
    assert_eq!(host.reached(), 6);
}

pub fn network_access_reaches_the_network_and_no_unix_socket(house: &House) {
    let host = Host::new(house);
    let (unix, network) = host.ways();
    let mode = format!("{WORKSPACE_WRITE}+network");
    house.refuses(&mode, &words(&unix));
    assert_eq!(host.reached(), 0);
    house.allows(&mode, &words(&network));
    assert_eq!(host.reached(), 2);
    house.allows(&mode, &[("its own loopback", "try loopback"), ("a pair", "try socketpair")]);
    // It is told so, and not only let through.
    house.refuses("read-only+network", &words(&network));
}

pub fn a_server_and_its_client_talk_within_a_command(house: &House) {
    for mode in house.modes() {
        house.allows(mode, &[("loopback", "try loopback"), ("a pair", "try socketpair")]);
        let text = house.run(mode, "tail -n +3 /proc/net/dev | cut -d: -f1 | xargs; try socketpair").success();
        assert_eq!(text, "lo\n", "it has no other interface");
    }
}

pub fn other_kinds_of_sockets_are_refused(house: &House) {
    let mut attempts = vec![
        ("packet", "try call socket 17 3 768"),
        ("vsock", "try call socket 40 1 0"),
        ("alg", "try call socket 38 5 0"),
        ("bluetooth", "try call socket 31 3 0"),
        ("netlink, not of routes", "try call socket 16 3 16"),
        ("xdp", "try call socket 44 3 0"),
        ("can", "try call socket 29 3 1"),
        ("unix", "try call socket 1 1 0"),
        ("unix, with flags", "try call socket 1 526336 0"),
        ("a pair of datagrams", "try call socketpair 1 2 0"),
        ("a pair of datagrams, with flags", "try call socketpair 1 526338 0"),
        ("a raw pair", "try call socketpair 1 3 0"),
        ("the numbers of 32-bit programs", "try call int80"),
        ("the numbers of x32", "try call x32"),
    ];
    if house.backend == Backend::Landlock {
        attempts.extend([("internet", "try call socket 2 1 0"), ("internet 6", "try call socket 10 1 0")]);
    }
    for mode in house.modes() {
        house.refuses(mode, &attempts);
        house.allows(mode, &[("a pair of streams", "try socketpair"), ("routes", "try call socket 16 3 0")]);
    }
}

pub fn nothing_open_in_the_caller_is_passed_on(house: &House) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (path, port) = (house.at("outside/file"), listener.local_addr().unwrap().port());
    let before = house.snapshot("outside");
    for mode in house.modes() {
        let quoted: Vec<String> = house.confined("ws", mode).iter().map(|word| format!("'{word}'")).collect();
        let inner =
            "for fd in 3 4 5 6 7 8 9 100; do echo x >&$fd && echo $fd; done 2>/dev/null; ls /proc/self/fd | wc -l";
        let script = format!(
            "exec 7>>{} 8<>/dev/tcp/127.0.0.1/{port} 100>>{}; exec $base/bin/helper run {} bash -c '{inner}'",
            path.display(),
            path.display(),
            quoted.join(" ")
        );
        // The listing itself is the fourth.
        assert_eq!(house.host(&script).success(), "4\n", "in {mode}");
        assert_eq!(house.snapshot("outside"), before);
    }
}
