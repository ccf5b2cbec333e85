//! The rules of the operator in the model's words: which commands run where, so that it need not find out by asking. Pure.

use std::fmt::Write as _;

use openoxide_display::command_line;
use openoxide_sandbox::SandboxMode;

use crate::{CommandRule, RuleDecision};

/// The most rules that are told; who has more means to be asked.
const MOST: usize = 40;

/// The rules on lines of their own; none where there are none.
pub(crate) fn told(rules: &[CommandRule], sandbox: SandboxMode) -> Option<String> {
    if rules.is_empty() {
        return None;
    }
    let is_confined = sandbox != SandboxMode::DangerFullAccess;
    let prefixes = |wanted: &dyn Fn(&CommandRule) -> bool| {
        let told = rules.iter().take(MOST).filter(|rule| wanted(rule));
        let told: Vec<String> = told.map(|rule| format!("`{}`", command_line(&rule.prefix))).collect();
        (!told.is_empty()).then(|| told.join(", "))
    };
    let lets_out = |rule: &CommandRule| rule.leaves_sandbox && is_confined;
    let mut text = String::from("command rules, by the first words of a command:");
    let mut tell = |what: &str, prefixes: Option<String>| {
        if let Some(prefixes) = prefixes {
            // Writing to a string does not fail.
            let _ = write!(text, "\n- {what}: {prefixes}");
        }
    };
    let inside = if is_confined { "run unasked inside the sandbox" } else { "run unasked" };
    let outside = "run unasked outside of the sandbox too, with exactly these words, nothing else in the line and \
                   `sandbox_permissions: \"require_escalated\"`";
    tell(inside, prefixes(&|rule| rule.decision == RuleDecision::Allow));
    tell(outside, prefixes(&lets_out));
    tell("put to a person first", prefixes(&|rule| rule.decision == RuleDecision::Ask));
    tell("refused", prefixes(&|rule| rule.decision == RuleDecision::Forbid));
    if rules.len() > MOST {
        let _ = write!(text, "\n- and {} more", rules.len() - MOST);
    }
    text.push_str("\na line runs unasked only if each of its parts does; write such lines plainly, without variables and redirections");
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_told_which_commands_run_where() {
        assert_eq!(told(&[], SandboxMode::WorkspaceWrite), None);
        let rule = CommandRule::new;
        let rules = [
            rule(&["cargo", "test"], RuleDecision::Allow),
            CommandRule { leaves_sandbox: true, ..rule(&["docker", "ps"], RuleDecision::Allow) },
            rule(&["git", "push"], RuleDecision::Ask),
            rule(&["rm"], RuleDecision::Forbid),
        ];
        let text = told(&rules, SandboxMode::WorkspaceWrite).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "- run unasked inside the sandbox: `cargo test`, `docker ps`");
        assert!(lines[2].starts_with("- run unasked outside of the sandbox too, with exactly these words"), "{text}");
        assert!(lines[2].ends_with(": `docker ps`"), "{text}");
        assert_eq!(lines[3..5], ["- put to a person first: `git push`", "- refused: `rm`"]);
        let open = told(&rules, SandboxMode::DangerFullAccess).unwrap();
        assert!(open.contains("- run unasked: `cargo test`") && !open.contains("outside"), "{open}");
        let many: Vec<CommandRule> = (0..50).map(|at| rule(&[&format!("p{at}")], RuleDecision::Ask)).collect();
        assert!(told(&many, SandboxMode::WorkspaceWrite).unwrap().contains("- and 10 more"));
    }
}
