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

/// A form with these fields, none of which is required.
pub(crate) fn form(message: &str, properties: Value) -> Ask {
    let schema = json!({ "type": "object", "properties": properties, "required": [] });
    Ask::form(json!({ "message": message, "requestedSchema": schema }))
}

/// A form with one required field.
pub(crate) fn required_form(message: &str, field: &str, schema: &Value) -> Ask {
    let schema = json!({ "type": "object", "properties": { field: schema }, "required": [field] });
    Ask::form(json!({ "message": message, "requestedSchema": schema }))
}

/// A form with one required text.
pub(crate) fn text_form(message: &str, field: &str) -> Ask {
    required_form(message, field, &json!({ "type": "string" }))
}

/// A field of each primitive type with a default (SEP-1034).
pub(crate) fn with_defaults() -> Value {
    json!({
        "name": { "type": "string", "description": "Name", "default": "John Doe" },
        "age": { "type": "integer", "description": "Age", "default": 30 },
        "score": { "type": "number", "description": "Score", "default": 95.5 },
        "status": {
            "type": "string", "description": "Status", "enum": ["active", "inactive", "pending"], "default": "active",
        },
        "verified": { "type": "boolean", "description": "Whether it was verified", "default": true },
    })
}

/// Every way to offer a choice (SEP-1330).
pub(crate) fn with_choices() -> Value {
    let options = json!(["option1", "option2", "option3"]);
    let titled = json!([
        { "const": "value1", "title": "First" },
        { "const": "value2", "title": "Second" },
        { "const": "value3", "title": "Third" },
    ]);
    json!({
        "untitledSingle": { "type": "string", "description": "One", "enum": options },
        "titledSingle": { "type": "string", "description": "One, by title", "oneOf": titled },
        "legacyEnum": {
            "type": "string", "description": "One, by name",
            "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array", "description": "Some", "minItems": 1, "maxItems": 3,
            "items": { "type": "string", "enum": options },
        },
        "titledMulti": {
            "type": "array", "description": "Some, by title", "minItems": 1, "maxItems": 3, "items": { "anyOf": titled },
        },
    })
}

/// An input schema with what JSON Schema 2020-12 has beyond plain fields (SEP-1613, SEP-2106).
pub(crate) fn rich_input() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "by": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "by": { "const": "phone" } }, "required": ["by"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}
