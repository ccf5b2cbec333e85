//! Capabilities and limits: what a process of the sandbox has none of, and how much of the rest.

use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits, set_no_new_privs,
};

use super::super::failure::Failure;
use super::syscalls::Reach;

/// The largest file that a command can make: 64 GiB. It stops a file that would fill the disk by accident.
const MAX_FILE_BYTES: u64 = 64 << 30;

/// Processes and threads in one command's namespaces, for each processor and at least.
const PROCESSES_PER_CPU: u64 = 64;
const MIN_PROCESSES: u64 = 2048;

/// How many processes and threads one command may have.
pub(super) fn max_processes() -> u64 {
    // Finding out reads a dozen files; who makes copies of itself does it before.
    static CPUS: OnceLock<u64> = OnceLock::new();
    let cpus = CPUS.get_or_init(|| std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64));
    (PROCESSES_PER_CPU * cpus).max(MIN_PROCESSES)
}

/// Whether the running kernel is at least this version.
pub(super) fn kernel_is(major: u32, minor: u32) -> bool {
    let name = rustix::system::uname();
    let mut numbers = name
        .release()
        .to_bytes()
        .split(|byte| !byte.is_ascii_digit())
        .map(|digits| std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u32>().ok()).unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (major, minor)
}

/// How much sooner than others a command goes when memory runs out, as `proc(5)` has it: up to 1000.
pub(super) const FIRST_TO_GO: &str = "800";

/// Gives up every capability and every way to get one, and sets the limits.
pub(super) fn give_up(reach: Reach) -> Result<(), Failure> {
    give_up_after(reach, false)
}

/// The same; the bounding set may be closed already.
pub(super) fn give_up_after(reach: Reach, is_closed: bool) -> Result<(), Failure> {
    // In namespaces it is set already, and `/proc` is closed by now.
    let _ = std::fs::write("/proc/self/oom_score_adj", FIRST_TO_GO);
    // Processes are counted for each user namespace since Linux 5.14, and before that for the user as a whole.
    let counts_own = reach == Reach::Namespaces && kernel_is(5, 14);
    for (resource, most, is_set) in [
        (Resource::Core, 0, true),
        (Resource::Fsize, MAX_FILE_BYTES, true),
        (Resource::Nproc, max_processes(), counts_own),
    ] {
        if is_set {
            let limit = lowered(resource, most);
            setrlimit(resource, limit).map_err(|errno| Failure::confine("setting limits", errno))?;
        }
    }
    if !is_closed {
        close_bounding_set().map_err(|errno| Failure::confine("giving up capabilities", errno))?;
    }
    drop_capabilities().map_err(|errno| Failure::confine("giving up capabilities", errno))?;
    set_no_new_privs(true).map_err(|errno| Failure::confine("giving up new privileges", errno))
}

/// The limit, or the one that holds already where that is lower.
fn lowered(resource: Resource, most: u64) -> Rlimit {
    let now = rustix::process::getrlimit(resource);
    let lower = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
    Rlimit { current: lower(now.current), maximum: lower(now.maximum) }
}

/// Gives up getting any capability by running a program. Those that this process has, it keeps.
pub(super) fn close_bounding_set() -> Result<(), Errno> {
    for number in 0..64 {
        let Some(capability) = CapabilitySet::from_bits(1 << number) else { break };
        match remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // The first number that this kernel does not know.
            Err(Errno::INVAL) => break,
            // Without CAP_SETPCAP the bounding set stays; `no_new_privs` is what keeps it from being used.
            Err(Errno::PERM) => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn drop_capabilities() -> Result<(), Errno> {
    // Kernels before 4.3 have no ambient set.
    let _ = clear_ambient_capability_set();
    // So that the programs of user 0 do not get them back at exec.
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    match set_capabilities_secure_bits(bits) {
        Ok(()) | Err(Errno::PERM) => {}
        Err(errno) => return Err(errno),
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_kernel_is_between_the_first_and_the_last() {
        assert!(kernel_is(2, 6));
        assert!(!kernel_is(1000, 0));
    }

    #[test]
    fn a_lower_limit_that_holds_already_is_kept() {
        let held = rustix::process::getrlimit(Resource::Fsize);
        assert_eq!(lowered(Resource::Fsize, u64::MAX).maximum.unwrap_or(u64::MAX), held.maximum.unwrap_or(u64::MAX));
        assert_eq!(lowered(Resource::Core, 0), Rlimit { current: Some(0), maximum: Some(0) });
    }
}
