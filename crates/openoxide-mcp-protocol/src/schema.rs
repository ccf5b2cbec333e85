//! The JSON Schema of a struct, as hosts take it.

use schemars::JsonSchema;
use serde_json::Value;

type JsonObject = serde_json::Map<String, Value>;

/// The words of an enum, whether it is written as `enum` or as `oneOf` of constants.
pub(crate) fn enum_words(property: &Value) -> Vec<String> {
    let plain = property.get("enum").and_then(Value::as_array).into_iter().flatten();
    let described = property.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    plain.chain(described.filter_map(|one| one.get("const"))).filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The JSON Schema of a struct of arguments or results, without references, titles or dialect.
pub(crate) fn schema_of<T: JsonSchema>() -> JsonObject {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = schema.to_value();
    tidy(&mut schema);
    let Value::Object(mut schema) = schema else { return JsonObject::new() };
    schema.remove("title");
    schema.remove("description");
    flatten_enums(&mut schema);
    schema
}

/// Removes what is Rust's and not the wire's: number formats such as `uint64`, which strict validators warn of, nulls
/// as defaults, and the line breaks of the source in descriptions.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|key, value| !(key == "format" && value.is_string() || key == "default" && value.is_null()));
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            fields.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// Writes `oneOf` of described constants as a plain `enum`: hosts exist that render only that. The words are
/// explained in the field's description.
fn flatten_enums(schema: &mut JsonObject) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else {
        return;
    };
    for property in properties.values_mut() {
        let words = enum_words(property);
        if let (Some(fields), false) = (property.as_object_mut(), words.is_empty()) {
            fields.remove("oneOf");
            fields.remove("const");
            fields.insert("type".to_owned(), "string".into());
            fields.insert("enum".to_owned(), words.into());
        }
    }
}
