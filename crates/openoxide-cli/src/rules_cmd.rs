//! `openoxide rules test`: what would be decided about a command line, by what, and why. Nothing is run.

use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Subcommand;
use openoxide_core::{ApprovalPolicy, CommandPlace, Request, SandboxMode, Verdict, decide, visible_text};
use serde_json::json;

use crate::Global;
use crate::config::Config;
use crate::sandbox_cmd::parse_mode;

/// Arguments of `openoxide rules`.
#[derive(Debug, clap::Args)]
pub(crate) struct RulesArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Tell whether a command line would be allowed, asked for or forbidden.
    Test(TestArgs),
}

#[derive(Debug, clap::Args)]
struct TestArgs {
    /// The approval policy: untrusted, on-request, on-failure or never. Default: the configured one.
    #[arg(long, value_name = "POLICY", value_parser = parse_policy)]
    policy: Option<ApprovalPolicy>,
    /// The sandbox mode: read-only, workspace-write or danger-full-access. Default: the configured one.
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    sandbox: Option<SandboxMode>,
    /// Read lines from standard input, with \\\\, \\n, \\t, \\r and \\uXXXX for characters that a line cannot hold.
    #[arg(long, conflicts_with = "line")]
    stdin: bool,
    /// Judge it as a command that asks to run outside of the sandbox.
    #[arg(long)]
    escalated: bool,
    /// Print one JSON object for each line.
    #[arg(long)]
    json: bool,
    /// The command line, as the model would write it.
    #[arg(value_name = "LINE", required_unless_present = "stdin", allow_hyphen_values = true)]
    line: Option<String>,
}

/// An approval policy by its name.
pub(crate) fn parse_policy(text: &str) -> Result<ApprovalPolicy, String> {
    let names = ApprovalPolicy::ALL.map(ApprovalPolicy::as_str).join(", ");
    ApprovalPolicy::ALL.into_iter().find(|policy| policy.as_str() == text).ok_or_else(|| format!("allowed: {names}"))
}

/// Judges and prints.
pub(crate) fn run(args: RulesArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let What::Test(args) = args.what;
    let config = Config::load(global)?;
    let policy = args.policy.unwrap_or(config.approval_policy());
    let sandbox = args.sandbox.unwrap_or(config.sandbox_mode());
    let cwd = crate::config::current_directory()?;
    let place = CommandPlace { cwd: &cwd, workspace: &cwd };
    let judge = |line: &str| {
        let argv = ["bash", "-c", line].map(str::to_owned);
        let request = Request::Command { argv: &argv, escalated: args.escalated, place };
        decide(policy, sandbox, config.rules(), request)
    };
    let mut out = std::io::stdout().lock();
    match args.line {
        Some(line) => print(&mut out, &line, &judge(&line), args.json)?,
        None => {
            for (number, text) in std::io::stdin().lock().lines().enumerate() {
                let text = text.with_context(|| format!("line {} cannot be read", number + 1))?;
                let line = unescape(&text).with_context(|| format!("line {}", number + 1))?;
                print(&mut out, &line, &judge(&line), args.json)?;
            }
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn print(out: &mut impl std::io::Write, line: &str, verdict: &Verdict, json: bool) -> std::io::Result<()> {
    let Verdict { decision, rule, reason } = verdict;
    if json {
        let object = json!({ "line": line, "decision": decision.as_str(), "rule": rule, "reason": reason });
        return writeln!(out, "{object}");
    }
    writeln!(out, "{}\t{}\t{}", decision.as_str(), visible_text(rule), visible_text(reason))
}

/// Undoes the escapes of `--stdin`.
fn unescape(text: &str) -> anyhow::Result<String> {
    let mut line = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            line.push(c);
            continue;
        }
        match chars.next() {
            Some('\\') => line.push('\\'),
            Some('n') => line.push('\n'),
            Some('t') => line.push('\t'),
            Some('r') => line.push('\r'),
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                let number = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4);
                let Some(decoded) = number.and_then(char::from_u32) else {
                    bail!("\\u{digits} is no character; four hexadecimal digits of one are expected");
                };
                line.push(decoded);
            }
            other => {
                let shown = other.map(String::from).unwrap_or_default();
                bail!("\\{shown} is no escape; allowed: \\\\, \\n, \\t, \\r and \\uXXXX");
            }
        }
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone_and_others_refused() {
        assert_eq!(unescape(r"a\\b\n\tc\u200b").unwrap(), "a\\b\n\tc\u{200b}");
        for bad in [r"\x", r"\u12", r"\ud800", "\\"] {
            assert!(unescape(bad).is_err(), "{bad}");
        }
    }
}
