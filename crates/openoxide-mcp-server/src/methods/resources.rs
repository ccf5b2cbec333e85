//! Threads as resources (MCP 2026-07-28, server/resources). What they hold is in [`crate::convert::resources`].

use std::sync::Arc;

use openoxide_mcp_protocol::{Era, WireError};
use serde_json::{Value, json};

use super::{Eras, Method, OnePage};
use crate::connection::Request;
use crate::convert::resources;

/// Threads grow, and are nobody else's business.
fn uncached(mut result: Value, is_modern: bool) -> Value {
    if is_modern {
        (result["ttlMs"], result["cacheScope"]) = (json!(0), json!("private"));
    }
    result
}

/// MCP 2026-07-28, server/resources "Listing Resources".
pub(crate) struct List;

#[derive(serde::Deserialize)]
pub(crate) struct Page {
    cursor: Option<String>,
}

impl Method for List {
    const NAME: &'static str = "resources/list";
    const ERAS: Eras = Eras::Both;
    type Params = Page;

    fn answer(request: Request<'_>, Page { cursor }: Page) {
        if request.era == Era::Legacy {
            request.connection.watch();
            request.connection.subscriptions.listed();
        }
        let (server, principal) = (Arc::clone(&request.connection.server), request.connection.principal.clone());
        let is_modern = request.is_modern();
        request.answer_in_background(move || {
            resources::list(&server.manager, &principal, cursor.as_deref()).map(|page| uncached(page, is_modern))
        });
    }
}

#[derive(serde::Deserialize)]
pub(crate) struct One {
    uri: String,
}

/// MCP 2026-07-28, server/resources "Reading Resources".
pub(crate) struct Read;

impl Method for Read {
    const NAME: &'static str = "resources/read";
    const ERAS: Eras = Eras::Both;
    type Params = One;

    fn answer(request: Request<'_>, One { uri }: One) {
        let (server, principal) = (Arc::clone(&request.connection.server), request.connection.principal.clone());
        let is_modern = request.is_modern();
        request.answer_in_background(move || {
            resources::read(&server.manager, &principal, &uri, is_modern).map(|read| uncached(read, is_modern))
        });
    }
}

/// MCP 2026-07-28, server/resources "Resource Templates".
pub(crate) struct ListTemplates;

impl Method for ListTemplates {
    const NAME: &'static str = "resources/templates/list";
    const ERAS: Eras = Eras::Both;
    type Params = OnePage;

    fn answer(request: Request<'_>, params: OnePage) {
        let result = json!({ "resourceTemplates": resources::templates() });
        let is_modern = request.is_modern();
        request.answer(params.check().map(|()| uncached(result, is_modern)));
    }
}

/// MCP 2025-11-25, server/resources "Subscriptions".
pub(crate) struct Subscribe;

impl Method for Subscribe {
    const NAME: &'static str = "resources/subscribe";
    const ERAS: Eras = Eras::Legacy;
    type Params = One;

    fn answer(request: Request<'_>, One { uri }: One) {
        request.connection.watch();
        let outcome = request.connection.subscriptions.subscribe(uri);
        request.answer(outcome.map(|()| json!({})));
    }
}

/// MCP 2025-11-25, server/resources "Subscriptions".
pub(crate) struct Unsubscribe;

impl Method for Unsubscribe {
    const NAME: &'static str = "resources/unsubscribe";
    const ERAS: Eras = Eras::Legacy;
    type Params = One;

    fn answer(request: Request<'_>, One { uri }: One) {
        request.connection.subscriptions.unsubscribe(&uri);
        request.answer(Ok::<_, WireError>(json!({})));
    }
}
