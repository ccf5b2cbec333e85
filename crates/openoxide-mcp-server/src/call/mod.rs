//! One `tools/call`: from its parameters to the runner that answers it.

mod begin;
mod binding;
pub(crate) mod follow;
pub(crate) mod report;
pub(crate) mod runner;
pub(crate) mod submit;

pub(crate) use begin::begin;
pub(crate) use binding::CallBinding;
