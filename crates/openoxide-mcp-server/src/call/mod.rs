//! One `tools/call`: from its parameters to the runner that answers it.

mod begin;
mod binding;
pub(crate) mod follow;
pub(crate) mod report;
pub(crate) mod runner;
mod shape;
pub(crate) mod submit;
mod turn_result;

pub(crate) use begin::begin;
pub(crate) use binding::CallBinding;
pub(crate) use shape::Shape;
