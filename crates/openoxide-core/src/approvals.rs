//! When a person is asked, what is remembered of the answers, and what the model is told of a no. Pure.
//!
//! Decisions come in and wait elsewhere: [`crate::Thread`] keeps what is pending, `turn/state.rs` acts on the answer.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::{ApprovalAction, ApprovalPolicy, Decision, DenialReason};

/// What a tool call would do, put up for a decision if the policy wants one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    /// What would be done.
    pub(crate) action: ApprovalAction,
    /// The model asks to leave the sandbox.
    pub(crate) escalated: bool,
    /// Why, in the model's words.
    pub(crate) justification: Option<String>,
}

/// Answers that hold for the rest of a thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remembered {
    commands: HashSet<(Vec<String>, PathBuf)>,
    patches: bool,
}

impl Remembered {
    /// Notes an approval for the thread: the exact command in the exact directory, or every patch.
    pub(crate) fn approve(&mut self, action: &ApprovalAction) {
        match action {
            ApprovalAction::Command { argv, cwd } => {
                self.commands.insert((argv.clone(), cwd.clone()));
            }
            ApprovalAction::Patch { .. } => self.patches = true,
        }
    }

    fn covers(&self, action: &ApprovalAction) -> bool {
        match action {
            ApprovalAction::Command { argv, cwd } => {
                !self.commands.is_empty() && self.commands.contains(&(argv.clone(), cwd.clone()))
            }
            ApprovalAction::Patch { .. } => self.patches,
        }
    }
}

/// Whether a person is asked first.
///
/// Full access is the only mode that is enforced today, so the sandbox stops nothing and the policy alone decides:
/// `untrusted` asks for everything, `on-request` for what the model marks, `never` for nothing. `on-failure` has
/// no meaning without a sandbox and is refused when a thread starts; should it come here, it asks.
pub(crate) fn must_ask(policy: ApprovalPolicy, question: &Question, remembered: &Remembered) -> bool {
    let asks = match policy {
        ApprovalPolicy::Untrusted | ApprovalPolicy::OnFailure => true,
        ApprovalPolicy::OnRequest => question.escalated,
        ApprovalPolicy::Never => false,
    };
    asks && !remembered.covers(&question.action)
}

/// An action for a person, on one line: the command as a shell would show it, or the files of a patch.
pub(crate) fn describe(action: &ApprovalAction) -> String {
    match action {
        ApprovalAction::Command { argv, .. } => command_line(argv),
        ApprovalAction::Patch { changes, .. } => {
            let paths: Vec<String> = changes.iter().map(|change| visible(&change.path.to_string_lossy())).collect();
            format!("patch {}", paths.join(", "))
        }
    }
}

/// An argument vector on one line, control characters made visible. A shell's own command is shown as it is.
pub(crate) fn command_line(argv: &[String]) -> String {
    match argv {
        [shell, flag, command] if (shell == "bash" || shell == "sh") && flag.ends_with('c') => visible(command),
        _ => visible(&argv.join(" ")),
    }
}

/// Text with everything that could move a cursor, hide or reorder other text written as an escape.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c if c.is_control()
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}') =>
            {
                // Writing to a string does not fail.
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
            }
            c => shown.push(c),
        }
    }
    shown
}

/// A decision as the rollout has it.
pub(crate) fn decision_word(decision: &Decision) -> String {
    match decision {
        Decision::Approve => "approved".to_owned(),
        Decision::ApproveForThread => "approved_for_thread".to_owned(),
        Decision::Deny { reason, .. } => format!("denied: {}", reason.as_str()),
        Decision::DenyAndStop { .. } => "denied_and_stopped".to_owned(),
    }
}

/// What the model is told instead of a result.
pub(crate) fn denial_sentence(action: &ApprovalAction, reason: DenialReason, note: Option<&str>) -> String {
    let what = match action {
        ApprovalAction::Command { .. } => "The command was not run",
        ApprovalAction::Patch { .. } => "The patch was not applied; no file was changed",
    };
    let why = match reason {
        DenialReason::Declined => "the person asked said no",
        DenialReason::Cancelled => "the question was dismissed without an answer",
        DenialReason::Error => "the question failed or its answer was not understood",
        DenialReason::TimedOut => "nobody answered the question in time",
        DenialReason::Disconnected => "whoever was asked went away before answering",
        DenialReason::NotAskable => "it needs approval, and there is nobody who can be asked",
    };
    let next = match reason {
        DenialReason::Declined | DenialReason::Cancelled => {
            "Do not try to reach the same effect another way. Go on without it, or say what you would need it for."
        }
        _ => "Go on with what needs no approval, and say in your last message what was left undone.",
    };
    match note.map(str::trim).filter(|note| !note.is_empty()) {
        Some(note) => format!("{what}: {why}. Their words: {note}\n{next}"),
        None => format!("{what}: {why}. {next}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(command: &str, cwd: &str, escalated: bool) -> Question {
        let argv = ["bash", "-c", command].map(str::to_owned).to_vec();
        let action = ApprovalAction::Command { argv, cwd: cwd.into() };
        Question { action, escalated, justification: None }
    }

    fn patch() -> Question {
        let action = ApprovalAction::Patch { changes: Vec::new(), unified_diff: String::new() };
        Question { action, escalated: false, justification: None }
    }

    #[test]
    fn each_policy_asks_for_what_it_says() {
        let none = Remembered::default();
        for (policy, plain, escalated, patched) in [
            (ApprovalPolicy::Untrusted, true, true, true),
            (ApprovalPolicy::OnRequest, false, true, false),
            (ApprovalPolicy::Never, false, false, false),
        ] {
            assert_eq!(must_ask(policy, &command("ls", "/", false), &none), plain, "{policy:?}");
            assert_eq!(must_ask(policy, &command("ls", "/", true), &none), escalated, "{policy:?}");
            assert_eq!(must_ask(policy, &patch(), &none), patched, "{policy:?}");
        }
    }

    #[test]
    fn an_approval_for_the_thread_holds_for_the_exact_command_and_directory() {
        let mut remembered = Remembered::default();
        remembered.approve(&command("cargo test", "/a", false).action);
        let asks =
            |question: &Question, remembered: &Remembered| must_ask(ApprovalPolicy::Untrusted, question, remembered);
        assert!(!asks(&command("cargo test", "/a", false), &remembered));
        assert!(asks(&command("cargo test ", "/a", false), &remembered));
        assert!(asks(&command("cargo test", "/b", false), &remembered));
        assert!(asks(&patch(), &remembered));
        remembered.approve(&patch().action);
        assert!(!asks(&patch(), &remembered));
    }

    #[test]
    fn nothing_in_a_command_can_hide_in_a_question() {
        let shown = command_line(&["bash".into(), "-c".into(), "ls\u{1b}[2K\rrm -rf x\u{202e}\n".into()]);
        assert_eq!(shown, "ls\\u{1b}[2K\\rrm -rf x\\u{202e}\\n");
    }
}
