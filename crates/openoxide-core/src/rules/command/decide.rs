//! The decision itself: over the policy, the sandbox, the rules and what is asked for. Pure.

use openoxide_sandbox::SandboxMode;

use super::place::CommandPlace;
use super::program::{base_name, system_name};
use super::safe::{self, Safe};
use super::scan::{self, Found, Match};
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
        /// Where it runs.
        place: CommandPlace<'a>,
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
    let means = Means { policy, rules, is_confined: sandbox != SandboxMode::DangerFullAccess };
    match request {
        Request::Command { argv, escalated, place } => means.command(&read(argv), escalated, Some(place)),
        Request::Input { text, escalated } => {
            let typed =
                Read { commands: Err("it is typed into a program".to_owned()), found: scan::read(text), line: None };
            means.command(&typed, escalated, None)
        }
        Request::Patch { reach } => patch(policy, sandbox, reach),
    }
}

/// What is known of the words of a command before it is judged.
struct Read<'a> {
    /// Its commands, or why they are not known for sure.
    commands: Result<Vec<lexer::Command>, String>,
    /// What it might run, at most.
    found: Found,
    /// The line, where it is a shell's.
    line: Option<&'a str>,
}

fn read(argv: &[String]) -> Read<'_> {
    match shell_line(argv) {
        Some(line) => Read { commands: lexer::read(line), found: scan::read(line), line: Some(line) },
        None => Read {
            commands: Ok(vec![argv.iter().map(|word| plain(word)).collect()]),
            found: scan::read_words(argv),
            line: None,
        },
    }
}

/// What a command is judged by.
struct Means<'a> {
    policy: ApprovalPolicy,
    rules: &'a [CommandRule],
    /// The thread has a sandbox.
    is_confined: bool,
}

impl Means<'_> {
    fn command(&self, read: &Read<'_>, escalated: bool, place: Option<CommandPlace<'_>>) -> Verdict {
        let Self { policy, rules, is_confined } = *self;
        let Read { commands, found, line } = read;
        let judged = commands.as_ref().map_err(Clone::clone).map(|commands| Judged::of(commands, rules, place));
        let safe = match &judged {
            Ok(judged) => judged.safe(is_confined),
            Err(why) => Err(("lexer".to_owned(), format!("it is not a list of plain commands: {why}"))),
        };
        // Words that are only printed or searched for destroy nothing.
        let destroys = if safe.is_ok() { None } else { destructive::find(line.unwrap_or_default(), &found.guesses) };
        if let Some((rule, reason)) = destroys {
            return Verdict::new(Forbid, rule, reason);
        }
        match strictest(rules, found) {
            Some((at, Forbid, Match::Yes)) => return ruled(Forbid, at, &rules[at]),
            Some((at, Ask, Match::Yes)) => return asked(policy, || ruled(Ask, at, &rules[at])),
            // Where nobody is asked the sandbox holds it, and it does not run without one.
            Some((at, ..)) if policy != ApprovalPolicy::Never || escalated || !is_confined => {
                return asked(policy, || unread(&rules[at], found));
            }
            _ => {}
        }
        let judged = judged.as_ref().ok();
        if escalated {
            // A mode without a sandbox has nothing to leave: the rule counts as any other does.
            let allowed = judged.and_then(|judged| if is_confined { judged.let_out_by } else { judged.allowed_by });
            return match allowed {
                Some(at) => ruled(Allow, at, &rules[at]),
                None => asked(policy, || Verdict::new(Ask, "sandbox", "it asks to run outside of the sandbox")),
            };
        }
        if let Some(at) = judged.and_then(|judged| judged.allowed_by) {
            return ruled(Allow, at, &rules[at]);
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

/// A line of which it cannot be told whether a rule speaks of it.
fn unread(rule: &CommandRule, found: &Found) -> Verdict {
    let why = found.unclear.as_deref().unwrap_or("only running it would tell");
    let (words, decision) = (rule.prefix.join(" "), rule.decision.as_str());
    let reason = format!("it may run `{words}`, for which the configured rule says {decision}: {why}");
    Verdict::new(Ask, "unread", reason)
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
    /// A rule that takes the sandbox away, where every part is exactly a command of such a rule.
    let_out_by: Option<usize>,
}

impl Judged {
    fn of(commands: &[lexer::Command], rules: &[CommandRule], place: Option<CommandPlace<'_>>) -> Self {
        let let_out: Option<Vec<usize>> = commands
            .iter()
            .map(|command| rules.iter().position(|rule| rule.leaves_sandbox && allows_exactly(rule, command)))
            .collect();
        let mut allowed_by = None;
        let mut is_covered = true;
        let mut parts = Vec::with_capacity(commands.len());
        let mut unknown = None;
        for command in commands {
            let rule = rules.iter().position(|rule| rule.decision == Allow && allows(rule, command));
            let part = safe::judge(command, place).map(|safe| (command[0].text.clone(), safe));
            is_covered &= rule.is_some() || matches!(part, Ok((_, Safe::Always)));
            allowed_by = allowed_by.or(rule);
            if rule.is_none() && part.is_err() {
                unknown = unknown.or(Some(parts.len()));
            }
            parts.push(part);
        }
        let let_out_by = let_out.and_then(|rules| rules.first().copied());
        Self { parts, unknown, allowed_by: allowed_by.filter(|_| is_covered), let_out_by }
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

/// Whether a rule that allows speaks of the command and of nothing more: no further word, and none that may become another.
fn allows_exactly(rule: &CommandRule, command: &lexer::Command) -> bool {
    rule.decision == Allow && command.len() == rule.prefix.len() && allows(rule, command)
}

/// The strictest rule that speaks of anything the command might run, and whether it does for sure. What is sure goes first.
fn strictest(rules: &[CommandRule], found: &Found) -> Option<(usize, RuleDecision, Match)> {
    let speaks = |rule: &CommandRule| {
        let unclear = if found.unclear.is_some() { Match::Maybe } else { Match::No };
        found.guesses.iter().map(|guess| guess.begins_with(&rule.prefix)).max().unwrap_or(Match::No).max(unclear)
    };
    let strict = rules.iter().enumerate().filter(|(_, rule)| rule.decision != Allow);
    let spoken = strict.map(|(at, rule)| (at, rule.decision, speaks(rule))).filter(|(.., found)| *found != Match::No);
    spoken.max_by_key(|(at, decision, found)| (*found, *decision, std::cmp::Reverse(*at)))
}
