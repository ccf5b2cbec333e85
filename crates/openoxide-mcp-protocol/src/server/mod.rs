//! A server of tools: the author's [`McpHandler`], and [`serve`], which routes requests to it. Nothing here knows how the
//! messages come ([`crate::transport`]).

mod context;
mod dispatch;
mod handler;
mod serve;

pub use context::CallContext;
pub use handler::{Eras, McpHandler, ServerInfo};
pub use serve::{MAX_OPEN, serve};
