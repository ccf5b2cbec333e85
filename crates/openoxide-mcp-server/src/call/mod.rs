//! One `tools/call` or `prompts/get`: from its parameters to the runner that answers it.

mod begin;
mod binding;
mod follow;
mod runner;

pub(crate) use begin::begin;
pub(crate) use binding::CallBinding;
