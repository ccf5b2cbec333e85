//! The ways to write one command, held against a rule that forbids it: `verdict<TAB>line`, escaped as the corpus is.
//!
//! `forbid` and `ask` are what becomes of a line, `missed` is one that runs the command unseen, which docs/security.md
//! names, and `plain` is one that does not run it and is let through.

use openoxide_sandbox::SandboxMode::WorkspaceWrite;

use super::decide;
use super::tests::{argv, judge, request, rule, unescape};
use crate::ApprovalPolicy::{Never, OnRequest};
use crate::RuleDecision::{self, Allow, Ask, Forbid};

const SPELLINGS: &str = include_str!("spellings.tsv");

fn spellings() -> impl Iterator<Item = (&'static str, String)> {
    SPELLINGS.lines().filter_map(|entry| entry.split_once('\t')).map(|(what, line)| (what, unescape(line)))
}

#[test]
fn every_spelling_of_a_forbidden_command_is_judged_as_it_says() {
    let rules = [rule(&["git", "push"], Forbid)];
    let mut wrong = Vec::new();
    for (what, line) in spellings() {
        let verdict = judge(OnRequest, WorkspaceWrite, &rules, &line);
        let expected = if matches!(what, "missed" | "plain") { "allow" } else { what };
        if verdict.decision.as_str() != expected {
            wrong.push(format!("{line:?}: {verdict:?}, not {what}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
    let count = |wanted: &str| spellings().filter(|(what, _)| *what == wanted).count();
    assert!(count("forbid") + count("ask") >= 103 && count("missed") <= 5, "{} are missed", count("missed"));
}

#[test]
fn a_line_that_cannot_be_read_runs_in_the_sandbox_or_not_at_all_where_nobody_is_asked() {
    let rules = [rule(&["git", "push"], Forbid)];
    let unread =
        |line: &str, escalated, sandbox| decide(Never, sandbox, &rules, request(&argv(line), escalated)).decision;
    for (_, line) in spellings().filter(|(what, _)| *what == "ask") {
        assert_eq!(unread(&line, false, WorkspaceWrite), Allow, "{line}");
        assert_eq!(unread(&line, true, WorkspaceWrite), Forbid, "{line}");
        assert_eq!(unread(&line, false, openoxide_sandbox::SandboxMode::DangerFullAccess), Forbid, "{line}");
    }
    // A quote that is not closed, or too much: whatever it is, a rule may speak of it.
    let deep = (0..40).fold("true".to_owned(), |line, _| format!("echo $({line})"));
    for line in ["git 'pu", "echo \"", "echo $(git", "l\u{200b}s", &"x ".repeat(40_000), &deep] {
        let verdict = judge(OnRequest, WorkspaceWrite, &rules, line);
        assert_eq!((verdict.decision, verdict.rule.as_str()), (Ask, "unread"), "{line:.40}");
        assert!(verdict.reason.contains("git push"), "{verdict:?}");
        assert_eq!(judge(OnRequest, WorkspaceWrite, &[], line).decision, Allow, "without rules nothing is asked");
    }
}

#[test]
fn what_stands_ahead_of_a_programs_command_is_passed_over() {
    let judged = |prefix: &[&str], line: &str| judge(OnRequest, WorkspaceWrite, &[rule(prefix, Forbid)], line).decision;
    let table: [(&[&str], &str, RuleDecision); 12] = [
        (&["cargo", "publish"], "cargo +nightly publish", Forbid),
        (&["cargo", "publish"], "cargo --config a=b -Z x publish", Forbid),
        (&["cargo", "publish"], "cargo test publish", Allow),
        (&["npm", "install"], "npm --prefix sub i left-pad", Forbid),
        (&["npm", "install"], "npm run install", Allow),
        (&["docker", "push"], "docker --context x push", Forbid),
        (&["kubectl", "delete"], "kubectl -n x delete pod y", Forbid),
        (&["unheard", "of"], "unheard --loud of", Forbid),
        (&["unheard", "of"], "unheard --level 3 of", Ask),
        (&["unheard", "of"], "unheard word of", Allow),
        (&["rm"], "sudo -n env rm x", Forbid),
        (&["rm"], "python3 -c 'import os; os.system(\"rm x\")'", Ask),
    ];
    for (prefix, line, expected) in table {
        assert_eq!(judged(prefix, line), expected, "{prefix:?}: {line}");
    }
}
