//! What goes into a model and what comes out of it, in no provider's dialect.
//!
//! History items are what a thread remembers and replays; the adapters turn them into a request body. Nothing
//! here opens a connection or knows a wire format.

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The person or program that gave the task.
    User,
    /// The model.
    Assistant,
    /// The operator's or caller's standing instructions.
    Developer,
}

/// What a provider's own form of an item holds beyond what the item says (`phase`, ids, status), as an object with the
/// provider's id added as `_provider`. Like reasoning it goes back to the provider that made it as it came, and to no other; nothing
/// else reads it.
pub type Carried = Option<Box<serde_json::Value>>;

/// One entry of a thread's history, in the order it is replayed to the model.
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryItem {
    /// A message of text.
    Message {
        /// Who wrote it.
        role: Role,
        /// The text.
        text: String,
        /// See [`Carried`].
        carried: Carried,
    },
    /// What the agent itself tells the model: where it works, project documents, what became of a turn. It goes to the
    /// model in the user's role, and is nothing that the user has said.
    Note {
        /// The text.
        text: String,
    },
    /// An image that a person or a tool gives the model. A model that cannot see is told that there was one.
    Image {
        /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
        media_type: String,
        /// The file, in base64 with padding.
        data: String,
    },
    /// A reasoning item. `raw` is replayed to the provider that made it, and to no other.
    Reasoning {
        /// What may be shown to a person.
        summary: String,
        /// The provider's own item as its dialect writes it, with the provider's id added as `_provider`.
        raw: serde_json::Value,
    },
    /// The model calls a tool with a JSON object of arguments.
    FunctionCall {
        /// Ties the call to its output.
        call_id: String,
        /// The tool's name.
        name: String,
        /// A JSON document as the model wrote it, perhaps not valid.
        arguments: String,
        /// See [`Carried`].
        carried: Carried,
    },
    /// The model calls a freeform tool with plain text.
    CustomToolCall {
        /// Ties the call to its output.
        call_id: String,
        /// The tool's name.
        name: String,
        /// The text.
        input: String,
        /// See [`Carried`].
        carried: Carried,
    },
    /// What a call came to, as told to the model.
    ToolOutput {
        /// The call it answers.
        call_id: String,
        /// Whether the call was a [`HistoryItem::CustomToolCall`].
        custom: bool,
        /// The text.
        output: String,
    },
}

/// A tool offered to the model.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolSpec {
    /// A tool called with a JSON object.
    Function {
        /// Name.
        name: String,
        /// What it does, for the model.
        description: String,
        /// JSON Schema of the arguments.
        parameters: serde_json::Value,
    },
    /// A tool called with text in a grammar (Responses API `custom`). Providers without it get a function with one
    /// string argument named `input`, and the call comes back as a [`HistoryItem::CustomToolCall`] all the same.
    Freeform {
        /// Name.
        name: String,
        /// What it does, for the model.
        description: String,
        /// A Lark grammar of the input.
        grammar: String,
    },
}

impl ToolSpec {
    /// What the model calls it by.
    pub fn name(&self) -> &str {
        match self {
            Self::Function { name, .. } | Self::Freeform { name, .. } => name,
        }
    }
}

/// How a model is to reason, where a caller says so; else the provider's configuration holds.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReasoningChoice<'a> {
    /// How much (`low`, `high`, ...).
    pub effort: Option<&'a str>,
    /// What is told of it (`auto`, `concise`, `detailed`, `none`).
    pub summary: Option<&'a str>,
}

/// One request for one model response. Borrowed: a provider writes the body before it returns its stream.
#[derive(Debug, Clone, Copy)]
pub struct ModelRequest<'a> {
    /// Model name as the provider knows it.
    pub model: &'a str,
    /// Base instructions (system prompt).
    pub instructions: &'a str,
    /// The whole history, oldest first.
    pub input: &'a [std::sync::Arc<HistoryItem>],
    /// Tools on offer, in a fixed order.
    pub tools: &'a [ToolSpec],
    /// Stable for a thread and for the questions on it, so that the provider can cache the prefix.
    pub cache_key: &'a str,
    /// How to reason.
    pub reasoning: ReasoningChoice<'a>,
}

/// Tokens of one response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens read, cached ones included.
    pub input_tokens: u64,
    /// Of `input_tokens`, those the provider had cached.
    pub cached_input_tokens: u64,
    /// Tokens written, reasoning included.
    pub output_tokens: u64,
    /// Of `output_tokens`, those spent on reasoning.
    pub reasoning_output_tokens: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.cached_input_tokens += other.cached_input_tokens;
        self.output_tokens += other.output_tokens;
        self.reasoning_output_tokens += other.reasoning_output_tokens;
    }
}

/// What kind of item the model has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    /// A message.
    Message,
    /// Reasoning.
    Reasoning,
    /// A call of a tool.
    ToolCall,
}

/// Why a response that calls nothing does not end the model's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfinished {
    /// The provider stopped in the middle and wants to be asked again with what it has said so far (`pause_turn` of
    /// Anthropic Messages).
    Paused,
    /// The model says that it goes on (`end_turn: false` of OpenAI Responses), or has said nothing but what it is about to do
    /// (phase `commentary`).
    GoesOn,
    /// The response reached the most that it may hold. What was called is left out, since the last call may be torn.
    Cut,
}

/// One step of a streaming response.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// An item has begun; the deltas that follow belong to it until [`ModelEvent::ItemDone`].
    ItemStarted(ItemKind),
    /// More text of the message under way.
    TextDelta(String),
    /// More reasoning that may be shown.
    ReasoningDelta(String),
    /// The item is complete; authoritative whatever the deltas said.
    ItemDone(HistoryItem),
    /// What was shown of the response so far is void: its items start again, with the attempt that
    /// follows. So is reasoning that was done. Comes right before the [`ModelEvent::Retrying`] of an
    /// attempt that follows one which had shown something, and never after an [`ModelEvent::ItemDone`] of anything but
    /// reasoning.
    Restarted {
        /// The kind of the item that was under way.
        kind: ItemKind,
        /// How many bytes of deltas of it had been handed out.
        shown_bytes: usize,
    },
    /// An attempt failed and another begins after the pause. Never comes after an [`ModelEvent::ItemDone`] of anything
    /// but reasoning.
    Retrying {
        /// The attempt that begins, from 2.
        attempt: u32,
        /// The most attempts there will be.
        max_attempts: u32,
        /// Milliseconds to wait before it.
        delay_ms: u64,
        /// What went wrong, for a person.
        reason: String,
    },
    /// The provider refused reasoning of the history, since it belongs to another beginning of the conversation, and was asked
    /// again without: from here on it stays left out ([`crate::unbound`]). Comes before anything that the response says.
    Unbound,
    /// The response is complete and the model's turn is not. Comes right before [`ModelEvent::Completed`].
    Unfinished(Unfinished),
    /// The response is complete. Last event of a good stream.
    Completed {
        /// Tokens of this response.
        usage: Usage,
    },
}
