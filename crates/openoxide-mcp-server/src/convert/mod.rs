//! The only place where core's types become wire types, and back. Nothing here sends, waits for a turn or decides.

pub(crate) mod choices;
pub(crate) mod data;
pub(crate) mod event;
pub(crate) mod output;
mod patch;
pub(crate) mod question;
pub(crate) mod resources;
pub(crate) mod result;
