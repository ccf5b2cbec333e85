//! The wire of MCP Apps (`io.modelcontextprotocol/ui`, 2026-01-26): which page shows a tool's results, and the page as a
//! resource. A host that does not know the extension takes no notice of either.

use serde_json::{Map, Value, json};

/// The name under which both sides declare the extension.
pub const UI_EXTENSION: &str = "io.modelcontextprotocol/ui";
/// The page that shows what a turn did.
pub const REVIEW_URI: &str = "ui://openoxide/review";
/// What hosts know a page by.
const PAGE: &str = "text/html;profile=mcp-app";

/// The `_meta` of a tool whose results the page shows. The page calls no tools, so none is for it.
pub(crate) fn tool_meta() -> Map<String, Value> {
    let ui = json!({ "resourceUri": REVIEW_URI, "visibility": ["model"] });
    // The flat key is what hosts read before the nested one was settled.
    Map::from_iter([("ui".to_owned(), ui), ("ui/resourceUri".to_owned(), json!(REVIEW_URI))])
}

/// The answer to `resources/read` of the page. It may reach nothing, and copy to the clipboard.
pub fn review_resource(html: &str) -> Value {
    let nothing = json!({ "connectDomains": [], "resourceDomains": [], "frameDomains": [], "baseUriDomains": [] });
    let ui = json!({ "csp": nothing, "permissions": { "clipboardWrite": {} }, "prefersBorder": true });
    json!({ "contents": [{ "uri": REVIEW_URI, "mimeType": PAGE, "text": html, "_meta": { "ui": ui } }] })
}
