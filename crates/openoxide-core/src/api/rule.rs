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
}

impl CommandRule {
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
            Some(_) => Ok(()),
        }
    }
}

/// What was decided, by what, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What is to be done.
    pub decision: RuleDecision,
    /// What decided: `safe:ls`, `rules[2]`, `destructive:rm`, `policy:untrusted`, `lexer`, `sandbox`.
    pub rule: String,
    /// Why, in a sentence without a full stop.
    pub reason: String,
}

impl Verdict {
    pub(crate) fn new(decision: RuleDecision, rule: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { decision, rule: rule.into(), reason: reason.into() }
    }
}
