//! The same words in two vocabularies: the wire's choices and core's modes and policies; and what a server offers of them.

use openoxide_core::{ApprovalPolicy, Config, SandboxMode};
use openoxide_mcp_protocol::tools::{ApprovalChoice, Choices, SandboxChoice};

/// What callers of a server may ask for.
pub(crate) fn of(config: &Config) -> Choices {
    let defaults = config.thread_defaults();
    Choices {
        sandboxes: config.ceiling.sandboxes().iter().copied().map(to_sandbox_choice).collect(),
        default_sandbox: to_sandbox_choice(defaults.sandbox),
        policies: config.ceiling.policies().iter().copied().map(to_approval_choice).collect(),
        default_policy: to_approval_choice(defaults.approval_policy),
    }
}

fn to_sandbox_choice(mode: SandboxMode) -> SandboxChoice {
    match mode {
        SandboxMode::ReadOnly => SandboxChoice::ReadOnly,
        SandboxMode::WorkspaceWrite => SandboxChoice::WorkspaceWrite,
        SandboxMode::DangerFullAccess => SandboxChoice::DangerFullAccess,
    }
}

/// The mode that a caller chose.
pub(crate) fn sandbox_mode(choice: SandboxChoice) -> SandboxMode {
    match choice {
        SandboxChoice::ReadOnly => SandboxMode::ReadOnly,
        SandboxChoice::WorkspaceWrite => SandboxMode::WorkspaceWrite,
        SandboxChoice::DangerFullAccess => SandboxMode::DangerFullAccess,
    }
}

fn to_approval_choice(policy: ApprovalPolicy) -> ApprovalChoice {
    match policy {
        ApprovalPolicy::Untrusted => ApprovalChoice::Untrusted,
        ApprovalPolicy::OnRequest => ApprovalChoice::OnRequest,
        ApprovalPolicy::OnFailure => ApprovalChoice::OnFailure,
        ApprovalPolicy::Never => ApprovalChoice::Never,
    }
}

/// The policy that a caller chose.
pub(crate) fn approval_policy(choice: ApprovalChoice) -> ApprovalPolicy {
    match choice {
        ApprovalChoice::Untrusted => ApprovalPolicy::Untrusted,
        ApprovalChoice::OnRequest => ApprovalPolicy::OnRequest,
        ApprovalChoice::OnFailure => ApprovalPolicy::OnFailure,
        ApprovalChoice::Never => ApprovalPolicy::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_is_the_mode_or_policy_of_its_name() {
        for choice in SandboxChoice::ALL {
            assert_eq!(to_sandbox_choice(sandbox_mode(choice)), choice);
        }
        for choice in ApprovalChoice::ALL {
            assert_eq!(to_approval_choice(approval_policy(choice)), choice);
        }
    }
}
