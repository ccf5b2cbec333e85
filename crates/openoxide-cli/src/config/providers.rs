//! From configuration to a provider: the built-in ones, what a table says otherwise, and where the key comes from.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use openoxide_llm::Provider;
use openoxide_providers::{HttpClient, HttpProvider, Offline, Preset, ProviderConfig, Secret};
use serde::Deserialize;

use super::{Config, auth, shown};

/// The id of the stand-in that needs nothing.
pub(crate) const OFFLINE: &str = "offline";

/// `[model_providers.<id>]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ProviderTable {
    name: Option<String>,
    base_url: Option<String>,
    wire_api: Option<String>,
    allow_plain_http: bool,
    env_key: Option<String>,
    http_headers: BTreeMap<String, String>,
    env_http_headers: BTreeMap<String, String>,
    query_params: BTreeMap<String, String>,
    request_max_retries: Option<u32>,
    stream_max_retries: Option<u32>,
    stream_idle_timeout_ms: Option<u64>,
    connect_timeout_ms: Option<u64>,
    header_timeout_ms: Option<u64>,
    supports_freeform: Option<bool>,
    supports_images: Option<bool>,
}

impl ProviderTable {
    /// The variables that hold its key and headers.
    pub(crate) fn secret_variables(&self) -> impl Iterator<Item = &str> {
        self.env_key.iter().chain(self.env_http_headers.values()).map(String::as_str)
    }

    /// Refuses a table that could never be used.
    pub(crate) fn check(&self, id: &str) -> anyhow::Result<()> {
        if let Some(wire_api) = &self.wire_api {
            wire_api
                .parse::<openoxide_providers::WireApi>()
                .map_err(|error| anyhow::anyhow!("model_providers.{id}.wire_api: {error}"))?;
        }
        for name in self.secret_variables() {
            let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if name.is_empty() || !is_name {
                bail!(
                    "model_providers.{id}.env_key and env_http_headers name environment variables (letters, digits and _), and \
                     what stands there is not shown, since it may be a key; put the name there, and store a key with \
                     `openoxide login {id}`"
                );
            }
        }
        if self.base_url.is_none() && Preset::find(id).is_none() {
            bail!("model_providers.{id}.base_url is missing; give the URL that requests are made below");
        }
        Ok(())
    }
}

/// Where a provider's key came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// It needs none, as far as is known.
    None,
    /// This environment variable.
    Variable(String),
    /// What `openoxide login` stored.
    Stored,
    /// This variable should hold it and does not.
    Missing(String),
}

/// A provider as it is configured.
pub(crate) struct Chosen {
    /// Its configuration; none for the stand-in.
    pub(crate) config: Option<ProviderConfig>,
    pub(crate) key: KeySource,
    /// The environment variable that its address comes from, where one does.
    pub(crate) address: Option<&'static str>,
}

/// Why a provider is the one in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// `model_provider` names it.
    Configured,
    /// This variable holds its key, and of those before it none is set.
    Variable(&'static str),
    /// `openoxide login` stored its key.
    Stored,
    /// There is no key of any built-in provider.
    NoKey,
}

impl Chosen {
    /// Makes it.
    pub(crate) fn provider(self) -> Arc<dyn Provider> {
        match self.config {
            Some(config) => Arc::new(HttpProvider::new(config, HttpClient::new())),
            None => Arc::new(Offline::new()),
        }
    }
}

impl Config {
    /// The id of the provider in use: the configured one, else the first built-in one whose key is in the environment or
    /// stored, else the stand-in.
    pub(crate) fn provider_id(&self, home: Option<&Path>) -> String {
        self.provider_and_reason(home).0
    }

    /// The same, and why it is that one.
    pub(crate) fn provider_and_reason(&self, home: Option<&Path>) -> (String, Reason) {
        if let Some(id) = &self.model_provider {
            return (id.clone(), Reason::Configured);
        }
        for preset in Preset::all().iter().filter(|preset| preset.base_url.is_some()) {
            let Some(variable) = preset.env_key else { continue };
            if variable_is_set(variable) {
                return (preset.id.to_owned(), Reason::Variable(variable));
            }
            if auth::is_stored(home, preset.id) {
                return (preset.id.to_owned(), Reason::Stored);
            }
        }
        (OFFLINE.to_owned(), Reason::NoKey)
    }

    /// The model in use.
    ///
    /// # Errors
    /// None is configured, and the provider has no usual one.
    pub(crate) fn model_name(&self, home: Option<&Path>) -> anyhow::Result<String> {
        let id = self.provider_id(home);
        let usual = match id.as_str() {
            OFFLINE => Some("offline"),
            "openai" => Some("gpt-5.2-codex"),
            "anthropic" => Some("claude-sonnet-4-5"),
            _ => None,
        };
        match self.model.as_deref().or(usual) {
            Some(model) => Ok(model.to_owned()),
            None => bail!("model is not set, and {id:?} has no usual one; set `model` in config.toml, or give -m NAME"),
        }
    }

    /// The provider in use. Nothing is connected to.
    ///
    /// # Errors
    /// An id that is not known, or a table that lacks what it needs.
    pub(crate) fn chosen_provider(&self, home: Option<&Path>) -> anyhow::Result<Chosen> {
        let id = self.provider_id(home);
        let table = self.model_providers.get(&id);
        if id == OFFLINE && table.is_none() {
            return Ok(Chosen { config: None, key: KeySource::None, address: None });
        }
        let preset = Preset::find(&id);
        if preset.is_none() && table.is_none() {
            let built_in = Preset::all().iter().map(|preset| preset.id).chain([OFFLINE]);
            let known: Vec<_> = self.model_providers.keys().map(String::as_str).chain(built_in).collect();
            bail!("model_provider is {id:?}; known providers are {}", known.join(", "));
        }
        let table = table.cloned().unwrap_or_default();
        let mut config = match (preset, &table.base_url) {
            (Some(preset), _) => preset.config(),
            (None, Some(base_url)) => ProviderConfig::new(&id, base_url),
            (None, None) => {
                bail!("model_providers.{id}.base_url is missing; give the URL that requests are made below")
            }
        };
        let variable = table.env_key.clone().or_else(|| preset?.env_key.map(str::to_owned));
        let address = self.fill_in(&mut config, table)?;
        if config.base_url.is_empty() {
            bail!("model_providers.{id}.base_url is missing; give the address of your own {}", config.name);
        }
        let key = match variable {
            Some(variable) => match std::env::var(&variable) {
                Ok(key) if !key.is_empty() => {
                    config.api_key = Some(Secret::new(key));
                    KeySource::Variable(variable)
                }
                _ => match auth::load(home, &id)? {
                    Some(key) => {
                        config.api_key = Some(key);
                        KeySource::Stored
                    }
                    None => {
                        config.missing_key = Some(shown::variable(&variable).to_owned());
                        KeySource::Missing(variable)
                    }
                },
            },
            None => match auth::load(home, &id)? {
                Some(key) => {
                    config.api_key = Some(key);
                    KeySource::Stored
                }
                None => KeySource::None,
            },
        };
        Ok(Chosen { config: Some(config), key, address })
    }

    /// Fills in what configuration and environment say. Returns the variable that the address comes from, if one does.
    fn fill_in(&self, config: &mut ProviderConfig, table: ProviderTable) -> anyhow::Result<Option<&'static str>> {
        let mut address = None;
        if let Some(wire_api) = &table.wire_api {
            config.wire_api =
                wire_api.parse().map_err(|error| anyhow::anyhow!("model_providers.{}.wire_api: {error}", config.id))?;
        }
        if let Some(base_url) = table.base_url {
            config.base_url = base_url;
        } else if let Some(preset) = Preset::find(&config.id)
            && let Some(variable) = preset.base_url_env
            && let Some(base_url) = std::env::var(variable).ok().filter(|url| !url.is_empty())
        {
            config.base_url = preset.base_url_of(&base_url);
            address = Some(variable);
        }
        config.allow_plain_http = table.allow_plain_http;
        config.name = table.name.unwrap_or_else(|| config.name.clone());
        config.http_headers = table.http_headers;
        for (header, variable) in table.env_http_headers {
            if let Ok(value) = std::env::var(&variable) {
                config.http_headers.insert(header, value);
            }
        }
        config.query_params.extend(table.query_params);
        config.request_max_retries = table.request_max_retries.unwrap_or(config.request_max_retries);
        config.stream_max_retries = table.stream_max_retries.unwrap_or(config.stream_max_retries);
        for (ms, limit) in [
            (table.stream_idle_timeout_ms, &mut config.stream_idle_timeout),
            (table.connect_timeout_ms, &mut config.connect_timeout),
            (table.header_timeout_ms, &mut config.header_timeout),
        ] {
            if let Some(ms) = ms {
                *limit = Duration::from_millis(ms);
            }
        }
        config.reasoning_effort.clone_from(&self.model_reasoning_effort);
        config.reasoning_summary.clone_from(&self.model_reasoning_summary);
        config.max_output_tokens = self.model_max_output_tokens;
        config.facts.context_window = self.model_context_window;
        config.facts.freeform = table.supports_freeform;
        config.facts.images = table.supports_images;
        Ok(address)
    }
}

fn variable_is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}
