//! One `tools/call`: from its parameters to the runner that answers it.

mod begin;

pub(crate) use begin::begin;
pub(crate) use binding::CallBinding;

mod binding;
