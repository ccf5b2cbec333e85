//! Configuration: `config.toml` in the home of OpenOxide, `-c` and `-m` over it, and keys from the environment.
//!
//! An unknown key is a warning that names the nearest known one; a wrong type is an error with its line. Nothing here
//! opens a connection.

#![allow(clippy::disallowed_methods, reason = "the command line is where the environment is read")]

pub(crate) mod ceiling;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use openoxide_core::{ApprovalPolicy, CommandRule};
use openoxide_model::{HttpClient, Offline, Provider, ProviderConfig, Responses, Secret};
use openoxide_sandbox::{EnvPolicy, SandboxMode, Surroundings, WorkspaceWrite};
use serde::Deserialize;

use ceiling::Limits;

/// Keys of the file, for the warning about unknown ones.
const KEYS: [&str; 11] = [
    "approval_policy",
    "sandbox_mode",
    "sandbox_workspace_write",
    "rules",
    "model",
    "model_provider",
    "model_providers",
    "shell_environment_policy",
    "project_doc_max_bytes",
    "tool_output_token_limit",
    "mcp_server",
];
/// The model used with the built-in provider when none is named.
const DEFAULT_MODEL: &str = "gpt-5.2-codex";
/// The variable whose presence selects the built-in provider.
const DEFAULT_KEY: &str = "OPENAI_API_KEY";

/// The effective configuration.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Config {
    model: Option<String>,
    model_provider: Option<String>,
    #[serde(default)]
    model_providers: BTreeMap<String, ProviderTable>,
    #[serde(default)]
    pub(crate) shell_environment_policy: EnvPolicy,
    approval_policy: Option<ApprovalPolicy>,
    sandbox_mode: Option<SandboxMode>,
    #[serde(default)]
    sandbox_workspace_write: WorkspaceWrite,
    #[serde(default)]
    rules: Vec<CommandRule>,
    pub(crate) project_doc_max_bytes: Option<usize>,
    pub(crate) tool_output_token_limit: Option<usize>,
    #[serde(default)]
    pub(crate) mcp_server: McpServerTable,
}

/// `[mcp_server]`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct McpServerTable {
    /// Seconds that a question waits for its answer.
    pub(crate) approval_timeout_sec: Option<u64>,
    /// The most that callers may ask for.
    max_sandbox: Option<SandboxMode>,
    /// The policy that asks least and that callers may still ask for.
    max_approval: Option<ApprovalPolicy>,
    /// Directories below which threads may work; empty for anywhere.
    #[serde(default)]
    allow_roots: Vec<PathBuf>,
}

impl McpServerTable {
    /// The limits among them.
    pub(crate) fn limits(&self) -> Limits {
        let Self { max_sandbox, max_approval, allow_roots, .. } = self;
        Limits { max_sandbox: *max_sandbox, max_approval: *max_approval, allow_roots: allow_roots.clone() }
    }
}

/// `[model_providers.<id>]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ProviderTable {
    name: Option<String>,
    base_url: Option<String>,
    wire_api: Option<String>,
    env_key: Option<String>,
    http_headers: BTreeMap<String, String>,
    env_http_headers: BTreeMap<String, String>,
    query_params: BTreeMap<String, String>,
    request_max_retries: Option<u32>,
    stream_max_retries: Option<u32>,
    stream_idle_timeout_ms: Option<u64>,
}

/// `$OPENOXIDE_HOME`, else `~/.openoxide`; `None` where there is no home directory either.
pub(crate) fn home() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("OPENOXIDE_HOME").or_else(|| Some(set("HOME")?.join(".openoxide")))
}

/// Places of the user that sandbox policies speak of.
pub(crate) fn surroundings(state: Option<PathBuf>) -> Surroundings {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    Surroundings { home: set("HOME"), tmpdir: set("TMPDIR").filter(|path| path.is_absolute()), state }
}

/// The directory this process works in.
pub(crate) fn current_directory() -> anyhow::Result<PathBuf> {
    std::env::current_dir().context("the current directory cannot be read; start in one that exists")
}

impl Config {
    /// The environment of commands.
    pub(crate) fn child_env(&self) -> BTreeMap<OsString, OsString> {
        self.shell_environment_policy.apply(std::env::vars_os())
    }

    /// The sandbox mode where nobody asks for another.
    pub(crate) fn sandbox_mode(&self) -> SandboxMode {
        self.sandbox_mode.unwrap_or(SandboxMode::WorkspaceWrite)
    }

    /// When a person is asked, where nobody asks for another policy.
    pub(crate) fn approval_policy(&self) -> ApprovalPolicy {
        self.approval_policy.unwrap_or(ApprovalPolicy::OnRequest)
    }

    /// What is to be done with certain commands.
    pub(crate) fn rules(&self) -> &[CommandRule] {
        &self.rules
    }

    /// What `workspace-write` allows beside the workspace.
    pub(crate) fn workspace_write(&self) -> WorkspaceWrite {
        self.sandbox_workspace_write.clone()
    }

    /// Reads the file, if there is one, and lays the command line over it.
    ///
    /// # Errors
    /// A file that cannot be read or parsed, a wrong type, a malformed `-c`, or a provider that does not exist.
    pub(crate) fn load(home: Option<&Path>, overrides: &[String], model: Option<&str>) -> anyhow::Result<Self> {
        let path = home.map(|home| home.join("config.toml"));
        let text = match path.as_deref().map(std::fs::read_to_string) {
            Some(Ok(text)) => text,
            Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).context(format!("cannot read {}", path.unwrap_or_default().display()));
            }
            _ => String::new(),
        };
        let shown = path.unwrap_or_default();
        let shown = shown.display();
        // Parsed once by itself, so that an error points into the file.
        toml::from_str::<Self>(&text).with_context(|| format!("{shown} is not valid"))?;
        let mut table: toml::Table = text.parse().with_context(|| format!("{shown} is not valid"))?;
        for key in table.keys().filter(|key| !KEYS.contains(&key.as_str())) {
            let nearest = KEYS.iter().min_by_key(|known| strsim::damerau_levenshtein(known, key));
            tracing::warn!("{shown}: unknown key {key:?} is ignored; the nearest known key is {nearest:?}");
        }
        for pair in overrides {
            apply_override(&mut table, pair)?;
        }
        let mut config: Self = table.try_into().context("a -c value has the wrong type")?;
        if let Some(model) = model {
            config.model = Some(model.to_owned());
        }
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> anyhow::Result<()> {
        if let Some(id) = self.model_provider.as_deref()
            && !matches!(id, "offline" | "openai")
            && !self.model_providers.contains_key(id)
        {
            let known: Vec<_> = self.model_providers.keys().map(String::as_str).chain(["openai", "offline"]).collect();
            bail!("model_provider is {id:?}; the configured providers are {}", known.join(", "));
        }
        for (at, rule) in self.rules.iter().enumerate() {
            rule.check().map_err(|error| anyhow::anyhow!("rules[{at}]: {error}"))?;
        }
        if let Some(root) = self.mcp_server.allow_roots.iter().find(|root| !root.is_absolute()) {
            bail!("mcp_server.allow_roots has {}, which is relative; give absolute directories", root.display());
        }
        if let Some(root) = self.sandbox_workspace_write.writable_roots.iter().find(|root| !root.is_absolute()) {
            bail!(
                "sandbox_workspace_write.writable_roots has {}, which is relative; give absolute directories",
                root.display()
            );
        }
        for (id, table) in &self.model_providers {
            if let Some(wire_api) = &table.wire_api {
                wire_api
                    .parse::<openoxide_model::WireApi>()
                    .map_err(|error| anyhow::anyhow!("model_providers.{id}.wire_api: {error}"))?;
            }
            if table.base_url.is_none() && id != "openai" {
                bail!("model_providers.{id}.base_url is missing; give the URL that requests are made below");
            }
        }
        Ok(())
    }

    /// The provider in use: the configured one, else the built-in one where its key is set, else the offline stand-in.
    fn provider_id(&self) -> &str {
        match &self.model_provider {
            Some(id) => id,
            None if std::env::var_os(DEFAULT_KEY).is_some_and(|key| !key.is_empty()) => "openai",
            None => "offline",
        }
    }

    /// The model in use.
    pub(crate) fn model_name(&self) -> String {
        let fallback = if self.provider_id() == "offline" { "offline" } else { DEFAULT_MODEL };
        self.model.clone().unwrap_or_else(|| fallback.to_owned())
    }

    /// Makes the provider in use.
    pub(crate) fn provider(&self) -> Arc<dyn Provider> {
        let id = self.provider_id();
        if id == "offline" && !self.model_providers.contains_key(id) {
            return Arc::new(Offline::new());
        }
        let table = self.model_providers.get(id).cloned().unwrap_or_default();
        let base_url = table.base_url.unwrap_or_else(|| "https://api.openai.com/v1".to_owned());
        let mut config = ProviderConfig::new(id, base_url);
        let key_variable = table.env_key.or_else(|| (id == "openai").then(|| DEFAULT_KEY.to_owned()));
        match key_variable.as_deref().map(std::env::var) {
            Some(Ok(key)) if !key.is_empty() => config.api_key = Some(Secret::new(key)),
            Some(_) => config.missing_key = key_variable,
            None => {}
        }
        config.name = table.name.unwrap_or_else(|| id.to_owned());
        config.http_headers = table.http_headers;
        for (header, variable) in table.env_http_headers {
            if let Ok(value) = std::env::var(&variable) {
                config.http_headers.insert(header, value);
            }
        }
        config.query_params = table.query_params;
        config.request_max_retries = table.request_max_retries.unwrap_or(config.request_max_retries);
        config.stream_max_retries = table.stream_max_retries.unwrap_or(config.stream_max_retries);
        if let Some(ms) = table.stream_idle_timeout_ms {
            config.stream_idle_timeout = Duration::from_millis(ms);
        }
        Arc::new(Responses::new(config, HttpClient::new()))
    }
}

/// Applies `dotted.key=value`. The value is TOML, or else a plain string.
fn apply_override(table: &mut toml::Table, pair: &str) -> anyhow::Result<()> {
    let Some((key, value)) = pair.split_once('=') else {
        bail!("-c {pair:?} has no '='; write key=value, for instance -c model=\"name\"");
    };
    let value = format!("value = {value}")
        .parse::<toml::Table>()
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let mut parts: Vec<&str> = key.trim().split('.').collect();
    let last = parts.pop().unwrap_or_default();
    if last.is_empty() || parts.iter().any(|part| part.is_empty()) {
        bail!("-c {pair:?} has an empty key; write key=value with dots between the parts of the key");
    }
    let mut at = table;
    for part in parts {
        let entry = at.entry(part).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        let Some(inner) = entry.as_table_mut() else {
            bail!("-c {pair:?}: {part:?} is a value and has no keys below it");
        };
        at = inner;
    }
    at.insert(last.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, overrides: &[&str]) -> anyhow::Result<Config> {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config.toml"), text).unwrap();
        let overrides: Vec<String> = overrides.iter().map(|pair| (*pair).to_owned()).collect();
        Config::load(Some(home.path()), &overrides, None)
    }

    #[test]
    fn the_command_line_lies_over_the_file() {
        let text = "model = \"a\"\n[model_providers.mock]\nbase_url = \"http://127.0.0.1:1/v1\"\n";
        let config =
            load(text, &["model=b", "model_providers.mock.request_max_retries=7", "model_provider=mock"]).unwrap();
        assert_eq!(config.model_name(), "b");
        assert_eq!(config.model_providers["mock"].request_max_retries, Some(7));
        assert_eq!(config.provider().id(), "mock");
    }

    #[test]
    fn errors_say_where_and_what() {
        let text = |result: anyhow::Result<Config>| format!("{:#}", result.map(|_| ()).unwrap_err());
        let wrong_type = text(load("model = 1\n", &[]));
        assert!(wrong_type.contains("config.toml") && wrong_type.contains("line 1"), "{wrong_type}");
        assert!(text(load("", &["model_provider=nope"])).contains("openai, offline"));
        assert!(text(load("", &["nonsense"])).contains("no '='"));
        assert!(text(load("[model_providers.x]\nbase_url='u'\nwire_api='grpc'", &[])).contains("wire_api"));
    }

    #[test]
    fn sandbox_approvals_and_rules_are_read_and_checked() {
        let text = "sandbox_mode = \"read-only\"\napproval_policy = \"never\"\n[sandbox_workspace_write]\n\
                    network_access = true\n[[rules]]\nprefix = [\"git\", \"push\"]\ndecision = \"forbid\"\n\
                    [mcp_server]\nmax_sandbox = \"workspace-write\"\n";
        let config = load(text, &[]).unwrap();
        assert_eq!((config.sandbox_mode(), config.approval_policy()), (SandboxMode::ReadOnly, ApprovalPolicy::Never));
        assert!(config.workspace_write().network_access);
        assert_eq!(config.rules()[0].prefix, ["git", "push"]);
        assert_eq!(config.mcp_server.limits().max_sandbox, Some(SandboxMode::WorkspaceWrite));
        let defaults = load("", &[]).unwrap();
        assert_eq!(defaults.sandbox_mode(), SandboxMode::WorkspaceWrite);
        assert_eq!(defaults.approval_policy(), ApprovalPolicy::OnRequest);
        for (text, part) in [
            ("sandbox_mode = \"none\"", "line 1"),
            ("[[rules]]\nprefix = []\ndecision = \"ask\"", "rules[0]"),
            ("[[rules]]\nprefix = [\"a\"]\ndecision = \"maybe\"", "maybe"),
            ("[sandbox_workspace_write]\nwritable_roots = [\"x\"]", "relative"),
            ("[sandbox_workspace_write]\nnetwork = true", "network"),
            ("[mcp_server]\nallow_roots = [\"x\"]", "allow_roots"),
        ] {
            let error = format!("{:#}", load(text, &[]).map(|_| ()).unwrap_err());
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn with_nothing_configured_the_offline_stand_in_answers() {
        let config = load("model_provider = \"offline\"", &[]).unwrap();
        assert_eq!((config.provider().id(), config.model_name().as_str()), ("offline", "offline"));
    }
}
