//! The checks of a sandbox, each a function of a house (`house.rs`), so that each means of confinement is held to the
//! same ones. Which means meets which check is said in `confinement.rs`, `bubblewrap.rs` and `landlock_only.rs`.

pub mod attempts;
pub mod everyday;
pub mod git;
pub mod holes;
pub mod kernel;
pub mod leftovers;
pub mod network;
pub mod outcomes;
pub mod pinned;
pub mod probes;
pub mod processes;
pub mod protected;
pub mod temporary;
pub mod work;
pub mod writes;
