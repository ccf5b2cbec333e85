//! A conversation with a model, in no provider's dialect, and the [`Provider`] trait.
//!
//! A [`ModelRequest`] goes in, a [`ModelStream`] of [`ModelEvent`]s comes out. Here are the types alone: nothing opens a
//! connection, reads the environment or knows a wire format. `openoxide-providers` has the providers; `openoxide-core` runs
//! turns over whatever implements the trait.

mod bound;
mod cause;
mod error;
mod facts;
mod provider;
mod types;

pub use bound::unbound;
pub use cause::Cause;
pub use error::{BoxError, ModelError};
pub use facts::{FactOverrides, ModelFacts, Reasoning};
pub use provider::{ModelStream, Provider};
pub use types::{
    Carried, HistoryItem, ItemKind, ModelEvent, ModelRequest, ReasoningChoice, Role, ToolSpec, Unfinished, Usage,
};
