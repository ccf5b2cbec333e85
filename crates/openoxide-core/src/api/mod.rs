//! What core is asked and what it tells, as plain types: ids, operations and events, approvals, configuration, errors.
//! Every floor speaks them; nothing here does anything.

mod approval;
mod ceiling;
mod config;
mod error;
mod holder;
mod ids;
mod interruption;
mod profile;
mod protocol;
mod rule;
mod thread_config;
mod widening;

pub use self::approval::*;
pub use self::ceiling::Ceiling;
pub use self::config::{Config, DEFAULT_SHARE_PERCENT, Limits};
pub use self::error::{CoreError, ErrorKind};
pub use self::holder::Holder;
pub use self::ids::{ApprovalId, SteerId, ThreadId, TurnId};
pub use self::interruption::Interruption;
pub use self::profile::{Profile, Profiles};
pub use self::protocol::*;
pub use self::rule::{CommandRule, RuleDecision, Verdict};
pub(crate) use self::thread_config::Owner;
pub use self::thread_config::{ApprovalPolicy, ThreadConfig};
pub use self::widening::Widening;
