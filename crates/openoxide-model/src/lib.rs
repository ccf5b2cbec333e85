//! Streams one model response from a provider.
//!
//! A [`ModelRequest`] goes in, a [`ModelStream`] of [`ModelEvent`]s comes out; [`Provider`] is the one face of it.
//! [`Responses`] speaks the OpenAI Responses API over HTTP, [`Offline`] is a rule-based stand-in with no IO at all.
//! Nothing here runs a tool, keeps a thread or reads the environment: the caller does, and hands over a
//! [`ProviderConfig`].

mod config;
mod error;
mod http;
mod offline;
mod provider;
mod responses;
mod secret;
mod sse;
mod types;

pub use config::{ProviderConfig, WireApi};
pub use error::{ErrorKind, ModelError};
pub use http::HttpClient;
pub use offline::Offline;
pub use provider::{ModelStream, Provider};
pub use responses::Responses;
pub use secret::Secret;
pub use sse::SseError;
pub use types::{HistoryItem, ItemKind, ModelEvent, ModelRequest, Role, ToolSpec, Usage};
