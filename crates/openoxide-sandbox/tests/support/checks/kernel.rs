//! Doors of the kernel that no build and no test needs are shut, and a command's share of the machine has an end.

use openoxide_sandbox::Backend;

use crate::support::house::{FULL_ACCESS, House, User, WORKSPACE_WRITE};

/// Namespaces that a process could make for itself, by the numbers of their flags.
const NAMESPACES: [(&str, u32); 7] = [
    ("user", 0x1000_0000),
    ("mount", 0x0002_0000),
    ("process", 0x2000_0000),
    ("network", 0x4000_0000),
    ("ipc", 0x0800_0000),
    ("host name", 0x0400_0000),
    ("cgroup", 0x0200_0000),
];

const CALLS: [&str; 28] = [
    "clone3",
    "setns",
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "open_tree",
    "open_tree_attr",
    "listns",
    "quotactl_fd",
    "mount_setattr",
    "fsopen",
    "mknod",
    "io_uring_setup",
    "keyctl",
    "add_key",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "name_to_handle_at",
    "open_by_handle_at",
    "pidfd_getfd",
    "kexec_load",
    "init_module",
    "reboot",
    "syslog",
    "unshare 128",
    // More than one at once.
    "unshare 268566528",
];

pub fn calls_that_reach_around_are_refused(house: &House) {
    let named = |call: &str| (call.to_owned(), format!("try call {call}"));
    let mut calls: Vec<(String, String)> = CALLS.map(named).into();
    for (_, flag) in NAMESPACES {
        calls.extend([named(&format!("unshare {flag}")), named(&format!("clone {flag}"))]);
    }
    let attempts: Vec<(&str, &str)> = calls.iter().map(|(name, script)| (name.as_str(), script.as_str())).collect();
    for mode in house.modes() {
        house.refuses(mode, &attempts);
        house.allows(mode, &[("an ordinary process", "try call clone 0"), ("threads", "try call unshare 0")]);
    }
}

pub fn the_machine_is_not_set(house: &House) {
    let mut attempts = vec![
        ("core_pattern", "try open /proc/sys/kernel/core_pattern"),
        ("host name", "try open /proc/sys/kernel/hostname"),
        ("pid_max", "try open /proc/sys/kernel/pid_max"),
        ("modprobe", "try open /proc/sys/kernel/modprobe"),
        ("sysrq", "try open /proc/sysrq-trigger"),
        ("interrupts", "try open /proc/irq/default_smp_affinity"),
        ("control groups", "try open /sys/fs/cgroup/cgroup.procs"),
        ("power", "try open /sys/power/state"),
        ("memory as a file", "exec 9</dev/mem || exec 9</proc/kcore || exec 9</dev/kmsg"),
    ];
    let find = "test -n \"$(find /dev -type b 2>/dev/null | head -1)\"";
    if house.backend != Backend::Landlock {
        attempts.extend([
            ("a disk", find),
            ("any setting", "test -n \"$(find /proc/sys -type f -writable 2>/dev/null | head -1)\""),
        ]);
    }
    let disk = "for disk in $(find /dev -type b); do head -c 0 $disk && exit; done; false";
    attempts.push(("write to a disk", disk.trim()));
    if house.backend == Backend::Landlock {
        // There its user may read it, as without a sandbox; see what is promised in `docs/security.md`.
        attempts.retain(|(name, _)| *name != "write to a disk" && *name != "memory as a file");
        attempts.push(("write to a disk", "for disk in $(find /dev -type b); do try open $disk && exit; done; false"));
    }
    for mode in house.modes() {
        house.refuses(mode, &attempts);
    }
}

pub fn the_number_of_processes_is_bounded(house: &House) {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let most = (64 * cpus).max(2048);
    let text = house.run(WORKSPACE_WRITE, &format!("ulimit -u; try forks {}; echo after $?", most + 100)).success();
    let limit: usize = text.lines().next().and_then(|line| line.parse().ok()).unwrap_or(usize::MAX);
    assert!(limit <= most, "{text}");
    // Root is exempt from the limit of its processes, so that only the number of process ids can bound it.
    let is_root = house.user == User::Own && rustix::process::geteuid().is_root();
    if !is_root || (house.backend == Backend::Namespaces && own_pid_max()) {
        assert!(text.ends_with("after 1\n"), "{text}");
    }
}

/// Whether each process namespace has a limit of its own: since Linux 6.14.
fn own_pid_max() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy().into_owned();
    let mut numbers =
        release.split(|digit: char| !digit.is_ascii_digit()).map(|digits| digits.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 14)
}

pub fn the_size_of_a_file_is_bounded(house: &House) {
    house.refuses(
        WORKSPACE_WRITE,
        &[("200 GiB", "truncate -s 200G big"), ("100 GiB", "dd if=/dev/zero of=big bs=1 count=1 seek=100G")],
    );
    house.allows(WORKSPACE_WRITE, &[("1 GiB", "truncate -s 1G large && rm large")]);
}

pub fn a_command_goes_first_when_memory_runs_out(house: &House) {
    house.allows(WORKSPACE_WRITE, &[("the score", "test $(cat /proc/self/oom_score_adj) = 800")]);
}

pub fn nothing_is_typed_into_the_terminal(house: &House) {
    for mode in house.modes() {
        let ran = crate::support::house::Ran::of(
            house.command("spawn", "ws", &format!("{mode}+tty"), "try type; echo typed $?").output().unwrap(),
        );
        assert!(ran.out.contains("typed 1"), "{ran:?}");
        assert!(ran.out.contains("os error 1)"), "{ran:?}");
    }
}

/// What the user types elsewhere is not read, and nothing is written to the user's screens.
pub fn the_users_terminals_are_out_of_reach(house: &House) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal can be made");
    grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("it is ours");
    let name = ptsname(&ours, Vec::new()).expect("it has a name").into_string().expect("it is text");
    // Kept open, so that what is typed stays.
    let _theirs = std::fs::OpenOptions::new().read(true).write(true).open(&name).expect("it is there");
    house.own(std::path::Path::new(&name));
    rustix::io::write(&ours, b"a password\nanother\n").expect("it can be typed into");
    let read = format!("timeout 20 head -n1 <{name} | grep .");
    let write = format!("printf x >{name}");
    let attempts = [("read what is typed", read.as_str()), ("write on the screen", write.as_str())];
    for mode in house.modes() {
        house.refuses(mode, &attempts);
    }
    house.allows(FULL_ACCESS, &attempts);
}
