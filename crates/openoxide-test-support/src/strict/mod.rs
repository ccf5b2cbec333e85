//! A model server that keeps its makers' rules to the letter, in each of the three dialects, and refuses with 400 whatever
//! breaks one. What it says is scripted by the prompt (`script`); what it checks is in `messages`, `responses` and `chat`,
//! each rule with its source; what a request would cost is counted by `cache`. It listens on a loopback address, in threads of its
//! own, and ends with the test program.
//!
//! A conversation is known by its first scripted prompt, so a fork, a query and a compacted thread are the same conversation.

mod cache;
mod chat;
mod messages;
mod responses;
mod script;
mod serve;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use self::cache::Cache;
use self::script::Step;

/// The dialects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
    /// Chat Completions, as DeepSeek and OpenRouter extend it.
    Chat,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Responses, Self::Messages, Self::Chat];

    /// The word of `wire_api`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Chat => "chat",
        }
    }
}

/// What one request came to.
#[derive(Debug, Clone)]
pub struct Row {
    /// The first words of the prompt that it answers.
    pub label: String,
    /// Bytes of the request.
    pub bytes: usize,
    /// Tokens read, at 4 bytes each.
    pub tokens: u64,
    /// Of those, the ones that a cache had.
    pub cached: u64,
}

/// The server.
#[derive(Clone)]
pub struct StrictModel {
    address: SocketAddr,
    dialect: Dialect,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    conversations: HashMap<String, Conversation>,
    /// How often each scripted prompt was answered.
    answered: HashMap<String, usize>,
    requests: Vec<Value>,
    rows: Vec<Row>,
    refusals: Vec<String>,
    dropped: Vec<String>,
    cache: Cache,
    /// How often a conversation may have changed its prefix by now.
    upgrades: usize,
    ids: usize,
    refuses_beta: bool,
    is_lenient: bool,
}

/// What is remembered of a conversation.
#[derive(Default)]
struct Conversation {
    /// Instructions, tools and settings of thinking, each with its name.
    prefix: Vec<(&'static str, String)>,
    upgrades: usize,
    /// What the model made, in the form in which it has to come back.
    given: Vec<String>,
}

/// What breaks a rule.
type Refusal = String;

impl StrictModel {
    /// Starts it.
    pub fn start(dialect: Dialect) -> Self {
        let state = Arc::default();
        let address = serve::listen(dialect, Arc::clone(&state));
        Self { address, dialect, state }
    }

    /// Where its API begins.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// What makes a server use it, with this model.
    pub fn arguments(&self, model: &str) -> Vec<String> {
        let url = self.url();
        let set = [
            ("model_provider", "strict"),
            ("model", model),
            ("model_providers.strict.base_url", &url),
            ("model_providers.strict.wire_api", self.dialect.word()),
        ];
        set.iter().flat_map(|(key, value)| ["-c".to_owned(), format!("{key}=\"{value}\"")]).collect()
    }

    /// Lets each conversation change its prefix once more, as a new release does.
    pub fn upgrade(&self) {
        self.state().upgrades += 1;
    }

    /// Takes the model's items back in any form, for programs whose requests are only to be counted.
    pub fn be_lenient(&self) {
        self.state().is_lenient = true;
    }

    /// From here on it knows no `drop_block`, as many gateways.
    pub fn refuse_beta(&self) {
        self.state().refuses_beta = true;
    }

    /// Requests that broke a rule, and which.
    pub fn refusals(&self) -> Vec<String> {
        self.state().refusals.clone()
    }

    /// Thinking blocks that were dropped, since the request asked for that.
    pub fn dropped(&self) -> Vec<String> {
        self.state().dropped.clone()
    }

    /// The requests that were answered, in order.
    pub fn requests(&self) -> Vec<Value> {
        self.state().requests.clone()
    }

    /// What they came to.
    pub fn rows(&self) -> Vec<Row> {
        self.state().rows.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next_id(&mut self, kind: &str) -> String {
        self.ids += 1;
        format!("{kind}_{:04}", self.ids)
    }

    /// The step of the script that a request asks for.
    fn step(&mut self, prompts: &[String]) -> (String, Step) {
        let Some(prompt) = prompts.iter().rev().find(|prompt| script::is_scripted(prompt)) else {
            return (String::new(), Step::say("done"));
        };
        if prompts.last().is_some_and(|last| script::asks_for_a_summary(last)) {
            return (prompt.clone(), Step::say("It went well."));
        }
        let at = self.answered.entry(prompt.clone()).or_default();
        let step = script::step(prompt, *at);
        *at += 1;
        (prompt.clone(), step)
    }

    /// Rule: instructions, tools and the settings of thinking are those of the conversation's first request. Source: Claude
    /// docs, "Prefix checks on thinking blocks" (build `system` and `tools` once and send this copy each time) and "Prompt
    /// caching" (what invalidates the cache: tool definitions, thinking parameters); OpenAI docs, "Prompt caching" (only an
    /// exact prefix hits: instructions and tools stand in front and must be identical).
    fn check_prefix(&mut self, key: &str, prefix: Vec<(&'static str, String)>) -> Result<(), Refusal> {
        let upgrades = self.upgrades;
        let known = self.conversations.entry(key.to_owned()).or_default();
        if known.prefix.is_empty() {
            (known.prefix, known.upgrades) = (prefix, upgrades);
            return Ok(());
        }
        let changed: Vec<&str> =
            known.prefix.iter().zip(&prefix).filter(|(old, new)| old != new).map(|(old, _)| old.0).collect();
        if changed.is_empty() {
            return Ok(());
        }
        if known.upgrades < upgrades && !changed.contains(&"thinking") {
            (known.prefix, known.upgrades) = (prefix, upgrades);
            return Ok(());
        }
        Err(format!("prefix: {} changed within the conversation", changed.join(" and ")))
    }

    /// What was given in a conversation.
    fn given(&self, key: &str) -> &[String] {
        self.conversations.get(key).map_or(&[], |conversation| &conversation.given)
    }

    fn gives(&mut self, key: &str, item: &Value) {
        self.conversations.entry(key.to_owned()).or_default().given.push(canonical(item));
    }
}

/// A value's text without marks for a cache.
fn canonical(value: &Value) -> String {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("cache_control");
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut value = value.clone();
    strip(&mut value);
    value.to_string()
}

/// A short name for a text.
fn hash(parts: &[&str]) -> String {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// The elements of a list, none where it is no list.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Rows as a table, a title above.
pub fn table(title: &str, rows: &[Row]) -> String {
    use std::fmt::Write as _;
    let mut text = format!("{title}\n  request  bytes    tokens  cached  uncached  prompt\n");
    for (at, row) in rows.iter().enumerate() {
        let Row { label, bytes, tokens, cached } = row;
        let label = label.lines().next().unwrap_or_default();
        let uncached = tokens - cached;
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {:>7}  {bytes:>7}  {tokens:>6}  {cached:>6}  {uncached:>8}  {label}", at + 1);
    }
    let sum = |of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>();
    let (tokens, cached) = (sum(|row| row.tokens), sum(|row| row.cached));
    let _ = writeln!(text, "  all      {:>7}  {tokens:>6}  {cached:>6}  {:>8}", "", tokens - cached);
    text
}
