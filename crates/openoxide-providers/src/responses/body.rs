//! Writes the body of a Responses request straight from the borrowed history: nothing is copied into a tree of values
//! first.
//!
//! Field names: OpenAI API reference, `POST /responses`.

use serde::{Serialize, Serializer, ser::SerializeSeq};
use serde_json::{Map, Value};

use crate::{
    Carried, HistoryItem, ModelFacts, ModelRequest, ProviderConfig, Reasoning, Role, ToolSpec,
    freeform::{self, Description},
    remote::{
        MADE_BY,
        carried::{Fill, Whole, own},
        history::{NO_OUTPUT, UNSEEN, own_reasoning, unpaired},
    },
};

/// The body as JSON.
///
/// # Errors
///
/// What serde says of a value that has no JSON form; none of today's has that.
pub(crate) fn encode(
    request: &ModelRequest<'_>,
    config: &ProviderConfig,
    facts: &ModelFacts,
) -> Result<Vec<u8>, serde_json::Error> {
    let effort = request.reasoning.effort.or(config.reasoning_effort.as_deref());
    let summary = request.reasoning.summary.or(config.reasoning_summary.as_deref());
    let summary = Some(summary.unwrap_or("auto")).filter(|summary| *summary != "none");
    // A request that speaks of reasoning to a model without it fails, and a server may not know the field.
    let speaks = facts.reasoning == Reasoning::Effort || (facts.reasoning != Reasoning::None && effort.is_some());
    serde_json::to_vec(&Body {
        model: request.model,
        instructions: request.instructions,
        input: Input { request, provider: &config.id, facts },
        tools: Tools { tools: request.tools, freeform: facts.freeform },
        tool_choice: "auto",
        parallel_tool_calls: true,
        reasoning: Some(Thinking { effort, summary }).filter(|thinking| speaks && !thinking.is_empty()),
        max_output_tokens: config.max_output_tokens,
        stream: true,
        // Nothing is kept at the provider, so reasoning comes back sealed and is replayed from the history.
        store: false,
        include: (facts.reasoning != Reasoning::None).then_some(["reasoning.encrypted_content"]),
        prompt_cache_key: if takes_cache_key(request.model) { request.cache_key } else { "" },
    })
}

/// Whether a request may name its cache. Gateways refuse the field for models of others, whose providers have no such.
fn takes_cache_key(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    !["claude", "gemini"].iter().any(|other| model.contains(other))
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
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Thinking<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "str::is_empty")]
    prompt_cache_key: &'a str,
}

#[derive(Serialize)]
struct Thinking<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'a str>,
}

impl Thinking<'_> {
    fn is_empty(&self) -> bool {
        self.effort.is_none() && self.summary.is_none()
    }
}

struct Input<'a> {
    request: &'a ModelRequest<'a>,
    provider: &'a str,
    facts: &'a ModelFacts,
}

impl Serialize for Input<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        // A history that a crash or a damaged file has torn is refused for good otherwise.
        let items = self.request.input;
        let mut unpaired = unpaired(items);
        for at in 0..=items.len() {
            for call in unpaired.missing.remove(&at).into_iter().flatten() {
                match &*items[call] {
                    HistoryItem::CustomToolCall { call_id, .. } if self.facts.freeform => {
                        list.serialize_element(&WireItem::CustomToolCallOutput { call_id, output: NO_OUTPUT })?;
                    }
                    HistoryItem::CustomToolCall { call_id, .. } | HistoryItem::FunctionCall { call_id, .. } => {
                        list.serialize_element(&WireItem::FunctionCallOutput { call_id, output: NO_OUTPUT })?;
                    }
                    _ => {}
                }
            }
            let Some(item) = items.get(at).filter(|_| !unpaired.stray.contains(&at)) else { continue };
            match &**item {
                HistoryItem::Reasoning { .. } => {
                    if let Some(raw) = own_reasoning(item, self.provider).filter(|raw| is_readable(raw)) {
                        list.serialize_element(&Unsigned(raw))?;
                    }
                }
                HistoryItem::Message { text, .. } if text.is_empty() => {}
                HistoryItem::CustomToolCall { call_id, name, input, carried } if !self.facts.freeform => {
                    let arguments = &freeform::arguments_of(input);
                    match own(carried, self.provider, "function_call") {
                        Some(carried) => {
                            let fill = Fill::Text(arguments);
                            list.serialize_element(&Whole { carried, name: "arguments", fill })?;
                        }
                        None => list.serialize_element(&WireItem::FunctionCall { call_id, name, arguments })?,
                    }
                }
                HistoryItem::ToolOutput { call_id, output, .. } if !self.facts.freeform => {
                    list.serialize_element(&WireItem::FunctionCallOutput { call_id, output })?;
                }
                item => match self.whole(item) {
                    Some(whole) => list.serialize_element(&whole)?,
                    None => {
                        if let Some(item) = WireItem::new(item, self) {
                            list.serialize_element(&item)?;
                        }
                    }
                },
            }
        }
        list.end()
    }
}

impl<'a> Input<'a> {
    /// An item that this provider made, as it came. A message without an id goes another way: in parts it would need one.
    fn whole(&self, item: &'a HistoryItem) -> Option<Whole<'a>> {
        let own = |carried: &'a Carried, kind: &str| own(carried, self.provider, kind);
        // Under the id that its output names.
        let called = |carried: &'a Carried, kind: &str, id: &str| {
            own(carried, kind).filter(|carried| carried.get("call_id").and_then(Value::as_str) == Some(id))
        };
        let (carried, name, text) = match item {
            HistoryItem::Message { text, carried, .. } => {
                (own(carried, "message").filter(|carried| carried.contains_key("id"))?, "text", text)
            }
            HistoryItem::FunctionCall { call_id, arguments, carried, .. } => {
                (called(carried, "function_call", call_id)?, "arguments", arguments)
            }
            HistoryItem::CustomToolCall { call_id, input, carried, .. } => {
                (called(carried, "custom_tool_call", call_id)?, "input", input)
            }
            _ => return None,
        };
        Some(Whole { carried, name, fill: Fill::Text(text) })
    }

    /// What the provider called the phase of a message of its own.
    fn phase(&self, carried: &'a Carried) -> Option<&'a Value> {
        own(carried, self.provider, "message")?.get("phase").filter(|phase| !phase.is_null())
    }
}

/// Whether a reasoning item is one of this dialect that the provider can read again: sealed, or in plain text. One that is
/// only a reference names something the provider was told not to keep.
pub(super) fn is_readable(raw: &Map<String, Value>) -> bool {
    let sealed = raw.get("encrypted_content").and_then(Value::as_str).is_some_and(|sealed| !sealed.is_empty());
    let plain = raw.get("content").and_then(Value::as_array).is_some_and(|content| !content.is_empty());
    raw.get("type").and_then(Value::as_str) == Some("reasoning") && (sealed || plain)
}

/// A provider's own item without our mark on it.
struct Unsigned<'a>(&'a Map<String, Value>);

impl Serialize for Unsigned<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().filter(|(key, _)| *key != MADE_BY))
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireItem<'a> {
    Message {
        role: WireRole,
        content: Content<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a Value>,
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
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum WireRole {
    User,
    Assistant,
    Developer,
}

impl WireRole {
    fn of(role: Role) -> Self {
        match role {
            Role::User => Self::User,
            Role::Assistant => Self::Assistant,
            Role::Developer => Self::Developer,
        }
    }
}

/// The model's own words go back as a string: as parts they would need the id and status of an item that was never kept.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts([WirePart<'a>; 1]),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WirePart<'a> {
    InputText { text: &'a str },
    InputImage { image_url: DataUrl<'a> },
}

/// An image within a URL.
pub(crate) struct DataUrl<'a> {
    pub(crate) media_type: &'a str,
    pub(crate) data: &'a str,
}

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("data:{};base64,{}", self.media_type, self.data))
    }
}

impl<'a> WireItem<'a> {
    /// An item that reads the same for every provider; `None` for reasoning, which does not.
    fn new(item: &'a HistoryItem, input: &Input<'a>) -> Option<Self> {
        let given = |part| Self::Message { role: WireRole::User, content: Content::Parts([part]), phase: None };
        Some(match item {
            HistoryItem::Message { role: Role::Assistant, text, carried } => {
                Self::Message { role: WireRole::Assistant, content: Content::Text(text), phase: input.phase(carried) }
            }
            HistoryItem::Message { role, text, .. } => Self::Message {
                role: WireRole::of(*role),
                content: Content::Parts([WirePart::InputText { text }]),
                phase: None,
            },
            HistoryItem::Note { text } => given(WirePart::InputText { text }),
            HistoryItem::Image { media_type, data } if input.facts.images => {
                given(WirePart::InputImage { image_url: DataUrl { media_type, data } })
            }
            HistoryItem::Image { .. } => given(WirePart::InputText { text: UNSEEN }),
            HistoryItem::FunctionCall { call_id, name, arguments, .. } => {
                Self::FunctionCall { call_id, name, arguments }
            }
            HistoryItem::CustomToolCall { call_id, name, input, .. } => Self::CustomToolCall { call_id, name, input },
            HistoryItem::ToolOutput { call_id, custom: false, output } => Self::FunctionCallOutput { call_id, output },
            HistoryItem::ToolOutput { call_id, custom: true, output } => Self::CustomToolCallOutput { call_id, output },
            HistoryItem::Reasoning { .. } => return None,
        })
    }
}

struct Tools<'a> {
    tools: &'a [ToolSpec],
    freeform: bool,
}

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.tools.iter().map(|tool| WireTool::new(tool, self.freeform)))
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireTool<'a> {
    Function {
        name: &'a str,
        description: &'a str,
        strict: bool,
        parameters: &'a Value,
    },
    Custom {
        name: &'a str,
        description: &'a str,
        format: Grammar<'a>,
    },
    #[serde(rename = "function")]
    AsFunction {
        name: &'a str,
        description: Description<'a>,
        strict: bool,
        parameters: freeform::Schema,
    },
}

#[derive(Serialize)]
struct Grammar<'a> {
    r#type: &'static str,
    syntax: &'static str,
    definition: &'a str,
}

impl<'a> WireTool<'a> {
    fn new(tool: &'a ToolSpec, freeform: bool) -> Self {
        match tool {
            ToolSpec::Function { name, description, parameters } => {
                Self::Function { name, description, strict: false, parameters }
            }
            ToolSpec::Freeform { name, description, grammar } if freeform => Self::Custom {
                name,
                description,
                format: Grammar { r#type: "grammar", syntax: "lark", definition: grammar },
            },
            ToolSpec::Freeform { name, description, grammar } => Self::AsFunction {
                name,
                description: Description { description, grammar },
                strict: false,
                parameters: freeform::SCHEMA,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn every_item_and_tool_has_its_wire_form() {
        let input: Vec<Arc<HistoryItem>> = [
            HistoryItem::Message { role: Role::Developer, text: "be brief".into(), carried: None },
            HistoryItem::Message { role: Role::User, text: "hi".into(), carried: None },
            HistoryItem::Reasoning {
                summary: "s".into(),
                raw: json!({"type":"reasoning","id":"r","encrypted_content":"x","_provider":"p"}),
            },
            HistoryItem::Reasoning {
                summary: "s".into(),
                raw: json!({"type":"reasoning","id":"r","encrypted_content":"x","_provider":"other"}),
            },
            HistoryItem::Reasoning { summary: "s".into(), raw: json!({"type":"reasoning","id":"only a reference"}) },
            HistoryItem::Reasoning { summary: "s".into(), raw: json!({"type":"thinking"}) },
            HistoryItem::Message { role: Role::Assistant, text: "hello".into(), carried: None },
            HistoryItem::FunctionCall { call_id: "c1".into(), name: "f".into(), arguments: "{}".into(), carried: None },
            HistoryItem::ToolOutput { call_id: "c1".into(), custom: false, output: "o1".into() },
            HistoryItem::CustomToolCall { call_id: "c2".into(), name: "p".into(), input: "text".into(), carried: None },
            HistoryItem::ToolOutput { call_id: "c2".into(), custom: true, output: "o2".into() },
        ]
        .into_iter()
        .map(Arc::new)
        .collect();
        let tools = [
            ToolSpec::Function { name: "f".into(), description: "d".into(), parameters: json!({"type":"object"}) },
            ToolSpec::Freeform { name: "p".into(), description: "d".into(), grammar: "start: x".into() },
        ];
        let request = ModelRequest {
            model: "gpt-5",
            instructions: "i",
            input: &input,
            tools: &tools,
            cache_key: "k",
            reasoning: Default::default(),
        };
        let config = ProviderConfig::new("p", "http://x");
        let body = |facts: ModelFacts| -> Value {
            serde_json::from_slice(&encode(&request, &config, &facts).unwrap()).unwrap()
        };
        let as_functions = body(ModelFacts { freeform: false, reasoning: Reasoning::None, ..crate::facts_of("x") });
        insta::assert_json_snapshot!("without_freeform_and_reasoning", as_functions);
        let body = body(crate::facts_of("gpt-5"));
        assert_eq!(
            body,
            json!({
                "model": "gpt-5", "instructions": "i", "reasoning": {"summary": "auto"}, "tool_choice": "auto", "parallel_tool_calls": true, "stream": true,
                "store": false, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k",
                "input": [
                    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "be brief"}]},
                    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                    {"type": "reasoning", "id": "r", "encrypted_content": "x"},
                    {"type": "message", "role": "assistant", "content": "hello"},
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

    #[test]
    fn a_call_never_goes_without_an_output_nor_an_output_without_a_call() {
        let function = |id: &str| HistoryItem::FunctionCall {
            call_id: id.into(),
            name: "f".into(),
            arguments: "{}".into(),
            carried: None,
        };
        let output = |id: &str| HistoryItem::ToolOutput { call_id: id.into(), custom: false, output: "o".into() };
        let custom =
            HistoryItem::CustomToolCall { call_id: "c".into(), name: "p".into(), input: "i".into(), carried: None };
        let user = HistoryItem::Message { role: Role::User, text: "u".into(), carried: None };
        let input: Vec<Arc<HistoryItem>> = [output("stray"), function("a"), custom, output("a"), user, function("b")]
            .into_iter()
            .map(Arc::new)
            .collect();
        let request = ModelRequest {
            model: "gpt-5",
            instructions: "i",
            input: &input,
            tools: &[],
            cache_key: "k",
            reasoning: Default::default(),
        };
        let config = ProviderConfig::new("p", "http://x");
        for freeform in [true, false] {
            let facts = ModelFacts { freeform, ..crate::facts_of("gpt-5") };
            let body: Value = serde_json::from_slice(&encode(&request, &config, &facts).unwrap()).unwrap();
            let sent: Vec<String> = body["input"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| {
                    let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
                    format!("{} {}", text("type"), text("call_id"))
                })
                .collect();
            let (call, out) = match freeform {
                true => ("custom_tool_call c", "custom_tool_call_output c"),
                false => ("function_call c", "function_call_output c"),
            };
            let expected = [
                "function_call a",
                call,
                out,
                "function_call_output a",
                "message ",
                "function_call b",
                "function_call_output b",
            ];
            assert_eq!(sent, expected);
        }
    }

    #[test]
    fn what_a_caller_says_of_reasoning_goes_before_the_configuration() {
        let mut request = crate::remote::fixtures::request("gpt-5", &[], &[]);
        let mut config = ProviderConfig::new("p", "http://x");
        config.reasoning_effort = Some("high".into());
        let sent = |request: &ModelRequest<'_>, config: &ProviderConfig| -> Value {
            let body = encode(request, config, &crate::facts_of("gpt-5")).unwrap();
            serde_json::from_slice::<Value>(&body).unwrap()["reasoning"].clone()
        };
        assert_eq!(sent(&request, &config), json!({ "effort": "high", "summary": "auto" }));
        (request.reasoning.effort, request.reasoning.summary) = (Some("low"), Some("none"));
        assert_eq!(sent(&request, &config), json!({ "effort": "low" }));
    }

    #[test]
    fn one_of_everything() {
        let (input, tools) = (crate::remote::fixtures::history(), crate::remote::fixtures::tools());
        let request = crate::remote::fixtures::request("gpt-5", &input, &tools);
        let mut config = ProviderConfig::new("p", "http://x");
        config.reasoning_effort = Some("high".into());
        config.max_output_tokens = Some(9);
        let body: Value =
            serde_json::from_slice(&encode(&request, &config, &crate::facts_of("gpt-5")).unwrap()).unwrap();
        insta::assert_json_snapshot!("everything", body);
    }
}
