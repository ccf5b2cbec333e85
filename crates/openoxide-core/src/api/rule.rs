//! The rules of the operator for commands, and what is decided by them.

/// What is to be done with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleDecision {
    /// Run it unasked.
    Allow,
    /// Ask a person first.
    Ask,
    /// Do not run it, whoever is asked.
    Forbid,
}

impl RuleDecision {
    /// The word in configuration and output.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Forbid => "forbid",
        }
    }
}

/// `[[rules]]`: what is to be done with commands that begin with these words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRule {
    /// The first words of the command, for instance `["git", "push"]`.
    pub prefix: Vec<String>,
    /// What is to be done.
    pub decision: RuleDecision,
    /// `sandbox = "off"`: the command may also run outside of the sandbox, but only with these words and no others. It goes
    /// with [`RuleDecision::Allow`] alone.
    pub leaves_sandbox: bool,
}

impl CommandRule {
    /// A rule that leaves the sandbox as it is.
    #[must_use]
    pub fn new(prefix: &[&str], decision: RuleDecision) -> Self {
        let prefix = prefix.iter().map(|word| (*word).to_owned()).collect();
        Self { prefix, decision, leaves_sandbox: false }
    }

    /// Whether the rule means anything.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        match self.prefix.first() {
            None => {
                Err("prefix is empty; name the first words of the command, for instance [\"git\", \"push\"]".to_owned())
            }
            Some(_) if self.prefix.iter().any(|word| word.trim().is_empty()) => {
                Err(format!("prefix {:?} has an empty word; leave it out", self.prefix))
            }
            Some(_) if self.leaves_sandbox && self.decision != RuleDecision::Allow => Err(format!(
                "sandbox = \"off\" goes with decision = \"allow\", and not with \"{}\"; leave it out",
                self.decision.as_str()
            )),
            Some(_) => Ok(()),
        }
    }
}

/// What was decided, by what, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What is to be done.
    pub decision: RuleDecision,
    /// What decided: `safe:ls`, `rules[2]`, `destructive:rm`, `policy:untrusted`, `lexer`, `sandbox`,
    /// `unread` for a line of which it cannot be told whether a rule speaks of it.
    pub rule: String,
    /// Why, in a sentence without a full stop.
    pub reason: String,
}

impl Verdict {
    pub(crate) fn new(decision: RuleDecision, rule: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { decision, rule: rule.into(), reason: reason.into() }
    }
}
