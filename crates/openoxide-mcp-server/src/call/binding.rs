//! What a call is bound to when it comes back with answers: the tool, and its arguments in one canonical form.

use openoxide_mcp_protocol::request_state::Binding;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::principal::Principal;

/// The tool of a call and its arguments.
pub(crate) struct CallBinding {
    pub(crate) tool: String,
    pub(crate) arguments: Option<Box<RawValue>>,
}

impl CallBinding {
    /// Does something with the binding of this call from `principal`. The arguments are brought into their form for that
    /// alone, since few calls ask.
    pub(crate) fn with<T>(&self, principal: &Principal, act: impl FnOnce(&Binding<'_>) -> T) -> T {
        let (principal, arguments) = (principal.to_string(), canonical(self.arguments.as_deref()));
        act(&Binding { principal: &principal, tool: &self.tool, arguments: &arguments })
    }
}

/// Arguments in one form, however their sender ordered and spaced them.
fn canonical(arguments: Option<&RawValue>) -> String {
    let mut value: Value = arguments.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    value.sort_all_objects();
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_spaces_make_no_difference() {
        let form = |json: &str| canonical(Some(&RawValue::from_string(json.to_owned()).unwrap()));
        assert_eq!(form(r#"{"b":{"d":1,"c":2},"a":0}"#), form(r#"{ "a": 0, "b": { "c": 2, "d": 1 } }"#));
        assert_ne!(form(r#"{"a":0}"#), form(r#"{"a":1}"#));
    }
}
