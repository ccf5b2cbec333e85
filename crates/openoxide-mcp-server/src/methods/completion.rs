//! `completion/complete` (MCP 2026-07-28, server/utilities/completion): nothing here is completed.

use serde_json::{Value, json};

use super::{Eras, Method};
use crate::connection::Request;

pub(crate) struct Complete;

#[derive(serde::Deserialize)]
pub(crate) struct Params {
    #[serde(rename = "ref")]
    _reference: Value,
    #[serde(rename = "argument")]
    _argument: Value,
}

impl Method for Complete {
    const NAME: &'static str = "completion/complete";
    const ERAS: Eras = Eras::Both;
    type Params = Params;

    fn answer(request: Request<'_>, _: Params) {
        request.answer(Ok(json!({ "completion": { "values": [], "total": 0, "hasMore": false } })));
    }
}
