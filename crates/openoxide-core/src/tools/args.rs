//! Reads a call's arguments as models write them: forgiving about numbers written as text and fields nobody knows,
//! exact about what is missing or wrong.

use serde_json::{Map, Value};

/// The arguments of one call.
#[derive(Debug)]
pub(super) struct Args(Map<String, Value>);

impl Args {
    /// Parses a JSON object; nothing at all counts as an empty one.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self(Map::new()));
        }
        match serde_json::from_str(text) {
            Ok(Value::Object(map)) => Ok(Self(map)),
            Ok(_) => Err("The arguments must be one JSON object.".to_owned()),
            Err(error) => Err(format!("The arguments are not valid JSON ({error}); send one JSON object.")),
        }
    }

    /// Takes a field as it is; `null` counts as absent.
    pub(super) fn take(&mut self, field: &str) -> Option<Value> {
        self.0.remove(field).filter(|value| !value.is_null())
    }

    /// Puts a field back, or under another name.
    pub(super) fn put(&mut self, field: &str, value: Value) {
        self.0.insert(field.to_owned(), value);
    }

    /// A text that must be there and not be blank.
    pub(super) fn text(&mut self, field: &str) -> Result<String, String> {
        match self.optional_text(field)? {
            Some(text) if !text.trim().is_empty() => Ok(text),
            Some(_) => Err(format!("`{field}` is empty; give a text.")),
            None => Err(format!("`{field}` is missing; give it as a text.")),
        }
    }

    /// A text that must be there under one of these names, the first of which is its own, and not be blank.
    pub(super) fn first_text(&mut self, fields: &[&str]) -> Result<String, String> {
        match self.under(fields) {
            Some(field) => self.text(field),
            None => Err(self.missing(fields)),
        }
    }

    /// The same for a text that may be empty.
    pub(super) fn any_text(&mut self, fields: &[&str]) -> Result<String, String> {
        let missing = self.missing(fields);
        let Some(field) = self.under(fields) else { return Err(missing) };
        self.optional_text(field)?.ok_or(missing)
    }

    /// The one of the names that was given.
    fn under<'f>(&self, fields: &[&'f str]) -> Option<&'f str> {
        fields.iter().copied().find(|field| self.0.get(*field).is_some_and(|value| !value.is_null()))
    }

    fn missing(&self, fields: &[&str]) -> String {
        let field = fields.first().copied().unwrap_or_default();
        let given: Vec<String> = self.0.keys().take(8).map(|key| format!("`{key}`")).collect();
        if given.is_empty() {
            return format!("`{field}` is missing; give it as a text.");
        }
        format!("`{field}` is missing; give it as a text. Given: {}.", given.join(", "))
    }

    /// One object of a list.
    pub(super) fn from_value(value: Value, field: &str) -> Result<Self, String> {
        match value {
            Value::Object(map) => Ok(Self(map)),
            other => Err(format!("`{field}` must be a list of objects; one of it is {}.", kind(&other))),
        }
    }

    /// A text that may be absent.
    pub(super) fn optional_text(&mut self, field: &str) -> Result<Option<String>, String> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(format!("`{field}` must be a text, not {}.", kind(&other))),
        }
    }

    /// A whole number from 0 that may be absent.
    pub(super) fn optional_number(&mut self, field: &str) -> Result<Option<u64>, String> {
        let Some(value) = self.take(field) else { return Ok(None) };
        let number = match &value {
            Value::Number(number) => number.as_u64().or_else(|| number.as_f64().and_then(whole)),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        number.map(Some).ok_or_else(|| format!("`{field}` must be a whole number from 0, not {value}."))
    }

    /// Yes or no; absent means no.
    pub(super) fn flag(&mut self, field: &str) -> Result<bool, String> {
        match self.take(field) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(other) => Err(format!("`{field}` must be true or false, not {}.", kind(&other))),
        }
    }
}

fn whole(number: f64) -> Option<u64> {
    // 2^53: beyond it not every whole number has a float of its own, and no argument here is that large.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&number)).then_some(number as u64)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_field_and_what_to_give() {
        let mut args = Args::parse(r#"{"cmd": ["ls"], "n": -1, "flag": 3, "blank": " "}"#).unwrap();
        assert_eq!(args.text("cmd").unwrap_err(), "`cmd` must be a text, not a list.");
        assert_eq!(args.text("cmd").unwrap_err(), "`cmd` is missing; give it as a text.");
        assert_eq!(args.text("blank").unwrap_err(), "`blank` is empty; give a text.");
        assert_eq!(args.optional_number("n").unwrap_err(), "`n` must be a whole number from 0, not -1.");
        assert_eq!(args.flag("flag").unwrap_err(), "`flag` must be true or false, not a number.");
        assert!(Args::parse("[1]").unwrap_err().contains("one JSON object"));
        assert!(Args::parse("{").unwrap_err().contains("not valid JSON"));
    }

    #[test]
    fn numbers_may_be_written_loosely() {
        let mut args = Args::parse(r#"{"a": 5.0, "b": "7", "c": null, "d": 1.5}"#).unwrap();
        assert_eq!(args.optional_number("a"), Ok(Some(5)));
        assert_eq!(args.optional_number("b"), Ok(Some(7)));
        assert_eq!(args.optional_number("c"), Ok(None));
        assert!(args.optional_number("d").is_err());
    }
}
