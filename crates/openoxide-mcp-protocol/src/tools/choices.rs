//! The words of the enums among the tools' arguments.

use schemars::JsonSchema;
use serde::Deserialize;

/// A word of an enum.
pub(super) trait Word: Copy {
    /// The word.
    fn as_str(self) -> &'static str;
}

/// How far commands may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum SandboxChoice {
    /// They write nothing.
    ReadOnly,
    /// They write in cwd and the temporary directories.
    WorkspaceWrite,
    /// Nothing confines them.
    DangerFullAccess,
}

impl SandboxChoice {
    /// All, the strictest first. The length is that of the enum as long as `DangerFullAccess` is its last.
    pub const ALL: [Self; Self::DangerFullAccess as usize + 1] =
        [Self::ReadOnly, Self::WorkspaceWrite, Self::DangerFullAccess];
}

impl Word for SandboxChoice {
    fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::DangerFullAccess => "danger-full-access",
        }
    }
}

/// When somebody is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum ApprovalChoice {
    /// Before each patch and each command that is not known to only read.
    Untrusted,
    /// When the agent asks to leave the sandbox.
    OnRequest,
    /// When the sandbox has stopped a command.
    OnFailure,
    /// Never.
    Never,
}

impl ApprovalChoice {
    /// All, the strictest first. The length is that of the enum as long as `Never` is its last.
    pub const ALL: [Self; Self::Never as usize + 1] = [Self::Untrusted, Self::OnRequest, Self::OnFailure, Self::Never];
}

impl Word for ApprovalChoice {
    fn as_str(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::OnRequest => "on-request",
            Self::OnFailure => "on-failure",
            Self::Never => "never",
        }
    }
}

/// Every word of a field's enum, whatever a server offers of them.
pub(super) fn vocabulary(field: &str) -> Vec<&'static str> {
    match field {
        "sandbox" => SandboxChoice::ALL.map(Word::as_str).to_vec(),
        "approval_policy" => ApprovalChoice::ALL.map(Word::as_str).to_vec(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for choice in SandboxChoice::ALL {
            assert_eq!(serde_json::from_value::<SandboxChoice>(choice.as_str().into()).unwrap(), choice);
        }
        for choice in ApprovalChoice::ALL {
            assert_eq!(serde_json::from_value::<ApprovalChoice>(choice.as_str().into()).unwrap(), choice);
        }
    }
}
