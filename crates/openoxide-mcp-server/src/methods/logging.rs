//! `logging/setLevel` (MCP 2025-11-25, server/utilities/logging). A modern request says its level in `_meta`.

use openoxide_mcp_protocol::LogLevel;
use serde_json::json;

use super::{Eras, Method};
use crate::connection::Request;

pub(crate) struct SetLevel;

#[derive(serde::Deserialize)]
pub(crate) struct Params {
    level: LogLevel,
}

impl Method for SetLevel {
    const NAME: &'static str = "logging/setLevel";
    const ERAS: Eras = Eras::Legacy;
    type Params = Params;

    fn answer(request: Request<'_>, params: Params) {
        request.connection.log_level.set(params.level);
        request.answer(Ok(json!({})));
    }
}
