//! The filter of system calls: everything is allowed but what reaches around the other walls, or what no build and no test
//! needs. A refused call answers EPERM, as the kernel itself would.

use std::collections::BTreeMap;

use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use super::super::failure::Failure;
use super::refusals;

/// What else stands between the command and the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Namespaces of its own: no host process or network is in reach.
    Namespaces,
    /// Nothing: the filter has to stop what namespaces would.
    Host,
}

/// Programs for the kernel, in the order in which they are installed.
#[derive(Clone)]
pub(super) struct Filters(Vec<BpfProgram>);

/// Refused everywhere.
const REFUSED: [libc::c_long; 44] = [
    // Ways to have the kernel act later or elsewhere, where no filter sees it.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    // Keys of the user's session.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    SYS_OPEN_TREE_ATTR,
    SYS_LISTNS,
    // Files by other means than their path.
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // The machine as a whole.
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    SYS_QUOTACTL_FD,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_vhangup,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: [libc::c_long; 4] =
    [libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_kexec_file_load];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: [libc::c_long; 0] = [];

/// Refused where host processes, and the attributes of all files of the user, are in reach.
const REFUSED_ON_HOST: [libc::c_long; 34] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semctl,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // Landlock does not know of attributes, and nothing that only reads sets any.
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SYS_SETXATTRAT,
    SYS_REMOVEXATTRAT,
    SYS_FILE_SETATTR,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_ON_HOST_HERE: [libc::c_long; 6] =
    [libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_ON_HOST_HERE: [libc::c_long; 0] = [];

// The same numbers on every architecture; younger than the C library's bindings on some.
const SYS_QUOTACTL_FD: libc::c_long = 443;
const SYS_FCHMODAT2: libc::c_long = 452;
const SYS_SETXATTRAT: libc::c_long = 463;
const SYS_REMOVEXATTRAT: libc::c_long = 466;
const SYS_OPEN_TREE_ATTR: libc::c_long = 467;
const SYS_FILE_SETATTR: libc::c_long = 469;
const SYS_LISTNS: libc::c_long = 470;

/// `ioprio_set(2)`: the second argument names a process.
const IOPRIO_WHO_PROCESS: u64 = 1;

/// Requests that type into a terminal, or into the console's selection.
const TYPING: [u64; 2] = [0x5412, 0x541c];
/// Requests that set attributes of files.
const ATTRIBUTES: [u64; 3] = [0x4008_6602, 0x4004_6602, 0x401c_5820];

/// Flags of `clone` and `unshare` that make namespaces. The one for time is a signal number to `clone`.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];
const CLONE_NEWTIME: libc::c_int = 0x80;

impl Filters {
    /// Compiles the filters. The work is done before anything is cloned.
    pub(super) fn compile(network: bool, reach: Reach) -> Result<Self, Failure> {
        let internet = network || reach == Reach::Namespaces;
        // Those that are refused whatever they are asked for, by their number alone.
        let (always, by_argument): (BTreeMap<_, _>, BTreeMap<_, _>) =
            calls(internet, reach).into_iter().partition(|(_, rules)| rules.is_empty());
        let always = always.into_keys().map(|call| (call, libc::EPERM));
        // The flags of this call lie in memory, where a filter cannot look; the C library then uses `clone`.
        let hidden_flags = (libc::SYS_clone3, libc::ENOSYS);
        let always = refusals::program(always.chain([hidden_flags]).collect());
        Ok(Self(vec![program(by_argument, libc::EPERM)?, always]))
    }

    /// The same filters in two parts, for namespaces: the one allows nothing more than entering a namespace, the other refuses that
    /// and nothing else. When a filter is installed it is tried for every call that there is, so that a small one is quick.
    pub(super) fn compile_in_parts() -> Result<(Self, Self), Failure> {
        let (always, by_argument): (BTreeMap<_, _>, BTreeMap<_, _>) =
            calls(true, Reach::Namespaces).into_iter().partition(|(_, rules)| rules.is_empty());
        let always = always.into_keys().map(|call| (call, libc::EPERM));
        let hidden_flags = (libc::SYS_clone3, libc::ENOSYS);
        let (entering, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            always.chain([hidden_flags]).partition(|(call, _)| *call == libc::SYS_setns);
        let first = Self(vec![program(by_argument, libc::EPERM)?, refusals::program(others)]);
        Ok((first, Self(vec![refusals::program(entering)])))
    }

    /// Puts this process and all it starts under the filters, for good.
    pub(super) fn install(&self) -> Result<(), Failure> {
        self.0.iter().try_for_each(|program| {
            seccompiler::apply_filter(program).map_err(|error| {
                Failure::unavailable(format!("installing the filter of system calls ({error})"), Errno::NOSYS)
            })
        })
    }
}

/// The refused calls, and the arguments for which others are.
fn calls(internet: bool, reach: Reach) -> BTreeMap<i64, Vec<SeccompRule>> {
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let always = REFUSED.iter().chain(&REFUSED_HERE);
    let on_host = REFUSED_ON_HOST.iter().chain(&REFUSED_ON_HOST_HERE).filter(|_| reach == Reach::Host);
    calls.extend(always.chain(on_host).map(|call| (*call, Vec::new())));

    let has_flag = |flag: libc::c_int| rule(&[(0, SeccompCmpOp::MaskedEq(wide(flag)), wide(flag))]);
    calls.insert(libc::SYS_clone, NAMESPACES.map(has_flag).into());
    calls.insert(libc::SYS_unshare, NAMESPACES.into_iter().chain([CLONE_NEWTIME]).map(has_flag).collect());

    let mut requests = TYPING.to_vec();
    if reach == Reach::Host {
        requests.extend(ATTRIBUTES);
        // Limits of other processes, and how they run; 0 is the caller itself.
        for call in [
            libc::SYS_prlimit64,
            libc::SYS_sched_setparam,
            libc::SYS_sched_setscheduler,
            libc::SYS_sched_setattr,
            libc::SYS_sched_setaffinity,
        ] {
            calls.insert(call, vec![rule(&[(0, SeccompCmpOp::Ne, 0)])]);
        }
        // By process, group or user; the caller's group and user are others as well.
        for (call, itself) in
            [(libc::SYS_setpriority, libc::PRIO_PROCESS as u64), (libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS)]
        {
            let another = rule(&[(1, SeccompCmpOp::Ne, 0)]);
            calls.insert(call, vec![rule(&[(0, SeccompCmpOp::Ne, itself)]), another]);
        }
    }
    calls
        .insert(libc::SYS_ioctl, requests.into_iter().map(|request| rule(&[(1, SeccompCmpOp::Eq, request)])).collect());

    // A path names a Unix socket across all namespaces, so that these exist as connected pairs only; an unconnected or a
    // datagram one could send to any path. A raw one is a datagram one by another name.
    let mut families = vec![libc::AF_NETLINK];
    if internet {
        families.extend([libc::AF_INET, libc::AF_INET6]);
    }
    let other_family: Vec<_> = families.iter().map(|family| (0, SeccompCmpOp::Ne, wide(*family))).collect();
    let not_route = [(0, SeccompCmpOp::Eq, wide(libc::AF_NETLINK)), (2, SeccompCmpOp::Ne, wide(libc::NETLINK_ROUTE))];
    calls.insert(libc::SYS_socket, vec![rule(&other_family), rule(&not_route)]);
    let of_type = |kind: libc::c_int| rule(&[(1, SeccompCmpOp::MaskedEq(0xf), wide(kind))]);
    calls.insert(
        libc::SYS_socketpair,
        vec![rule(&[(0, SeccompCmpOp::Ne, wide(libc::AF_UNIX))]), of_type(libc::SOCK_DGRAM), of_type(libc::SOCK_RAW)],
    );
    calls
}

fn wide(number: libc::c_int) -> u64 {
    u64::from(number.cast_unsigned())
}

/// A rule over 32-bit arguments, all of which have to hold.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> SeccompRule {
    let condition = |(argument, operator, value): &(u8, SeccompCmpOp, u64)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
            .expect("arguments are numbered below six")
    };
    SeccompRule::new(conditions.iter().map(condition).collect()).expect("there is a condition")
}

fn program(calls: BTreeMap<i64, Vec<SeccompRule>>, errno: libc::c_int) -> Result<BpfProgram, Failure> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|_| {
        Failure::unavailable(format!("a filter of system calls for {}", std::env::consts::ARCH), Errno::NOSYS)
    })?;
    let refusal = SeccompAction::Errno(errno.cast_unsigned());
    SeccompFilter::new(calls, SeccompAction::Allow, refusal, arch)
        .and_then(TryInto::try_into)
        .map_err(|error| Failure::confine(format!("compiling the filter of system calls ({error})"), Errno::INVAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_filter_compiles_and_fits() {
        for reach in [Reach::Namespaces, Reach::Host] {
            for network in [false, true] {
                let filters = Filters::compile(network, reach).unwrap_or_else(|failure| panic!("{failure:?}"));
                assert!(filters.0.iter().all(|program| !program.is_empty() && program.len() < 4096));
            }
        }
    }

    #[test]
    fn both_parts_are_the_whole() {
        let (first, last) = Filters::compile_in_parts().unwrap_or_else(|failure| panic!("{failure:?}"));
        let whole = Filters::compile(false, Reach::Namespaces).unwrap_or_else(|failure| panic!("{failure:?}"));
        let steps = |filters: &Filters| filters.0.iter().map(Vec::len).sum::<usize>();
        assert_eq!((first.0.len(), last.0.len(), whole.0.len()), (2, 1, 2));
        assert!(steps(&last) < 10 && steps(&first) < steps(&whole) && steps(&first) + 10 > steps(&whole));
    }

    #[test]
    fn attributes_are_refused_only_where_no_mount_protects_them() {
        assert!(calls(false, Reach::Host).contains_key(&libc::SYS_fchmodat));
        assert!(!calls(false, Reach::Namespaces).contains_key(&libc::SYS_fchmodat));
    }
}
