//! Writes the body of a request straight from the borrowed history: nothing is copied into a tree of values first.
//!
//! Field names: OpenAI API reference, `POST /responses`.

use std::sync::Arc;

use serde::{Serialize, Serializer, ser::SerializeSeq};

use crate::{HistoryItem, ModelRequest, Role, ToolSpec};

/// The body as JSON.
///
/// # Errors
///
/// What serde says of a value that has no JSON form; none of today's has that.
pub(super) fn encode(request: &ModelRequest<'_>) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Body {
        model: request.model,
        instructions: request.instructions,
        input: Input(request.input),
        tools: Tools(request.tools),
        tool_choice: "auto",
        parallel_tool_calls: true,
        stream: true,
        // Nothing is kept at the provider, so reasoning comes back sealed and is replayed from the history.
        store: false,
        include: ["reasoning.encrypted_content"],
        prompt_cache_key: request.cache_key,
    })
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    input: Input<'a>,
    tools: Tools<'a>,
    tool_choice: &'static str,
    parallel_tool_calls: bool,
    stream: bool,
    store: bool,
    include: [&'static str; 1],
    #[serde(skip_serializing_if = "str::is_empty")]
    prompt_cache_key: &'a str,
}

struct Input<'a>(&'a [Arc<HistoryItem>]);

impl Serialize for Input<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for item in self.0 {
            match &**item {
                // Reasoning that another dialect left in the history cannot be read here.
                HistoryItem::Reasoning { raw, .. } => {
                    if raw.get("type").and_then(|kind| kind.as_str()) == Some("reasoning") {
                        list.serialize_element(raw)?;
                    }
                }
                item => list.serialize_element(&WireItem::from(item))?,
            }
        }
        list.end()
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireItem<'a> {
    Message {
        role: Role,
        content: [WirePart<'a>; 1],
    },
    FunctionCall {
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: &'a str,
    },
    CustomToolCall {
        call_id: &'a str,
        name: &'a str,
        input: &'a str,
    },
    CustomToolCallOutput {
        call_id: &'a str,
        output: &'a str,
    },
    #[serde(untagged)]
    Raw(&'a serde_json::Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WirePart<'a> {
    InputText { text: &'a str },
    OutputText { text: &'a str },
}

impl<'a> From<&'a HistoryItem> for WireItem<'a> {
    fn from(item: &'a HistoryItem) -> Self {
        match item {
            HistoryItem::Message { role: Role::Assistant, text } => {
                Self::Message { role: Role::Assistant, content: [WirePart::OutputText { text }] }
            }
            HistoryItem::Message { role, text } => {
                Self::Message { role: *role, content: [WirePart::InputText { text }] }
            }
            HistoryItem::Reasoning { raw, .. } => Self::Raw(raw),
            HistoryItem::FunctionCall { call_id, name, arguments } => Self::FunctionCall { call_id, name, arguments },
            HistoryItem::CustomToolCall { call_id, name, input } => Self::CustomToolCall { call_id, name, input },
            HistoryItem::ToolOutput { call_id, custom: false, output } => Self::FunctionCallOutput { call_id, output },
            HistoryItem::ToolOutput { call_id, custom: true, output } => Self::CustomToolCallOutput { call_id, output },
        }
    }
}

struct Tools<'a>(&'a [ToolSpec]);

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(WireTool::from))
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireTool<'a> {
    Function { name: &'a str, description: &'a str, strict: bool, parameters: &'a serde_json::Value },
    Custom { name: &'a str, description: &'a str, format: Grammar<'a> },
}

#[derive(Serialize)]
struct Grammar<'a> {
    r#type: &'static str,
    syntax: &'static str,
    definition: &'a str,
}

impl<'a> From<&'a ToolSpec> for WireTool<'a> {
    fn from(tool: &'a ToolSpec) -> Self {
        match tool {
            ToolSpec::Function { name, description, parameters } => {
                Self::Function { name, description, strict: false, parameters }
            }
            ToolSpec::Freeform { name, description, grammar } => Self::Custom {
                name,
                description,
                format: Grammar { r#type: "grammar", syntax: "lark", definition: grammar },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_item_and_tool_has_its_wire_form() {
        let input: Vec<Arc<HistoryItem>> = [
            HistoryItem::Message { role: Role::Developer, text: "be brief".into() },
            HistoryItem::Message { role: Role::User, text: "hi".into() },
            HistoryItem::Reasoning {
                summary: "s".into(),
                raw: json!({"type":"reasoning","id":"r","encrypted_content":"x"}),
            },
            HistoryItem::Reasoning { summary: "s".into(), raw: json!({"type":"thinking"}) },
            HistoryItem::Message { role: Role::Assistant, text: "hello".into() },
            HistoryItem::FunctionCall { call_id: "c1".into(), name: "f".into(), arguments: "{}".into() },
            HistoryItem::ToolOutput { call_id: "c1".into(), custom: false, output: "o1".into() },
            HistoryItem::CustomToolCall { call_id: "c2".into(), name: "p".into(), input: "text".into() },
            HistoryItem::ToolOutput { call_id: "c2".into(), custom: true, output: "o2".into() },
        ]
        .into_iter()
        .map(Arc::new)
        .collect();
        let tools = [
            ToolSpec::Function { name: "f".into(), description: "d".into(), parameters: json!({"type":"object"}) },
            ToolSpec::Freeform { name: "p".into(), description: "d".into(), grammar: "start: x".into() },
        ];
        let request = ModelRequest { model: "m", instructions: "i", input: &input, tools: &tools, cache_key: "k" };
        let body: Value = serde_json::from_slice(&encode(&request).unwrap()).unwrap();
        assert_eq!(
            body,
            json!({
                "model": "m", "instructions": "i", "tool_choice": "auto", "parallel_tool_calls": true, "stream": true,
                "store": false, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k",
                "input": [
                    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "be brief"}]},
                    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                    {"type": "reasoning", "id": "r", "encrypted_content": "x"},
                    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hello"}]},
                    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c1", "output": "o1"},
                    {"type": "custom_tool_call", "call_id": "c2", "name": "p", "input": "text"},
                    {"type": "custom_tool_call_output", "call_id": "c2", "output": "o2"},
                ],
                "tools": [
                    {"type": "function", "name": "f", "description": "d", "strict": false, "parameters": {"type": "object"}},
                    {"type": "custom", "name": "p", "description": "d",
                     "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}},
                ],
            })
        );
    }
}
