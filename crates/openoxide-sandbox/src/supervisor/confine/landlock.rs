//! The rules of the Landlock security module: read everywhere, write where the mode allows it, no signals and no abstract
//! sockets to the outside. In namespaces they are the second wall behind the mounts; without namespaces the first.

use ::landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope,
};
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
        .create()?
        .add_rule(PathBeneath::new(PathFd::new("/")?, AccessFs::from_read(NEWEST)))?;
    match need {
        // All of it is ours and harmless.
        Need::WhatThereIs => ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new("/dev")?, all))?,
        Need::All => {
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
