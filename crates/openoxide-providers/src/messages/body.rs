//! Writes the body of a Messages request straight from the borrowed history.
//!
//! Cache breakpoints are set at the end of the tools, of the system prompt and of the last two user messages: four, the
//! most that are allowed. Of the last two one was the last in the request before, so its prefix is found again.
//! Field names: Anthropic API reference, `POST /v1/messages`.

use std::borrow::Cow;

use serde::{Serialize, Serializer, ser::SerializeSeq};
use serde_json::{Map, Value};

use super::blocks::{Block, CacheControl, Input, Source, Unsigned, WholeCall, safe_id};
use crate::{
    Carried, HistoryItem, ModelFacts, ModelRequest, ProviderConfig, Reasoning, ReasoningChoice, ToolSpec,
    freeform::{self, Description},
    remote::{
        carried::{Fill, Whole, own},
        history::{Given, Output, Turn, arguments_object, order, own_reasoning},
    },
};

/// Most tokens asked for when configuration names no number: a request for more than a model's account may have at once
/// is refused, and no step of an agent needs it. With thinking, which counts among them, twice as many.
const MAX_TOKENS: u64 = 32_000;
const MAX_TOKENS_WITH_THINKING: u64 = 64_000;
/// Least thinking that may be asked for.
const LEAST_BUDGET: u64 = 1_024;

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
    let messages = Messages::new(&ordered.turns, &config.id);
    let effort = request.reasoning.effort.or(config.reasoning_effort.as_deref());
    // Whatever the history holds: a request that asks for thinking where the one before it did not has lost the cache, and where
    // it does not fit the history the API leaves it out by itself.
    let thinks = !thinking(request.reasoning, config, facts).is_empty();
    let most = if thinks { MAX_TOKENS_WITH_THINKING } else { MAX_TOKENS };
    let max_tokens = config.max_output_tokens.unwrap_or_else(|| facts.max_output_tokens.min(most));
    let effort = effort.filter(|effort| *effort != "none");
    let block_binding =
        config.drops_unbound_thinking().then_some(BlockBinding { prefix_mismatch_behavior: "drop_block" });
    let thinking = match facts.reasoning {
        _ if !thinks => None,
        Reasoning::Effort => Some(Thinking::Adaptive { display: "summarized", block_binding }),
        _ => effort.and_then(|effort| Thinking::within(effort, max_tokens)),
    };
    let speaks_of_effort = matches!(facts.reasoning, Reasoning::Effort);
    serde_json::to_vec(&Body {
        model: request.model,
        max_tokens,
        system: System(&ordered.system),
        messages,
        tools: Tools(request.tools),
        thinking,
        output_config: effort.filter(|_| speaks_of_effort).map(|effort| OutputConfig { effort }),
        stream: true,
    })
}

/// The type of thinking that every request of a thread asks for; empty where none is asked for.
pub(crate) fn thinking(choice: ReasoningChoice<'_>, config: &ProviderConfig, facts: &ModelFacts) -> &'static str {
    let effort = choice.effort.or(config.reasoning_effort.as_deref());
    match facts.reasoning {
        _ if effort == Some("none") => "",
        Reasoning::Effort => "adaptive",
        Reasoning::Budget if effort.is_some() => "enabled",
        Reasoning::Budget | Reasoning::None | Reasoning::Unknown => "",
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "System::is_empty")]
    system: System<'a>,
    #[serde(skip_serializing_if = "Tools::is_empty")]
    tools: Tools<'a>,
    messages: Messages<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    stream: bool,
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    effort: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    Adaptive {
        display: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        block_binding: Option<BlockBinding>,
    },
    Enabled {
        budget_tokens: u64,
    },
}

/// What becomes of thinking that belongs to another beginning of the conversation (Claude docs, "Prefix checks on thinking
/// blocks"; needs [`BINDING_BETA`]). Nothing here sends such thinking on purpose; it is a net.
#[derive(Serialize)]
struct BlockBinding {
    prefix_mismatch_behavior: &'static str,
}

/// The beta header that a request with `block_binding` must have.
pub(crate) const BINDING_BETA: &str = "thinking-binding-controls-2026-08-01";

impl Thinking {
    /// A budget for a word of effort; `None` where the response leaves no room for thinking.
    fn within(effort: &str, max_tokens: u64) -> Option<Self> {
        let asked = match effort {
            "minimal" => LEAST_BUDGET,
            "low" => 4_096,
            "medium" => 10_000,
            _ => 24_000,
        };
        let budget_tokens = asked.min(max_tokens / 2);
        (budget_tokens >= LEAST_BUDGET).then_some(Self::Enabled { budget_tokens })
    }
}

struct System<'a>(&'a [&'a str]);

impl System<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for System<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let last = self.0.len().saturating_sub(1);
        serializer.collect_seq(
            self.0
                .iter()
                .enumerate()
                .map(|(at, text)| Block::Text { text, cache_control: CacheControl::when(at == last) }),
        )
    }
}

struct Tools<'a>(&'a [ToolSpec]);

impl Tools<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let last = self.0.len().saturating_sub(1);
        serializer.collect_seq(self.0.iter().enumerate().map(|(at, tool)| {
            let cache_control = CacheControl::when(at == last);
            match tool {
                ToolSpec::Function { name, description, parameters } => {
                    WireTool::Function { name, description, input_schema: parameters, cache_control }
                }
                ToolSpec::Freeform { name, description, grammar } => WireTool::Freeform {
                    name,
                    description: Description { description, grammar },
                    input_schema: freeform::SCHEMA,
                    cache_control,
                },
            }
        }))
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireTool<'a> {
    Function {
        name: &'a str,
        description: &'a str,
        input_schema: &'a Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Freeform {
        name: &'a str,
        description: Description<'a>,
        input_schema: freeform::Schema,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
}

/// Messages that alternate between the two sides.
struct Messages<'a> {
    messages: Vec<Message<'a>>,
    provider: &'a str,
}

enum Message<'a> {
    User { outputs: &'a [Output<'a>], given: &'a [Given<'a>] },
    Assistant(&'a [&'a HistoryItem]),
}

/// Stands before a history that begins with the model's words: the API wants the user's first.
const OPENING: &[Given<'static>] = &[Given::Text("The conversation so far follows.")];

impl<'a> Messages<'a> {
    fn new(turns: &'a [Turn<'a>], provider: &'a str) -> Self {
        let mut messages: Vec<Message<'a>> = Vec::with_capacity(turns.len() + 1);
        for turn in turns {
            match (turn, messages.last_mut()) {
                (Turn::User(more), Some(Message::User { given, .. })) if given.is_empty() => *given = more,
                (Turn::User(given), _) => messages.push(Message::User { outputs: &[], given }),
                (Turn::Outputs(outputs), _) => messages.push(Message::User { outputs, given: &[] }),
                (Turn::Assistant(said), last) => {
                    // A response of nothing but another provider's reasoning leaves nothing to send.
                    if Self::blocks(said, provider).next().is_none() {
                        continue;
                    }
                    if last.is_none() {
                        messages.push(Message::User { outputs: &[], given: OPENING });
                    }
                    messages.push(Message::Assistant(said));
                }
            }
        }
        Self { messages, provider }
    }

    fn blocks(said: &'a [&'a HistoryItem], provider: &'a str) -> impl Iterator<Item = Block<'a>> {
        let call = move |carried: &'a Carried, id: &'a str, name: &'a str, input: Cow<'a, str>| match own(
            carried, provider, "tool_use",
        ) {
            // Under the id that its output names.
            Some(carried) if carried.get("id").and_then(Value::as_str) == Some(&*safe_id(id)) => {
                Block::WholeCall(WholeCall { carried, input })
            }
            _ => Block::ToolUse { id: safe_id(id), name, input: Input::new(input) },
        };
        said.iter().filter_map(move |item| match item {
            // The API refuses what is empty, also where it came from itself.
            HistoryItem::Message { text, .. } if text.trim().is_empty() => None,
            HistoryItem::Message { text, carried, .. } => Some(match own(carried, provider, "text") {
                Some(carried) => Block::Whole(Whole { carried, name: "text", fill: Fill::Text(text) }),
                None => Block::Text { text, cache_control: None },
            }),
            HistoryItem::FunctionCall { call_id, name, arguments, carried } => {
                Some(call(carried, call_id, name, arguments_object(arguments)))
            }
            HistoryItem::CustomToolCall { call_id, name, input, carried } => {
                Some(call(carried, call_id, name, freeform::arguments_of(input).into()))
            }
            HistoryItem::Reasoning { .. } => {
                own_reasoning(item, provider).filter(|raw| is_thinking(raw)).map(|raw| Block::Thinking(Unsigned(raw)))
            }
            HistoryItem::Note { .. } | HistoryItem::Image { .. } | HistoryItem::ToolOutput { .. } => None,
        })
    }
}

/// Whether the raw form is a block of this dialect.
fn is_thinking(raw: &Map<String, Value>) -> bool {
    matches!(raw.get("type").and_then(Value::as_str), Some("thinking" | "redacted_thinking"))
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut users_left = self.messages.iter().filter(|message| matches!(message, Message::User { .. })).count();
        let mut list = serializer.serialize_seq(Some(self.messages.len()))?;
        for message in &self.messages {
            match message {
                Message::User { outputs, given } => {
                    let mark = users_left <= 2;
                    users_left -= 1;
                    list.serialize_element(&WireMessage { role: "user", content: Blocks { outputs, given, mark } })?;
                }
                Message::Assistant(said) => {
                    let content = Said { said, provider: self.provider };
                    list.serialize_element(&WireMessage { role: "assistant", content })?;
                }
            }
        }
        list.end()
    }
}

#[derive(Serialize)]
struct WireMessage<C> {
    role: &'static str,
    content: C,
}

/// The blocks of one response.
struct Said<'a> {
    said: &'a [&'a HistoryItem],
    provider: &'a str,
}

impl Serialize for Said<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(Messages::blocks(self.said, self.provider))
    }
}

/// The blocks of a user message: the outputs of the calls first, as the API wants it.
struct Blocks<'a> {
    outputs: &'a [Output<'a>],
    given: &'a [Given<'a>],
    mark: bool,
}

impl Serialize for Blocks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let last = (self.outputs.len() + self.given.len()).saturating_sub(1);
        let mark = |at: usize| CacheControl::when(self.mark && at == last);
        let outputs = self.outputs.iter().enumerate().map(|(at, output)| Block::ToolResult {
            tool_use_id: safe_id(output.call_id),
            content: output.text,
            cache_control: mark(at),
        });
        let given = self.given.iter().enumerate().map(|(at, given)| {
            let cache_control = mark(self.outputs.len() + at);
            match *given {
                Given::Image { media_type, data } => {
                    Block::Image { source: Source { r#type: "base64", media_type, data }, cache_control }
                }
                other => Block::Text { text: other.text().unwrap_or_default(), cache_control },
            }
        });
        serializer.collect_seq(outputs.chain(given))
    }
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
