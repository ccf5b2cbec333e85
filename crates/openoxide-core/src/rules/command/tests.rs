//! The judgement of whole lines, over a corpus and over the policies.

use openoxide_sandbox::SandboxMode::{self, DangerFullAccess, ReadOnly, WorkspaceWrite};

use std::path::Path;

use super::{CommandPlace, PatchReach, Request, decide};
use crate::ApprovalPolicy::{self, Never, OnFailure, OnRequest, Untrusted};
use crate::RuleDecision::{self, Allow, Ask, Forbid};
use crate::{CommandRule, Verdict};

/// Lines with what `untrusted` in a sandbox says of them: `verdict<TAB>line`, `\n`, `\t`, `\\` and `\uXXXX` escaped.
const CORPUS: &str = include_str!("corpus.tsv");

/// The same of lines that others agreed on, so that this judgement is held against more than its own examples.
const VERDICTS: &str = include_str!("verdicts.tsv");

pub(super) fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some('u') => {
                    let digits: String = chars.by_ref().take(4).collect();
                    out.extend(u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32));
                }
                Some(other) => out.push(other),
                None => {}
            },
            (c, false) => out.push(c),
        }
    }
    out
}

pub(super) fn argv(line: &str) -> Vec<String> {
    ["bash", "-c", line].map(str::to_owned).to_vec()
}

pub(super) fn here() -> CommandPlace<'static> {
    CommandPlace { cwd: Path::new("/w"), workspace: Path::new("/w") }
}

pub(super) fn request(argv: &[String], escalated: bool) -> Request<'_> {
    Request::Command { argv, escalated, place: here() }
}

pub(super) fn judge(policy: ApprovalPolicy, sandbox: SandboxMode, rules: &[CommandRule], line: &str) -> Verdict {
    decide(policy, sandbox, rules, request(&argv(line), false))
}

pub(super) fn rule(prefix: &[&str], decision: RuleDecision) -> CommandRule {
    CommandRule::new(prefix, decision)
}

#[test]
fn every_line_of_the_corpus_is_judged_as_it_says() {
    let mut wrong = Vec::new();
    for entry in CORPUS.lines().chain(VERDICTS.lines()).filter(|entry| !entry.is_empty()) {
        let (expected, line) = entry.split_once('\t').unwrap();
        let line = unescape(line);
        let verdict = judge(Untrusted, WorkspaceWrite, &[], &line);
        let expected_word = if expected == "safe" { "allow" } else { expected };
        if verdict.decision.as_str() != expected_word {
            wrong.push(format!("{line:?}: {verdict:?}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn commands_of_git_are_safe_in_a_sandbox_only() {
    assert_eq!(judge(Untrusted, ReadOnly, &[], "git status").decision, Allow);
    let verdict = judge(Untrusted, DangerFullAccess, &[], "git status");
    assert_eq!((verdict.decision, verdict.rule.as_str()), (Ask, "unconfined"));
    assert_eq!(judge(Untrusted, DangerFullAccess, &[], "ls").decision, Allow);
}

#[test]
fn reading_far_and_reading_secrets_is_asked() {
    let judged = |line: &str| judge(Untrusted, WorkspaceWrite, &[], line).decision;
    for line in [
        "grep -rh . /root",
        "rg -uuu secret /root",
        "rg x ..",
        "grep -r x sub/../..",
        "find / -name x",
        "ls -R /",
        "tree /etc",
        "du -a ..",
        "diff -r a /etc",
        "cat /etc//shadow",
        "cat /etc/./shadow",
        "cat /etc/shado?",
        "cat /etc/shadow-",
        "cat server.key",
        "cat x.kdbx",
        "cat .envrc",
        "cat terraform.tfstate",
        "cat /run/secrets/db",
        "cat .git/config",
        "head -c 512 /dev/sda",
        "cd .. && ls",
        "cd / && ls",
        "cd - && ls",
        "cd && ls",
        "cd ~ && ls",
        "cd $x && ls",
        "cd sub && make",
        "cd sub && cat ../../x/.env",
    ] {
        assert_eq!(judged(line), Ask, "{line}");
    }
    for line in [
        "grep -rh . src",
        "grep -rn '/api/v1' src",
        "grep -rn x",
        "rg -uuu secret",
        "rg x /w/src",
        "find . -name x",
        "ls -R src",
        "cd crates/core && ls",
        "cd a && cd b && git status && grep -rn x .",
        "ls / && cat /usr/include/stdio.h",
    ] {
        assert_eq!(judged(line), Allow, "{line}");
    }
    // Where the command runs counts as well.
    let outside = CommandPlace { cwd: Path::new("/"), ..here() };
    let request = Request::Command { argv: &argv("grep -r x"), escalated: false, place: outside };
    assert_eq!(decide(Untrusted, WorkspaceWrite, &[], request).decision, Ask);
    // Without a sandbox, what goes through a directory may come by secrets.
    for line in ["grep -r x src", "rg x", "cd src && ls"] {
        assert_eq!(judge(Untrusted, DangerFullAccess, &[], line).decision, Ask, "{line}");
    }
    assert_eq!(judge(Untrusted, DangerFullAccess, &[], "grep -n x a.txt").decision, Allow);
}

#[test]
fn each_policy_does_what_it_says() {
    for (policy, plain, escalated) in
        [(Untrusted, Ask, Ask), (OnRequest, Allow, Ask), (OnFailure, Allow, Ask), (Never, Allow, Forbid)]
    {
        let plain_verdict = judge(policy, WorkspaceWrite, &[], "make");
        assert_eq!(plain_verdict.decision, plain, "{policy:?}: {plain_verdict:?}");
        assert_eq!(decide(policy, WorkspaceWrite, &[], request(&argv("make"), true)).decision, escalated, "{policy:?}");
        // What nobody can take back is refused whoever could be asked.
        for sandbox in [ReadOnly, WorkspaceWrite, DangerFullAccess] {
            assert_eq!(judge(policy, sandbox, &[], "sudo rm -rf /").decision, Forbid, "{policy:?}");
        }
    }
}

#[test]
fn patches_are_judged_by_where_they_reach() {
    use PatchReach::{Beyond, Within};
    let judge = |policy, sandbox, reach| decide(policy, sandbox, &[], Request::Patch { reach }).decision;
    for (policy, within, beyond) in
        [(Untrusted, Ask, Ask), (OnRequest, Allow, Ask), (OnFailure, Allow, Ask), (Never, Allow, Forbid)]
    {
        assert_eq!(judge(policy, WorkspaceWrite, Within), within, "{policy:?}");
        assert_eq!(judge(policy, WorkspaceWrite, Beyond), beyond, "{policy:?}");
        assert_eq!(judge(policy, DangerFullAccess, Beyond), within, "{policy:?}");
    }
}

#[test]
fn the_strictest_rule_wins_and_each_part_counts() {
    let rules = [
        rule(&["cargo"], Allow),
        rule(&["git", "push"], Forbid),
        rule(&["cargo", "publish"], Ask),
        rule(&["npm", "test"], Allow),
    ];
    let judge = |line: &str| {
        let verdict = judge(Untrusted, WorkspaceWrite, &rules, line);
        (verdict.decision, verdict.rule)
    };
    assert_eq!(judge("cargo test --all"), (Allow, "rules[0]".to_owned()));
    assert_eq!(judge("/usr/bin/cargo test"), (Allow, "rules[0]".to_owned()));
    assert_eq!(judge("./cargo test").0, Ask);
    assert_eq!(judge("cargo publish"), (Ask, "rules[2]".to_owned()));
    assert_eq!(judge("ls && cargo test | tail"), (Allow, "rules[0]".to_owned()));
    assert_eq!(judge("cargo test && make").0, Ask);
    assert_eq!(judge("cargo test > out").0, Ask);
    assert_eq!(judge("npm test"), (Allow, "rules[3]".to_owned()));
    assert_eq!(judge("npm install").0, Ask);
    for line in [
        "git push",
        "git push origin main",
        "/usr/bin/git push",
        "/opt/git push",
        "cargo test; git push",
        "sudo git push",
        "bash -lc 'git push'",
        "if true; then git push; fi",
        "echo $(git push)",
        "env A=b git push",
        "g\\it pu''sh",
        "timeout 5 git push",
        "x=`git push`",
        "ls | xargs -n 1 git push",
        "{git,push}",
    ] {
        assert_eq!(judge(line), (Forbid, "rules[1]".to_owned()), "{line}");
    }
    assert_eq!(judge("echo git push").0, Allow);
}

#[test]
fn an_allowed_command_stays_in_the_sandbox_unless_its_rule_says_otherwise() {
    let rules = [
        rule(&["cargo", "test"], Allow),
        CommandRule { leaves_sandbox: true, ..rule(&["npm", "ci"], Allow) },
        CommandRule { leaves_sandbox: true, ..rule(&["docker", "ps"], Allow) },
    ];
    let escalated = |policy, line: &str| decide(policy, WorkspaceWrite, &rules, request(&argv(line), true));
    for line in [
        "cargo test",
        "cargo test; grep -rh . ~ $OPENOXIDE_HOME",
        "cargo test --config build.rustc-wrapper=./evil",
        "npm ci --prefix /x",
        "npm ci; cargo test",
        "npm ci && ls",
        "ls; npm ci",
        "npm ci > out",
        "npm 'c'*",
        "./npm ci",
        "A=b npm ci",
        "npm ci; npm ci evil",
        "echo a",
    ] {
        for (policy, expected) in [(Untrusted, Ask), (OnRequest, Ask), (OnFailure, Ask), (Never, Forbid)] {
            let verdict = escalated(policy, line);
            assert_eq!(verdict.decision, expected, "{policy:?} {line}: {verdict:?}");
        }
    }
    for line in ["npm ci", "/usr/bin/npm ci", "npm 'ci'", "npm ci; docker ps", "npm ci 2>&1"] {
        assert_eq!(escalated(OnRequest, line).decision, Allow, "{line}");
        assert_eq!(escalated(Never, line).decision, Allow, "{line}");
    }
    let inside = |line: &str| judge(Untrusted, WorkspaceWrite, &rules, line).decision;
    assert_eq!((inside("cargo test --all"), inside("npm ci --verbose"), inside("npm install")), (Allow, Allow, Ask));
}

#[test]
fn a_rule_that_asks_is_a_refusal_where_nobody_is_asked() {
    let rules = [rule(&["npm", "install"], Allow), rule(&["make"], Ask)];
    assert_eq!(judge(Never, WorkspaceWrite, &rules, "make").decision, Forbid);
    assert_eq!(judge(OnRequest, WorkspaceWrite, &rules, "make").decision, Ask);
}

#[test]
fn words_that_no_shell_reads_are_taken_as_they_are() {
    let argv = ["grep", "-rn", "$HOME; rm -rf /", "src"].map(str::to_owned);
    let verdict = decide(Untrusted, WorkspaceWrite, &[], request(&argv, false));
    assert_eq!(verdict.decision, Allow, "{verdict:?}");
    let argv = ["rm", "-rf", "/"].map(str::to_owned);
    let verdict = decide(Never, DangerFullAccess, &[], request(&argv, false));
    assert_eq!((verdict.decision, verdict.rule.as_str()), (Forbid, "destructive:rm"));
}

#[test]
fn rules_without_words_are_refused() {
    assert!(rule(&[], Allow).check().unwrap_err().contains("empty"));
    assert!(rule(&["git", " "], Allow).check().unwrap_err().contains("empty word"));
    assert!(rule(&["git", "push"], Allow).check().is_ok());
    let off = |decision| CommandRule { leaves_sandbox: true, ..rule(&["make"], decision) };
    assert!(off(Allow).check().is_ok());
    for decision in [Ask, Forbid] {
        assert!(off(decision).check().unwrap_err().contains("sandbox = \"off\""));
    }
}

proptest::proptest! {
    /// Whatever is put after a safe command by any operator has to be safe too.
    #[test]
    fn nothing_rides_along(separator in "[;&|\n]{1,2}", tail in "[a-z./ $`(){}<>*~-]{1,20}") {
        let line = format!("ls{separator}{tail}");
        if judge(Untrusted, WorkspaceWrite, &[], &line).decision == Allow {
            let commands = super::lexer::read(&line).unwrap();
            let are_safe = commands.iter().all(|command| super::safe::judge(command, Some(here())).is_ok());
            proptest::prop_assert!(are_safe);
        }
    }

    #[test]
    fn no_line_makes_it_panic(line in "\\PC{0,60}") {
        judge(Never, DangerFullAccess, &[], &line);
    }
}
