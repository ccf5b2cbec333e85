//! Processes outside are neither seen nor reached, and those inside hold no rights.

use std::process::Child;

use openoxide_sandbox::Backend;

use crate::support::house::{FULL_ACCESS, House, User};
use crate::support::{mark, marked};

/// A process of the host, of the same user, with a secret in its environment.
struct Neighbour(Child, String);

impl Neighbour {
    fn new(house: &House) -> Self {
        let mark = mark();
        let child = house.program("/bin/sleep".as_ref()).arg(&mark).env("SECRET", "of-the-neighbour").spawn().unwrap();
        Self(child, mark)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn host_processes_are_out_of_reach(house: &House) {
    let neighbour = Neighbour::new(house);
    let (pid, mark) = (neighbour.0.id(), &neighbour.1);
    let environment = format!("grep -q of-the-neighbour /proc/{pid}/environ");
    let signal = format!("kill -0 {pid}");
    let directory = format!("ls /proc/{pid}/cwd/");
    let mut attempts = vec![
        ("its environment", environment.as_str()),
        ("a signal", signal.as_str()),
        ("its directory", directory.as_str()),
    ];
    let seen = format!("grep -aq {mark} /proc/{pid}/cmdline");
    if house.backend != Backend::Landlock {
        attempts.push(("its command line", &seen));
    }
    let attach = format!("try call ptrace {pid}");
    let memory = format!("exec 9</proc/{pid}/mem");
    let namespaces = format!("exec 9</proc/{pid}/ns/net");
    // One that shares the number, if any, is one of the sandbox's own.
    for mode in house.modes() {
        house.refuses(mode, &attempts);
        house.refuses(mode, &[("ptrace", &attach), ("its memory", &memory), ("its namespaces", &namespaces)]);
        house.run(mode, &format!("kill -9 {pid}"));
    }
    assert_eq!(marked(mark), [pid]);
    house.allows(FULL_ACCESS, &attempts);
}

pub fn no_rights_are_held(house: &House) {
    for mode in house.modes() {
        let text = house.run(mode, "cat /proc/self/status; echo own $(id -u) $(ulimit -c)").success();
        let value = |name: &str| {
            let line =
                text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name}: {text}"));
            line.trim_start_matches(':').trim().to_owned()
        };
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(value(set), "0000000000000000", "{set} in {mode}");
        }
        if house.backend == Backend::Namespaces {
            assert_eq!(value("CapBnd"), "0000000000000000", "in {mode}");
        }
        assert_eq!((value("NoNewPrivs").as_str(), value("Seccomp").as_str()), ("1", "2"), "in {mode}");
        let uid = if house.user == User::Ordinary { 12345 } else { rustix::process::geteuid().as_raw() };
        assert_eq!(value("own"), format!("{uid} 0"), "in {mode}");
        if house.backend != Backend::Landlock {
            // The first process carries what the command carries, and cannot be looked into.
            let first = "grep -E '^(CapEff|CapPrm|NoNewPrivs|Seccomp):' /proc/1/status | cut -f2 | xargs";
            // The keeper of a thread carries other things, and can be looked into as little.
            if !crate::support::house::KEPT {
                assert_eq!(house.run(mode, first).success(), "0000000000000000 0000000000000000 1 2\n".to_owned());
            }
            house.refuses(
                mode,
                &[
                    ("its memory", "exec 9</proc/1/mem"),
                    ("its descriptors", "readlink /proc/1/fd/* || exec 9</proc/1/fd/0"),
                ],
            );
        }
    }
}

pub fn programs_of_another_user_give_no_rights(house: &House) {
    // Only root can leave one; `no_new_privs` is what is looked at.
    if house.user == User::Own && rustix::process::geteuid().is_root() {
        house.host("cp /usr/bin/id $base/ws/as-another && chown 12345 $base/ws/as-another && chmod 4755 $base/ws/as-another").success();
        for mode in house.modes() {
            assert_eq!(house.run(mode, "./as-another -u").success(), "0\n", "in {mode}");
        }
        assert_eq!(house.run(FULL_ACCESS, "./as-another -u").success(), "12345\n");
    }
}
