//! What goes over the wire: the JSON-RPC envelope, the two eras of MCP, our tools' parameters and results, the forms
//! we ask with.
//!
//! This is the only crate that names `rmcp`, whose model types are the source of the wire shapes; what others need is
//! re-exported here. Nothing here reads, writes, waits or knows a thread: bytes and values come in, values and bytes go
//! out, and `openoxide-mcp-server` moves them.

pub mod approval_form;
pub mod apps;
mod era;
mod error;
mod incoming;
mod line;
mod methods;
pub mod request_state;
mod result;
pub mod tasks;
pub mod tools;

pub use era::{
    ClientFacts, Era, LEGACY_LATEST, LogLevel, MODERN, RequestMeta, SUPPORTED_VERSIONS, TraceContext, meta_keys,
    negotiate_legacy, supports_form_elicitation,
};
pub use error::{code, missing_capability, unsupported_version};
pub use incoming::{Incoming, Message};
pub use line::{notification, parse_line, request, response};
pub use methods::{Cacheable, parse_params};
pub use methods::{
    CallToolParams, CancelledParams, InitializeParams, LogMessage, ProgressMessage, ToolsPage, discover_result,
    initialize_result,
};
pub use openoxide_rpc::{Envelope, EnvelopeError, Outcome, RequestId, RpcError as WireError, salvage_id};
pub use result::{
    CallMeta, CallStatus, DenialReport, FileDiff, ToolOutput, UsageReport, complete, cut_diff, input_required,
    room_beside, tool_error, tool_result,
};
pub use rmcp::model::{ClientCapabilities, Implementation, ProgressToken, ProtocolVersion, Resource, Tool};
