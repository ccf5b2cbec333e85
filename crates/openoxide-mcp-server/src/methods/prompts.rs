//! Prompts, of which there are none. Hosts ask for the list unasked, so it is answered.

use openoxide_mcp_protocol::WireError;
use serde_json::json;

use super::{Eras, Method, OnePage};
use crate::connection::Request;

/// MCP 2026-07-28, server/prompts "Listing Prompts".
pub(crate) struct List;

impl Method for List {
    const NAME: &'static str = "prompts/list";
    const ERAS: Eras = Eras::Both;
    type Params = OnePage;

    fn answer(request: Request<'_>, params: OnePage) {
        let mut result = json!({ "prompts": [] });
        if request.is_modern() {
            (result["ttlMs"], result["cacheScope"]) = (json!(0), json!("private"));
        }
        request.answer(params.check().map(|()| result));
    }
}

/// MCP 2026-07-28, server/prompts "Getting a Prompt".
pub(crate) struct Get;

#[derive(serde::Deserialize)]
pub(crate) struct Params {
    name: String,
}

impl Method for Get {
    const NAME: &'static str = "prompts/get";
    const ERAS: Eras = Eras::Both;
    type Params = Params;

    fn answer(request: Request<'_>, Params { name }: Params) {
        let message = format!("unknown prompt {name:?}; this server has no prompts");
        request.refuse(&WireError::invalid_params(message));
    }
}
