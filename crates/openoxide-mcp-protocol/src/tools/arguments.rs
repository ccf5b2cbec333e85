//! Raw tool arguments to a typed struct, lenient in spelling and strict in substance.
//!
//! The rules come from the same schema that is listed, so that what is shown and what is accepted cannot drift apart.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::ToolCallError;
use super::schema::{TOOLS, enum_words};

/// The refusal of `tool`'s arguments for the reason `message` gives.
pub(super) fn bad<T>(tool: &str, message: &str) -> Result<T, ToolCallError> {
    Err(ToolCallError::BadArguments(format!("invalid arguments for {tool}: {message}")))
}

/// Reads the arguments of `tool`.
pub(super) fn read<T: DeserializeOwned>(tool: &str, arguments: Option<&RawValue>) -> Result<T, ToolCallError> {
    let text = arguments.map_or("{}", RawValue::get);
    let given: Value = match serde_json::from_str(text) {
        Ok(given) => given,
        Err(error) => return bad(tool, &error.to_string()),
    };
    let Value::Object(given) = given else {
        return bad(tool, "arguments must be an object");
    };
    let schema = fields_of(tool);
    let mut fields = Map::new();
    for (key, value) in given {
        let name = snake_case(&key);
        let name = if name == "developer_instructions" { "instructions".to_owned() } else { name };
        if !schema.iter().any(|field| field.name == name) {
            return bad(tool, &unknown_field(&key, &name, &schema));
        }
        // A null stands for a field that was left out.
        if !value.is_null() && fields.insert(name.clone(), value).is_some() {
            return bad(tool, &format!("{name} is given twice, in two spellings; give it once"));
        }
    }
    for field in &schema {
        match fields.get(&field.name) {
            None if field.required => {
                return bad(tool, &format!("{} is missing; it is required", field.name));
            }
            Some(value) => field.check(value).map_or_else(|message| bad(tool, &message), Ok)?,
            None => {}
        }
    }
    serde_json::from_value(Value::Object(fields)).map_or_else(|error| bad(tool, &error.to_string()), Ok)
}

fn snake_case(key: &str) -> String {
    let mut name = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        match c {
            '-' => name.push('_'),
            c if c.is_ascii_uppercase() => {
                name.push('_');
                name.push(c.to_ascii_lowercase());
            }
            c => name.push(c),
        }
    }
    name
}

fn unknown_field(key: &str, name: &str, schema: &[Field]) -> String {
    let names: Vec<&str> = schema.iter().map(|field| field.name.as_str()).collect();
    let nearest = names.iter().map(|known| (strsim::damerau_levenshtein(known, name), known)).min();
    match nearest {
        Some((distance, known)) if distance <= 3 => {
            format!("unknown field {key:?}; did you mean {known}? The fields are {}", names.join(", "))
        }
        _ => format!("unknown field {key:?}; the fields are {}", names.join(", ")),
    }
}

/// One field of a tool's schema, as much of it as error messages need.
struct Field {
    name: String,
    required: bool,
    kind: String,
    words: Vec<String>,
}

impl Field {
    fn check(&self, value: &Value) -> Result<(), String> {
        let name = &self.name;
        if !self.words.is_empty() {
            return match value.as_str() {
                Some(word) if self.words.iter().any(|allowed| allowed == word) => Ok(()),
                _ => Err(format!("{name} is {value}; allowed: {}{}", self.words.join(", "), later_word(name, value))),
            };
        }
        let fits = match self.kind.as_str() {
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "number" => value.is_number(),
            _ => true,
        };
        if fits { Ok(()) } else { Err(format!("{name} is {}; it must be a {}", short(value), self.kind)) }
    }
}

/// Says why a word that the field's full vocabulary has is not allowed yet.
fn later_word(field: &str, value: &Value) -> &'static str {
    match (field, value.as_str()) {
        ("sandbox", Some("read-only" | "workspace-write")) => {
            ". This version cannot enforce that mode, and does not pretend to; use danger-full-access with \
             approval_policy untrusted, or openoxide-query for reading"
        }
        ("approval_policy", Some("on-failure")) => {
            ". on-failure needs a sandbox that can fail a command, which this version does not have"
        }
        _ => "",
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// The fields of a listed tool. The listing is made once and serves every call.
fn fields_of(tool: &str) -> Vec<Field> {
    let Some(listed) = TOOLS.iter().find(|listed| listed.name == tool) else { return Vec::new() };
    let schema = &listed.input_schema;
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flatten()
        .map(|(name, property)| Field {
            name: name.clone(),
            required: required.contains(&name.as_str()),
            kind: property.get("type").and_then(Value::as_str).unwrap_or_default().to_owned(),
            words: enum_words(property),
        })
        .collect()
}
