//! Holds the command to its mode: the last step before its program runs, in the process that becomes it. Each mode
//! that is enforced has its means here; one that has none is refused, whatever the launcher let through.

use rustix::io::Errno;

use crate::SandboxMode;

/// Gives up what the mode does not allow, for good.
pub(super) fn apply(mode: SandboxMode) -> Result<(), Errno> {
    match mode {
        // Nothing is given up: what the user may do, the command may do, `sudo` included.
        SandboxMode::DangerFullAccess => Ok(()),
        SandboxMode::ReadOnly | SandboxMode::WorkspaceWrite => Err(Errno::NOTSUP),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_enforced_is_refused() {
        for mode in [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite, SandboxMode::DangerFullAccess] {
            assert_eq!(apply(mode).is_ok(), mode.is_enforced());
        }
    }
}
