//! What a legacy client and the server agreed on.

use openoxide_mcp_protocol::ClientFacts;

/// What `initialize` agreed on.
pub(crate) struct Agreed {
    /// The revision.
    pub(crate) version: &'static str,
    /// Who is at the other end.
    pub(crate) client: ClientFacts,
}
