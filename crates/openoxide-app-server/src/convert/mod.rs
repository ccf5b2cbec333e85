//! Core's types as those of the wire and back, and nothing else.

pub(crate) mod item;
pub(crate) mod question;
pub(crate) mod settings;
pub(crate) mod thread;
