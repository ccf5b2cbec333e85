//! The handshakes: `initialize` and `ping` of the legacy era, `server/discover` of the modern one.

use openoxide_mcp_protocol::{
    ClientFacts, InitializeParams, WireError, discover_result, initialize_result, negotiate_legacy,
};
use serde_json::{Value, json};

use super::{Eras, Ignored, Method};
use crate::connection::{Agreed, Request};

/// MCP 2025-11-25, basic/lifecycle "Initialization".
pub(crate) struct Initialize;

impl Method for Initialize {
    const NAME: &'static str = "initialize";
    const ERAS: Eras = Eras::Legacy;
    const IS_FIRST: bool = true;
    // Read below: a second one is refused whatever its parameters are.
    type Params = Box<serde_json::value::RawValue>;

    fn answer(request: Request<'_>, params: Self::Params) {
        let outcome = agree(request.agreed, &params);
        request.responder.answer(outcome.as_ref());
    }
}

fn agree(agreed: &mut Option<Agreed>, params: &serde_json::value::RawValue) -> Result<Value, WireError> {
    if agreed.is_some() {
        return Err(WireError::invalid_request("initialize was sent before; it is sent once on a connection"));
    }
    let params = InitializeParams::parse(Some(params))?;
    let version = negotiate_legacy(&params.protocol_version);
    let client = ClientFacts::new(&params.capabilities, Some(&params.client_info));
    tracing::info!(client = client.name, version, "initialized");
    *agreed = Some(Agreed { version, client });
    Ok(serde_json::to_value(initialize_result(version)).expect("wire types serialize"))
}

/// MCP 2025-11-25, basic/utilities/ping.
pub(crate) struct Ping;

impl Method for Ping {
    const NAME: &'static str = "ping";
    const ERAS: Eras = Eras::Legacy;
    const IS_FIRST: bool = true;
    type Params = Ignored;

    fn answer(request: Request<'_>, _: Ignored) {
        request.answer(Ok(json!({})));
    }
}

/// MCP 2026-07-28, server/discover.
pub(crate) struct Discover;

impl Method for Discover {
    const NAME: &'static str = "server/discover";
    const ERAS: Eras = Eras::Modern;
    type Params = Ignored;

    fn answer(request: Request<'_>, _: Ignored) {
        request.answer(Ok(serde_json::to_value(discover_result()).expect("wire types serialize")));
    }
}
