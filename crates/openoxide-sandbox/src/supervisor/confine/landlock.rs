//! The rules of the Landlock security module: read everywhere, write where the mode allows it, no signals and no abstract
//! sockets to the outside. In namespaces they are the second wall behind the mounts; without namespaces the first.

use ::landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope,
};
use std::path::PathBuf;

use rustix::io::Errno;

use super::super::failure::Failure;
use crate::Confinement;

/// The newest version whose rights are asked for; older kernels enforce what they know.
const NEWEST: ABI = ABI::V7;

/// The oldest that stops signals to processes outside, without which it is no boundary by itself.
const ENOUGH: i64 = 6;

/// Devices that may be written where there is no `/dev` of our own.
const DEVICES: [&str; 8] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts"];

/// How much rests on these rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing but them holds the command.
    All,
    /// The mounts hold it; a kernel without Landlock is accepted.
    WhatThereIs,
}

/// The version that the kernel has; 0 where it has none or it is off.
pub(super) fn version() -> i64 {
    const GET_VERSION: libc::c_long = 1;
    // SAFETY: with this flag the call takes no memory and makes nothing.
    #[allow(unsafe_code)]
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0, 0, GET_VERSION) };
    version.max(0)
}

/// Puts this process and all it starts under the rules, for good.
pub(super) fn restrict(confinement: &Confinement, need: Need) -> Result<(), Failure> {
    let version = version();
    match need {
        Need::All if version < ENOUGH => {
            let what = format!("Landlock version {version} ({ENOUGH} is needed)");
            return Err(Failure::unavailable(what, Errno::NOSYS));
        }
        Need::WhatThereIs if version == 0 => return Ok(()),
        Need::All | Need::WhatThereIs => {}
    }
    match rules(confinement, need) {
        Ok(RulesetStatus::NotEnforced) => Err(Failure::unavailable("Landlock enforced nothing", Errno::NOSYS)),
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::confine(format!("setting Landlock rules ({error})"), Errno::INVAL)),
    }
}

fn rules(confinement: &Confinement, need: Need) -> Result<RulesetStatus, Box<dyn std::error::Error>> {
    let all = AccessFs::from_all(NEWEST);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    let read = AccessFs::from_read(NEWEST);
    match need {
        Need::WhatThereIs => {
            ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new("/")?, read))?;
            // All of it is ours and harmless.
            ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new("/dev")?, all))?;
        }
        Need::All => {
            // Every directory may be listed; files are read only where they are not hidden.
            ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new("/")?, AccessFs::ReadDir))?;
            for path in readable(&confinement.hidden) {
                let Ok(fd) = PathFd::new(&path) else { continue };
                let access = if path.is_dir() { read } else { read & AccessFs::from_file(NEWEST) };
                ruleset = ruleset.add_rule(PathBeneath::new(fd, access))?;
            }
            for device in DEVICES {
                let access = if device == "/dev/pts" { all } else { AccessFs::from_file(NEWEST) };
                if let Ok(fd) = PathFd::new(device) {
                    ruleset = ruleset.add_rule(PathBeneath::new(fd, access))?;
                }
            }
        }
    }
    for root in &confinement.writable {
        ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new(&root.path)?, all))?;
    }
    Ok(ruleset.restrict_self()?.ruleset)
}

/// The largest parts of the tree that hold nothing hidden. A rule covers everything beneath its path and none takes
/// anything back, so that what stands beside the way to something hidden is named instead.
fn readable(hidden: &[PathBuf]) -> Vec<PathBuf> {
    let mut parts = Vec::new();
    let mut waiting = vec![PathBuf::from("/")];
    while let Some(path) = waiting.pop() {
        if hidden.contains(&path) {
            continue;
        }
        if !hidden.iter().any(|hidden| hidden.starts_with(&path)) {
            parts.push(path);
            continue;
        }
        // What cannot be listed cannot be read by the command either.
        waiting.extend(std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_beside_something_hidden_is_readable() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        for name in ["a/.ssh", "a/src", "b"] {
            std::fs::create_dir_all(dir.join(name)).unwrap();
        }
        let parts = readable(&[dir.join("a/.ssh")]);
        let is_readable = |name: &str| parts.iter().any(|part| dir.join(name).starts_with(part));
        assert!(is_readable("a/src") && is_readable("b") && !is_readable("a/.ssh/id") && !is_readable("a/new"));
        assert_eq!(readable(&[]), [PathBuf::from("/")]);
    }
}
