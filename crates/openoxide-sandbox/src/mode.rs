//! The sandbox modes by name. What a mode allows is `policy.rs`; holding a command to it is the supervisor's part
//! (`supervisor/confine.rs`).

use serde::{Deserialize, Serialize};

/// How far a command may reach.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Reads what the user can read, writes nothing, no network.
    ReadOnly,
    /// Writes in the workspace and the temporary directories only, no network.
    WorkspaceWrite,
    /// What the user can do.
    DangerFullAccess,
}

impl SandboxMode {
    /// The name in configuration and messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::DangerFullAccess => "danger-full-access",
        }
    }

    /// The mode as a number, for the supervisor.
    pub(crate) fn to_wire(self) -> u32 {
        match self {
            Self::ReadOnly => 1,
            Self::WorkspaceWrite => 2,
            Self::DangerFullAccess => 3,
        }
    }

    /// The mode of a number; none where the number names none.
    pub(crate) fn from_wire(number: u32) -> Option<Self> {
        [Self::ReadOnly, Self::WorkspaceWrite, Self::DangerFullAccess].into_iter().find(|mode| mode.to_wire() == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_configuration() {
        for mode in [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite, SandboxMode::DangerFullAccess] {
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
            assert_eq!(SandboxMode::from_wire(mode.to_wire()), Some(mode));
        }
        assert_eq!(SandboxMode::from_wire(0), None);
    }
}
