//! What is known beforehand: the built-in providers (`providers`) and facts about models by the beginning of their
//! names (`models`). Everything here can be overridden by configuration; nothing here calls a provider.

mod models;
mod providers;

pub use models::{MODELS_CHECKED, facts_of};
pub use providers::Preset;
