//! `[profiles.NAME]` as a call of a running server chooses it: of its settings those that hold for one thread. One that sets
//! more, or what is not valid, is refused to the call that names it and stands in nobody else's way.

use std::collections::BTreeMap;

use openoxide_core::{ApprovalPolicy, Profile, Profiles};
use openoxide_sandbox::SandboxMode;
use serde::Deserialize;
use toml::{Table, Value};

use super::{shown, words};

#[derive(Deserialize)]
struct ProfileTable {
    model: Option<String>,
    sandbox_mode: Option<SandboxMode>,
    #[serde(default, deserialize_with = "words::policy")]
    approval_policy: Option<ApprovalPolicy>,
    compact_prompt: Option<String>,
    model_reasoning_effort: Option<String>,
    model_reasoning_summary: Option<String>,
    tool_output_token_limit: Option<usize>,
    project_doc_max_bytes: Option<usize>,
    max_turn_tokens: Option<u64>,
    max_turn_seconds: Option<u64>,
    max_steps: Option<u32>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// The profiles of a merged configuration.
pub(super) fn of(merged: &Table) -> Profiles {
    let profiles = merged.get("profiles").and_then(Value::as_table);
    profiles.into_iter().flatten().map(|(name, table)| (name.clone(), profile(name, table))).collect()
}

fn profile(name: &str, table: &Value) -> Result<Profile, String> {
    let read = table.clone().try_into::<ProfileTable>();
    let table = read.map_err(|error| format!("it is not valid: {}", shown::message(&error.to_string())))?;
    let others: Vec<&str> = table.others.keys().map(String::as_str).collect();
    if !others.is_empty() {
        return Err(format!(
            "it sets {}, which holds for a whole server and not for one thread; start a server with --profile {name}",
            others.join(", ")
        ));
    }
    Ok(Profile {
        model: table.model,
        sandbox: table.sandbox_mode,
        approval_policy: table.approval_policy,
        compact_prompt: table.compact_prompt,
        reasoning_effort: table.model_reasoning_effort,
        reasoning_summary: table.model_reasoning_summary,
        tool_output_token_limit: table.tool_output_token_limit,
        project_doc_max_bytes: table.project_doc_max_bytes,
        max_turn_tokens: table.max_turn_tokens,
        max_turn_seconds: table.max_turn_seconds,
        max_steps: table.max_steps,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Profiles {
        of(&text.parse().unwrap())
    }

    #[test]
    fn what_holds_for_one_thread_can_be_chosen() {
        let profiles = read("[profiles.p]\nmodel = \"m\"\nsandbox_mode = \"read-only\"\nmax_steps = 3\n");
        let profile = Profile {
            model: Some("m".to_owned()),
            sandbox: Some(SandboxMode::ReadOnly),
            max_steps: Some(3),
            ..Profile::default()
        };
        assert_eq!(profiles["p"], Ok(profile));
        assert_eq!(read(""), Profiles::new());
    }

    #[test]
    fn what_holds_for_the_server_or_is_wrong_is_told_to_who_names_it() {
        let text = "[profiles.a]\nmodel_provider = \"x\"\n[profiles.b]\nmax_steps = \"hunter2\"\n[profiles.c]\n";
        let profiles = read(text);
        let told = profiles["a"].clone().unwrap_err();
        assert!(told.contains("sets model_provider") && told.contains("--profile a"), "{told}");
        let told = profiles["b"].clone().unwrap_err();
        assert!(told.contains("not valid") && !told.contains("hunter2"), "{told}");
        assert_eq!(profiles["c"], Ok(Profile::default()));
    }
}
