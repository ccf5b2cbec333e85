//! What every request of a thread begins with: instructions, tools and how thinking is asked for. It is the same from the first
//! request on, which providers cache and bind reasoning to. A digest of it stands in the rollout, so that a program that has another one
//! knows that what was bound to the old one is of no use any more.

use std::fmt::Write as _;

use openoxide_llm::{Provider, ToolSpec};
use sha2::{Digest as _, Sha256};

use crate::tools::EditStyle;
use crate::{ThreadConfig, instructions};

/// The instructions of a thread: those of its caller, or the built-in ones for its model.
pub(super) fn instructions_of(config: &ThreadConfig) -> &str {
    let built_in = || match EditStyle::of(&config.model) {
        EditStyle::Patch => instructions::FOR_PATCHES,
        EditStyle::Edit => instructions::FOR_EDITS,
    };
    config.base_instructions.as_deref().unwrap_or_else(built_in)
}

/// The digest of what the requests of a thread begin with, in hexadecimal.
pub(super) fn digest(config: &ThreadConfig, tools: &[ToolSpec], provider: &dyn Provider) -> String {
    let mut hasher = Sha256::new();
    // Each part behind its length, so that no two beginnings run together to the same bytes.
    let mut add = |part: &str| {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    };
    add(instructions_of(config));
    for tool in tools {
        let (name, description, takes) = match tool {
            ToolSpec::Function { name, description, parameters } => (name, description, parameters.to_string()),
            ToolSpec::Freeform { name, description, grammar } => (name, description, grammar.clone()),
        };
        [name, description, &takes].into_iter().for_each(|part| add(part));
    }
    add(provider.thinking(&config.model, config.reasoning()));
    let mut text = String::with_capacity(64);
    for byte in hasher.finalize() {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
