//! MCP messages and a server of tools, for other people's programs and for OpenOxide's own.
//!
#![cfg_attr(feature = "server", doc = include_str!("../README.md"))]
#![cfg_attr(
    feature = "agent",
    doc = "

# The messages of the agent

With the feature `agent`: the two eras of MCP, the parameters and results of OpenOxide's tools, and the forms that it asks
with. This is the only crate that names `rmcp`, whose model types are the source of the wire shapes; what others need is
re-exported here. None of this reads, writes, waits or knows a thread: `openoxide-mcp-server` moves the bytes."
)]

mod error;
mod line;
mod revision;
mod schema;

#[cfg(feature = "server")]
pub mod protocol;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod transport;

#[cfg(feature = "agent")]
pub mod approval_form;
#[cfg(feature = "agent")]
pub mod apps;
#[cfg(feature = "agent")]
mod era;
#[cfg(feature = "agent")]
mod incoming;
#[cfg(feature = "agent")]
mod methods;
#[cfg(feature = "agent")]
pub mod request_state;
#[cfg(feature = "agent")]
mod result;
#[cfg(feature = "agent")]
pub mod tasks;
#[cfg(feature = "agent")]
pub mod tools;
#[cfg(feature = "agent")]
mod unique;

#[cfg(feature = "agent")]
pub use era::{Ask, AskKind, ClientFacts, LogLevel, RequestMeta, TraceContext};
pub use error::{code, missing_capability, resource_not_found, unsupported_version};
#[cfg(feature = "agent")]
pub use incoming::{Incoming, Message};
pub use line::{notification, parse_line, request, response};
#[cfg(feature = "agent")]
pub use methods::{
    CallToolParams, CancelledParams, Description, InitializeParams, LogMessage, ProgressMessage, ToolsPage,
    agent_description, discover_result, initialize_result, parse_params,
};
pub use openoxide_rpc::{Envelope, EnvelopeError, Outcome, RequestId, RpcError as WireError, salvage_id};
#[cfg(feature = "agent")]
pub use result::{
    CallMeta, CallStatus, DenialReport, FileDiff, ToolOutput, TurnReport, UsageReport, complete, cut_diff, cut_to,
    input_required, room_beside, tool_error, tool_result,
};
pub use revision::{Cacheable, Era, LEGACY_LATEST, MODERN, SUPPORTED_VERSIONS, meta_keys, negotiate_legacy};
#[cfg(feature = "agent")]
pub use rmcp::model::{
    ClientCapabilities, Implementation, ProgressToken, ProtocolVersion, Resource, ServerCapabilities, Tool,
};

#[cfg(feature = "agent")]
pub use unique::parse_unique;
