//! The forms and prompts that the fixtures ask with, and the input schema that has to reach clients unharmed.

use openoxide_mcp_protocol::{Ask, AskKind};
use serde_json::{Value, json};

/// Has the client's model say something.
pub(crate) fn sampling(prompt: &str, max_tokens: u32) -> Ask {
    let params = json!({
        "messages": [{ "role": "user", "content": { "type": "text", "text": prompt } }],
        "maxTokens": max_tokens,
    });
    Ask { kind: AskKind::Sampling, params }
}

/// Asks for the client's directories.
pub(crate) fn roots() -> Ask {
    Ask { kind: AskKind::Roots, params: json!({}) }
}

/// A form with these fields.
fn form(message: &str, properties: Value, required: &[&str]) -> Ask {
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    Ask::form(json!({ "message": message, "requestedSchema": schema }))
}

/// A form with one required text.
pub(crate) fn text_form(message: &str, field: &str) -> Ask {
    form(message, json!({ field: { "type": "string" } }), &[field])
}

/// A form with one thing to confirm.
pub(crate) fn yes_form(message: &str, field: &str) -> Ask {
    form(message, json!({ field: { "type": "boolean" } }), &[field])
}

/// A form with a field of each primitive type with a default (SEP-1034).
pub(crate) fn with_defaults() -> Ask {
    let fields = json!({
        "name": { "type": "string", "description": "Name", "default": "John Doe" },
        "age": { "type": "integer", "description": "Age", "default": 30 },
        "score": { "type": "number", "description": "Score", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "description": "Whether it was verified", "default": true },
    });
    form("Please check the form", fields, &[])
}

/// A form with every way to offer a choice (SEP-1330).
pub(crate) fn with_choices() -> Ask {
    let options = json!(["option1", "option2", "option3"]);
    let titled = ["1", "2", "3"].map(|at| json!({ "const": format!("value{at}"), "title": format!("Title {at}") }));
    let legacy = json!(["opt1", "opt2", "opt3"]);
    let fields = json!({
        "untitledSingle": { "type": "string", "enum": options },
        "titledSingle": { "type": "string", "oneOf": titled },
        "legacyEnum": { "type": "string", "enum": legacy, "enumNames": ["Option One", "Option Two", "Option Three"] },
        "untitledMulti": { "type": "array", "minItems": 1, "maxItems": 3, "items": { "type": "string", "enum": options } },
        "titledMulti": { "type": "array", "minItems": 1, "maxItems": 3, "items": { "anyOf": titled } },
    });
    form("Please choose", fields, &[])
}

/// An input schema with what JSON Schema 2020-12 has beyond plain fields (SEP-1613, SEP-2106).
pub(crate) fn rich_input() -> Value {
    let (string, requires) = (json!({ "type": "string" }), |field| json!({ "required": [field] }));
    let address =
        json!({ "$anchor": "addressDef", "type": "object", "properties": { "street": string, "city": string } });
    let by = json!({ "type": "string", "enum": ["phone", "email"] });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": address },
        "properties": {
            "name": string, "address": { "$ref": "#/$defs/address" }, "by": by, "phone": string, "email": string,
        },
        "allOf": [{ "anyOf": [requires("phone"), requires("email")] }],
        "if": { "properties": { "by": { "const": "phone" } }, "required": ["by"] },
        "then": requires("phone"),
        "else": requires("email"),
        "additionalProperties": false,
    })
}
