//! Tools (MCP 2026-07-28, server/tools): what there is, and the calls. A call is begun in [`crate::call`].

use openoxide_mcp_protocol::{Cacheable, CallToolParams, ToolsPage};

use super::{Eras, Method, OnePage};
use crate::call;
use crate::connection::Request;

pub(crate) struct List;

impl Method for List {
    const NAME: &'static str = "tools/list";
    const ERAS: Eras = Eras::Both;
    type Params = OnePage;

    fn answer(request: Request<'_>, params: OnePage) {
        let cache = request.is_modern().then_some(Cacheable::FIXED);
        let page = ToolsPage { tools: request.connection.server.tools.list(), cache };
        let page = serde_json::to_value(page).expect("wire types serialize");
        request.answer(params.check().map(|()| page));
    }
}

pub(crate) struct Call;

impl Method for Call {
    const NAME: &'static str = "tools/call";
    const ERAS: Eras = Eras::Both;
    type Params = CallToolParams;

    fn answer(request: Request<'_>, params: CallToolParams) {
        call::begin(request, params);
    }
}
