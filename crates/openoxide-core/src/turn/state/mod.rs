//! What happened -> what to do next, for one turn. No IO, no clock, no task: inputs come through [`TurnState::handle`],
//! actions go out in the order they must be performed, and the driver beside this does both.
//!
//! The model's response, steering and the end of a turn are in `machine`; what becomes of the calls of a response is in
//! `calls`; the words for what happens and what is to be done are in `turn/step.rs`.

mod calls;
mod data;
mod goes_on;
mod machine;

pub(crate) use self::data::{Budget, Outcome, SummedUp, TurnState};
