//! The decision itself: over the policy, the sandbox, the rules and what is asked for. Pure.

use openoxide_sandbox::SandboxMode;

use super::program::{base_name, system_name};
use super::safe::{self, Safe};
use super::scan::{self, Guess};
use super::{destructive, lexer};
use crate::{ApprovalPolicy, CommandRule, RuleDecision, Verdict};

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub enum Request<'a> {
    /// To run a command.
    Command {
        /// Its exact argument vector. A shell's `-c` with one line is looked into.
        argv: &'a [String],
        /// Whether it is to run outside of the sandbox.
        escalated: bool,
    },
    /// To type into a command that runs: it means what the program at the other end takes it for.
    Input {
        /// What is typed.
        text: &'a str,
        /// Whether the command runs outside of the sandbox.
        escalated: bool,
    },
    /// To change files.
    Patch {
        /// How far the changes reach.
        reach: PatchReach,
    },
}

/// How far a patch reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchReach {
    /// Only where the sandbox would let a command write.
    Within,
    /// Further than that.
    Beyond,
}

use RuleDecision::{Allow, Ask, Forbid};

/// Decides what is to be done with a request.
#[must_use]
pub fn decide(policy: ApprovalPolicy, sandbox: SandboxMode, rules: &[CommandRule], request: Request<'_>) -> Verdict {
    match request {
        Request::Command { argv, escalated } => command(policy, sandbox, rules, &read(argv), escalated),
        Request::Input { text, escalated } => {
            let typed = Read {
                commands: Err("it is typed into a program".to_owned()),
                guesses: scan::guesses(text),
                line: None,
            };
            command(policy, sandbox, rules, &typed, escalated)
        }
        Request::Patch { reach } => patch(policy, sandbox, reach),
    }
}

/// What is known of the words of a command before it is judged.
struct Read<'a> {
    /// Its commands, or why they are not known for sure.
    commands: Result<Vec<lexer::Command>, String>,
    /// What it might run, at most.
    guesses: Vec<Guess>,
    /// The line, where it is a shell's.
    line: Option<&'a str>,
}

fn read(argv: &[String]) -> Read<'_> {
    match shell_line(argv) {
        Some(line) => Read { commands: lexer::read(line), guesses: scan::guesses(line), line: Some(line) },
        None => Read {
            commands: Ok(vec![argv.iter().map(|word| plain(word)).collect()]),
            guesses: scan::guesses_of_words(argv),
            line: None,
        },
    }
}

fn command(
    policy: ApprovalPolicy,
    sandbox: SandboxMode,
    rules: &[CommandRule],
    read: &Read<'_>,
    escalated: bool,
) -> Verdict {
    let Read { commands, guesses, line } = read;
    let judged = commands.as_ref().map_err(Clone::clone).map(|commands| Judged::of(commands, rules));
    let is_confined = sandbox != SandboxMode::DangerFullAccess;
    let safe = match &judged {
        Ok(judged) => judged.safe(is_confined),
        Err(why) => Err(("lexer".to_owned(), format!("it is not a list of plain commands: {why}"))),
    };
    // Words that are only printed or searched for destroy nothing.
    let destroys = if safe.is_ok() { None } else { destructive::find(line.unwrap_or_default(), guesses) };
    if let Some((rule, reason)) = destroys {
        return Verdict::new(Forbid, rule, reason);
    }
    match strictest(rules, commands.as_deref().unwrap_or_default(), guesses) {
        Some((at, Forbid)) => return ruled(Forbid, at, &rules[at]),
        Some((at, Ask)) => return asked(policy, || ruled(Ask, at, &rules[at])),
        _ => {}
    }
    let allowed = judged.as_ref().ok().and_then(|judged| judged.allowed_by);
    if let Some(at) = allowed {
        return ruled(Allow, at, &rules[at]);
    }
    if escalated {
        let reason = "it asks to run outside of the sandbox";
        return asked(policy, || Verdict::new(Ask, "sandbox", reason));
    }
    match (policy, safe) {
        (ApprovalPolicy::Untrusted, Ok(name)) => {
            Verdict::new(Allow, format!("safe:{name}"), "every part of it is known to only read")
        }
        (ApprovalPolicy::Untrusted, Err((rule, reason))) => Verdict::new(Ask, rule, reason),
        (policy, _) => {
            let how = if is_confined { "it runs within the sandbox" } else { "nothing confines commands here" };
            Verdict::new(Allow, format!("policy:{}", policy.as_str()), how)
        }
    }
}

fn patch(policy: ApprovalPolicy, sandbox: SandboxMode, reach: PatchReach) -> Verdict {
    let is_beyond = sandbox != SandboxMode::DangerFullAccess && reach == PatchReach::Beyond;
    if is_beyond {
        let reason = "it changes files that the sandbox does not let commands change";
        return asked(policy, || Verdict::new(Ask, "sandbox", reason));
    }
    let rule = format!("policy:{}", policy.as_str());
    match policy {
        ApprovalPolicy::Untrusted => Verdict::new(Ask, rule, "every patch is asked for"),
        ApprovalPolicy::OnRequest | ApprovalPolicy::OnFailure | ApprovalPolicy::Never => {
            Verdict::new(Allow, rule, "it stays where the sandbox lets commands write")
        }
    }
}

/// A question, or a no where nobody is ever asked.
fn asked(policy: ApprovalPolicy, question: impl FnOnce() -> Verdict) -> Verdict {
    let question = question();
    if policy != ApprovalPolicy::Never {
        return question;
    }
    let reason = format!("{}, and nobody is asked under the approval policy `never`", question.reason);
    Verdict::new(Forbid, "policy:never", reason)
}

fn ruled(decision: RuleDecision, at: usize, rule: &CommandRule) -> Verdict {
    let reason = format!("the configured rule for `{}` says {}", rule.prefix.join(" "), decision.as_str());
    Verdict::new(decision, format!("rules[{at}]"), reason)
}

/// The line of `bash -c LINE` and its kin.
pub(super) fn shell_line(argv: &[String]) -> Option<&str> {
    match argv {
        [shell, flag, line] if matches!(base_name(shell), "bash" | "sh" | "zsh" | "dash") => {
            matches!(flag.as_str(), "-c" | "-lc" | "-cl").then_some(line)
        }
        _ => None,
    }
}

pub(super) fn plain(word: &str) -> lexer::Word {
    lexer::Word { text: word.to_owned(), is_pattern: false, begins_with_pattern: false }
}

/// What is known of each command of a line that was understood.
struct Judged {
    /// Its name where it is safe, else why not.
    parts: Vec<Result<(String, Safe), String>>,
    /// The first part that no rule allows and that is not safe: the one to name.
    unknown: Option<usize>,
    /// A rule that allows, where every part is safe or allowed.
    allowed_by: Option<usize>,
}

impl Judged {
    fn of(commands: &[lexer::Command], rules: &[CommandRule]) -> Self {
        let mut allowed_by = None;
        let mut is_covered = true;
        let mut parts = Vec::with_capacity(commands.len());
        let mut unknown = None;
        for command in commands {
            let rule = rules.iter().position(|rule| rule.decision == Allow && allows(rule, command));
            let part = safe::judge(command).map(|safe| (command[0].text.clone(), safe));
            is_covered &= rule.is_some() || matches!(part, Ok((_, Safe::Always)));
            allowed_by = allowed_by.or(rule);
            if rule.is_none() && part.is_err() {
                unknown = unknown.or(Some(parts.len()));
            }
            parts.push(part);
        }
        Self { parts, unknown, allowed_by: allowed_by.filter(|_| is_covered) }
    }

    /// The name of the first command where all are safe, else the rule that says no and why.
    fn safe(&self, is_confined: bool) -> Result<String, (String, String)> {
        // A part that a rule allows is not what stands in the way.
        let first = self.unknown.and_then(|at| self.parts.get(at));
        for part in first.into_iter().chain(&self.parts) {
            match part {
                Ok((_, Safe::Always)) => {}
                Ok((_, Safe::InSandbox)) if is_confined => {}
                Ok((name, Safe::InSandbox)) => {
                    let why = format!("`{name}` may run programs that the repository names, and nothing confines them");
                    return Err(("unconfined".to_owned(), why));
                }
                Err(why) => return Err(("unknown".to_owned(), why.clone())),
            }
        }
        Ok(self.parts.first().and_then(|part| part.as_ref().ok()).map(|(name, _)| name.clone()).unwrap_or_default())
    }
}

/// Whether a rule that allows speaks of the command: the system's own program of that name, and plain words.
fn allows(rule: &CommandRule, command: &lexer::Command) -> bool {
    let Some((program, words)) = command.split_first() else { return false };
    let Some((first, rest)) = rule.prefix.split_first() else { return false };
    let is_program = program.text == *first || system_name(&program.text) == Some(first.as_str());
    let is_plain = command.iter().take(rule.prefix.len()).all(|word| !word.is_pattern);
    is_program && is_plain && words.len() >= rest.len() && words.iter().zip(rest).all(|(word, part)| word.text == *part)
}

/// The strictest rule that speaks of anything the command might run.
fn strictest(rules: &[CommandRule], commands: &[lexer::Command], guesses: &[Guess]) -> Option<(usize, RuleDecision)> {
    let speaks = |rule: &CommandRule| {
        let of_words = |words: &mut dyn Iterator<Item = &str>| {
            let Some(program) = words.next() else { return false };
            let mut prefix = rule.prefix.iter().map(String::as_str);
            let is_program = prefix.next().is_some_and(|first| program == first || base_name(program) == first);
            is_program && prefix.all(|part| words.next() == Some(part))
        };
        commands.iter().any(|command| of_words(&mut command.iter().map(|word| word.text.as_str())))
            || guesses.iter().any(|guess| of_words(&mut guess.words.iter().map(String::as_str)))
    };
    let spoken = rules.iter().enumerate().filter(|(_, rule)| rule.decision != Allow && speaks(rule));
    spoken.map(|(at, rule)| (at, rule.decision)).max_by_key(|(at, decision)| (*decision, std::cmp::Reverse(*at)))
}
