//! A turn: the state machine that decides ([`state`]), the words it speaks ([`step`]), and the driver that performs what it decided ([`driver`]).

pub(crate) mod driver;
mod repair;
pub(crate) mod state;
#[cfg(test)]
mod state_tests;
pub(crate) mod step;
