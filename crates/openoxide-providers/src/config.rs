//! What is known of a provider before it is called: where it is, how it is spoken to, and how long to be patient.
//!
//! The values come from the caller, environment variables already resolved; nothing here reads a file or variable.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use openoxide_redact::Redactor;

use crate::{FactOverrides, ModelError, ModelList, Secret};

/// The dialect a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireApi {
    /// The OpenAI Responses API (`POST {base_url}/responses`).
    Responses,
    /// OpenAI Chat Completions (`POST {base_url}/chat/completions`), as nearly every compatible server speaks it.
    Chat,
    /// Anthropic Messages (`POST {base_url}/messages`).
    Messages,
}

impl WireApi {
    /// The word of configuration for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Responses => "responses",
            Self::Chat => "chat",
            Self::Messages => "messages",
        }
    }
}

impl FromStr for WireApi {
    type Err = ModelError;

    /// Reads the configuration value `wire_api`.
    ///
    /// # Errors
    ///
    /// [`ModelError::Config`] for a word that is not built, naming it and what is allowed.
    fn from_str(word: &str) -> Result<Self, ModelError> {
        let all = [Self::Responses, Self::Chat, Self::Messages];
        all.into_iter().find(|api| api.as_str() == word).ok_or_else(|| ModelError::Config {
            reason: format!("wire_api `{word}` is not supported; allowed: `responses`, `chat`, `messages`"),
        })
    }
}

/// The header that carries the API key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyHeader {
    /// `x-api-key` for Messages, `authorization: Bearer` otherwise.
    #[default]
    ByDialect,
    /// `authorization: Bearer`.
    Bearer,
    /// The key alone, in this header (`api-key`).
    Named(String),
}

/// What of Chat Completions a server understands beyond the common part. The default sends nothing that a strict server
/// would refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChatOptions {
    /// Send `prompt_cache_key`.
    pub cache_key: bool,
    /// Send `stream_options.include_usage`. Without it most servers count no tokens. Default true.
    pub include_usage: bool,
    /// The field for the output limit: `max_completion_tokens` where true, `max_tokens` otherwise.
    pub max_completion_tokens: bool,
    /// Mark what may be cached when the model's name says Claude, as OpenRouter has it (`cache_control`).
    pub cache_breakpoints: bool,
}

impl Default for ChatOptions {
    fn default() -> Self {
        Self { cache_key: false, include_usage: true, max_completion_tokens: false, cache_breakpoints: false }
    }
}

/// How to reach one provider. [`ProviderConfig::new`] fills in the defaults named at each field.
#[derive(Clone)]
#[non_exhaustive]
pub struct ProviderConfig {
    /// The key of `model_providers` in configuration (`openai`).
    pub id: String,
    /// The name for a person (`OpenAI`).
    pub name: String,
    /// Where the API begins, `http` or `https`, without the method's own path (`https://api.openai.com/v1`).
    pub base_url: String,
    /// The dialect.
    pub wire_api: WireApi,
    /// Whether a key or another secret may go over `http` to a host that is not this one. Default false: each call then fails.
    pub allow_plain_http: bool,
    /// Sent in `key_header` when present.
    pub api_key: Option<Secret>,
    /// Where the key goes. Default: as the dialect has it.
    pub key_header: KeyHeader,
    /// The environment variable that should have held the key and does not: each call then fails and names it.
    pub missing_key: Option<String>,
    /// Headers added to each request. They win over the ones made here, `authorization` included.
    pub http_headers: BTreeMap<String, String>,
    /// Query parameters added to each request, unescaped.
    pub query_params: BTreeMap<String, String>,
    /// Whether thinking that belongs to another beginning of a conversation is to be dropped by the server rather than refused, for
    /// [`WireApi::Messages`]: a server that does not know how refuses every request that asks for it. Default: only at
    /// `api.anthropic.com`.
    pub drops_unbound_thinking: Option<bool>,
    /// What the server understands, for [`WireApi::Chat`].
    pub chat: ChatOptions,
    /// Where it says how much its models read, which is asked once for each. Default: nowhere.
    pub model_list: Option<ModelList>,
    /// What is known better than the catalogue does, for every model of this provider.
    pub facts: FactOverrides,
    /// How hard the model thinks (`low`, `medium`, `high`, ...). Default: not sent, the provider decides.
    pub reasoning_effort: Option<String>,
    /// What is told of the reasoning over Responses (`auto`, `concise`, `detailed`, `none`). Default: `auto`. Some accounts
    /// are refused summaries; `none` is for them.
    pub reasoning_summary: Option<String>,
    /// Most tokens of one response. Default: not sent, except in Messages, which wants it: the model's limit.
    pub max_output_tokens: Option<u64>,
    /// How many more times a request is sent that got no stream (reset connection, 408, 409, 429, 5xx). A connection that
    /// is refused is tried at most twice more whatever this says. Default 4.
    pub request_max_retries: u32,
    /// How many more times a request is sent whose stream broke or failed; at most once more after a silence. Default 5.
    pub stream_max_retries: u32,
    /// Longest silence within a stream. Default 300 s.
    pub stream_idle_timeout: Duration,
    /// Longest wait for a connection, TLS included. Default 10 s.
    pub connect_timeout: Duration,
    /// Longest wait from sending the request to the head of the response. Default 300 s.
    pub header_timeout: Duration,
}

impl ProviderConfig {
    /// Everything secret that is sent to this provider, and that it may therefore repeat.
    pub(crate) fn redactor(&self) -> Redactor {
        let mut redactor = Redactor::default();
        if let Some(key) = &self.api_key {
            redactor.add(key.expose());
        }
        for (name, value) in self.http_headers.iter().chain(&self.query_params) {
            redactor.add_value(name, value);
        }
        if let Ok(url) = reqwest::Url::parse(self.base_url.trim()) {
            // Without a password the name is the secret.
            redactor.add(url.password().unwrap_or(url.username()));
            url.query_pairs().for_each(|(name, value)| redactor.add_value(&name, &value));
        }
        redactor
    }

    /// Whether a request may have thinking dropped; see [`ProviderConfig::drops_unbound_thinking`].
    pub(crate) fn drops_unbound_thinking(&self) -> bool {
        let is_anthropic = || {
            let url = reqwest::Url::parse(self.base_url.trim());
            url.is_ok_and(|url| url.host_str() == Some("api.anthropic.com"))
        };
        self.wire_api == WireApi::Messages && self.drops_unbound_thinking.unwrap_or_else(is_anthropic)
    }

    /// A provider with every default, no key and no extra headers.
    pub fn new(id: impl Into<String>, base_url: impl Into<String>) -> Self {
        let id = id.into();
        Self {
            name: id.clone(),
            id,
            base_url: base_url.into(),
            wire_api: WireApi::Responses,
            allow_plain_http: false,
            api_key: None,
            key_header: KeyHeader::ByDialect,
            missing_key: None,
            http_headers: BTreeMap::new(),
            query_params: BTreeMap::new(),
            drops_unbound_thinking: None,
            chat: ChatOptions::default(),
            model_list: None,
            facts: FactOverrides::default(),
            reasoning_effort: None,
            reasoning_summary: None,
            max_output_tokens: None,
            request_max_retries: 4,
            stream_max_retries: 5,
            stream_idle_timeout: Duration::from_secs(300),
            connect_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(300),
        }
    }
}

// Written by hand: header and query values may be secrets, so only their names are shown.
impl fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderConfig")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("base_url", &openoxide_redact::redact(&self.base_url))
            .field("wire_api", &self.wire_api)
            .field("allow_plain_http", &self.allow_plain_http)
            .field("api_key", &self.api_key)
            .field("key_header", &self.key_header)
            .field("missing_key", &self.missing_key)
            .field("http_headers", &self.http_headers.keys().collect::<Vec<_>>())
            .field("query_params", &self.query_params.keys().collect::<Vec<_>>())
            .field("drops_unbound_thinking", &self.drops_unbound_thinking)
            .field("chat", &self.chat)
            .field("model_list", &self.model_list)
            .field("facts", &self.facts)
            .field("reasoning_effort", &self.reasoning_effort)
            .field("reasoning_summary", &self.reasoning_summary)
            .field("max_output_tokens", &self.max_output_tokens)
            .field("request_max_retries", &self.request_max_retries)
            .field("stream_max_retries", &self.stream_max_retries)
            .field("stream_idle_timeout", &self.stream_idle_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("header_timeout", &self.header_timeout)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_wire_api_is_refused_by_name() {
        for api in [WireApi::Responses, WireApi::Chat, WireApi::Messages] {
            assert_eq!(api.as_str().parse::<WireApi>().unwrap(), api);
        }
        let error = "completions".parse::<WireApi>().unwrap_err().to_string();
        assert!(error.contains("`completions`") && error.contains("`messages`"), "{error}");
    }

    #[test]
    fn debug_shows_no_secret() {
        let mut config = ProviderConfig::new("x", "http://user:sk-login@127.0.0.1:1/v1?key=sk-query");
        config.api_key = Some(Secret::new("sk-key"));
        config.http_headers.insert("x-token".into(), "sk-header".into());
        config.query_params.insert("sig".into(), "sk-query".into());
        let shown = format!("{config:?}");
        assert!(!shown.contains("sk-"), "{shown}");
        assert!(shown.contains("x-token"), "{shown}");
    }
}
