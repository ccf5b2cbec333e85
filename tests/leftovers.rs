//! Full access, where nothing confines a command: what it has started is gone although its server and both of its supervisors were
//! killed at once, or stopped. The next server on the same home ends it before it answers anything.
//!
//! Each test goes through the users that this machine has: as the user who runs the tests, and for root as an ordinary user
//! too, without a control group and with one that is delegated. The output says which.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::{ORDINARY, Server, eventually, openoxide_of, place_of};

/// Rounds of kills at any moment. `OPENOXIDE_LONG` has eight times as many.
const ROUNDS: u32 = 50;
/// The latest moment of a kill after the call was sent, in ms: when all that the command starts runs.
const LATEST: u64 = 160;

/// Whose server it is, and in which control group.
struct HostPaths {
    name: &'static str,
    user: Option<u32>,
    /// A group that is the user's; removed with this.
    group: Option<PathBuf>,
}

impl Drop for HostPaths {
    fn drop(&mut self) {
        if let Some(group) = &self.group {
            eventually("the delegated group is empty", || std::fs::remove_dir(group).is_ok());
        }
    }
}

/// Says something that is shown of a test that passes, too.
fn say(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// What can be tested here, and a word on what cannot.
fn host_paths() -> Vec<HostPaths> {
    let mut all = vec![HostPaths { name: "the user who runs the tests", user: None, group: None }];
    if rustix::process::geteuid().is_root() {
        all.push(HostPaths { name: "an ordinary user without a control group", user: Some(ORDINARY), group: None });
        match delegated_group() {
            Ok(group) => {
                let name = "an ordinary user with a delegated control group";
                all.push(HostPaths { name, user: Some(ORDINARY), group: Some(group) });
            }
            Err(why) => say(&format!("NOT TESTED HERE: a delegated control group: {why}")),
        }
    } else {
        say("NOT TESTED HERE: other users and a group delegated to them: the tests do not run as root");
    }
    all
}

/// A group that belongs to an ordinary user.
fn delegated_group() -> Result<PathBuf, String> {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"));
    let mount = mount.and_then(|line| line.split(' ').nth(1)).ok_or("no cgroup v2 is mounted")?;
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let group = Path::new(mount).join(format!("delegated-{}-{count}", std::process::id()));
    std::fs::create_dir(&group).map_err(|error| format!("making {}: {error}", group.display()))?;
    for name in ["", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"] {
        std::os::unix::fs::chown(group.join(name), Some(ORDINARY), Some(ORDINARY)).unwrap();
    }
    if !group.join("cgroup.kill").exists() {
        std::fs::remove_dir(&group).unwrap();
        return Err("the kernel has no cgroup.kill".to_owned());
    }
    Ok(group)
}

/// A home and a directory of temporary files of one user, and servers on it.
struct House<'a> {
    host_paths: &'a HostPaths,
    place: tempfile::TempDir,
}

impl<'a> House<'a> {
    fn new(host_paths: &'a HostPaths) -> Self {
        eprintln!("as {}", host_paths.name);
        let house = Self { host_paths, place: place_of(host_paths.user) };
        for name in ["tmp", "work"] {
            std::fs::create_dir(house.path(name)).unwrap();
            std::os::unix::fs::chown(house.path(name), host_paths.user, host_paths.user).unwrap();
        }
        house
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn start(&self) -> Server {
        self.start_with(&[])
    }

    fn start_with(&self, arguments: &[&str]) -> Server {
        let plain = openoxide_of(self.host_paths.user, self.place.path());
        let mut command = match &self.host_paths.group {
            None => plain,
            Some(group) => {
                // Only root may move a process into the group from where the tests run.
                let script = format!(
                    "echo $$ > {}/cgroup.procs && exec setpriv --reuid {ORDINARY} --regid {ORDINARY} --clear-groups \"$@\"",
                    group.display()
                );
                let mut command = Command::new("sh");
                command.args(["-c", &script, "sh"]).arg(self.path("openoxide")).env_clear();
                command
                    .envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))))
                    .current_dir(self.place.path());
                command
            }
        };
        command.env("TMPDIR", self.path("tmp"));
        let mark = self.place.path().file_name().unwrap().to_string_lossy().into_owned();
        Server::run(command, mark, json!({}), arguments)
    }

    /// Has a command run in full access; the call's id.
    fn call(&self, server: &mut Server, script: &str) -> u64 {
        let prompt = format!("run `{script}`");
        server.call(
            "openoxide",
            json!({
                "prompt": prompt, "cwd": self.path("work"), "approval_policy": "never",
                "sandbox": "danger-full-access",
            }),
        )
    }

    /// What is noted of what runs, and of temporary directories.
    fn noted(&self) -> Vec<PathBuf> {
        ["commands", "temporary"].iter().flat_map(|name| listed(&self.path("state/run").join(name))).collect()
    }

    fn temporary(&self) -> Vec<PathBuf> {
        listed(&self.path("tmp"))
    }

    /// Control groups of commands that are there.
    fn groups(&self) -> Vec<PathBuf> {
        let groups = self.host_paths.group.iter().flat_map(|group| listed(group));
        groups.filter(|path| path.is_dir()).collect()
    }

    /// A server starts, and nothing is left when it has answered for the first time.
    fn expect_nothing_left_by_the_next_start(&self, mark: &str, about: &str) -> Server {
        let server = self.start();
        assert_eq!(sleeping(mark), Vec::<u32>::new(), "{about}, as {}", self.host_paths.name);
        assert_eq!(listed(&self.path("state/run/commands")), Vec::<PathBuf>::new(), "{about}");
        assert_eq!(self.groups(), Vec::<PathBuf>::new(), "{about}");
        eventually("temporary files are gone", || self.temporary().is_empty() && self.noted().is_empty());
        server
    }
}

fn listed(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// A time to sleep that no other process sleeps, by which processes are found again.
fn mark() -> String {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    format!("9{:07}.{}", std::process::id(), COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
}

/// What leaves its parent, its session, its environment and its descriptors, deaf to SIGTERM; the last of five a little later.
fn escapees(mark: &str) -> String {
    format!(
        "trap \"\" TERM; setsid sleep {mark} & env -i setsid sleep {mark} & \
         (setsid sh -c \"cd /; (exec env -i sleep {mark} <&- >&- 2>&-) &\" &); \
         sleep 0.05; setsid sleep {mark} & sleep {mark}"
    )
}
const ESCAPEES: usize = 5;

/// State letter, parent and command line of a process.
fn process(pid: u32) -> Option<(char, u32, Vec<String>)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let (state, parent) = (fields.next()?.chars().next()?, fields.next()?.parse().ok()?);
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    Some((state, parent, words.collect()))
}

fn pids() -> impl Iterator<Item = u32> {
    listed(Path::new("/proc")).into_iter().filter_map(|path| path.file_name()?.to_str()?.parse().ok())
}

/// The processes that sleep for this long.
fn sleeping(mark: &str) -> Vec<u32> {
    let is_meant =
        |pid: &u32| process(*pid).is_some_and(|(state, _, line)| state != 'Z' && line.iter().any(|word| word == mark));
    pids().filter(is_meant).collect()
}

/// The supervisors of a server, and what is on its way to become one.
fn supervisors(server: u32) -> BTreeSet<u32> {
    let all: Vec<_> = pids().filter_map(|pid| process(pid).map(|known| (pid, known))).collect();
    let mut found: BTreeSet<u32> = all.iter().filter(|(_, known)| known.1 == server).map(|(pid, _)| *pid).collect();
    let is_supervisor = |line: &[String]| line.iter().any(|word| word == "sandbox-exec");
    let below = all.iter().filter(|(_, known)| found.contains(&known.1) && is_supervisor(&known.2));
    found.extend(below.map(|(pid, _)| *pid).collect::<Vec<_>>());
    found
}

fn send(signal: Signal, pids: impl IntoIterator<Item = u32>) {
    for pid in pids {
        // One that has just ended is as good.
        let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal);
    }
}

/// Stops the server and its supervisors, so that none sees what becomes of another.
fn stop_all(server: u32) -> BTreeSet<u32> {
    send(Signal::STOP, [server]);
    let mut stopped = BTreeSet::new();
    loop {
        let found = supervisors(server);
        if found.is_subset(&stopped) {
            return stopped;
        }
        send(Signal::STOP, found.iter().copied());
        stopped.extend(found);
    }
}

/// SIGKILL for the server and its supervisors at once.
fn kill_all(server: &mut Server) {
    let supervisors = stop_all(server.pid());
    send(Signal::KILL, supervisors.into_iter().chain([server.pid()]));
    server.kill();
}

fn answered(server: &mut Server, call: u64) -> Value {
    server.answer(call)["result"]["structuredContent"].clone()
}

#[test]
fn all_killed_at_once_at_any_moment_leave_nothing_to_the_next_start() {
    let all = host_paths();
    let houses: Vec<House<'_>> = all.iter().map(House::new).collect();
    let rounds = ROUNDS * if std::env::var_os("OPENOXIDE_LONG").is_some() { 8 } else { 1 };
    let mut had_some = 0;
    for round in 0..rounds {
        let house = &houses[round as usize % houses.len()];
        let mark = mark();
        let mut server = house.start();
        house.call(&mut server, &escapees(&mark));
        // Moments spread over the time in an order without a pattern (the golden ratio's multiples).
        std::thread::sleep(std::time::Duration::from_millis(u64::from(round.wrapping_mul(2_654_435_769)) % LATEST));
        kill_all(&mut server);
        had_some += u32::from(!sleeping(&mark).is_empty());
        let mut server = house.expect_nothing_left_by_the_next_start(&mark, &format!("round {round}"));
        server.close_input();
        assert!(server.wait_exit().success());
    }
    eprintln!("{had_some} of {rounds} kills left processes to the next start");
    assert!(had_some > 0, "no kill left anything to end");
}

#[test]
fn whichever_are_killed_nothing_is_left() {
    for host_paths in &host_paths() {
        // Of the supervisor above, the one below, and the server, those that are killed.
        for killed in [[true, false, false], [false, true, false], [true, true, false], [true, true, true]] {
            let (house, mark) = (House::new(host_paths), mark());
            let mut server = house.start();
            let call = house.call(&mut server, &escapees(&mark));
            eventually("all run", || sleeping(&mark).len() == ESCAPEES);
            assert_eq!(house.groups().len(), usize::from(host_paths.group.is_some()));
            let above =
                supervisors(server.pid()).into_iter().find(|pid| process(*pid).unwrap().1 == server.pid()).unwrap();
            let below = supervisors(server.pid()).into_iter().find(|pid| process(*pid).unwrap().1 == above).unwrap();
            if killed[2] {
                kill_all(&mut server);
                assert!(!sleeping(&mark).is_empty(), "nobody is there to end them");
                server = house.expect_nothing_left_by_the_next_start(&mark, "all were killed");
            } else {
                let both = [above, below].into_iter().zip(killed).filter(|(_, is_killed)| *is_killed);
                let both: Vec<u32> = both.map(|(pid, _)| pid).collect();
                send(Signal::STOP, both.iter().copied());
                send(Signal::KILL, both);
                eventually("none runs", || sleeping(&mark).is_empty());
                assert_eq!(answered(&mut server, call)["status"], "completed", "{killed:?}");
            }
            server.close_input();
            assert!(server.wait_exit().success());
            assert!(
                house.noted().is_empty() && house.temporary().is_empty() && house.groups().is_empty(),
                "{killed:?}"
            );
        }
    }
}

#[test]
fn supervisors_that_are_stopped_keep_nothing_alive() {
    for host_paths in &host_paths() {
        for way in ["cancel", "close", "exit"] {
            let (house, mark) = (House::new(host_paths), mark());
            let mut server = house.start();
            let call = house.call(&mut server, &escapees(&mark));
            let thread = server.thread_of(call);
            eventually("all run", || sleeping(&mark).len() == ESCAPEES);
            let supervisors = supervisors(server.pid());
            assert_eq!(supervisors.len(), 2);
            send(Signal::STOP, supervisors);
            match way {
                "cancel" => server.send(&json!({
                    "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": call },
                })),
                "close" => drop(server.call("openoxide-reply", json!({ "thread_id": thread, "close": true }))),
                _ => server.close_input(),
            }
            eventually(way, || sleeping(&mark).is_empty());
            server.close_input();
            assert!(server.wait_exit().success());
            eventually("nothing is noted", || house.noted().is_empty() && house.groups().is_empty());
        }
    }
}

#[test]
fn a_second_server_on_the_home_ends_no_command_of_the_first() {
    for host_paths in &host_paths() {
        let (house, mark) = (House::new(host_paths), mark());
        let mut first = house.start();
        house.call(&mut first, &escapees(&mark));
        eventually("all run", || sleeping(&mark).len() == ESCAPEES);
        let (noted, temporary) = (house.noted(), house.temporary());
        assert!(noted.len() >= 2 && temporary.len() == 1, "{noted:?} {temporary:?}");
        for _ in 0..3 {
            let mut second = house.start();
            second.close_input();
            assert!(second.wait_exit().success());
        }
        assert_eq!((sleeping(&mark).len(), house.noted().len(), house.temporary()), (ESCAPEES, noted.len(), temporary));
        first.close_input();
        assert!(first.wait_exit().success());
        assert_eq!(sleeping(&mark), Vec::<u32>::new());
    }
}

#[test]
fn an_attached_command_that_is_killed_with_its_supervisors_is_ended_by_the_next_start() {
    for host_paths in &host_paths() {
        let (house, mark) = (House::new(host_paths), mark());
        let mut command = openoxide_of(host_paths.user, house.place.path());
        command.env("TMPDIR", house.path("tmp"));
        command.args(["sandbox", "--sandbox", "danger-full-access", "--", "sh", "-c", &escapees(&mark)]);
        let mut child = command.spawn().unwrap();
        eventually("all run", || sleeping(&mark).len() == ESCAPEES);
        let supervisors = stop_all(child.id());
        // Both are copies of the program itself, without a name of their own.
        assert!(!supervisors.is_empty());
        let below: BTreeSet<u32> =
            pids().filter(|pid| process(*pid).is_some_and(|known| supervisors.contains(&known.1))).collect();
        send(Signal::STOP, below.iter().copied());
        send(Signal::KILL, supervisors.into_iter().chain(below).chain([child.id()]));
        child.wait().unwrap();
        let mut server = house.start();
        assert_eq!(sleeping(&mark), Vec::<u32>::new());
        server.close_input();
        assert!(server.wait_exit().success());
    }
}
