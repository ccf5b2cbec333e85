//! Raw tool arguments to a typed struct, lenient in spelling and strict in substance.
//!
//! The rules come from the same schema that is listed, so that what is shown and what is accepted cannot drift apart.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::ToolCallError;
use super::choices::vocabulary;
use super::schema::ToolSet;
use crate::parse_unique;
use crate::schema::enum_words;

/// The refusal of `tool`'s arguments for the reason `message` gives.
pub(super) fn bad<T>(tool: &str, message: &str) -> Result<T, ToolCallError> {
    Err(ToolCallError::BadArguments(format!("invalid arguments for {tool}: {message}")))
}

/// Reads the arguments of `tool`.
pub(super) fn read<T: DeserializeOwned>(
    tools: &ToolSet,
    tool: &str,
    arguments: Option<&RawValue>,
) -> Result<T, ToolCallError> {
    let text = arguments.map_or("{}", RawValue::get);
    let given: Value = match parse_unique(text) {
        Ok(given) => given,
        Err(error) => return bad(tool, &error.to_string()),
    };
    let Value::Object(given) = given else {
        return bad(tool, "arguments must be an object");
    };
    let schema = fields_of(tools, tool);
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
    /// The least and the most that a number may be.
    bounds: (Option<f64>, Option<f64>),
    /// Fields of an object, by their full names.
    inner: Vec<Field>,
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
            "integer" => value.is_u64() || value.is_i64(),
            "object" => value.is_object(),
            _ => true,
        };
        if let (true, Some(inner)) = (fits, value.as_object()) {
            return self.check_inner(inner);
        }
        if !fits {
            return Err(format!("{name} is {}; it must be {}", short(value), self.kind_with_article()));
        }
        let (least, most) = self.bounds;
        let is_beyond =
            |number: f64| least.is_some_and(|least| number < least) || most.is_some_and(|most| number > most);
        if value.as_f64().is_some_and(is_beyond) {
            return Err(format!("{name} is {}; it must be {}{}", short(value), self.kind_with_article(), self.range()));
        }
        Ok(())
    }

    fn kind_with_article(&self) -> String {
        let article = if self.kind.starts_with(['i', 'o']) { "an" } else { "a" };
        format!("{article} {}", self.kind)
    }

    /// The bounds in words, to follow the kind.
    fn range(&self) -> String {
        match self.bounds {
            (Some(least), Some(most)) => format!(" from {least} to {most}"),
            (Some(least), None) => format!(" of {least} or more"),
            (None, Some(most)) => format!(" of {most} or less"),
            (None, None) => String::new(),
        }
    }

    /// An object's own fields. They are settings by name: those that are not the caller's are the operator's.
    fn check_inner(&self, given: &Map<String, Value>) -> Result<(), String> {
        let names = || self.inner.iter().map(|field| field.name.as_str()).collect::<Vec<_>>().join(", ");
        for (key, value) in given {
            if let Some(field) = self.inner.iter().find(|field| field.name == format!("{}.{key}", self.name)) {
                field.check(value)?;
                continue;
            }
            let full = format!("{}.{key}", self.name);
            let near = self.inner.iter().find(|field| strsim::damerau_levenshtein(&field.name, &full) <= 3);
            return Err(match near {
                Some(near) => format!("unknown field {full}; did you mean {}? Allowed: {}", near.name, names()),
                None => format!(
                    "{full} cannot be set by a call; allowed: {}. Sandbox, approvals, providers, environment and servers \
                     are set by the operator of this server",
                    names()
                ),
            });
        }
        Ok(())
    }
}

/// Says who does not allow a word that the field's full vocabulary has.
fn later_word(field: &str, value: &Value) -> &'static str {
    let is_known = value.as_str().is_some_and(|word| vocabulary(field).contains(&word));
    if is_known { ". The operator of this server allows no more" } else { "" }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// The fields of a listed tool. The listing is made once and serves every call.
fn fields_of(tools: &ToolSet, tool: &str) -> Vec<Field> {
    let Some(listed) = tools.list().iter().find(|listed| listed.name == tool) else { return Vec::new() };
    fields_in(&listed.input_schema, "")
}

/// What a schema says of a number.
fn bounds_of(property: &Value) -> (Option<f64>, Option<f64>) {
    let bound = |name: &str| property.get(name).and_then(Value::as_f64);
    (bound("minimum"), bound("maximum"))
}

fn fields_in(schema: &Map<String, Value>, prefix: &str) -> Vec<Field> {
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let field = |(name, property): (&String, &Value)| {
        let full = format!("{prefix}{name}");
        let inner = property.as_object().map(|object| fields_in(object, &format!("{full}."))).unwrap_or_default();
        Field {
            name: full,
            required: required.contains(&name.as_str()),
            kind: property.get("type").and_then(Value::as_str).unwrap_or_default().to_owned(),
            words: enum_words(property),
            bounds: bounds_of(property),
            inner,
        }
    };
    properties.map(field).collect()
}
