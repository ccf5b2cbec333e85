//! `completion/complete` (MCP 2026-07-28, server/utilities/completion).

use serde_json::{Value, json};

use super::{Eras, Method};
use crate::connection::Request;

pub(crate) struct Complete;

#[derive(serde::Deserialize)]
pub(crate) struct Params {
    #[serde(rename = "ref")]
    _reference: Value,
    argument: Value,
}

impl Method for Complete {
    const NAME: &'static str = "completion/complete";
    const ERAS: Eras = Eras::Both;
    type Params = Params;

    fn answer(request: Request<'_>, Params { argument, .. }: Params) {
        let values = request.connection.server.backend.complete(argument["value"].as_str().unwrap_or_default());
        let total = values.len();
        request.answer(Ok(json!({ "completion": { "values": values, "total": total, "hasMore": false } })));
    }
}
