//! The revisions of MCP, the two eras they fall into, and what modern results carry beside their content.

use openoxide_rpc::RpcError;
use serde::Serialize;
use serde_json::{Value, json};

/// The modern revision.
pub const MODERN: &str = "2026-07-28";
/// The newest revision that `initialize` can agree on.
pub const LEGACY_LATEST: &str = "2025-11-25";
/// Every revision served, newest first.
pub const SUPPORTED_VERSIONS: [&str; 5] = [MODERN, LEGACY_LATEST, "2025-06-18", "2025-03-26", "2024-11-05"];

/// `_meta` keys of the specification and of ours.
pub mod meta_keys {
    /// Protocol version of a modern request.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// Capabilities of a modern request's sender.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// Name and version of a modern request's sender.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// Least severe log level a modern request wants.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// Our name and version, in modern results.
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// Ties a notification to its `subscriptions/listen`.
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
    /// Machine-readable details of an approval question.
    pub const APPROVAL: &str = "openoxide/approval";
    /// The turn behind a result: its id, its model, tokens and time.
    pub const TURN: &str = "openoxide/turn";
    /// How Claude Code shows a question: `{title, displayName, description}`.
    pub const PERMISSION_DISPLAY: &str = "anthropic/permissionDisplay";
    /// Words by which Claude Code's search for tools finds one.
    pub const SEARCH_HINT: &str = "anthropic/searchHint";
    /// Whether Claude Code gives a tool to its model without a search.
    pub const ALWAYS_LOAD: &str = "anthropic/alwaysLoad";
    /// Characters of a result that Claude Code gives to its model.
    pub const MAX_RESULT_SIZE: &str = "anthropic/maxResultSizeChars";
}

/// The version `initialize` answers: the client's own where it is a served legacy one, else the newest legacy one.
pub fn negotiate_legacy(requested: &str) -> &'static str {
    SUPPORTED_VERSIONS[1..].iter().find(|version| **version == requested).copied().unwrap_or(LEGACY_LATEST)
}

/// The era of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2024-11-05 to 2025-11-25, after `initialize`.
    Legacy,
    /// 2026-07-28.
    Modern,
}

impl Era {
    /// The era of a request by what its `_meta` names: a version, and whether there are capabilities.
    ///
    /// # Errors
    /// -32602 where only one of the two is there, -32022 where a version is named that is not served per request.
    pub fn named(version: Option<&str>, has_capabilities: bool) -> Result<Self, RpcError> {
        match version {
            None if has_capabilities => Err(missing(meta_keys::PROTOCOL_VERSION)),
            None => Ok(Self::Legacy),
            Some(version) if version != MODERN => Err(crate::unsupported_version(version)),
            Some(_) if has_capabilities => Ok(Self::Modern),
            Some(_) => Err(missing(meta_keys::CLIENT_CAPABILITIES)),
        }
    }
}

fn missing(key: &str) -> RpcError {
    RpcError::invalid_params(format!("params._meta[\"{key}\"] is missing; every {MODERN} request carries it"))
        .with_data(json!({ "missing": key }))
}

/// What modern cacheable results carry (MCP 2026-07-28 caching).
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cacheable {
    /// Milliseconds for which a client may keep the result.
    pub(crate) ttl_ms: u64,
    /// Whether it may be shared with others.
    pub(crate) cache_scope: &'static str,
}

/// Adds what every modern result carries, where it is not there yet: `resultType` and the server's identity.
pub(crate) fn complete_modern(result: &mut Value, server_info: Value) {
    let Some(fields) = result.as_object_mut() else { return };
    if !fields.contains_key("resultType") {
        fields.insert("resultType".to_owned(), json!("complete"));
    }
    let meta = fields.entry("_meta").or_insert_with(|| json!({}));
    if let Some(meta) = meta.as_object_mut() {
        meta.insert(meta_keys::SERVER_INFO.to_owned(), server_info);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initialize_never_echoes_what_is_not_served() {
        assert_eq!(negotiate_legacy("2024-11-05"), "2024-11-05");
        assert_eq!(negotiate_legacy("1999-01-01"), LEGACY_LATEST);
        assert_eq!(negotiate_legacy(MODERN), LEGACY_LATEST);
    }
}
