//! Writes the body of a Chat Completions request straight from the borrowed history.
//!
//! Only what every compatible server takes, in the order some templates insist on: one system message, then user and
//! assistant messages that alternate, tool messages right after the calls. Field names: OpenAI API reference,
//! `POST /chat/completions`; `reasoning_content` as DeepSeek, `reasoning_details` as OpenRouter document them.

use std::fmt;

use serde::{Serialize, Serializer, ser::SerializeSeq};
use serde_json::{Map, Value};

use super::{CALL_TYPE, RAW_TYPE};
use crate::{
    HistoryItem, ModelFacts, ModelRequest, ProviderConfig, Reasoning, ToolSpec,
    freeform::{self, Description},
    messages::CacheControl,
    remote::{
        carried::own,
        history::{Given, Turn, arguments_object, order, own_reasoning},
    },
    responses::DataUrl,
};

/// Models whose servers refuse a message that calls tools without `reasoning_content`, even if there was none. What a response
/// carried goes back whatever the model's name is; this is about messages that carried none, as those of another provider.
const REASONING_REQUIRED: [&str; 2] = ["deepseek", "kimi"];

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
    let ordered = order(request, facts.images);
    let (completion_limit, limit) = match config.chat.max_completion_tokens {
        true => (config.max_output_tokens, None),
        false => (None, config.max_output_tokens),
    };
    let effort = request.reasoning.effort.or(config.reasoning_effort.as_deref());
    serde_json::to_vec(&Body {
        model: request.model,
        messages: Messages {
            system: &ordered.system,
            turns: &ordered.turns,
            provider: &config.id,
            is_reasoning_required: is_reasoning_required(request.model),
            breakpoints: config.chat.cache_breakpoints && request.model.to_ascii_lowercase().contains("claude"),
        },
        tools: request.tools.iter().map(WireTool::from).collect(),
        stream: true,
        stream_options: config.chat.include_usage.then_some(StreamOptions { include_usage: true }),
        max_completion_tokens: completion_limit,
        max_tokens: limit,
        reasoning_effort: effort.filter(|_| facts.reasoning != Reasoning::None),
        prompt_cache_key: Some(request.cache_key).filter(|key| config.chat.cache_key && !key.is_empty()),
    })
}

fn is_reasoning_required(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    REASONING_REQUIRED.iter().any(|name| model.contains(name))
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Messages<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

struct Messages<'a> {
    system: &'a [&'a str],
    turns: &'a [Turn<'a>],
    provider: &'a str,
    is_reasoning_required: bool,
    /// Mark the system prompt and the last two user messages for the provider's cache.
    breakpoints: bool,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        if !self.system.is_empty() {
            let text = Joined(self.system.iter().copied());
            let content = if self.breakpoints { Whole::Marked([Part::marked(text)]) } else { Whole::Plain(text) };
            list.serialize_element(&Message::System { content })?;
        }
        let mut users_left = self.turns.iter().filter(|turn| matches!(turn, Turn::User(_))).count();
        for turn in self.turns {
            match turn {
                Turn::User(given) => {
                    let mark = self.breakpoints && users_left <= 2;
                    users_left -= 1;
                    list.serialize_element(&Message::User { content: Content { given, mark } })?;
                }
                Turn::Assistant(said) => list.serialize_element(&self.assistant(said))?,
                Turn::Outputs(outputs) => {
                    for output in outputs {
                        let message = Message::Tool { tool_call_id: output.call_id, content: output.text };
                        list.serialize_element(&message)?;
                    }
                }
            }
        }
        list.end()
    }
}

impl<'a> Messages<'a> {
    fn assistant(&self, said: &'a [&'a HistoryItem]) -> Message<'a> {
        let tool_calls: Vec<ToolCall<'_>> = said.iter().filter_map(|item| ToolCall::new(item, self.provider)).collect();
        let own = said
            .iter()
            .filter_map(|item| own_reasoning(item, self.provider))
            .filter(|raw| raw.get("type").and_then(Value::as_str) == Some(RAW_TYPE));
        let has_text = said.iter().any(|item| matches!(item, HistoryItem::Message { .. }));
        // In the field in which it came.
        let came_in = |field: &str| {
            let of_field = own.clone().filter(|raw| raw.get("field").and_then(Value::as_str) == Some(field));
            let texts: Vec<&str> = of_field.filter_map(|raw| raw.get("text")?.as_str()).collect();
            (!texts.is_empty()).then(|| Joined(texts.into_iter()))
        };
        let is_missing = self.is_reasoning_required && !tool_calls.is_empty();
        Message::Assistant {
            content: has_text.then_some(Said(said)),
            reasoning_content: came_in("reasoning_content")
                .or_else(|| is_missing.then(|| Joined(Vec::new().into_iter()))),
            reasoning: came_in("reasoning"),
            reasoning_details: own.clone().filter_map(|raw| raw.get("details")?.as_array()).flatten().collect(),
            tool_calls,
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Message<'a> {
    System {
        content: Whole<'a>,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        // Written even where there is none: some servers insist on the key.
        content: Option<Said<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<Joined<std::vec::IntoIter<&'a str>>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning: Option<Joined<std::vec::IntoIter<&'a str>>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        reasoning_details: Vec<&'a Value>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

/// Texts as one, set off by an empty line; written without being put together first.
struct Joined<I>(I);

impl<'a, I: Iterator<Item = &'a str> + Clone> fmt::Display for Joined<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, text) in self.0.clone().enumerate() {
            if at > 0 {
                f.write_str("\n\n")?;
            }
            f.write_str(text)?;
        }
        Ok(())
    }
}

impl<'a, I: Iterator<Item = &'a str> + Clone> Serialize for Joined<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The messages of one response.
struct Said<'a>(&'a [&'a HistoryItem]);

impl Serialize for Said<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let texts = self.0.iter().filter_map(|item| match item {
            HistoryItem::Message { text, .. } => Some(text.as_str()),
            _ => None,
        });
        serializer.collect_str(&Joined(texts))
    }
}

type Texts<'a> = Joined<std::iter::Copied<std::slice::Iter<'a, &'a str>>>;

/// The system prompt: one string, or one part that can carry a mark.
#[derive(Serialize)]
#[serde(untagged)]
enum Whole<'a> {
    Plain(Texts<'a>),
    Marked([Part<'a, Texts<'a>>; 1]),
}

/// What the model is given: one string, which every server takes, unless there is an image among it or a mark to set.
struct Content<'a> {
    given: &'a [Given<'a>],
    mark: bool,
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { given, mark } = *self;
        if !mark && given.iter().all(|given| given.text().is_some()) {
            return serializer.collect_str(&Joined(given.iter().filter_map(|given| given.text())));
        }
        serializer.collect_seq(given.iter().enumerate().map(|(at, part)| match *part {
            Given::Image { media_type, data } => {
                Part::ImageUrl { image_url: ImageUrl { url: DataUrl { media_type, data } } }
            }
            other => {
                let text = other.text().unwrap_or_default();
                let is_last = at + 1 == given.len();
                if mark && is_last { Part::marked(text) } else { Part::Text { text, cache_control: None } }
            }
        }))
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a, T> {
    Text {
        text: T,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ImageUrl {
        image_url: ImageUrl<'a>,
    },
}

impl<T> Part<'_, T> {
    fn marked(text: T) -> Self {
        Self::Text { text, cache_control: Some(CacheControl::EPHEMERAL) }
    }
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: DataUrl<'a>,
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: CalledFunction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a Value>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: std::borrow::Cow<'a, str>,
}

impl<'a> ToolCall<'a> {
    fn new(item: &'a HistoryItem, provider: &str) -> Option<Self> {
        let (id, name, arguments, carried) = match item {
            HistoryItem::FunctionCall { call_id, name, arguments, carried } => {
                (call_id, name, arguments_object(arguments), carried)
            }
            HistoryItem::CustomToolCall { call_id, name, input, carried } => {
                (call_id, name, freeform::arguments_of(input).into(), carried)
            }
            _ => return None,
        };
        let own = own(carried, provider, CALL_TYPE);
        let written = own.and_then(|own| own.get("arguments")?.as_str());
        let function = CalledFunction { name, arguments: written.map_or(arguments, Into::into) };
        Some(Self { id, r#type: "function", function, extra_content: own.and_then(|own| own.get("extra_content")) })
    }
}

#[derive(Serialize)]
#[serde(tag = "type", content = "function", rename_all = "snake_case")]
enum WireTool<'a> {
    Function {
        name: &'a str,
        description: &'a str,
        parameters: &'a Value,
    },
    #[serde(rename = "function")]
    Freeform {
        name: &'a str,
        description: Description<'a>,
        parameters: freeform::Schema,
    },
}

impl<'a> From<&'a ToolSpec> for WireTool<'a> {
    fn from(tool: &'a ToolSpec) -> Self {
        match tool {
            ToolSpec::Function { name, description, parameters } => Self::Function { name, description, parameters },
            ToolSpec::Freeform { name, description, grammar } => {
                Self::Freeform { name, description: Description { description, grammar }, parameters: freeform::SCHEMA }
            }
        }
    }
}

/// The raw form in which reasoning is kept.
pub(super) fn raw_reasoning(field: Option<&'static str>, text: &str, details: Vec<Value>) -> Value {
    let mut raw = Map::new();
    raw.insert("type".to_owned(), RAW_TYPE.into());
    if let Some(field) = field {
        raw.insert("field".to_owned(), field.into());
        raw.insert("text".to_owned(), text.into());
    }
    if !details.is_empty() {
        raw.insert("details".to_owned(), details.into());
    }
    Value::Object(raw)
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
