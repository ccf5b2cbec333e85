//! Generated rules and lines against a small model of what may run, which knows nothing of lexers: a line is made from the
//! commands that it runs, so that what runs is known before it is written down.

use openoxide_sandbox::SandboxMode::WorkspaceWrite;

use super::decide;
use super::tests::{argv, request};
use crate::ApprovalPolicy::{self, Never, OnFailure, OnRequest, Untrusted};
use crate::CommandRule;
use crate::RuleDecision::{self, Allow, Ask, Forbid};

/// How many lines are made.
const LINES: usize = 1_000;

/// Numbers that are the same in each run (xorshift64*).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(number).unwrap() % below
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len())]
    }
}

/// Commands that are run, by their words. `ls -la` and `pwd` are known to only read.
const COMMANDS: [&[&str]; 10] = [
    &["git", "push"],
    &["git", "push", "origin"],
    &["git", "fetch"],
    &["cargo", "test"],
    &["cargo", "publish"],
    &["npm", "ci"],
    &["make", "all"],
    &["ls", "-la"],
    &["pwd"],
    &["deploy"],
];

const PREFIXES: [&[&str]; 7] =
    [&["git", "push"], &["git"], &["cargo", "test"], &["cargo", "publish"], &["npm", "ci"], &["make"], &["deploy"]];

/// What the model knows of a line.
struct Line {
    text: String,
    /// Each command that it runs.
    runs: Vec<Vec<String>>,
    /// Nothing stands in it but plain words, and what separates commands.
    is_plain: bool,
}

fn quoted(dice: &mut Dice, word: &str, is_plain: &mut bool) -> String {
    let (head, tail) = word.split_at(1);
    match dice.roll(9) {
        0 => format!("'{word}'"),
        1 => format!("\"{word}\""),
        2 => format!("{head}''{tail}"),
        3 => {
            *is_plain = false;
            format!("{head}\\{tail}")
        }
        4 => {
            *is_plain = false;
            format!("$'{head}{tail}'")
        }
        _ => word.to_owned(),
    }
}

/// One command, spelled, with what its program lets stand ahead of its own command, and wrapped.
fn command(dice: &mut Dice) -> Line {
    let words: Vec<String> = dice.pick(&COMMANDS).iter().map(|word| (*word).to_owned()).collect();
    let mut is_plain = true;
    let mut spelled: Vec<String> = words.iter().map(|word| quoted(dice, word, &mut is_plain)).collect();
    let mut runs = words.clone();
    let options: &[&str] = match words[0].as_str() {
        "git" => &["-C sub", "-c a.b=c", "--no-pager", "--git-dir .git", "-p"],
        "cargo" => &["+nightly", "--color always", "--config a=b"],
        "npm" => &["--prefix sub", "--silent"],
        _ => &[],
    };
    if !options.is_empty() && dice.roll(3) == 0 {
        let option = dice.pick(options);
        spelled.insert(1, (*option).to_owned());
        // It is run with these words; for whoever lets it out they are other words.
        runs.splice(1..1, option.split(' ').map(str::to_owned));
    }
    let mut text = spelled.join(" ");
    const WRAPPERS: [&str; 8] =
        ["env A=b", "nice -n 5", "timeout 9", "nohup", "sudo -u x --", "time -p", "command", "stdbuf -oL"];
    for _ in 0..dice.roll(3).saturating_sub(1) {
        text = format!("{} {text}", dice.pick(&WRAPPERS));
        // The wrapper is what a rule that allows would have to speak of.
        is_plain = false;
    }
    match dice.roll(14) {
        0 => (text, is_plain) = (format!("({text})"), false),
        1 => (text, is_plain) = (format!("echo $({text})"), false),
        2 => (text, is_plain) = (format!("if {text}; then true; fi"), false),
        3 => (text, is_plain) = (format!("{text} > out"), false),
        4 if !text.contains('\'') => (text, is_plain) = (format!("bash -c '{text}'"), false),
        5 => (text, is_plain) = (format!("! {text}"), false),
        _ => {}
    }
    Line { text, runs: vec![runs], is_plain }
}

fn line(dice: &mut Dice) -> Line {
    let mut line = command(dice);
    for _ in 0..dice.roll(3) {
        let next = command(dice);
        let between = dice.pick(&[" && ", "; ", " || ", " | ", "\n"]);
        line.text = format!("{}{between}{}", line.text, next.text);
        line.runs.extend(next.runs);
        line.is_plain &= next.is_plain;
    }
    line
}

fn rules(dice: &mut Dice) -> Vec<CommandRule> {
    (0..dice.roll(5))
        .map(|_| {
            let decision = *dice.pick(&[Allow, Allow, Ask, Forbid]);
            let leaves_sandbox = decision == Allow && dice.roll(2) == 0;
            CommandRule { leaves_sandbox, ..CommandRule::new(PREFIXES[dice.roll(PREFIXES.len())], decision) }
        })
        .collect()
}

/// The words that a rule which forbids or asks sees: without what stands ahead of the program's own command.
fn essence(words: &[String]) -> Vec<&str> {
    let is_of_option = |word: &&String| {
        word.starts_with(['-', '+']) && *word != "-la"
            || ["sub", "a.b=c", ".git", "always", "a=b"].contains(&word.as_str())
    };
    words.iter().filter(|word| !is_of_option(word)).map(String::as_str).collect()
}

fn speaks(rule: &CommandRule, words: &[&str]) -> bool {
    words.len() >= rule.prefix.len() && rule.prefix.iter().zip(words).all(|(part, word)| part == word)
}

/// What may become of a line: the verdicts of which each would be right.
fn expected(policy: ApprovalPolicy, escalated: bool, rules: &[CommandRule], line: &Line) -> RuleDecision {
    let asked = if policy == Never { Forbid } else { Ask };
    let is_spoken_of = |decision: RuleDecision| {
        let rules = || rules.iter().filter(move |rule| rule.decision == decision);
        line.runs.iter().any(|words| rules().any(|rule| speaks(rule, &essence(words))))
    };
    if is_spoken_of(Forbid) {
        return Forbid;
    }
    if is_spoken_of(Ask) {
        return asked;
    }
    let words = |words: &Vec<String>| words.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    let allowed = |run: &Vec<String>| {
        let run: Vec<&str> = run.iter().map(String::as_str).collect();
        rules.iter().any(|rule| rule.decision == Allow && speaks(rule, &run))
    };
    let is_let_out = |run: &Vec<String>| rules.iter().any(|rule| rule.leaves_sandbox && rule.prefix == *run);
    let only_reads = |run: &Vec<String>| matches!(words(run).as_str(), "ls -la" | "pwd");
    if escalated {
        return if line.is_plain && line.runs.iter().all(is_let_out) { Allow } else { asked };
    }
    match policy {
        Untrusted if line.is_plain && line.runs.iter().all(|run| allowed(run) || only_reads(run)) => Allow,
        Untrusted => Ask,
        OnRequest | OnFailure | Never => Allow,
    }
}

#[test]
fn a_thousand_generated_lines_run_as_the_model_says() {
    let mut dice = Dice(0x0DD5_EED5_0F00_D5ED);
    let mut wrong = Vec::new();
    let mut seen = [0_usize; 3];
    for _ in 0..LINES {
        let (rules, line) = (rules(&mut dice), line(&mut dice));
        for policy in ApprovalPolicy::ALL {
            for escalated in [false, true] {
                let verdict = decide(policy, WorkspaceWrite, &rules, request(&argv(&line.text), escalated));
                let expected = expected(policy, escalated, &rules, &line);
                seen[expected as usize] += 1;
                if verdict.decision != expected {
                    let rules: Vec<String> = rules
                        .iter()
                        .map(|rule| format!("{} {:?} {}", rule.prefix.join(" "), rule.decision, rule.leaves_sandbox))
                        .collect();
                    wrong.push(format!(
                        "{:?} {policy:?} escalated {escalated} {rules:?}: {verdict:?}, not {expected:?}",
                        line.text
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong, the first: {}", wrong.len(), wrong[..wrong.len().min(12)].join("\n"));
    // Each kind of verdict has to be met often, or the lines say little.
    assert!(seen.iter().all(|times| *times > LINES / 4), "{seen:?}");
}
