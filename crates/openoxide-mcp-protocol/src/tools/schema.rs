//! The tools as `tools/list` shows them, made from the parameter structs.

use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde_json::Value;

use super::{OPENOXIDE, OpenoxideParams, QUERY, QueryParams, REPLY, ReplyParams};
use crate::ToolOutput;

/// The words of an enum, whether it is written as `enum` or as `oneOf` of constants.
pub(super) fn enum_words(property: &Value) -> Vec<String> {
    let plain = property.get("enum").and_then(Value::as_array).into_iter().flatten();
    let described = property.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    plain.chain(described.filter_map(|one| one.get("const"))).filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The JSON Schema of one of our structs, without references, titles or dialect.
fn schema_of<T: JsonSchema>() -> JsonObject {
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

/// All tools as `tools/list` shows them, in one fixed order. Made at the first listing.
pub static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let output = Arc::new(schema_of::<ToolOutput>());
    let tool = |name, title, description, input: JsonObject, annotations: ToolAnnotations| {
        Tool::new(name, description, Arc::new(input))
            .with_title(title)
            .with_raw_output_schema(Arc::clone(&output))
            .with_annotations(annotations)
    };
    vec![
        tool(
            OPENOXIDE,
            "OpenOxide",
            "Hand a coding task to the OpenOxide agent in a new thread. It reads and edits files and runs commands in cwd, \
             asking for approval as approval_policy says, and answers when it is done, with the thread id, a summary, the \
             files it changed and a diff.",
            schema_of::<OpenoxideParams>(),
            ToolAnnotations::with_title("OpenOxide: start a task").read_only(false).destructive(true).open_world(true),
        ),
        tool(
            REPLY,
            "OpenOxide Reply",
            "Continue an OpenOxide thread: send the next prompt, steer or interrupt the running turn, or, without a \
             prompt, wait for the running turn and get its result.",
            schema_of::<ReplyParams>(),
            ToolAnnotations::with_title("OpenOxide: continue a thread")
                .read_only(false)
                .destructive(true)
                .open_world(true),
        ),
        tool(
            QUERY,
            "OpenOxide Query",
            "Ask the OpenOxide agent a question about the code in cwd, or about an earlier thread. It only reads: no \
             command is run and no file is changed.",
            schema_of::<QueryParams>(),
            ToolAnnotations::with_title("OpenOxide: ask about code")
                .read_only(true)
                .destructive(false)
                .idempotent(true)
                .open_world(true),
        ),
    ]
});
