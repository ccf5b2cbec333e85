//! How questions of a turn are settled. How they are worded and what an answer means is in [`crate::convert::question`].

use std::sync::Arc;

use openoxide_core::{ApprovalRequest, Decider, Decision, DenialReason, Op, Thread};

use crate::backend::Settlement;
use crate::convert::question::{deny, from_wire};

/// What becomes of a question where no attached caller can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApprovalStrategy {
    /// What stays within the sandbox is done; what would leave it, or is not confined at all, is denied.
    #[default]
    AutoWithinPolicy,
    /// Every question is denied.
    DenyOnApproval,
}

impl ApprovalStrategy {
    /// Its name in rollouts.
    fn name(self) -> &'static str {
        match self {
            Self::AutoWithinPolicy => "auto-within-policy",
            Self::DenyOnApproval => "deny-on-approval",
        }
    }
}

/// Gives core what became of a question. One that comes too late changes nothing. Returns whether it has settled it.
pub(super) fn settle(
    thread: &Arc<Thread>,
    request: &ApprovalRequest,
    how: Settlement<'_>,
    client: Option<&str>,
    strategy: ApprovalStrategy,
) -> bool {
    let client = || {
        let name = client.map(str::to_owned);
        match thread.is_faster_than_a_person(request.id) {
            true => Decider::Host(name),
            false => Decider::Client(name),
        }
    };
    let (decision, by) = match how {
        Settlement::Answer(answer) => (from_wire(&request.action, answer), client()),
        Settlement::Error => (deny(DenialReason::Error), client()),
        Settlement::Disconnected => (deny(DenialReason::Disconnected), client()),
        Settlement::NobodyAskable => {
            let decision = match strategy {
                ApprovalStrategy::AutoWithinPolicy if request.confined => Decision::Approve,
                _ => deny(DenialReason::NotAskable),
            };
            (decision, Decider::Strategy(strategy.name()))
        }
    };
    let settled = thread.submit(Op::Approval { id: request.id, decision, by });
    if let Err(error) = &settled {
        tracing::debug!(%error, "a late decision is ignored");
    }
    settled.is_ok()
}
