//! Freeform tools where a dialect or a model has none: offered as a function with one string, called back as text.
//!
//! Used by all three adapters. What a tool does with the text is not known here.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{Carried, HistoryItem, ToolSpec};

/// The names of the freeform tools of a request that are offered as functions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Freeform(Arc<[String]>);

impl Freeform {
    /// No tool: the provider takes freeform tools as they are.
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// All freeform tools among these.
    pub(crate) fn of(tools: &[ToolSpec]) -> Self {
        let names = tools.iter().filter_map(|tool| match tool {
            ToolSpec::Freeform { name, .. } => Some(name.clone()),
            ToolSpec::Function { .. } => None,
        });
        Self(names.collect())
    }

    /// The call as the history keeps it: text for a freeform tool, the arguments as written for any other. `carry` says what it
    /// carries; it is given the arguments where the text alone does not say how they were written.
    pub(crate) fn call(
        &self,
        call_id: String,
        name: String,
        arguments: String,
        carry: impl FnOnce(Option<&str>) -> Carried,
    ) -> HistoryItem {
        if self.0.contains(&name) {
            let input = text_of(arguments.clone());
            let carried = carry(Some(arguments.as_str()).filter(|written| *written != arguments_of(&input)));
            HistoryItem::CustomToolCall { call_id, name, input, carried }
        } else {
            let carried = carry(None);
            HistoryItem::FunctionCall { call_id, name, arguments, carried }
        }
    }
}

/// The text in the arguments of such a function. Models trained on other harnesses name the argument otherwise, and some
/// write the text with nothing around it: the intent is the same.
fn text_of(arguments: String) -> String {
    #[derive(Deserialize)]
    struct Arguments {
        #[serde(alias = "patch", alias = "text", alias = "patch_text")]
        input: String,
    }
    if let Ok(Arguments { input }) = serde_json::from_str(&arguments) {
        return input;
    }
    match serde_json::from_str::<serde_json::Value>(&arguments) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(serde_json::Value::Object(fields)) if fields.len() == 1 => match fields.into_iter().next() {
            Some((_, serde_json::Value::String(text))) => text,
            _ => arguments,
        },
        _ => arguments,
    }
}

/// The arguments of a freeform call as a function call has them.
pub(crate) fn arguments_of(input: &str) -> String {
    #[derive(Serialize)]
    struct Arguments<'a> {
        input: &'a str,
    }
    serde_json::to_string(&Arguments { input }).expect("a string has a JSON form")
}

/// The description of a freeform tool that is offered as a function.
pub(crate) struct Description<'a> {
    pub(crate) description: &'a str,
    pub(crate) grammar: &'a str,
}

impl fmt::Display for Description<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { description, grammar } = self;
        write!(
            f,
            "{description}\n\nThe argument `input` holds the plain text, which follows this Lark grammar:\n{grammar}"
        )
    }
}

impl Serialize for Description<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The JSON Schema of the one string.
#[derive(Serialize)]
pub(crate) struct Schema {
    r#type: &'static str,
    properties: Properties,
    required: [&'static str; 1],
    #[serde(rename = "additionalProperties")]
    additional_properties: bool,
}

#[derive(Serialize)]
struct Properties {
    input: Property,
}

#[derive(Serialize)]
struct Property {
    r#type: &'static str,
    description: &'static str,
}

pub(crate) const SCHEMA: Schema = Schema {
    r#type: "object",
    properties: Properties { input: Property { r#type: "string", description: "The whole text." } },
    required: ["input"],
    additional_properties: false,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_found_however_it_is_wrapped() {
        let tools =
            [ToolSpec::Freeform { name: "apply_patch".into(), description: String::new(), grammar: String::new() }];
        let freeform = Freeform::of(&tools);
        for arguments in [
            r#"{"input":"a\nb"}"#,
            r#"{"patch":"a\nb"}"#,
            r#"{"diff":"a\nb"}"#,
            r#""a\nb""#,
            "a\nb",
            &arguments_of("a\nb"),
        ] {
            assert_eq!(
                freeform.call("c".into(), "apply_patch".into(), arguments.into(), |_| None),
                HistoryItem::CustomToolCall {
                    call_id: "c".into(),
                    name: "apply_patch".into(),
                    input: "a\nb".into(),
                    carried: None
                }
            );
        }
        assert!(matches!(
            freeform.call("c".into(), "other".into(), "{}".into(), |_| None),
            HistoryItem::FunctionCall { .. }
        ));
    }
}
