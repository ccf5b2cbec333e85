//! The tools `codex` and `codex-reply` as Codex 0.153.4 had them, for hosts that are configured for it (`--compat codex`).
//!
//! They are read into the same calls as our own tools. What Codex took and we have no counterpart for is said in
//! `docs/migrating-from-codex.md`.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::choices::Word;
use super::{
    ApprovalChoice, Choices, ConfigOverrides, OpenoxideParams, ReplyParams, SandboxChoice, ToolCall, ToolCallError,
};

/// Starts a session.
pub const CODEX: &str = "codex";
/// Continues one.
pub const CODEX_REPLY: &str = "codex-reply";

/// Whether a tool is one of these.
pub fn is_codex(tool: &str) -> bool {
    matches!(tool, CODEX | CODEX_REPLY)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct CodexParams {
    prompt: String,
    model: Option<String>,
    profile: Option<String>,
    cwd: Option<String>,
    approval_policy: Option<String>,
    sandbox: Option<String>,
    config: Option<Map<String, Value>>,
    base_instructions: Option<String>,
    developer_instructions: Option<String>,
    compact_prompt: Option<String>,
}

/// Unknown fields are ignored, as they were.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CodexReplyParams {
    prompt: String,
    thread_id: Option<String>,
    /// The older name.
    conversation_id: Option<String>,
}

/// The tools as they are listed, with what is offered.
pub(super) fn list(choices: &Choices) -> [Tool; 2] {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let mut sandbox = text("What commands may touch.");
    sandbox["enum"] = choices.sandboxes.iter().map(|word| word.as_str()).collect();
    let mut policy = text("When approval is asked for before a command is run.");
    policy["enum"] = choices.policies.iter().map(|word| word.as_str()).collect();
    let start = json!({
        "type": "object",
        "properties": {
            "prompt": text("The prompt that begins the session."),
            "model": text("The model's name as the provider knows it."),
            "profile": text("A profile of the operator's configuration."),
            "cwd": text("The directory to work in; relative paths start at the server's."),
            "approval-policy": policy,
            "sandbox": sandbox,
            "config": { "type": "object", "additionalProperties": true, "description": "Settings that go before the configuration file's." },
            "base-instructions": text("Instructions in place of the default ones."),
            "developer-instructions": text("Instructions beside the default ones."),
            "compact-prompt": text("What a long conversation is summed up with."),
        },
        "required": ["prompt"],
        "additionalProperties": false,
    });
    let reply = json!({
        "type": "object",
        "properties": {
            "prompt": text("The next prompt of the conversation."),
            "threadId": text("The session, as returned in threadId."),
            "conversationId": text("The same, by its older name."),
        },
        "required": ["prompt"],
    });
    let output = json!({
        "type": "object",
        "properties": { "threadId": { "type": "string" }, "content": { "type": "string" } },
        "required": ["threadId", "content"],
    });
    let tool = |name, title, description, input: Value| {
        Tool::new(name, description, Arc::new(object(input)))
            .with_title(title)
            .with_raw_output_schema(Arc::new(object(output.clone())))
    };
    [
        tool(CODEX, "Codex", "Run a coding session. The answer has its threadId, for codex-reply.", start),
        tool(CODEX_REPLY, "Codex Reply", "Continue a coding session by its threadId.", reply),
    ]
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(fields) => fields,
        _ => JsonObject::new(),
    }
}

/// Reads a call of one of these tools.
pub(super) fn parse(choices: &Choices, name: &str, arguments: Option<&RawValue>) -> Result<ToolCall, ToolCallError> {
    let Some(arguments) = arguments else {
        return bad(match name {
            CODEX_REPLY => {
                "Missing arguments for codex-reply tool-call; the `thread_id` and `prompt` fields are required."
                    .to_owned()
            }
            _ => "Missing arguments for codex tool-call; the `prompt` field is required.".to_owned(),
        });
    };
    if name == CODEX_REPLY { reply(arguments) } else { start(choices, arguments) }
}

/// What Codex answered to a call of a tool that it did not have.
pub(super) fn unknown(name: &str) -> Result<ToolCall, ToolCallError> {
    bad(format!("Unknown tool '{name}'"))
}

fn bad<T>(message: String) -> Result<T, ToolCallError> {
    Err(ToolCallError::BadArguments(message))
}

fn read<T: DeserializeOwned>(arguments: &RawValue) -> Result<T, ToolCallError> {
    serde_json::from_str(arguments.get()).or_else(|error| {
        let error = error.to_string();
        // Where in the arguments it stands is of no use: the caller wrote no lines.
        let error = error.rsplit_once(" at line ").map_or(&*error, |(error, _)| error);
        bad(format!("Failed to parse configuration for Codex tool: {error}"))
    })
}

/// The keys of `config` that are read. Others are ignored, as unknown ones were.
const READ: [&str; 9] = [
    "model",
    "sandbox_mode",
    "approval_policy",
    "developer_instructions",
    "compact_prompt",
    "model_reasoning_effort",
    "model_reasoning_summary",
    "tool_output_token_limit",
    "project_doc_max_bytes",
];

fn start(choices: &Choices, arguments: &RawValue) -> Result<ToolCall, ToolCallError> {
    let params: CodexParams = read(arguments)?;
    if params.prompt.trim().is_empty() {
        return bad("Failed to parse configuration for Codex tool: prompt is empty; say what to do".to_owned());
    }
    let config = params.config.unwrap_or_default();
    let setting = |key: &str| config.get(key).and_then(Value::as_str).map(str::to_owned);
    let number = |key: &str| config.get(key).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
    let sandbox = params.sandbox.or_else(|| setting("sandbox_mode"));
    let policy = params.approval_policy.or_else(|| setting("approval_policy"));
    let overrides = ConfigOverrides {
        model: setting("model"),
        model_reasoning_effort: setting("model_reasoning_effort"),
        model_reasoning_summary: setting("model_reasoning_summary"),
        tool_output_token_limit: number("tool_output_token_limit").filter(|limit| *limit > 0),
        project_doc_max_bytes: number("project_doc_max_bytes"),
        ignored: config.keys().filter(|key| !READ.contains(&key.as_str())).cloned().collect(),
        ..ConfigOverrides::default()
    };
    if let Some(fault) = overrides.fault() {
        return bad(format!("Failed to load Codex configuration from overrides: {fault}"));
    }
    Ok(ToolCall::Start(Box::new(OpenoxideParams {
        prompt: params.prompt,
        cwd: params.cwd,
        model: params.model.filter(|model| !model.is_empty()),
        profile: params.profile.filter(|profile| !profile.is_empty()),
        sandbox: sandbox.map(|word| word_of("sandbox", &word, &choices.sandboxes, &SandboxChoice::ALL)).transpose()?,
        approval_policy: policy
            .map(|word| word_of("approval-policy", &word, &choices.policies, &ApprovalChoice::ALL))
            .transpose()?,
        instructions: params.developer_instructions.or_else(|| setting("developer_instructions")),
        base_instructions: params.base_instructions,
        compact_prompt: params.compact_prompt.or_else(|| setting("compact_prompt")),
        config: Some(overrides),
        wait_seconds: None,
    })))
}

fn word_of<T: Word>(field: &str, given: &str, offered: &[T], all: &[T]) -> Result<T, ToolCallError> {
    if let Some(word) = offered.iter().find(|word| word.as_str() == given) {
        return Ok(*word);
    }
    let allowed: Vec<&str> = offered.iter().map(|word| word.as_str()).collect();
    let known = all.iter().any(|word| word.as_str() == given);
    let who = if known { ". The operator of this server allows no more" } else { "" };
    bad(format!(
        "Failed to parse configuration for Codex tool: {field} is {given:?}; allowed: {}{who}",
        allowed.join(", ")
    ))
}

fn reply(arguments: &RawValue) -> Result<ToolCall, ToolCallError> {
    let params: CodexReplyParams = read(arguments)?;
    let Some(thread_id) = params.thread_id.or(params.conversation_id) else {
        return bad("Failed to parse thread_id: either threadId or conversationId must be provided".to_owned());
    };
    if params.prompt.trim().is_empty() {
        return bad("Failed to parse configuration for Codex tool: prompt is empty; say what to do".to_owned());
    }
    Ok(ToolCall::Reply(ReplyParams {
        thread_id,
        prompt: Some(params.prompt),
        steer: None,
        interrupt: None,
        close: None,
        wait_seconds: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::{ToolFamilies, ToolSet};

    fn parsed(name: &str, json: &str) -> Result<ToolCall, ToolCallError> {
        let tools = ToolSet::new(Choices::default()).with(ToolFamilies::All);
        tools.parse(name, Some(&RawValue::from_string(json.to_owned()).unwrap()))
    }

    #[test]
    fn what_was_written_for_codex_is_read() {
        let json = r#"{"prompt":"p","approval-policy":"never","sandbox":"workspace-write","base-instructions":"b",
            "developer-instructions":"d","compact-prompt":"c","cwd":"x",
            "config":{"model":"m","features":{"x":true},"project_doc_max_bytes":0,"model_reasoning_effort":"high"}}"#;
        let ToolCall::Start(params) = parsed(CODEX, json).unwrap() else { panic!("a start") };
        assert_eq!(
            (params.sandbox, params.approval_policy),
            (Some(SandboxChoice::WorkspaceWrite), Some(ApprovalChoice::Never))
        );
        assert_eq!((params.instructions.as_deref(), params.compact_prompt.as_deref()), (Some("d"), Some("c")));
        let config = params.config.unwrap();
        assert_eq!((config.model.as_deref(), config.project_doc_max_bytes), (Some("m"), Some(0)));
        assert_eq!(
            (config.model_reasoning_effort.as_deref(), &*config.ignored),
            (Some("high"), &["features".to_owned()][..])
        );
        let by_config = r#"{"prompt":"p","config":{"sandbox_mode":"read-only","approval_policy":"on-request"}}"#;
        let ToolCall::Start(params) = parsed(CODEX, by_config).unwrap() else { panic!("a start") };
        assert_eq!(
            (params.sandbox, params.approval_policy),
            (Some(SandboxChoice::ReadOnly), Some(ApprovalChoice::OnRequest))
        );
        for json in [r#"{"prompt":"p","threadId":"t"}"#, r#"{"prompt":"p","conversationId":"t","extra":1}"#] {
            let ToolCall::Reply(params) = parsed(CODEX_REPLY, json).unwrap() else { panic!("a reply") };
            assert_eq!((params.thread_id.as_str(), params.prompt.as_deref()), ("t", Some("p")));
        }
    }

    #[test]
    fn refusals_begin_as_they_did() {
        for (tool, json, beginning) in [
            (CODEX, "{}", "Failed to parse configuration for Codex tool: "),
            (CODEX, r#"{"prompt":"p","profiles":"x"}"#, "Failed to parse configuration for Codex tool: "),
            (CODEX, r#"{"prompt":"p","sandbox":"none"}"#, "Failed to parse configuration for Codex tool: "),
            (
                CODEX,
                r#"{"prompt":"p","config":{"model_reasoning_effort":"most"}}"#,
                "Failed to load Codex configuration from overrides: config.model_reasoning_effort is \"most\"; allowed: none",
            ),
            (CODEX_REPLY, r#"{"prompt":"p"}"#, "Failed to parse thread_id: "),
        ] {
            let Err(ToolCallError::BadArguments(text)) = parsed(tool, json) else { panic!("{json}") };
            assert!(text.starts_with(beginning), "{text}");
        }
        let plain = ToolSet::new(Choices::default()).parse(CODEX, None);
        assert!(matches!(plain, Err(ToolCallError::UnknownTool(_))), "without the compatibility there is no such tool");
    }
}
