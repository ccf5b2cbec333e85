//! Resources: a text, an image, one that can be watched, and a template.

use openoxide_mcp_protocol::{Era, WireError, resource_not_found};
use serde_json::{Value, json};

use crate::content::PNG;

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
const WATCHED: &str = "test://watched-resource";

/// Those that have an address of their own.
pub(crate) fn list() -> Value {
    json!([
        { "uri": TEXT, "name": "static-text", "mimeType": "text/plain" },
        { "uri": BINARY, "name": "static-binary", "mimeType": "image/png" },
        { "uri": WATCHED, "name": "watched-resource", "mimeType": "text/plain" },
    ])
}

/// Those that have many.
pub(crate) fn templates() -> Value {
    json!([{ "uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json" }])
}

/// One resource's contents.
pub(crate) fn read(uri: &str, era: Era) -> Result<Value, WireError> {
    let text = |text: &str| Ok(json!({ "uri": uri, "mimeType": "text/plain", "text": text }));
    match uri {
        TEXT => text("A text that stays as it is."),
        WATCHED => text("A text to watch."),
        BINARY => Ok(json!({ "uri": uri, "mimeType": "image/png", "blob": PNG })),
        _ => match uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data")) {
            Some(id) => {
                Ok(json!({ "uri": uri, "mimeType": "application/json", "text": json!({ "id": id }).to_string() }))
            }
            None => Err(resource_not_found(uri, era, "no such resource")),
        },
    }
}
