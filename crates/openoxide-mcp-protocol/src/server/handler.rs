//! What the author of a tool server writes: [`McpHandler`], and what it says of itself.

use serde_json::{Value, json};

use super::CallContext;
use crate::negotiate_legacy;
use crate::protocol::{ToolCallParams, ToolCallResult, ToolsListResult};

/// The tools of a server. Two methods are to be written, [`tools_list`](Self::tools_list) and
/// [`tools_call`](Self::tools_call); the others have defaults.
///
/// Write the methods as `async fn`. The trait declares them as `impl Future + Send`, which is the same with the promise that
/// the server may run on any thread; no macro and no box is needed.
///
/// Several calls run at the same time, on one task: what computes for long or blocks is moved to a thread
/// (`tokio::task::spawn_blocking`) and awaited. An error answers the request with -32000, a panic with -32603, and the
/// server goes on. What goes wrong in a tool's own field is no error but a [`ToolCallResult::error`], which the model reads.
pub trait McpHandler: Send + Sync {
    /// Answers `initialize`. By default with the agreed revision, the capability `tools` and [`info`](Self::info).
    fn initialize(&self, params: Value) -> impl Future<Output = anyhow::Result<Value>> + Send {
        std::future::ready(Ok(self.info().initialize_result(&params)))
    }

    /// All tools.
    fn tools_list(&self) -> impl Future<Output = anyhow::Result<ToolsListResult>> + Send;

    /// Calls a tool.
    fn tools_call(&self, params: ToolCallParams) -> impl Future<Output = anyhow::Result<ToolCallResult>> + Send;

    /// Calls a tool that tells its progress or stops when its call is cancelled. By default the context is dropped and
    /// [`tools_call`](Self::tools_call) is called, which runs to its end; a cancelled call is not answered either way.
    fn tools_call_with_context(
        &self,
        params: ToolCallParams,
        context: CallContext,
    ) -> impl Future<Output = anyhow::Result<ToolCallResult>> + Send {
        drop(context);
        self.tools_call(params)
    }

    /// What the server says of itself. By default the name and version of this library.
    fn info(&self) -> ServerInfo {
        ServerInfo::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    /// The eras of MCP that are spoken. By default the one with `initialize`, which every client speaks.
    fn eras(&self) -> Eras {
        Eras::Legacy
    }
}

/// The eras of MCP that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Eras {
    /// 2024-11-05 to 2025-11-25, which begin with `initialize`.
    #[default]
    Legacy,
    /// These, and 2026-07-28, whose requests name their revision in `_meta` and begin with `server/discover`.
    All,
}

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// For programs.
    pub name: String,
    /// Of the server.
    pub version: String,
    /// How the tools belong together, for the model.
    pub instructions: Option<String>,
}

impl ServerInfo {
    /// A name and a version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), instructions: None }
    }

    /// The same with instructions for the model.
    #[must_use]
    pub fn with_instructions(self, instructions: impl Into<String>) -> Self {
        Self { instructions: Some(instructions.into()), ..self }
    }

    pub(super) fn implementation(&self) -> Value {
        json!({ "name": self.name, "version": self.version })
    }

    /// What both handshakes say.
    pub(super) fn add_to(&self, mut result: Value) -> Value {
        result["capabilities"] = json!({ "tools": {} });
        if let Some(instructions) = &self.instructions {
            result["instructions"] = json!(instructions);
        }
        result
    }

    /// The answer to `initialize`: the revision that was asked for where it is served, else the newest.
    fn initialize_result(&self, params: &Value) -> Value {
        let version = negotiate_legacy(params["protocolVersion"].as_str().unwrap_or_default());
        self.add_to(json!({ "protocolVersion": version, "serverInfo": self.implementation() }))
    }
}
