//! The model providers: each streams one response of a model in its own dialect.
//!
//! [`HttpProvider`] speaks the OpenAI Responses API, Chat Completions or Anthropic Messages, [`Offline`] is a rule-based
//! stand-in with no IO at all. [`facts_of`] and [`Preset`] say what is known of models and providers beforehand. Nothing
//! here runs a tool, keeps a thread or reads the environment: the caller does, and hands over a [`ProviderConfig`].

mod catalogue;
mod cause;
mod chat;
mod config;
mod freeform;
mod http;
mod messages;
mod offline;
mod remote;
mod responses;
mod secret;
mod sse;

pub use catalogue::{MODELS_CHECKED, Preset, facts_of};
pub use config::{ChatOptions, KeyHeader, ProviderConfig, WireApi};
pub(crate) use freeform::Freeform;
pub use http::{HttpClient, install_crypto};
pub use offline::Offline;
pub(crate) use openoxide_llm::{
    Carried, Cause, FactOverrides, HistoryItem, ItemKind, ModelError, ModelEvent, ModelFacts, ModelRequest,
    ModelStream, Provider, Reasoning, ReasoningChoice, Role, ToolSpec, Unfinished, Usage,
};
pub use remote::{HttpProvider, ModelList};
pub use secret::Secret;
pub(crate) use sse::SseError;
