//! A turn: the state machine that decides ([`state`]), the words it speaks ([`step`]), and the driver that performs
//! what it decided ([`driver`]). What all requests of a thread begin with is `prefix`. A history that grows too long is summed up by `compact`. What a turn needs of its thread is
//! [`TurnHost`].

mod beginning;
mod compact;
pub(crate) mod context;
mod driver;
mod host;
mod prefix;
mod repair;
mod standing;
pub(crate) mod state;
#[cfg(test)]
mod state_tests;
pub(crate) mod step;
mod waiting;

pub(crate) use self::compact::{bytes_of, estimate};
pub(crate) use self::driver::{Driver, TurnOutcome};
pub(crate) use self::host::{ContextDue, History, LastingState, StartedTurn, TurnControl, TurnHost, TurnStart};
pub(crate) use self::repair::missing_outputs;
pub(crate) use self::state::SummedUp;
