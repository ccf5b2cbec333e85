//! A turn: the state machine that decides ([`state`]), the words it speaks ([`step`]), and the driver that performs
//! what it decided ([`driver`]), one turn after the other ([`turns`]). A history that grows too long is summed up by `compact`,
//! and pictures beyond their bound give way to text (`pictures`).

mod beginning;
mod compact;
mod driver;
mod pictures;
mod repair;
pub(crate) mod state;
#[cfg(test)]
mod state_tests;
pub(crate) mod step;
pub(crate) mod turns;
mod waiting;

pub(crate) use compact::{bytes_of, estimate};
pub(crate) use pictures::{Room as PictureRoom, without_oldest as without_oldest_pictures};
pub(crate) use repair::missing_outputs;
