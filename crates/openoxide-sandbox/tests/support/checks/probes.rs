//! The probes: what must not get through, with what shows from outside that it did, and what must go on working.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use openoxide_sandbox::Backend;

use crate::support::attempts::{Outside, rounds};
use crate::support::house::{FULL_ACCESS, House, READ_ONLY, Ran};
use crate::support::{mark, marked, until};

/// What shows that a probe got through.
#[derive(Clone, Copy)]
enum Shows {
    /// Its exit code is 0.
    Exit,
    /// A look at the host succeeds.
    Host(&'static str),
    /// A word arrives at a process outside.
    Arrives(&'static str),
    /// It prints a text that begins with `secret-`.
    Prints,
}
use Shows::{Arrives, Exit, Host, Prints};

/// Where a probe applies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Means {
    Each,
    /// Not where Landlock stands alone: there its user reads devices as without a sandbox.
    NotAlone,
}
use Means::{Each, NotAlone};

/// What stands in the house beside the usual, so that each probe has something of its own.
const BUILD: &str = "
    set -e
    for name in linked taken truncated mode times reopened; do echo outside > $base/outside/$name; done
    mkdir -p $base/ws/.openoxide $base/ws/evil/hooks; echo mine > $base/ws/.openoxide/config.toml
    echo secret-key > $base/home/.ssh/id; echo secret-auth > $base/home/.openoxide/auth.json
";

/// Calls that bash has no word for.
const PYTHON: &str = r#"
import ctypes, os, signal, socket, sys
host = dict(line.split("=", 1) for line in open(sys.argv[1] + "/host").read().split())
pid, way = int(host["pid"]), sys.argv[2]
libc = ctypes.CDLL(None, use_errno=True)
outside = sys.argv[1] + "/outside/"
abstract = "\0" + host["abstract"][1:]
def check(result):
    if result < 0: raise OSError(ctypes.get_errno(), "refused")
    return result
def send(made, address, word):
    made.sendmsg([word], [], 0, address)
def connect(kind, address, word):
    with socket.socket(socket.AF_UNIX, kind) as made:
        made.connect(address); made.send(word)
class Range(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
if way == "fastopen":
    made = socket.socket(); made.sendto(b"probe-fastopen", socket.MSG_FASTOPEN, ("127.0.0.1", int(host["tcp"])))
elif way == "stream": connect(socket.SOCK_STREAM, outside + "stream", b"probe-stream")
elif way == "datagram": send(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), outside + "datagram", b"probe-datagram")
elif way == "pair": send(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0], outside + "datagram", b"probe-pair")
elif way == "abstract-stream": connect(socket.SOCK_STREAM, abstract + "-stream", b"probe-abstract-stream")
elif way == "abstract-datagram":
    send(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), abstract + "-datagram", b"probe-abstract-datagram")
elif way == "memory":
    room = ctypes.create_string_buffer(64)
    own, other = Range(ctypes.addressof(room), 63), Range(int(host["slots"]), 63)
    check(libc.process_vm_readv(pid, ctypes.byref(own), 1, ctypes.byref(other), 1, 0)); print(room.value.decode())
elif way == "descriptor":
    process = os.pidfd_open(pid); print(os.pread(check(libc.syscall(438, process, int(host["secret"]), 0)), 64, 0).decode())
elif way == "pidfd": signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGCONT)
elif way == "pass":
    one, other = socket.socketpair(); socket.send_fds(one, [b"x"], [1]); print(len(socket.recv_fds(other, 1, 1)[1]))
elif way == "wake":
    one, other = socket.socketpair(); one.send(b"x"); other.recv(1)
    one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR); one.shutdown(socket.SHUT_WR); print("woken")
elif way == "pty":
    main, terminal = os.openpty(); os.write(terminal, b"x"); print(os.read(main, 1).decode())
"#;

/// What must not get through: a name, what shows it, where it applies, the script.
const MUST: [(&str, Shows, Means, &str); 56] = [
    ("make a file outside", Host("test -e $out/made"), Each, "echo x > $out/made"),
    ("a shell's start file", Host("grep -q probe $base/home/.bashrc"), Each, "echo probe >> $HOME/.bashrc"),
    ("through a link", Host("test -e $out/through"), Each, "echo x > link-out/through"),
    ("through a new link", Host("test -e $out/through-new"), Each, "ln -s $out p-new; echo x > p-new/through-new"),
    ("a hard link", Host("grep -q probe $out/linked"), Each, "try link $out/linked p-hard; echo probe >> p-hard"),
    ("rename out", Host("test -e $out/renamed"), Each, "echo x > p-out; try rename p-out $out/renamed"),
    ("rename in", Host("! test -e $out/taken"), Each, "try rename $out/taken p-in"),
    ("truncate", Host("test $(stat -c %s $out/truncated) = 1"), Each, "try truncate $out/truncated"),
    ("mode", Host("test $(stat -c %a $out/mode) = 777"), Each, "chmod 777 $out/mode"),
    ("times", Host("test $(stat -c %Y $out/times) = 1"), Each, "touch -d @1 $out/times"),
    ("reopen", Host("test \"$(cat $out/reopened)\" != outside"), Each, "try reopen $out/reopened"),
    ("root of the first", Host("test -e $out/first"), Each, "echo x > /proc/1/root$out/first"),
    ("root of a host process", Host("test -e $out/root"), Each, "echo x > /proc/$pid/root$out/root"),
    ("directory of a host process", Host("test -e $base/cwd"), Each, "echo x > /proc/$pid/cwd/cwd"),
    (
        "git's configuration",
        Host("grep -qs probe $ws/.git/config $ws/p-git/config"),
        Each,
        "echo '# probe' >> .git/config",
    ),
    (
        "a hook",
        Host("test -e $ws/.git/hooks/pre-commit || test -e $ws/p-git/hooks/pre-commit"),
        Each,
        "echo x > .git/hooks/pre-commit",
    ),
    ("a nested hook", Host("test -e $ws/nested/.git/hooks/pre-commit"), Each, "echo x > nested/.git/hooks/pre-commit"),
    ("rename git away", Host("! test -e $ws/.git/HEAD"), Each, "try rename .git p-git"),
    ("exchange git", Host("! test -e $ws/.git/HEAD"), Each, "try exchange .git evil"),
    ("make settings", Host("test -e $ws/.codex/config.toml"), Each, "mkdir -p .codex; echo x > .codex/config.toml"),
    ("link settings", Host("test -L $ws/.agents"), Each, "mkdir -p decoy; ln -sT decoy .agents"),
    ("write settings", Host("grep -q probe $ws/.openoxide/config.toml"), Each, "echo probe >> .openoxide/config.toml"),
    ("shared memory", Host("test -e /dev/shm/probe-$pid"), Each, "echo x > /dev/shm/probe-$pid"),
    ("a race of links", Host("ls $out | grep -q raced"), Each, "try race $ws $out 2000"),
    ("core_pattern", Exit, Each, "try open /proc/sys/kernel/core_pattern"),
    ("sysrq", Exit, Each, "try open /proc/sysrq-trigger"),
    (
        "control groups",
        Exit,
        Each,
        "for f in $(find /sys/fs/cgroup -maxdepth 2 -name cgroup.procs); do try open $f && exit; done; false",
    ),
    ("an ssh key", Prints, Each, "cat $HOME/.ssh/id"),
    ("the agent's own key", Prints, Each, "cat $HOME/.openoxide/auth.json"),
    ("any environment", Prints, Each, "cat /proc/[0-9]*/environ | tr '\\0' '\\n'"),
    ("a host's environment", Prints, Each, "cat /proc/$pid/environ"),
    ("a raw disk", Exit, NotAlone, "for disk in $(find /dev -type b); do head -c 1 $disk && exit; done; false"),
    ("the kernel's memory", Exit, NotAlone, "head -c 1 /proc/kcore || head -c 1 /dev/mem"),
    ("tcp", Arrives("probe-tcp"), Each, "echo probe-tcp > /dev/tcp/127.0.0.1/$tcp"),
    ("tcp by the own address", Arrives("probe-address"), Each, "echo probe-address > /dev/tcp/$address/$tcp"),
    ("udp", Arrives("probe-udp"), Each, "echo probe-udp > /dev/udp/127.0.0.1/$udp"),
    ("tcp fast open", Arrives("probe-fastopen"), Each, "call fastopen"),
    ("a stream by path", Arrives("probe-stream"), Each, "call stream"),
    ("a datagram by path", Arrives("probe-datagram"), Each, "call datagram"),
    ("a pair's datagram", Arrives("probe-pair"), Each, "call pair"),
    ("an abstract stream", Arrives("probe-abstract-stream"), Each, "call abstract-stream"),
    ("an abstract datagram", Arrives("probe-abstract-datagram"), Each, "call abstract-datagram"),
    ("trace", Exit, Each, "try call ptrace $pid"),
    ("memory", Prints, Each, "call memory"),
    ("a descriptor", Prints, Each, "call descriptor"),
    ("a signal", Arrives("signal-10"), Each, "kill -USR1 $pid"),
    ("a signal by descriptor", Arrives("signal-18"), Each, "call pidfd"),
    ("a host's namespace", Exit, Each, "nsenter --net=/proc/$pid/ns/net true"),
    ("files by handle", Exit, Each, "try call open_by_handle_at"),
    ("the parent's memory", Exit, Each, "exec 9<>/proc/$PPID/mem"),
    (
        "remount in a namespace",
        Host("test -e $out/spaced"),
        Each,
        "unshare -Urm sh -c \"mount -o remount,bind,rw /; echo x > $out/spaced\"",
    ),
    ("bind", Exit, Each, "mount --bind $out sub"),
    ("remount", Host("test -e $out/remounted"), Each, "mount -o remount,bind,rw /; echo x > $out/remounted"),
    ("uncover git", Host("test -e $ws/.git/uncovered"), Each, "umount -l .git; echo x > .git/uncovered"),
    ("a disk of one's own", Exit, Each, "mknod p-disk b 254 0 && head -c 1 p-disk"),
    (
        "rights",
        Exit,
        Each,
        "! grep -q 'CapEff:.0000000000000000' /proc/self/status || grep -q 'NoNewPrivs:.0' /proc/self/status || try call kexec_load",
    ),
];

/// Some get through only as root, or would change the machine: not tried without a sandbox.
const NOT_OUTSIDE: [&str; 16] = [
    "root of the first",
    "the kernel's memory",
    "a raw disk",
    "core_pattern",
    "sysrq",
    "control groups",
    "a host's namespace",
    "files by handle",
    "the parent's memory",
    "remount in a namespace",
    "bind",
    "remount",
    "uncover git",
    "a disk of one's own",
    "rights",
    // By then it has been moved away.
    "exchange git",
];

/// What begins each script; the names are those of `BASE/host`.
const PRELUDE: &str = r#"
    . $base/host; call() { python3 $base/probe.py $base "$1"; }
    address=$(cat $base/address); cd $ws
"#;

fn prepared(house: &House) -> House {
    let house = house.another().with_attempts();
    house.host(BUILD).success();
    std::fs::write(house.at("probe.py"), PYTHON).expect("the house is ours");
    // A datagram that is never sent finds the address; without any network it is loopback's.
    let own = std::net::UdpSocket::bind("0.0.0.0:0").expect("a socket can be made");
    let address = own.connect("192.0.2.1:9").and_then(|()| own.local_addr());
    let address = address.map_or("127.0.0.1".to_owned(), |address| address.ip().to_string());
    std::fs::write(house.at("address"), address).expect("the house is ours");
    house
}

/// The names of the probes that get through in a mode.
fn through(house: &House, mode: &str, is_tried: impl Fn(&str, Means) -> bool) -> BTreeSet<&'static str> {
    let house = prepared(house);
    let outside = Outside::new(&house);
    let tried: Vec<_> = MUST.iter().filter(|(name, _, means, _)| is_tried(name, *means)).collect();
    let mut script = PRELUDE.to_owned();
    for (number, (_, _, _, probe)) in tried.iter().enumerate() {
        script += &format!("echo '@ {number} begins'; ( {probe} ) 2>/dev/null; echo; echo \"@ {number} ends $?\"\n")
            .replace("; echo; echo \"@", "; code=$?; echo; echo \"@")
            .replace("ends $?", "ends $code");
    }
    let mut command = house.confined_script("ws", mode, &script);
    let ran = Ran::of(command.output().expect("the helper starts"));
    let ends = ran.out.matches(" ends ").count();
    assert_eq!(ends, tried.len(), "in {mode}: {ran:?}");
    let arrived = outside.arrived();
    let is_through = |(number, (_, shows, _, _)): &(usize, &&(&str, Shows, Means, &str))| {
        let part = ran.out.split_once(&format!("@ {number} begins")).map_or("", |(_, rest)| rest);
        let (text, rest) = part.split_once(&format!("@ {number} ends ")).unwrap_or((part, ""));
        match shows {
            Exit => rest.starts_with("0\n"),
            Prints => text.contains("secret-"),
            Arrives(word) => arrived.contains(*word),
            Host(look) => house.host(&format!(". $base/host; ws=$base/ws out=$base/outside\n{look}")).code == 0,
        }
    };
    let names = tried.iter().enumerate().filter(is_through).map(|(_, (name, ..))| *name).collect();
    house.host(". $base/host; rm -f /dev/shm/probe-$pid");
    names
}

pub fn boundaries_hold(house: &House) {
    let is_alone = house.backend == Backend::Landlock;
    for mode in (0..rounds()).flat_map(|_| house.modes()) {
        let names = through(house, mode, |_, means| means == Each || !is_alone);
        assert!(names.is_empty(), "in {mode} by {:?} as {:?}: {names:#?}", house.backend, house.user);
    }
}

/// Without a sandbox they get through: the probes are real.
pub fn boundaries_are_real(house: &House) {
    let names = through(house, FULL_ACCESS, |name, _| !NOT_OUTSIDE.contains(&name));
    let held: Vec<_> = MUST
        .iter()
        .map(|(name, ..)| *name)
        .filter(|name| !NOT_OUTSIDE.contains(name) && !names.contains(name))
        .collect();
    assert!(held.is_empty(), "as {:?}: {held:#?}", house.user);
}

/// What must go on in both modes, with what it prints.
const USE: [(&str, &str); 12] = [
    ("true", ""),
    ("cat file", "text\n"),
    ("grep -c '^root:' /etc/passwd; ls /usr/bin | grep -cx env", "1\n1\n"),
    ("echo x > /dev/null; head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c", "4\n4\n"),
    ("git status --short file; git log --oneline | wc -l; git diff --stat", "1\n"),
    ("call pass", "1\n"),
    ("call wake", "woken\n"),
    ("call pty", "x\n"),
    ("sleep 1000 & kill -9 $!; wait $!; echo $?", "137\n"),
    ("test $PWD = $ws && echo here", "here\n"),
    ("(echo a; echo b) | wc -l", "2\n"),
    ("cat; exit 42", "typed\n"),
];

/// What must go on where the workspace is written.
const WRITE: [(&str, &str); 4] = [
    ("echo hi > u-new; cat u-new", "hi\n"),
    ("mkdir sub/d; echo 1 > sub/d/a; mv sub/d/a sub/d/b; rm -r sub/d; ls sub", ""),
    ("f=$(mktemp); echo x > $f; cat $f; rm $f", "x\n"),
    ("echo 'int main(void) { return 0; }' > u.c; cc u.c -o u.out; ./u.out; echo $?", "0\n"),
];

pub fn work_goes_on(house: &House) {
    let house = prepared(house);
    let outside = Outside::new(&house);
    for mode in house.modes() {
        for (script, expected) in USE.iter().chain(if mode == READ_ONLY { [].iter() } else { WRITE.iter() }) {
            // Without namespaces a new terminal would stand among the user's own.
            if house.backend == Backend::Landlock && *script == "call pty" {
                continue;
            }
            let script = format!("{PRELUDE}\n{script}");
            let mut command = house.confined_script("ws", mode, &script);
            let mut child = command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the helper starts");
            // Most do not read it.
            let _ = child.stdin.take().expect("it was asked for").write_all(b"typed\n");
            let ran = Ran::of(child.wait_with_output().expect("it ends"));
            let code = if script.ends_with("exit 42") { 42 } else { 0 };
            assert_eq!((ran.code, ran.out.as_str()), (code, *expected), "{script} in {mode}: {}", ran.err);
        }
        let ran = Ran::of(
            house.confined_script("ws", mode, "head -c 10000000 /dev/zero").output().expect("the helper starts"),
        );
        assert_eq!((ran.code, ran.out.len()), (0, 10_000_000), "in {mode}");
    }
    drop(outside);
}

/// Workspaces whose `.git` is a link, or a file that points elsewhere. To refuse to start holds too.
pub fn other_repositories_hold(house: &House) {
    let build = "mkdir -p $base/linked $base/pointed $base/main/.git/worktrees/pointed
        git init -q $base/linked; mv $base/linked/.git $base/linked/real; ln -s real $base/linked/.git
        echo \"gitdir: $base/main/.git/worktrees/pointed\" > $base/pointed/.git";
    for mode in house.modes() {
        let house = prepared(house);
        house.host(build).success();
        // It has no way to cover a link with itself, as the documentation says; what the link leads to is covered.
        let covers_links = house.backend != Backend::Bubblewrap;
        let guarded = ["linked/real", "pointed/.git", "main"].into_iter().chain(covers_links.then_some("linked/.git"));
        let look = || guarded.clone().map(|place| house.snapshot(place)).collect::<Vec<_>>();
        let before = look();
        let script =
            "mkdir evil; rm -f .git; mv .git moved; ln -sfnT evil .git; echo probe >> real/config; mv real other
            echo probe > .git; echo probe > $base/main/.git/worktrees/pointed/config";
        for workspace in ["linked", "pointed"] {
            let ran = Ran::of(house.confined_script(workspace, mode, script).output().expect("the helper starts"));
            assert!(ran.code != 0 && ran.code != 125, "{workspace} in {mode}: {ran:?}");
        }
        assert_eq!(look(), before, "in {mode}");
    }
}

/// Neither a session of its own, nor a second fork, nor the death of whoever stands above.
pub fn nothing_outlives_a_command(house: &House) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    let house = prepared(house);
    for mode in house.modes() {
        for script in
            ["setsid sleep MARK & UP", "(setsid sleep MARK &) & UP", "setsid sleep MARK & UP; kill -9 $PPID; kill -9 1"]
        {
            let mark = mark();
            // Until its own process is there; in brackets, the mark is not found in the words of the search.
            let up = format!("until grep -zqsx '[3]{}' /proc/[0-9]*/cmdline; do :; done", &mark[1..]);
            let sleeper = format!("{mark} </dev/null >/dev/null 2>&1");
            let script = script.replace("MARK", &sleeper).replace("UP", &up);
            house.started(house.confined_script("ws", mode, &script));
            runtime.block_on(until("its end", || marked(&mark).is_empty()));
        }
        // The death of whoever asked for the command.
        let mark = mark();
        let script = format!("setsid sleep {mark} </dev/null >/dev/null 2>&1 & echo ready; sleep {mark}");
        let mut command = house.confined_script("ws", mode, &script);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the helper starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it was asked for")).read_line(&mut line).expect("it can be read");
        child.kill().expect("it may be killed");
        child.wait().expect("it ends");
        runtime.block_on(until("its end", || marked(&mark).is_empty()));
    }
}

/// A file and a connection of the caller, and the terminal it has.
pub fn nothing_is_inherited(house: &House) {
    let house = prepared(house);
    let outside = Outside::new(&house);
    for mode in house.modes() {
        let helper = house.confining("run", "ws", mode);
        let words = std::iter::once(helper.get_program()).chain(helper.get_args());
        let quoted: Vec<String> = words.map(|word| format!("'{}'", word.display())).collect();
        let inner = "for fd in 3 4 5 6 7 8 9; do echo inherited >&$fd; done 2>/dev/null; ls /proc/self/fd | wc -l";
        let script = format!(
            ". $base/host; exec 7>>$base/outside/file 8<>/dev/tcp/127.0.0.1/$tcp; exec {} bash -c '{inner}'",
            quoted.join(" ")
        );
        // Where the words begin with a wrapper, that becomes the house's user.
        let bash = Path::new("/bin/bash");
        let is_wrapped = quoted[0].ends_with("/attempts'");
        #[expect(clippy::disallowed_methods, reason = "the whole program is under test")]
        let mut caller = if is_wrapped { Command::new(bash) } else { house.program(bash) };
        let script = format!("base={}\n{script}", house.base().display());
        let ran = Ran::of(caller.args(["-c", &script]).output().expect("bash starts"));
        assert_eq!(ran.success(), "4\n", "in {mode}");
        let mut typing = house.confining("spawn", "ws", &format!("{mode}+tty"));
        let typed = typing.args(["bash", "-c"]).arg("../bin/helper try type; echo typed $?").output();
        assert!(Ran::of(typed.expect("the helper starts")).out.contains("typed 1"), "in {mode}");
    }
    let text = std::fs::read_to_string(house.at("outside/file")).expect("it is there");
    assert!(!text.contains("inherited") && !outside.arrived().contains("inherited"), "{text}");
}
