//! The means by which a command can be confined, in the order in which they are tried. Which of them works here
//! is found out by the launcher (`launcher.rs`), which asks the supervisor for one of them at a time.

use crate::SandboxMode;

/// A means of confinement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// Namespaces that this program makes itself, Landlock and a filter of system calls.
    Namespaces,
    /// The same, with the namespaces made by `/usr/bin/bwrap`, where only that may make them.
    Bubblewrap,
    /// Landlock and a filter of system calls alone. It cannot make exceptions beneath a writable directory, so it is
    /// enough for `read-only` only.
    Landlock,
    /// The sandbox of macOS, by a profile.
    Seatbelt,
}

impl Backend {
    /// All of this system, the best first.
    #[cfg(not(target_os = "macos"))]
    pub(crate) const ALL: [Self; 3] = [Self::Namespaces, Self::Bubblewrap, Self::Landlock];
    /// All of this system, the best first.
    #[cfg(target_os = "macos")]
    pub(crate) const ALL: [Self; 1] = [Self::Seatbelt];

    /// The name in messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
            Self::Seatbelt => "seatbelt",
        }
    }

    /// Whether the mode can be held by it.
    #[must_use]
    pub fn can_hold(self, mode: SandboxMode) -> bool {
        self != Self::Landlock || mode != SandboxMode::WorkspaceWrite
    }

    /// What it does not do of what the first choice does, for the operator; none where nothing is missing.
    #[must_use]
    pub fn leaves_open(self) -> Option<&'static str> {
        match self {
            Self::Namespaces => None,
            Self::Bubblewrap => Some(
                "a link of a protected name can be replaced, though what it leads to is not written; where more \
                     than about 1,400 nested repositories lie in what is written, commands are refused, and with many of them \
                     they take seconds to start",
            ),
            Self::Landlock => Some(
                "commands see the host's processes with their command lines, and its network interfaces; names in \
                 hidden directories can be listed",
            ),
            Self::Seatbelt => Some("there is no loopback, and what a `.git` file points to can be written"),
        }
    }

    pub(crate) fn to_wire(self) -> u32 {
        match self {
            Self::Namespaces => 1,
            Self::Bubblewrap => 2,
            Self::Landlock => 3,
            Self::Seatbelt => 4,
        }
    }

    pub(crate) fn from_wire(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|backend| backend.to_wire() == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_one_each() {
        for backend in Backend::ALL {
            assert_eq!(Backend::from_wire(backend.to_wire()), Some(backend));
        }
        assert_eq!(Backend::from_wire(0), None);
    }

    #[test]
    fn landlock_alone_is_no_boundary_for_writing() {
        assert!(!Backend::Landlock.can_hold(SandboxMode::WorkspaceWrite));
        assert!(Backend::Landlock.can_hold(SandboxMode::ReadOnly));
        assert!(Backend::Bubblewrap.can_hold(SandboxMode::WorkspaceWrite));
    }
}
