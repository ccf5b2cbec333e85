//! The built-in providers. Each is a [`ProviderConfig`] with the address, dialect and quirks filled in; the caller adds the
//! key it found in the environment or in storage, and what configuration says otherwise.

use crate::{ChatOptions, KeyHeader, ModelList, ProviderConfig, WireApi};

/// One built-in provider.
#[derive(Debug, Clone)]
pub struct Preset {
    /// The id in configuration (`openai`).
    pub id: &'static str,
    /// The name for a person.
    pub name: &'static str,
    /// Where the API begins; `None` where every account has an address of its own.
    pub base_url: Option<&'static str>,
    /// The dialect.
    pub wire_api: WireApi,
    /// The environment variable that holds the key; `None` where none is needed.
    pub env_key: Option<&'static str>,
    /// The environment variable that its own libraries take another address from, in the form that they take it.
    pub base_url_env: Option<&'static str>,
    /// The header that carries the key, where it is not the dialect's own.
    key_header: Option<&'static str>,
    /// What it understands of Chat Completions, where that is more than the common part.
    chat: Option<ChatOptions>,
    query: &'static [(&'static str, &'static str)],
    model_list: Option<ModelList>,
}

const OPENAI_CHAT: ChatOptions =
    ChatOptions { cache_key: true, include_usage: true, max_completion_tokens: true, cache_breakpoints: false };
const OPENROUTER_CHAT: ChatOptions =
    ChatOptions { cache_key: false, include_usage: true, max_completion_tokens: false, cache_breakpoints: true };

const PRESETS: &[Preset] = &[
    Preset {
        id: "openai",
        name: "OpenAI",
        base_url: Some("https://api.openai.com/v1"),
        wire_api: WireApi::Responses,
        env_key: Some("OPENAI_API_KEY"),
        base_url_env: Some("OPENAI_BASE_URL"),
        key_header: None,
        chat: Some(OPENAI_CHAT),
        query: &[],
        model_list: None,
    },
    Preset {
        id: "anthropic",
        name: "Anthropic",
        base_url: Some("https://api.anthropic.com/v1"),
        wire_api: WireApi::Messages,
        env_key: Some("ANTHROPIC_API_KEY"),
        base_url_env: Some("ANTHROPIC_BASE_URL"),
        key_header: None,
        chat: None,
        query: &[],
        model_list: Some(ModelList::Anthropic),
    },
    Preset {
        id: "openrouter",
        name: "OpenRouter",
        base_url: Some("https://openrouter.ai/api/v1"),
        wire_api: WireApi::Chat,
        env_key: Some("OPENROUTER_API_KEY"),
        base_url_env: Some("OPENROUTER_BASE_URL"),
        key_header: None,
        chat: Some(OPENROUTER_CHAT),
        query: &[],
        model_list: Some(ModelList::OpenRouter),
    },
    Preset {
        id: "azure",
        name: "Azure OpenAI",
        base_url: None,
        wire_api: WireApi::Responses,
        env_key: Some("AZURE_OPENAI_API_KEY"),
        base_url_env: None,
        key_header: Some("api-key"),
        chat: Some(OPENAI_CHAT),
        query: &[("api-version", "v1")],
        model_list: None,
    },
    Preset {
        id: "ollama",
        name: "Ollama",
        base_url: Some("http://localhost:11434/v1"),
        wire_api: WireApi::Chat,
        env_key: None,
        base_url_env: None,
        key_header: None,
        chat: None,
        query: &[],
        model_list: Some(ModelList::Ollama),
    },
    Preset {
        id: "lmstudio",
        name: "LM Studio",
        base_url: Some("http://localhost:1234/v1"),
        wire_api: WireApi::Chat,
        env_key: None,
        base_url_env: None,
        key_header: None,
        chat: None,
        query: &[],
        model_list: Some(ModelList::LmStudio),
    },
];

impl Preset {
    /// All built-in providers, in the order in which a person is shown them.
    pub fn all() -> &'static [Self] {
        PRESETS
    }

    /// The built-in provider of this id.
    pub fn find(id: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.id == id)
    }

    /// The address that requests are made below, from what [`Preset::base_url_env`] holds: Anthropic's libraries add the
    /// version to it.
    pub fn base_url_of(&self, value: &str) -> String {
        let url = value.trim_end_matches('/');
        match self.wire_api {
            WireApi::Messages if !url.ends_with("/v1") => format!("{url}/v1"),
            WireApi::Messages | WireApi::Responses | WireApi::Chat => url.to_owned(),
        }
    }

    /// Its configuration, with no key. `base_url` is empty where [`Preset::base_url`] is `None`; fill it in.
    pub fn config(&self) -> ProviderConfig {
        let mut config = ProviderConfig::new(self.id, self.base_url.unwrap_or_default());
        config.name = self.name.to_owned();
        config.wire_api = self.wire_api;
        if let Some(header) = self.key_header {
            config.key_header = KeyHeader::Named(header.to_owned());
        }
        config.model_list = self.model_list;
        config.chat = self.chat.clone().unwrap_or_default();
        config.query_params = self.query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_fills_in_what_its_provider_needs() {
        let azure = Preset::find("azure").unwrap().config();
        assert_eq!(azure.key_header, KeyHeader::Named("api-key".into()));
        assert_eq!(azure.query_params["api-version"], "v1");
        let anthropic = Preset::find("anthropic").unwrap().config();
        assert_eq!((anthropic.wire_api, anthropic.key_header), (WireApi::Messages, KeyHeader::ByDialect));
        let anthropic = Preset::find("anthropic").unwrap();
        for (given, means) in [
            ("http://gateway", "http://gateway/v1"),
            ("http://gateway/anthropic/", "http://gateway/anthropic/v1"),
            ("http://gateway/v1", "http://gateway/v1"),
        ] {
            assert_eq!(anthropic.base_url_of(given), means);
        }
        assert_eq!(Preset::find("openai").unwrap().base_url_of("http://gateway/openai"), "http://gateway/openai");
        assert!(Preset::find("nobody").is_none());
        for preset in Preset::all() {
            let is_local = preset.base_url.is_some_and(|url| url.contains("localhost"));
            assert_eq!(preset.env_key.is_none(), is_local, "{}", preset.id);
        }
    }
}
