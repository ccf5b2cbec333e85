//! What is done for particular hosts: the shapes of Codex's tools, and how long hosts wait.

pub(crate) mod codex;
pub(crate) mod hosts;
