//! Configuration: what the layers (`config/layers.rs`) come down to, and the places and variables of the user that it
//! rests on. Nothing here opens a connection.

#![allow(clippy::disallowed_methods, reason = "the command line is where the environment is read")]

#[cfg(test)]
mod asked;
pub(crate) mod auth;
pub(crate) mod ceiling;
pub(crate) mod home;
pub(crate) mod host_paths;
pub(crate) mod http;
pub(crate) mod keys;
pub(crate) mod layers;
mod profiles;
pub(crate) mod providers;
mod reading;
pub(crate) mod shown;
mod words;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use openoxide_core::{ApprovalPolicy, CommandRule, Profiles};
use openoxide_sandbox::{EnvPolicy, HostPaths, Inherit, LoginPath, SandboxMode, WorkspaceWrite};
use serde::Deserialize;

use crate::Global;
use ceiling::Limits;
use host_paths::Places;
use http::HttpTable;
use layers::{Layer, Sources};
use providers::ProviderTable;

/// The effective configuration.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Config {
    model: Option<String>,
    model_provider: Option<String>,
    pub(crate) model_reasoning_effort: Option<String>,
    pub(crate) model_reasoning_summary: Option<String>,
    pub(crate) model_context_window: Option<u64>,
    pub(crate) model_max_output_tokens: Option<u64>,
    pub(crate) model_auto_compact_token_limit: Option<u64>,
    pub(crate) compact_prompt: Option<String>,
    pub(crate) max_steps: Option<u32>,
    pub(crate) max_turn_tokens: Option<u64>,
    pub(crate) max_turn_seconds: Option<u64>,
    #[serde(default)]
    model_providers: BTreeMap<String, ProviderTable>,
    #[serde(default)]
    pub(crate) shell_environment_policy: EnvPolicy,
    #[serde(default, deserialize_with = "words::policy")]
    approval_policy: Option<ApprovalPolicy>,
    pub(crate) sandbox_mode: Option<SandboxMode>,
    #[serde(default)]
    sandbox_workspace_write: WorkspaceWrite,
    #[serde(default, deserialize_with = "words::rules")]
    rules: Vec<CommandRule>,
    pub(crate) project_doc_max_bytes: Option<usize>,
    pub(crate) tool_output_token_limit: Option<usize>,
    #[serde(skip)]
    profiles: Profiles,
    #[serde(default)]
    pub(crate) history: HistoryTable,
    #[serde(default)]
    pub(crate) mcp_server: McpServerTable,
}

/// `[history]`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct HistoryTable {
    /// `save-all` or `none`.
    #[serde(default)]
    pub(crate) persistence: Persistence,
    /// Days after which a thread is deleted that was not used.
    pub(crate) max_age_days: Option<u64>,
    /// Bytes of all threads; the oldest are deleted beyond it.
    pub(crate) max_bytes: Option<u64>,
    /// Bytes of the threads of one owner; that owner's oldest are deleted beyond it.
    pub(crate) max_bytes_per_principal: Option<u64>,
    /// Bytes of a thread that are read to load it.
    pub(crate) max_load_bytes: Option<u64>,
}

/// Whether threads are kept on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Persistence {
    /// Yes.
    #[default]
    SaveAll,
    /// No: they end with the server.
    None,
}

/// What becomes of questions where nobody can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Fallback {
    /// What stays in the sandbox is done, the rest is denied.
    AutoWithinPolicy,
    /// All are denied.
    Deny,
}

/// How long a client may read nothing while as much waits for it as may, where the configuration does not say.
const WRITE_TIMEOUT: Duration = Duration::from_secs(300);

/// `[mcp_server]`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct McpServerTable {
    /// Seconds that a question waits for its answer.
    pub(crate) approval_timeout_sec: Option<u64>,
    /// Milliseconds below which an answer counts as the host's own; 0 takes every answer for a person's.
    pub(crate) person_takes_ms: Option<u64>,
    /// Seconds that a thread stays in memory which nobody uses; 0 for ever.
    pub(crate) idle_thread_sec: Option<u64>,
    /// Seconds that a turn goes on which nobody follows; 0 for as long as it takes.
    pub(crate) abandoned_turn_sec: Option<u64>,
    /// Threads in memory.
    pub(crate) max_threads: Option<usize>,
    /// Bytes of the histories of threads in memory.
    pub(crate) max_history_bytes: Option<usize>,
    /// Bytes of diffs that are kept in memory.
    pub(crate) max_diff_bytes: Option<usize>,
    /// Turns that run at once.
    pub(crate) max_open_turns: Option<usize>,
    /// Bytes of the prompts of turns that wait or run.
    pub(crate) max_open_prompt_bytes: Option<usize>,
    /// Bytes of pictures that a thread's history holds.
    pub(crate) max_picture_bytes: Option<usize>,
    /// Prompts that wait on one thread.
    pub(crate) max_queued_turns: Option<usize>,
    pub(crate) max_wait_sec: Option<u64>,
    /// Seconds until a legacy call is answered whose client is not known to wait; 0 for when its turn is over.
    answer_within_sec: Option<u64>,
    /// Milliseconds until the call of a client that takes tasks is answered with one.
    task_after_ms: Option<u64>,
    /// What becomes of questions where nobody can be asked.
    pub(crate) approval_fallback: Option<Fallback>,
    /// Seconds that a client may read nothing while its queue is full, before it counts as lost.
    pub(crate) write_timeout_sec: Option<std::num::NonZeroU64>,
    /// How much of a limit one caller may hold where there are several, in percent.
    pub(crate) principal_share_percent: Option<u8>,
    /// The HTTP listener.
    #[serde(default)]
    pub(crate) http: HttpTable,
    /// The most that callers may ask for.
    max_sandbox: Option<SandboxMode>,
    /// The policy that asks least and that callers may still ask for.
    #[serde(default, deserialize_with = "words::policy")]
    max_approval: Option<ApprovalPolicy>,
    /// Directories below which threads may work; empty for anywhere.
    #[serde(default)]
    allow_roots: Vec<PathBuf>,
}

impl McpServerTable {
    /// How long a client may read nothing while as much waits for it as may.
    pub(crate) fn write_timeout(&self) -> Duration {
        self.write_timeout_sec.map_or(WRITE_TIMEOUT, |seconds| Duration::from_secs(seconds.get()))
    }

    /// When a legacy call is answered whose client is not known to wait.
    pub(crate) fn answer_within(&self) -> Option<Duration> {
        let within = self.answer_within_sec.map_or(openoxide_mcp_server::ANSWER_WITHIN, Duration::from_secs);
        (!within.is_zero()).then_some(within)
    }

    /// How long the turn of a client that takes tasks is waited for before it becomes one.
    pub(crate) fn task_after(&self) -> Duration {
        self.task_after_ms.map_or(openoxide_mcp_server::TASK_AFTER, Duration::from_millis)
    }

    /// The limits among them.
    pub(crate) fn limits(&self) -> Limits {
        let Self { max_sandbox, max_approval, allow_roots, .. } = self;
        Limits { max_sandbox: *max_sandbox, max_approval: *max_approval, allow_roots: allow_roots.clone() }
    }
}

/// The home of OpenOxide beneath that of the user, where no other is set.
const DEFAULT_HOME: &str = ".openoxide";

/// `$OPENOXIDE_HOME`, else `~/.openoxide`; `None` where there is no home directory either.
pub(crate) fn home() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("OPENOXIDE_HOME").or_else(|| Some(set("HOME")?.join(DEFAULT_HOME)))
}

/// Places of the user, for work in a directory.
pub(crate) fn places(workspace: Option<PathBuf>) -> Places {
    Places::new(home(), workspace, |name| std::env::var_os(name))
}

/// What the user tells the agent of every project: `AGENTS.md` in the home of OpenOxide. One that cannot be read is logged.
pub(crate) fn user_instructions(home: &Path) -> Option<String> {
    reading::read(&home.join("AGENTS.md"), None).unwrap_or_else(|error| {
        tracing::warn!("{error:#}");
        None
    })
}

/// Whether a debugger may attach to this process: `OPENOXIDE_DUMPABLE=1`.
pub(crate) fn stays_dumpable() -> bool {
    std::env::var_os("OPENOXIDE_DUMPABLE").is_some_and(|value| value == "1")
}

/// What an environment variable holds.
pub(crate) fn variable(name: &str) -> anyhow::Result<String> {
    std::env::var(name).with_context(|| format!("the environment variable {name} is not set"))
}

/// The directory this process works in.
pub(crate) fn current_directory() -> anyhow::Result<PathBuf> {
    std::env::current_dir().context("the current directory cannot be read; start in one that exists")
}

impl Config {
    /// The environment of commands. Whatever holds a provider's key is left out, however it is called, and `TMPDIR` where it is
    /// none that commands may write in.
    pub(crate) fn child_env(&self, host_paths: &HostPaths) -> BTreeMap<OsString, OsString> {
        const TMPDIR: &str = "TMPDIR";
        let mut env = self.shell_environment_policy.apply(std::env::vars_os());
        for name in self.model_providers.values().flat_map(ProviderTable::secret_variables) {
            env.remove(std::ffi::OsStr::new(name));
        }
        if host_paths.tmpdir.is_none() && !self.shell_environment_policy.set.contains_key(TMPDIR) {
            env.remove(std::ffi::OsStr::new(TMPDIR));
        }
        env
    }

    /// The PATH of the login shell, where commands are to have it in place of the one in `env`.
    pub(crate) fn login_path(&self, env: &BTreeMap<OsString, OsString>) -> Option<LoginPath> {
        let policy = &self.shell_environment_policy;
        let is_wanted = policy.login_path && policy.inherit != Inherit::None && !policy.set.contains_key("PATH");
        is_wanted.then(|| LoginPath::wanted(env)).flatten()
    }

    /// The sandbox mode where nobody asks for another.
    pub(crate) fn sandbox_mode(&self) -> SandboxMode {
        self.sandbox_mode.unwrap_or(SandboxMode::WorkspaceWrite)
    }

    /// When a person is asked, where nobody asks for another policy.
    pub(crate) fn approval_policy(&self) -> ApprovalPolicy {
        self.approval_policy.unwrap_or(ApprovalPolicy::OnRequest)
    }

    /// What calls may choose by name.
    pub(crate) fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    /// What is to be done with certain commands.
    pub(crate) fn rules(&self) -> &[CommandRule] {
        &self.rules
    }

    /// What `workspace-write` allows beside the workspace.
    pub(crate) fn workspace_write(&self) -> WorkspaceWrite {
        self.sandbox_workspace_write.clone()
    }

    /// What the layers come down to, for the directory this process works in.
    ///
    /// # Errors
    /// A file that cannot be read or parsed, a wrong type, a malformed `-c`, or a value that is not allowed.
    pub(crate) fn load(global: &Global) -> anyhow::Result<Self> {
        Self::of(&Self::layers(global)?)
    }

    /// The layers, the lowest first.
    pub(crate) fn layers(global: &Global) -> anyhow::Result<Vec<Layer>> {
        home().as_deref().map_or(Ok(()), home::check)?;
        layers::read(&Sources {
            system: Some(PathBuf::from(layers::SYSTEM)),
            home: home(),
            project: current_directory().ok(),
            profile: global.profile.as_deref(),
            overrides: &global.config,
            model: global.model.as_deref(),
        })
    }

    fn of(layers: &[Layer]) -> anyhow::Result<Self> {
        let merged = layers::merged(layers);
        let profiles = profiles::of(&merged);
        let mut config: Self = merged.try_into().map_err(|error: toml::de::Error| {
            anyhow::anyhow!("a -c value has the wrong type: {}", shown::message(&error.to_string()))
        })?;
        config.profiles = profiles;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> anyhow::Result<()> {
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
        if let Some(percent) = self.mcp_server.principal_share_percent.filter(|percent| !(1..=100).contains(percent)) {
            bail!("mcp_server.principal_share_percent is {percent}; allowed: 1 to 100");
        }
        self.mcp_server.http.check()?;
        for (id, table) in &self.model_providers {
            table.check(id)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, overrides: &[&str]) -> anyhow::Result<Config> {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("config.toml");
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        let overrides: Vec<String> = overrides.iter().map(|pair| (*pair).to_owned()).collect();
        let sources = Sources { home: Some(home.path().to_path_buf()), overrides: &overrides, ..Sources::default() };
        Config::of(&layers::read(&sources)?)
    }

    #[test]
    fn the_command_line_lies_over_the_file() {
        let text = "model = \"a\"\n[model_providers.mock]\nbase_url = \"http://127.0.0.1:1/v1\"\n";
        let config = load(text, &["model=b", "model_providers.mock.request_max_retries=7", "model_provider=mock"]);
        let config = config.unwrap();
        assert_eq!(config.model_name(None).unwrap(), "b");
        let chosen = config.chosen_provider(None).unwrap();
        assert_eq!(chosen.config.as_ref().unwrap().request_max_retries, 7);
        assert_eq!(chosen.provider().id(), "mock");
    }

    #[test]
    fn a_provider_that_cannot_be_is_refused_with_what_there_is() {
        let text =
            |text: &str| format!("{:#}", load(text, &[]).and_then(|c| c.chosen_provider(None)).map(drop).unwrap_err());
        assert!(text("model_provider = \"nope\"").contains("openai, anthropic"));
        assert!(text("[model_providers.x]\nbase_url='u'\nwire_api='grpc'").contains("wire_api"));
        assert!(text("[model_providers.x]\nname='u'").contains("base_url is missing"));
        assert!(text("model_provider = \"azure\"").contains("base_url is missing"));
        let nameless = load("model_provider = \"ollama\"", &[]).unwrap().model_name(None).unwrap_err();
        assert!(nameless.to_string().contains("-m NAME"), "{nameless}");
    }

    #[test]
    fn the_variable_of_a_key_reaches_no_command() {
        let text = "[model_providers.x]\nbase_url = \"http://localhost/v1\"\nenv_key = \"PATH\"\n";
        assert!(!load(text, &[]).unwrap().child_env(&HostPaths::default()).contains_key(std::ffi::OsStr::new("PATH")));
        assert!(load("", &[]).unwrap().child_env(&HostPaths::default()).contains_key(std::ffi::OsStr::new("PATH")));
    }

    #[test]
    fn sandbox_approvals_and_rules_are_read_and_checked() {
        let text = "sandbox_mode = \"read-only\"\napproval_policy = \"never\"\n[sandbox_workspace_write]\n\
                    network_access = true\n[[rules]]\nprefix = [\"git\", \"push\"]\ndecision = \"forbid\"\n\
                    [mcp_server]\nmax_sandbox = \"workspace-write\"\napproval_fallback = \"deny\"\nwrite_timeout_sec = 9\n";
        let config = load(text, &[]).unwrap();
        assert_eq!((config.sandbox_mode(), config.approval_policy()), (SandboxMode::ReadOnly, ApprovalPolicy::Never));
        assert!(config.workspace_write().network_access);
        assert_eq!(config.rules()[0].prefix, ["git", "push"]);
        assert_eq!(config.mcp_server.limits().max_sandbox, Some(SandboxMode::WorkspaceWrite));
        assert_eq!(config.mcp_server.approval_fallback, Some(Fallback::Deny));
        assert_eq!(config.mcp_server.write_timeout_sec.map(u64::from), Some(9));
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
            ("[mcp_server]\napproval_fallback = \"yes\"", "auto-within-policy"),
            ("[mcp_server]\nwrite_timeout_sec = 0", "line 2, column 21: invalid value: integer `0`"),
            ("[mcp_server]\nprincipal_share_percent = 101", "allowed: 1 to 100"),
            ("[mcp_server.http]\nhead_timeout_sec = 0", "mcp_server.http.head_timeout_sec"),
        ] {
            let error = format!("{:#}", load(text, &[]).map(|_| ()).unwrap_err());
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn with_nothing_configured_the_offline_stand_in_answers() {
        let config = load("model_provider = \"offline\"", &[]).unwrap();
        assert_eq!(config.chosen_provider(None).unwrap().provider().id(), "offline");
        assert_eq!(config.model_name(None).unwrap(), "offline");
    }
}
