//! `openoxide try`: the whole path in one command. Starts our own `mcp-server` as a child, is its MCP client, runs one
//! turn, and shows what happens on the way.
//!
//! Parts: `client` speaks the protocol, `session` follows one call, `screen` shows, `terminal` asks, `sample` is the
//! project used when no directory is given, `child` starts and ends the server. This file joins them and prints the
//! result.

mod child;
mod client;
mod sample;
mod screen;
mod session;
#[cfg(test)]
mod session_tests;
mod terminal;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use child::Server;
use client::{Client, Era};
use screen::Screen;
use session::{Outcome, Session};
use terminal::Asker;

/// Ended by Ctrl-C, as a shell reports it.
const INTERRUPTED: u8 = 130;

/// Arguments of `openoxide try`.
#[derive(Debug, clap::Args)]
pub(crate) struct TryArgs {
    /// What the agent is asked to do. Default: fix the sample project, step by step.
    prompt: Option<String>,
    /// The directory to work in. Default: a fresh copy of a small sample project with a failing test.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Approve whatever the agent asks for.
    #[arg(long)]
    yes: bool,
    /// Show each line of the protocol on standard error.
    #[arg(long)]
    trace: bool,
    /// Which way of the protocol to speak.
    #[arg(long, value_enum, default_value_t)]
    era: Era,
}

/// Runs the command. `exe` is our own program; `forwarded` are the global flags (`-c`, `-m`, `--profile`) to pass on to
/// the server. The exit code is 0 only where the agent finished the turn.
///
/// # Errors
/// Where the directory cannot be used, the server cannot be started, or it goes away.
pub(crate) async fn run(args: TryArgs, exe: PathBuf, forwarded: Vec<String>) -> anyhow::Result<ExitCode> {
    let task = Task::from_args(&args)?;
    let mut screen = Screen::stdout(args.trace);
    let mut server = Server::start(&exe, &server_arguments(forwarded))?;
    let (reader, writer) = server.take_pipes()?;
    let mut client = Client::new(reader, writer, args.era, args.trace);
    let asker = if args.yes { Asker::ApproveAll } else { Asker::Stdin };

    // Dropping the turn's future gives the client back; ending the input then ends the turn and all it started.
    let turn = tokio::select! {
        turn = run_turn(&mut client, &mut screen, asker, &task) => Some(turn),
        signal = tokio::signal::ctrl_c() => {
            signal.context("cannot wait for Ctrl-C")?;
            None
        }
    };
    screen.clear_live();
    let (reader, writer) = client.into_parts();
    let ended = server.end(reader, writer).await;
    let Some(turn) = turn else {
        screen.line("\ninterrupted");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    let outcome = turn.with_context(|| format!("the server {ended}"))?;
    show_outcome(&mut screen, &task, &outcome);
    Ok(if outcome.is_completed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is asked, and where.
struct Task {
    prompt: String,
    cwd: PathBuf,
    is_sample: bool,
}

impl Task {
    fn from_args(args: &TryArgs) -> anyhow::Result<Self> {
        let Some(directory) = &args.cwd else {
            let cwd = sample::copy_to_fresh_directory()?;
            let prompt = args.prompt.clone().unwrap_or_else(|| sample::PROMPT.to_owned());
            return Ok(Self { prompt, cwd, is_sample: true });
        };
        let Some(prompt) = args.prompt.clone() else {
            bail!("--cwd needs a prompt that says what to do there; without --cwd a sample project is used");
        };
        let cwd = std::path::absolute(directory)
            .with_context(|| format!("cannot make {} an absolute path", directory.display()))?;
        Ok(Self { prompt, cwd, is_sample: false })
    }
}

async fn run_turn<R, W, O>(
    client: &mut Client<R, W>,
    screen: &mut Screen<O>,
    asker: Asker,
    task: &Task,
) -> anyhow::Result<Outcome>
where
    R: tokio::io::AsyncRead + Unpin,
    W: tokio::io::AsyncWrite + Unpin,
    O: Write,
{
    let server = client.connect().await?;
    screen.heading(&format!("{} over MCP {} ({} era)", server.name, server.protocol, client.era().as_str()));
    screen.line(&format!("directory: {}", task.cwd.display()));
    screen.line(&format!("prompt:    {}", task.prompt));
    screen.line("");
    let arguments = json!({ "prompt": task.prompt, "cwd": task.cwd });
    Session::new(client, screen, asker).run(arguments).await
}

/// The server's arguments: the offline provider unless the flags choose another, whatever keys are in the environment.
fn server_arguments(forwarded: Vec<String>) -> Vec<String> {
    let mut arguments = vec!["mcp-server".to_owned()];
    if !chooses_provider(&forwarded) {
        arguments.extend(["-c".to_owned(), "model_provider=\"offline\"".to_owned()]);
    }
    arguments.extend(forwarded);
    arguments
}

fn chooses_provider(flags: &[String]) -> bool {
    flags.iter().any(|flag| {
        let word = flag.strip_prefix("--config=").or_else(|| flag.strip_prefix("-c")).unwrap_or(flag).trim_start();
        matches!(flag.as_str(), "-m" | "--model" | "--profile")
            || flag.starts_with("--model=")
            || flag.starts_with("--profile=")
            || (flag.starts_with("-m") && !flag.starts_with("--"))
            || word.strip_prefix("model_provider").is_some_and(|rest| rest.trim_start().starts_with('='))
    })
}

fn show_outcome<O: Write>(screen: &mut Screen<O>, task: &Task, outcome: &Outcome) {
    let structured = &outcome.result["structuredContent"];
    let status = structured["status"].as_str().unwrap_or("failed");
    screen.line("");
    match outcome.result["_meta"]["openoxide/turn"]["durationMs"].as_u64() {
        Some(ms) => screen.heading(&format!("Result: {status} in {}.{:03} s", ms / 1000, ms % 1000)),
        None => screen.heading(&format!("Result: {status}")),
    }
    let content = structured["content"].as_str().or_else(|| outcome.result["content"][0]["text"].as_str());
    screen.line(content.unwrap_or_default());
    for denial in structured["denials"].as_array().into_iter().flatten() {
        let field = |name: &str| denial[name].as_str().unwrap_or_default().to_owned();
        screen.line(&format!("not done ({}): {}", field("reason"), field("what")));
    }
    if let Some(diff) = structured["diff"].as_str() {
        screen.line("");
        screen.heading("Diff");
        screen.diff(diff);
    }
    screen.line("");
    if task.is_sample
        && let Some((command, code)) = &outcome.last_command
    {
        let verdict = if *code == 0 { "passed" } else { "did not pass" };
        screen.heading(&format!("The last run of `{command}` {verdict} (exit code {code})."));
    }
    show_next_steps(screen, task, &structured["threadId"]);
}

fn show_next_steps<O: Write>(screen: &mut Screen<O>, task: &Task, thread: &Value) {
    let cwd = task.cwd.display();
    screen.line(&format!("directory: {cwd}"));
    if let Some(thread) = thread.as_str() {
        screen.line(&format!("thread:    {thread}"));
    }
    screen.line("next:");
    let question = if task.is_sample { "where is total computed?" } else { "list the files" };
    screen.line(&format!("    openoxide try --cwd {cwd} '{question}'"));
    screen.line(&format!("    openoxide try --cwd {cwd} --era modern --trace 'run `ls -l`'"));
    screen.line("    openoxide try -c 'approval_policy=\"untrusted\"'    # to be asked before every command and patch");
    screen.line("    add `openoxide mcp-server` to your editor, as README.md shows");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(flags: &[&str]) -> Vec<String> {
        server_arguments(flags.iter().map(|flag| (*flag).to_owned()).collect())
    }

    #[test]
    fn the_offline_provider_is_the_default_only() {
        let offline = ["mcp-server", "-c", "model_provider=\"offline\""];
        assert_eq!(arguments(&[]), offline);
        assert_eq!(arguments(&["-c", "approval_policy=never"])[..3], offline);
        assert_eq!(arguments(&["-c", "model_providers.x.name=\"y\""])[..3], offline);
        for chosen in [
            &["-m", "some-model"][..],
            &["--model=some-model"],
            &["--profile", "work"],
            &["-c", "model_provider=\"local\""],
            &["-cmodel_provider = \"local\""],
            &["--config=model_provider=\"local\""],
        ] {
            assert!(!arguments(chosen).contains(&offline[2].to_owned()), "{chosen:?}");
        }
    }

    #[test]
    fn a_directory_needs_a_prompt() {
        let args = TryArgs { prompt: None, cwd: Some("/x".into()), yes: false, trace: false, era: Era::Legacy };
        assert!(Task::from_args(&args).is_err());
    }

    #[test]
    fn only_a_finished_turn_counts_as_success() {
        let outcome = |result: Value| Outcome { result, last_command: None };
        assert!(outcome(json!({"isError": false, "structuredContent": {"status": "completed"}})).is_completed());
        for other in [
            json!({"isError": true, "structuredContent": {"status": "completed"}}),
            json!({"structuredContent": {"status": "interrupted"}}),
            json!({"content": []}),
        ] {
            assert!(!outcome(other.clone()).is_completed(), "{other}");
        }
    }
}
