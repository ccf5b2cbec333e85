//! `openoxide doctor`: what works here, by which means, and the fix for what does not.

mod threads;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use openoxide_display::visible_text;
use openoxide_llm::{HistoryItem, ModelError, ModelRequest, Provider, Role};
use openoxide_sandbox::{Backend, Launcher, SandboxMode, SandboxPolicy, WorkspaceWrite, fix, landlock_version};
use serde_json::{Value, json};

use crate::Global;
use crate::config::providers::{Chosen, KeySource, Reason};
use crate::config::{self, Config};

/// How long a provider may take to say its first word, and each next one.
const PATIENCE: Duration = Duration::from_secs(20);

/// Arguments of `openoxide doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Ask the configured provider for a few words, to see that it answers. Costs a few tokens.
    #[arg(long)]
    providers: bool,
}

/// One thing that was looked at.
struct Finding {
    what: String,
    state: State,
    detail: String,
    fix: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Works,
    /// Less than could be, and nothing that was promised.
    Note,
    Fails,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Works => "ok",
            Self::Note => "note",
            Self::Fails => "FAIL",
        }
    }
}

/// Looks and prints; the exit code is 1 where something fails.
pub(crate) fn run(args: &DoctorArgs, global: &Global, exe: PathBuf) -> anyhow::Result<ExitCode> {
    let mut findings = configuration(global);
    findings.extend(home());
    findings.extend(temporary_directory());
    findings.extend(login_path(global));
    findings.extend(sandbox(exe)?);
    findings.extend(config::home().as_deref().map(threads::check));
    findings.extend(model(global, args.providers));
    let mut out = std::io::stdout().lock();
    if args.json {
        let list: Vec<Value> = findings.iter().map(to_json).collect();
        writeln!(out, "{}", json!({ "version": env!("CARGO_PKG_VERSION"), "findings": list }))?;
    } else {
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        writeln!(out, "openoxide {} on {os} {arch}", env!("CARGO_PKG_VERSION"))?;
        for Finding { what, state, detail, fix } in &findings {
            writeln!(out, "{:<5} {what}: {}", state.word(), visible_text(detail))?;
            if let Some(fix) = fix {
                writeln!(out, "      fix: {}", visible_text(fix))?;
            }
        }
    }
    let fails = findings.iter().any(|finding| finding.state == State::Fails);
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What the login shell says of the PATH, where commands get it from there.
fn login_path(global: &Global) -> Option<Finding> {
    let config = Config::load(global).ok()?;
    let path = config.login_path(&config.child_env(&config::places(None).host_paths()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let (state, detail, fix) = match runtime.block_on(path.get()) {
        Ok(Some(path)) => {
            (State::Works, format!("commands get that of the login shell: {}", path.to_string_lossy()), None)
        }
        Ok(None) => (State::Works, "the login shell says none; commands get this program's".to_owned(), None),
        Err(why) => {
            let fix = "mend the shell's profile, or set shell_environment_policy.login_path = false".to_owned();
            (State::Note, why, Some(fix))
        }
    };
    Some(Finding { what: "PATH".to_owned(), state, detail, fix })
}

fn to_json(finding: &Finding) -> Value {
    json!({
        "what": finding.what,
        "state": finding.state.word().to_lowercase(),
        "detail": finding.detail,
        "fix": finding.fix,
    })
}

fn configuration(global: &Global) -> Vec<Finding> {
    let home = config::home();
    let file = home.as_ref().map(|home| home.join("config.toml"));
    let shown = file.as_ref().map_or_else(|| "no home directory".to_owned(), |file| file.display().to_string());
    let loaded = Config::load(global);
    let (state, detail, fix) = match loaded {
        Ok(_) if file.as_ref().is_some_and(|file| file.exists()) => (State::Works, format!("{shown} is read"), None),
        Ok(_) => (State::Works, format!("{shown} is not there; built-in values hold"), None),
        Err(error) => (State::Fails, format!("{error:#}"), Some("correct the file at the place named".to_owned())),
    };
    vec![Finding { what: "configuration".to_owned(), state, detail, fix }]
}

/// Whether others can get at the home of OpenOxide.
fn home() -> Vec<Finding> {
    let Some(home) = config::home() else { return Vec::new() };
    let what = || format!("home {}", home.display());
    let faults = config::home::faults(&home);
    if faults.is_empty() {
        let (state, detail, fix) = match (home.exists(), config::home::is_listable(&home)) {
            (false, _) => (State::Works, "is not there; it is made for you alone when it is needed", None),
            (true, false) => (State::Works, "is yours alone", None),
            (true, true) => (State::Note, "others can list it", Some(format!("chmod 700 {}", home.display()))),
        };
        return vec![Finding { what: what(), state, detail: detail.to_owned(), fix }];
    }
    let finding = |fault: &config::home::Fault| Finding {
        what: what(),
        state: State::Fails,
        detail: fault.to_string(),
        fix: Some(fault.fix.clone()),
    };
    faults.iter().map(finding).collect()
}

/// Where commands may put temporary files, if `TMPDIR` says something of it.
fn temporary_directory() -> Option<Finding> {
    let refused = config::places(config::current_directory().ok()).tmpdir().err()?;
    let fix = "let TMPDIR name a directory of yours for temporary files, or unset it".to_owned();
    Some(Finding { what: "TMPDIR".to_owned(), state: State::Note, detail: refused.to_string(), fix: Some(fix) })
}

/// Which model answers, and why that one. With `asks` it is asked for a few words. Nothing where configuration is broken.
fn model(global: &Global, asks: bool) -> Option<Finding> {
    let config = Config::load(global).ok()?;
    let home = config::home();
    let (id, reason) = config.provider_and_reason(home.as_deref());
    let what = format!("model of provider {id}");
    let fails = |detail: String, fix: Option<String>| Finding { what: what.clone(), state: State::Fails, detail, fix };
    let (chosen, model) = match (config.chosen_provider(home.as_deref()), config.model_name(home.as_deref())) {
        (Ok(chosen), Ok(model)) => (chosen, model),
        (Err(error), _) | (_, Err(error)) => return Some(fails(format!("{error:#}"), None)),
    };
    let why = match reason {
        Reason::Configured => "model_provider is set".to_owned(),
        Reason::Variable(name) => format!("{name} is set, and model_provider is not"),
        Reason::Stored => "its key is stored, and model_provider is not set".to_owned(),
        Reason::NoKey => "model_provider is not set, and no built-in provider has a key".to_owned(),
    };
    let Chosen { config: Some(mut provider), key, address } = chosen else {
        let detail = format!("a rule-based stand-in, not a language model; it needs nothing; chosen since {why}");
        let fix = "for a language model set model_provider, or the variable of a built-in provider's key".to_owned();
        return Some(Finding { what, state: State::Note, detail, fix: Some(fix) });
    };
    let (key, is_missing) = match key {
        KeySource::None => ("no key".to_owned(), false),
        KeySource::Variable(name) => (format!("key from {}", config::shown::variable(&name)), false),
        KeySource::Stored => ("stored key".to_owned(), false),
        KeySource::Missing(name) => (format!("no key in {}", config::shown::variable(&name)), true),
    };
    let url = openoxide_redact::redact(&provider.base_url);
    let from = address.map(|variable| format!(", address from {variable}")).unwrap_or_default();
    let facts = provider.facts.apply(openoxide_providers::facts_of(&model));
    let reads = match facts.is_known || provider.facts.context_window.is_some() {
        true => format!("reads {} tokens", facts.context_window),
        false => format!(
            "is not among the models known on {}, so that it is given {} tokens: set model_context_window",
            openoxide_providers::MODELS_CHECKED,
            facts.context_window
        ),
    };
    let dialect = provider.wire_api.as_str();
    let about = format!("{model} at {url} ({dialect}, {key}{from}); it {reads}; chosen since {why}");
    if !asks {
        let fix = format!("set its variable, or run `openoxide login {id}`");
        return Some(match is_missing {
            true => Finding { what, state: State::Note, detail: about, fix: Some(fix) },
            false => Finding { what, state: State::Works, detail: about, fix: None },
        });
    }
    // One try, and not for long: a person waits.
    (provider.request_max_retries, provider.stream_max_retries) = (0, 0);
    (provider.header_timeout, provider.stream_idle_timeout) = (PATIENCE, PATIENCE);
    let chosen = Chosen { config: Some(provider), key: KeySource::None, address: None };
    Some(match ask(chosen.provider().as_ref(), &model) {
        Ok(took) => Finding {
            what,
            state: State::Works,
            detail: format!("{about}; it answers in {} ms", took.as_millis()),
            fix: None,
        },
        Err(error) => fails(format!("{about}: {error}"), error.hint().map(str::to_owned)),
    })
}

/// Asks for a few words; how long that took.
fn ask(provider: &dyn Provider, model: &str) -> Result<Duration, ModelError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| ModelError::Config { reason: format!("cannot start the runtime: {error}") })?;
    let begun = Instant::now();
    runtime.block_on(async {
        let prompt = HistoryItem::Message { role: Role::User, text: "Answer with the word: ready".to_owned() };
        let mut stream = provider.stream(ModelRequest {
            model,
            instructions: "You are being tested. Answer in one word.",
            input: &[Arc::new(prompt)],
            tools: &[],
            cache_key: "doctor",
            reasoning: Default::default(),
        });
        while let Some(event) = stream.next().await {
            event?;
        }
        Ok(begun.elapsed())
    })
}

fn sandbox(exe: PathBuf) -> anyhow::Result<Vec<Finding>> {
    let launcher = Launcher::new(exe, config::places(None).host_paths());
    // A directory of its own, so that nothing depends on where this is run.
    // Not where TMPDIR says, which may be what is wrong.
    let workspace = tempfile::tempdir_in("/tmp")?;
    let mut findings = Vec::new();
    for mode in [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite] {
        let policy = SandboxPolicy::new(mode, workspace.path().canonicalize()?, WorkspaceWrite::default());
        findings.push(match launcher.survey(&policy) {
            Ok(survey) => of_survey(mode, &survey),
            Err(error) => Finding {
                what: format!("sandbox {}", mode.as_str()),
                state: State::Fails,
                detail: error.to_string(),
                fix: None,
            },
        });
    }
    findings.push(landlock());
    findings.push(full_access(launcher.groups_commands()));
    Ok(findings)
}

/// How what a command in full access has started is ended.
fn full_access(groups: Result<(), String>) -> Finding {
    let what = format!("end of commands in {}", SandboxMode::DangerFullAccess.as_str());
    match groups {
        Ok(()) => Finding {
            what,
            state: State::Works,
            detail: "each has a control group of its own, two supervisors, and an entry for the next start".to_owned(),
            fix: None,
        },
        Err(why) => Finding {
            what,
            state: State::Note,
            detail: format!(
                "each has two supervisors and an entry for the next start, and no control group of its own ({why}): a \
                 process that hides on purpose can outlive a kill of all supervisors"
            ),
            fix: Some(
                "start it where cgroup v2 is delegated to you: in a systemd session that is `systemd-run --user --scope \
                 -p Delegate=yes openoxide ...`"
                    .to_owned(),
            ),
        },
    }
}

/// What each means said of a mode.
fn of_survey(mode: SandboxMode, survey: &[(Backend, Result<(), String>)]) -> Finding {
    let what = format!("sandbox {}", mode.as_str());
    let tell = |(backend, outcome): &(Backend, Result<(), String>)| {
        outcome.as_ref().err().map(|why| format!("{}: {why}", backend.as_str()))
    };
    let works = survey.iter().find(|(_, outcome)| outcome.is_ok()).map(|(backend, _)| *backend);
    match works {
        Some(Backend::Namespaces) => {
            let detail = "enforced by namespaces, Landlock and a filter of system calls".to_owned();
            Finding { what, state: State::Works, detail, fix: None }
        }
        Some(backend) => {
            let why = survey.iter().filter_map(tell).next().unwrap_or_default();
            let open = backend.leaves_open().map_or(String::new(), |open| format!("; {open}"));
            let detail = format!("enforced by {}, as the first choice does not work ({why}){open}", backend.as_str());
            Finding { what, state: State::Note, detail, fix: Some(fix().to_owned()) }
        }
        None => {
            let why: Vec<String> = survey.iter().filter_map(tell).collect();
            let detail = format!("cannot be enforced, and is refused ({})", why.join("; "));
            Finding { what, state: State::Fails, detail, fix: Some(fix().to_owned()) }
        }
    }
}

fn landlock() -> Finding {
    let version = landlock_version();
    let what = "Landlock".to_owned();
    match version {
        0 => Finding {
            what,
            state: State::Note,
            detail: "not there; the mounts are the only wall around files".to_owned(),
            fix: Some("a kernel with CONFIG_SECURITY_LANDLOCK and `landlock` in lsm= gives the second wall".to_owned()),
        },
        1..6 => Finding {
            what,
            state: State::Note,
            detail: format!("version {version}; from version 6 on it can hold `read-only` without namespaces"),
            fix: None,
        },
        _ => Finding { what, state: State::Works, detail: format!("version {version}"), fix: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_that_nothing_can_hold_fails_with_every_reason() {
        let survey = [
            (Backend::Namespaces, Err("making namespaces: no".to_owned())),
            (Backend::Bubblewrap, Err("finding it: no".to_owned())),
        ];
        let finding = of_survey(SandboxMode::WorkspaceWrite, &survey);
        assert!(finding.state == State::Fails && finding.fix.is_some());
        assert!(finding.detail.contains("namespaces: making") && finding.detail.contains("bubblewrap: finding"));
    }

    #[test]
    fn what_holds_full_access_is_named() {
        let grouped = full_access(Ok(()));
        assert!(grouped.state == State::Works && grouped.detail.contains("control group"));
        let without = full_access(Err("no cgroup v2 is mounted".to_owned()));
        assert!(without.state == State::Note && without.fix.is_some());
        assert!(without.detail.contains("two supervisors") && without.detail.contains("no cgroup v2 is mounted"));
    }

    #[test]
    fn a_fallback_is_named_with_the_reason() {
        let survey = [(Backend::Namespaces, Err("x: no".to_owned())), (Backend::Bubblewrap, Ok(()))];
        let finding = of_survey(SandboxMode::ReadOnly, &survey);
        assert!(finding.state == State::Note && finding.detail.contains("bubblewrap"));
        assert!(finding.detail.contains("namespaces: x: no"));
    }
}
