//! The sealed `requestState` of an `input_required` result (MCP 2026-07-28 multi round-trip requests).
//!
//! It is attacker-controlled input when it comes back: an HMAC binds it to the principal, the tool and the digest of
//! its arguments, and it expires. What it names is looked up again; it never decides anything by itself, which is what
//! makes an approval single use.

use std::time::Duration;

use rmcp::model::{RequestStateCodec, SealOptions};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::WireError;

/// How a state or a task names the work behind it, for a turn the ids of its thread and of itself.
pub type WorkName = Map<String, Value>;

/// What a state of ours names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParkedCall {
    /// What waits.
    #[serde(flatten)]
    pub work: WorkName,
    /// The questions that were put.
    pub approvals: Vec<String>,
}

/// Seals and opens states with one key.
pub struct StateSeal(RequestStateCodec);

impl StateSeal {
    /// A seal with a key of at least 32 random bytes.
    pub fn new(key: [u8; 32]) -> Self {
        Self(RequestStateCodec::try_new(key).expect("32 bytes are enough"))
    }

    /// Seals a state for the same call from the same principal, for `ttl`.
    pub fn seal<T: Serialize>(&self, parked: &T, binding: &Binding<'_>, ttl: Duration) -> String {
        let bound = binding.bytes();
        let options = SealOptions::new().associated_data(&bound).ttl(ttl);
        self.0.seal_json_with(parked, &options).expect("wire types serialize")
    }

    /// Opens a state that came back.
    ///
    /// # Errors
    /// -32602 where it is forged, expired, or was made for another call.
    pub fn open<T: DeserializeOwned>(&self, state: &str, binding: &Binding<'_>) -> Result<T, WireError> {
        self.0.open_json_with(state, &binding.bytes()).map_err(|error| {
            WireError::invalid_params(format!(
                "requestState is not valid for this call: {error}; send the call again without it to start anew"
            ))
        })
    }
}

/// What a state is bound to.
#[derive(Debug, Clone, Copy)]
pub struct Binding<'a> {
    /// Who may present it; on stdio the local user.
    pub principal: &'a str,
    /// The tool.
    pub tool: &'a str,
    /// Its arguments, in one canonical form.
    pub arguments: &'a str,
}

impl Binding<'_> {
    fn bytes(&self) -> Vec<u8> {
        // Lengths keep ("a", "bc") and ("ab", "c") apart.
        let mut bytes = Vec::with_capacity(self.principal.len() + self.tool.len() + self.arguments.len() + 48);
        for part in ["openoxide/1", "tools/call", self.principal, self.tool, self.arguments] {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BINDING: Binding<'_> = Binding { principal: "local", tool: "openoxide", arguments: "{}" };

    fn parked() -> ParkedCall {
        let work = Map::from_iter([("turn_id".to_owned(), Value::from("u"))]);
        ParkedCall { work, approvals: vec!["a".to_owned()] }
    }

    #[test]
    fn opens_only_what_it_sealed_for_the_same_call() {
        let seal = StateSeal::new([7; 32]);
        let state = seal.seal(&parked(), &BINDING, Duration::from_secs(60));
        assert_eq!(seal.open::<ParkedCall>(&state, &BINDING).unwrap(), parked());
        for other in [
            Binding { principal: "other", ..BINDING },
            Binding { tool: "openoxide-reply", ..BINDING },
            Binding { arguments: "{\"x\":1}", ..BINDING },
        ] {
            assert_eq!(seal.open::<ParkedCall>(&state, &other).unwrap_err().code, crate::code::INVALID_PARAMS);
        }
        assert!(StateSeal::new([8; 32]).open::<ParkedCall>(&state, &BINDING).is_err());
        let mut forged = state.into_bytes();
        let last = forged.len() - 1;
        forged[last] ^= 1;
        assert!(seal.open::<ParkedCall>(&String::from_utf8_lossy(&forged), &BINDING).is_err());
    }

    #[test]
    fn an_expired_state_is_refused() {
        let seal = StateSeal::new([7; 32]);
        let state = seal.seal(&parked(), &BINDING, Duration::ZERO);
        // The codec counts whole milliseconds: the state lapses when the clock has moved on.
        let error = std::iter::repeat_with(|| seal.open::<ParkedCall>(&state, &BINDING)).find_map(Result::err);
        assert!(error.is_some_and(|error| error.message.contains("expired")));
    }
}
