//! Streams one model response from a provider.
//!
//! A [`ModelRequest`] goes in, a [`ModelStream`] of [`ModelEvent`]s comes out; [`Provider`] is the one face of it.
//! [`HttpProvider`] speaks the OpenAI Responses API, Chat Completions or Anthropic Messages, [`Offline`] is a rule-based
//! stand-in with no IO at all. [`ModelFacts`] and [`Preset`] say what is known of models and providers beforehand.
//! Nothing here runs a tool, keeps a thread or reads the environment: the caller does, and hands over a
//! [`ProviderConfig`].

mod catalogue;
mod cause;
mod chat;
mod config;
mod error;
mod freeform;
mod http;
mod messages;
mod offline;
mod provider;
mod remote;
mod responses;
mod secret;
mod sse;
mod types;

pub use catalogue::{FactOverrides, ModelFacts, Preset, Reasoning};
pub use cause::Cause;
pub use config::{ChatOptions, KeyHeader, ProviderConfig, WireApi};
pub use error::{ErrorKind, ModelError};
pub(crate) use freeform::Freeform;
pub use http::{HttpClient, install_crypto};
pub use offline::Offline;
pub use provider::{ModelStream, Provider};
pub use remote::HttpProvider;
/// The name [`HttpProvider`] had when Responses was the only dialect.
pub use remote::HttpProvider as Responses;
pub use secret::Secret;
pub use sse::SseError;
pub use types::{HistoryItem, ItemKind, ModelEvent, ModelRequest, Role, ToolSpec, Usage};
