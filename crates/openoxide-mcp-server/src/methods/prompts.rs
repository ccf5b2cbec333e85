//! Prompts (MCP 2026-07-28, server/prompts). Hosts ask for the list unasked, so it is answered where there are none.

use openoxide_mcp_protocol::{CallToolParams, Era};
use serde_json::json;

use super::{Eras, Method, OnePage};
use crate::backend::{CallKind, List as Lists};
use crate::call;
use crate::connection::Request;

/// MCP 2026-07-28, server/prompts "Listing Prompts".
pub(crate) struct List;

impl Method for List {
    const NAME: &'static str = "prompts/list";
    const ERAS: Eras = Eras::Both;
    type Params = OnePage;

    fn answer(request: Request<'_>, params: OnePage) {
        if request.era == Era::Legacy {
            request.connection.listed(Lists::Prompts);
        }
        let mut result = json!({ "prompts": request.connection.server.backend.prompts() });
        if request.is_modern() {
            (result["ttlMs"], result["cacheScope"]) = (json!(0), json!("private"));
        }
        request.answer(params.check().map(|()| result));
    }
}

/// MCP 2026-07-28, server/prompts "Getting a Prompt".
pub(crate) struct Get;

impl Method for Get {
    const NAME: &'static str = "prompts/get";
    const ERAS: Eras = Eras::Both;
    // They have those of a call.
    type Params = CallToolParams;

    fn answer(request: Request<'_>, params: CallToolParams) {
        call::begin(request, CallKind::Prompt, params);
    }
}
