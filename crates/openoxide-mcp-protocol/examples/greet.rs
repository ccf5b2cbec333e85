//! A tool server to try and to copy from: a plain tool, a typed one, and one that tells its progress.
//!
//! `cargo run -p openoxide-mcp-protocol --example greet`, and then the lines of the README.

use std::time::Duration;

use openoxide_mcp_protocol::protocol::{Tool, ToolCallParams, ToolCallResult, ToolsListResult};
use openoxide_mcp_protocol::server::{CallContext, Eras, McpHandler, ServerInfo, serve};
use openoxide_mcp_protocol::transport::StdioTransport;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct EchoArgs {
    /// What to say back.
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct GreetArgs {
    /// Whom to greet.
    name: String,
    /// How many times, at most 100; once by default.
    times: Option<u8>,
}

struct Greet;

impl McpHandler for Greet {
    async fn tools_list(&self) -> anyhow::Result<ToolsListResult> {
        let tools = vec![
            Tool::typed::<EchoArgs>("echo", "Says the message back."),
            Tool::typed::<GreetArgs>("greet", "Greets somebody, slowly, and tells how far it has come."),
        ];
        Ok(ToolsListResult { tools })
    }

    async fn tools_call(&self, params: ToolCallParams) -> anyhow::Result<ToolCallResult> {
        self.tools_call_with_context(params, CallContext::detached()).await
    }

    async fn tools_call_with_context(
        &self,
        params: ToolCallParams,
        context: CallContext,
    ) -> anyhow::Result<ToolCallResult> {
        match params.name.as_str() {
            "echo" => Ok(ToolCallResult::text(params.arguments_as::<EchoArgs>()?.message)),
            "greet" => greet(params.arguments_as()?, &context).await,
            other => Ok(ToolCallResult::unknown_tool(other)),
        }
    }

    fn info(&self) -> ServerInfo {
        ServerInfo::new("greet", env!("CARGO_PKG_VERSION")).with_instructions("Greet people with `greet`.")
    }

    fn eras(&self) -> Eras {
        Eras::All
    }
}

async fn greet(GreetArgs { name, times }: GreetArgs, context: &CallContext) -> anyhow::Result<ToolCallResult> {
    let times = times.unwrap_or(1);
    if !(1..=100).contains(&times) {
        return Ok(ToolCallResult::error(format!("times is {times}; it must be 1 to 100")));
    }
    for time in 1..=times {
        context.progress(f64::from(time), Some(f64::from(times)), Some("greeting"));
        let pause = tokio::time::sleep(Duration::from_millis(20));
        if context.unless_cancelled(pause).await.is_none() {
            return Ok(ToolCallResult::error("cancelled"));
        }
    }
    Ok(ToolCallResult::text(vec![format!("Hello, {name}!"); times.into()].join("\n")))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    serve(StdioTransport::new(), &Greet).await
}
