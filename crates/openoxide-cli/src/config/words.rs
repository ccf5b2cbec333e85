//! The words and tables of configuration files for what core speaks of: policies and rules. What they mean is core's.

use openoxide_core::{ApprovalPolicy, CommandRule, RuleDecision};
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(remote = "ApprovalPolicy", rename_all = "kebab-case")]
enum PolicyWord {
    Untrusted,
    OnRequest,
    OnFailure,
    Never,
}

#[derive(Deserialize)]
#[serde(remote = "RuleDecision", rename_all = "lowercase")]
enum DecisionWord {
    Allow,
    Ask,
    Forbid,
}

/// What a rule does with the sandbox.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum SandboxWord {
    Off,
}

/// `[[rules]]`.
#[derive(Deserialize)]
#[serde(remote = "CommandRule", deny_unknown_fields)]
struct RuleTable {
    prefix: Vec<String>,
    #[serde(with = "DecisionWord")]
    decision: RuleDecision,
    #[serde(default, rename = "sandbox", deserialize_with = "is_off")]
    leaves_sandbox: bool,
}

fn is_off<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    SandboxWord::deserialize(deserializer).map(|SandboxWord::Off| true)
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Policy(#[serde(with = "PolicyWord")] ApprovalPolicy);

#[derive(Deserialize)]
#[serde(transparent)]
struct Rule(#[serde(with = "RuleTable")] CommandRule);

/// Reads a policy that may be left out.
pub(crate) fn policy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ApprovalPolicy>, D::Error> {
    Ok(Option::<Policy>::deserialize(deserializer)?.map(|Policy(policy)| policy))
}

/// Reads a list of policies that may be left out.
pub(crate) fn policies<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<ApprovalPolicy>>, D::Error> {
    let policies = Option::<Vec<Policy>>::deserialize(deserializer)?;
    Ok(policies.map(|policies| policies.into_iter().map(|Policy(policy)| policy).collect()))
}

/// Reads rules.
pub(crate) fn rules<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<CommandRule>, D::Error> {
    Ok(Vec::<Rule>::deserialize(deserializer)?.into_iter().map(|Rule(rule)| rule).collect())
}
