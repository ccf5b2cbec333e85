//! Our tools: their schemas as listed, and their arguments as read.
//!
//! Arguments are lenient in spelling (snake_case, kebab-case and camelCase name the same field) and strict in
//! substance: an unknown field, a wrong type or a word outside an enum is refused by a sentence that a calling model can
//! act on. Those sentences become tool results with `isError`, never JSON-RPC errors.

mod arguments;
mod choices;
pub mod codex;
mod mirrored;
mod schema;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use arguments::{bad, read};
pub use choices::{ApprovalChoice, SandboxChoice};
pub use mirrored::Mirrored;
pub use schema::{Choices, ToolFamilies, ToolSet};

/// Starts a thread.
pub const OPENOXIDE: &str = "openoxide";
/// Continues a thread.
pub const REPLY: &str = "openoxide-reply";
/// Asks without changing anything.
pub const QUERY: &str = "openoxide-query";

/// Arguments of `openoxide`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OpenoxideParams {
    /// The task, in plain words.
    pub prompt: String,
    /// Directory to work in. Absolute, or relative to the server's directory, which is also the default.
    #[serde(default)]
    #[schemars(with = "String")]
    pub cwd: Option<String>,
    /// Model name as the provider knows it. Default: the configured model.
    #[serde(default)]
    #[schemars(with = "String")]
    pub model: Option<String>,
    /// A profile of the operator's configuration, whose settings hold where this call sets none.
    #[serde(default)]
    #[schemars(with = "String")]
    pub profile: Option<String>,
    /// What commands may touch. read-only: they write nothing; workspace-write: they write in cwd and the temporary
    /// directories, and reach no network unless the operator allows it; danger-full-access: nothing confines them.
    #[serde(default)]
    #[schemars(with = "SandboxChoice")]
    pub sandbox: Option<SandboxChoice>,
    /// When to ask before acting. untrusted: before each patch and each command that is not known to only read;
    /// on-request: when the agent asks to leave the sandbox; on-failure: when the sandbox has stopped a command; never: not
    /// at all, and what the sandbox stops stays undone.
    #[serde(default)]
    #[schemars(with = "ApprovalChoice")]
    pub approval_policy: Option<ApprovalChoice>,
    /// Standing instructions for this thread, added to the agent's own. Also accepted as developer_instructions.
    #[serde(default)]
    #[schemars(with = "String")]
    pub instructions: Option<String>,
    /// Replaces the agent's own base instructions.
    #[serde(default)]
    #[schemars(with = "String")]
    pub base_instructions: Option<String>,
    /// What the conversation is summed up with when it grows too long for the model. Default: the configured words.
    #[serde(default)]
    #[schemars(with = "String")]
    pub compact_prompt: Option<String>,
    /// Settings for this thread by their names in the configuration file. Only those listed here can be set by a call.
    #[serde(default)]
    #[schemars(with = "ConfigOverrides")]
    pub config: Option<ConfigOverrides>,
    /// Answer after this many seconds with status "running" if the turn is not over; it goes on.
    #[serde(default)]
    #[schemars(with = "f64", range(min = 0))]
    pub wait_seconds: Option<f64>,
}

/// Arguments of `openoxide-reply`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ReplyParams {
    /// The thread, as returned in threadId; or the id of a task; or "last": the thread this connection used last.
    pub thread_id: String,
    /// What to do next. Without it, wait for the running turn, or get the last result.
    #[serde(default)]
    #[schemars(with = "String")]
    pub prompt: Option<String>,
    /// Give the prompt to the running turn instead of queueing a new one.
    #[serde(default)]
    #[schemars(with = "bool")]
    pub steer: Option<bool>,
    /// End the running turn first. Without a prompt, only end it.
    #[serde(default)]
    #[schemars(with = "bool")]
    pub interrupt: Option<bool>,
    /// Close the thread: its turn and its commands end, and it leaves memory. A later reply opens it again.
    #[serde(default)]
    #[schemars(with = "bool")]
    pub close: Option<bool>,
    /// Answer after this many seconds with status "running" if the turn is not over; it goes on.
    #[serde(default)]
    #[schemars(with = "f64", range(min = 0))]
    pub wait_seconds: Option<f64>,
}

/// Arguments of `openoxide-query`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct QueryParams {
    /// The question about the code.
    pub query: String,
    /// Ask with this thread's history, in a read-only fork of it. Named as in openoxide-reply.
    #[serde(default)]
    #[schemars(with = "String")]
    pub thread_id: Option<String>,
    /// Directory to read in. Default: the server's directory, or the thread's.
    #[serde(default)]
    #[schemars(with = "String")]
    pub cwd: Option<String>,
    /// Model name as the provider knows it. Default: the configured model.
    #[serde(default)]
    #[schemars(with = "String")]
    pub model: Option<String>,
    /// Answer after this many seconds with status "running" if the turn is not over; it goes on.
    #[serde(default)]
    #[schemars(with = "f64", range(min = 0))]
    pub wait_seconds: Option<f64>,
}

/// `config`: settings for one thread, of those that are the caller's to choose.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
#[non_exhaustive]
pub struct ConfigOverrides {
    /// Model name as the provider knows it; the same as the field model.
    #[serde(default)]
    #[schemars(with = "String")]
    pub model: Option<String>,
    /// How much the model reasons: none, minimal, low, medium, high or xhigh. Not every model takes every word.
    #[serde(default)]
    #[schemars(with = "String")]
    pub model_reasoning_effort: Option<String>,
    /// What is told of the reasoning: auto, concise, detailed or none.
    #[serde(default)]
    #[schemars(with = "String")]
    pub model_reasoning_summary: Option<String>,
    /// The most tokens of one tool's output that the model is given.
    #[serde(default)]
    #[schemars(with = "usize", range(min = 1))]
    pub tool_output_token_limit: Option<usize>,
    /// The most bytes of project documents (AGENTS.md) that the model is given; 0 for none.
    #[serde(default)]
    #[schemars(with = "usize")]
    pub project_doc_max_bytes: Option<usize>,
    /// The most tokens that one turn reads and writes; a turn that has used them ends with what it did.
    #[serde(default)]
    #[schemars(with = "u64", range(min = 1))]
    pub max_turn_tokens: Option<u64>,
    /// The most seconds that one turn takes, waiting for answers included.
    #[serde(default)]
    #[schemars(with = "u64", range(min = 1))]
    pub max_turn_seconds: Option<u64>,
    /// The most requests of one turn to the model.
    #[serde(default)]
    #[schemars(with = "u64", range(min = 1))]
    pub max_steps: Option<u64>,
    /// Keys that were given and are not read, where that is no error.
    #[serde(skip)]
    pub ignored: Vec<String>,
}

/// Words for how much a model reasons.
const EFFORTS: [&str; 6] = ["none", "minimal", "low", "medium", "high", "xhigh"];
/// Words for what is told of the reasoning.
const SUMMARIES: [&str; 4] = ["auto", "concise", "detailed", "none"];

impl ConfigOverrides {
    /// What is wrong with a value that its type does not show.
    fn fault(&self) -> Option<String> {
        let fault = |key: &str, given: &Option<String>, allowed: &[&str]| {
            let given = given.as_deref().filter(|given| !allowed.contains(given))?;
            Some(format!("config.{key} is {given:?}; allowed: {}", allowed.join(", ")))
        };
        fault("model_reasoning_effort", &self.model_reasoning_effort, &EFFORTS)
            .or_else(|| fault("model_reasoning_summary", &self.model_reasoning_summary, &SUMMARIES))
    }
}

/// A parsed call of one of our tools.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolCall {
    /// `openoxide`.
    Start(Box<OpenoxideParams>),
    /// `openoxide-reply`.
    Reply(ReplyParams),
    /// `openoxide-query`.
    Query(QueryParams),
}

/// Why a call could not be parsed.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolCallError {
    /// There is no such tool: -32602.
    UnknownTool(String),
    /// The arguments are wrong: a tool result with `isError` and this text.
    BadArguments(String),
}

impl ToolCall {
    /// The thread it names.
    pub fn thread_id(&self) -> Option<&str> {
        match self {
            Self::Start(_) => None,
            Self::Reply(params) => Some(&params.thread_id),
            Self::Query(params) => params.thread_id.as_deref(),
        }
    }

    /// Keys of `config` that were given and are not read.
    pub fn ignored(&self) -> &[String] {
        match self {
            Self::Start(params) => params.config.as_ref().map_or(&[], |config| &config.ignored),
            Self::Reply(_) | Self::Query(_) => &[],
        }
    }

    /// Whether it works in a directory that it leaves to the server.
    pub fn lacks_directory(&self) -> bool {
        match self {
            Self::Start(params) => is_left_to_the_server(params.cwd.as_deref()),
            Self::Reply(_) => false,
            // With a thread it works in the thread's.
            Self::Query(params) => is_left_to_the_server(params.cwd.as_deref()) && params.thread_id.is_none(),
        }
    }

    /// How long the caller wants to wait, in seconds.
    pub fn wait_seconds(&self) -> Option<f64> {
        match self {
            Self::Start(params) => params.wait_seconds,
            Self::Reply(params) => params.wait_seconds,
            Self::Query(params) => params.wait_seconds,
        }
    }
}

/// A path that begins where the server stands, or none at all.
fn is_left_to_the_server(cwd: Option<&str>) -> bool {
    cwd.is_none_or(|cwd| !std::path::Path::new(cwd).is_absolute())
}

impl ToolSet {
    /// Parses a `tools/call`.
    ///
    /// # Errors
    /// [`ToolCallError`]; the text names the field, the value and what is allowed.
    pub fn parse(&self, name: &str, arguments: Option<&RawValue>) -> Result<ToolCall, ToolCallError> {
        let families = self.families();
        if families != ToolFamilies::Native && codex::is_codex(name) {
            return codex::parse(self.choices(), name, arguments);
        }
        if families == ToolFamilies::Codex {
            return codex::unknown(name);
        }
        match name {
            OPENOXIDE => {
                let params: OpenoxideParams = read(self, name, arguments)?;
                not_blank(name, "prompt", &params.prompt)?;
                if let Some(fault) = params.config.as_ref().and_then(ConfigOverrides::fault) {
                    return bad(name, &fault);
                }
                Ok(ToolCall::Start(Box::new(params)))
            }
            REPLY => {
                let params: ReplyParams = read(self, name, arguments)?;
                if let Some(prompt) = &params.prompt {
                    not_blank(name, "prompt", prompt)?;
                }
                let steer = params.steer.unwrap_or_default();
                if steer && params.interrupt.unwrap_or_default() {
                    return bad(name, "steer and interrupt exclude each other; set one of them");
                }
                if steer && params.prompt.is_none() {
                    return bad(name, "steer needs a prompt to give to the running turn");
                }
                if params.close.unwrap_or_default() && (params.prompt.is_some() || steer) {
                    return bad(name, "close goes without a prompt and without steer; send the prompt first");
                }
                Ok(ToolCall::Reply(params))
            }
            QUERY => {
                let params: QueryParams = read(self, name, arguments)?;
                not_blank(name, "query", &params.query)?;
                Ok(ToolCall::Query(params))
            }
            _ => {
                let names: Vec<&str> = self.list().iter().map(|tool| &*tool.name).collect();
                Err(ToolCallError::UnknownTool(format!("unknown tool {name:?}; the tools are {}", names.join(", "))))
            }
        }
    }
}

fn not_blank(tool: &str, field: &str, value: &str) -> Result<(), ToolCallError> {
    match value.trim().is_empty() {
        true => bad(tool, &format!("{field} is empty; say what to do")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, json: &str) -> Result<ToolCall, ToolCallError> {
        parse_with(&ToolSet::new(Choices::default()), name, json)
    }

    fn parse_with(tools: &ToolSet, name: &str, json: &str) -> Result<ToolCall, ToolCallError> {
        tools.parse(name, Some(&RawValue::from_string(json.to_owned()).unwrap()))
    }

    fn refusal(name: &str, json: &str) -> String {
        match parse(name, json) {
            Err(ToolCallError::BadArguments(text)) => text,
            other => panic!("{json} gave {other:?}"),
        }
    }

    #[test]
    fn tool_schemas_are_as_reviewed() {
        insta::assert_json_snapshot!(ToolSet::new(Choices::default()).list());
    }

    #[test]
    fn three_spellings_name_one_field() {
        for json in [
            r#"{"prompt":"p","approval_policy":"never","developer_instructions":"i"}"#,
            r#"{"prompt":"p","approval-policy":"never","developer-instructions":"i"}"#,
            r#"{"prompt":"p","approvalPolicy":"never","developerInstructions":"i"}"#,
            r#"{"prompt":"p","approvalPolicy":"never","instructions":"i","model":null}"#,
        ] {
            let ToolCall::Start(params) = parse(OPENOXIDE, json).unwrap() else { panic!("a start") };
            assert_eq!(params.approval_policy, Some(ApprovalChoice::Never));
            assert_eq!(params.instructions.as_deref(), Some("i"));
        }
    }

    #[test]
    fn each_refusal_names_the_field_and_what_is_allowed() {
        for (tool, json, parts) in [
            (OPENOXIDE, r#"{}"#, vec!["prompt", "required"]),
            (OPENOXIDE, r#"{"prompt":" "}"#, vec!["prompt is empty"]),
            (OPENOXIDE, r#"{"prompt":42}"#, vec!["prompt is 42", "string"]),
            (OPENOXIDE, r#"{"prompt":"p","sandbx":"x"}"#, vec!["\"sandbx\"", "did you mean sandbox"]),
            (OPENOXIDE, r#"{"prompt":"p","no-such-arg":1}"#, vec!["no-such-arg", "the fields are prompt, cwd"]),
            (
                OPENOXIDE,
                r#"{"prompt":"p","approval_policy":"sometimes"}"#,
                vec!["untrusted, on-request, on-failure, never"],
            ),
            (
                OPENOXIDE,
                r#"{"prompt":"p","sandbox":"none"}"#,
                vec!["allowed: read-only, workspace-write, danger-full-access"],
            ),
            (OPENOXIDE, r#"{"prompt":"p","config":{"modle":"m"}}"#, vec!["config.modle", "did you mean config.model"]),
            (OPENOXIDE, r#"{"prompt":"p","config":{"sandbox_mode":"x"}}"#, vec!["config.sandbox_mode", "operator"]),
            (OPENOXIDE, r#"{"prompt":"p","config":{"model_providers.x.base_url":"u"}}"#, vec!["operator"]),
            (
                OPENOXIDE,
                r#"{"prompt":"p","config":{"tool_output_token_limit":"9"}}"#,
                vec!["config.tool_output_token_limit"],
            ),
            (OPENOXIDE, r#"{"prompt":"p","config":7}"#, vec!["config is 7", "object"]),
            (OPENOXIDE, r#"{"prompt":"p","wait_seconds":-1}"#, vec!["wait_seconds is -1", "0 or more"]),
            (OPENOXIDE, r#"{"prompt":"p","wait_seconds":-0.5}"#, vec!["wait_seconds is -0.5", "0 or more"]),
            (OPENOXIDE, r#"{"prompt":"p","config":{"max_steps":0}}"#, vec!["config.max_steps is 0", "1 or more"]),
            (OPENOXIDE, r#"{"prompt":"p","config":{"max_steps":1.5}}"#, vec!["config.max_steps is 1.5", "an integer"]),
            (OPENOXIDE, r#"{"prompt":"p","config":{"max_turn_tokens":0}}"#, vec!["config.max_turn_tokens is 0"]),
            (OPENOXIDE, r#"{"prompt":"p","config":{"max_turn_seconds":-3}}"#, vec!["config.max_turn_seconds is -3"]),
            (OPENOXIDE, r#"{"prompt":"p","config":{"tool_output_token_limit":0}}"#, vec!["1 or more"]),
            (
                OPENOXIDE,
                r#"{"prompt":"p","config":{"project_doc_max_bytes":-1}}"#,
                vec!["project_doc_max_bytes is -1", "0 or more"],
            ),
            (
                OPENOXIDE,
                r#"{"prompt":"p","config":{"max_turn_tokens":18446744073709551616}}"#,
                vec!["max_turn_tokens is 1"],
            ),
            (REPLY, r#"{"thread_id":"t","wait_seconds":-1}"#, vec!["wait_seconds is -1"]),
            (QUERY, r#"{"query":"q","wait_seconds":-1}"#, vec!["wait_seconds is -1"]),
            (OPENOXIDE, r#"{"prompt":"p","cwd":"a","Cwd":"b"}"#, vec!["unknown field \"Cwd\""]),
            (OPENOXIDE, r#"{"prompt":"p","base-instructions":"a","baseInstructions":"b"}"#, vec!["given twice"]),
            (OPENOXIDE, r#"[]"#, vec!["object"]),
            (OPENOXIDE, "{\"prompt\":\"\\ud800\"}", vec!["hex escape"]),
            (REPLY, r#"{"prompt":"p"}"#, vec!["thread_id", "required"]),
            (REPLY, r#"{"thread_id":"t","steer":true}"#, vec!["steer needs a prompt"]),
            (REPLY, r#"{"thread_id":"t","prompt":"p","steer":true,"interrupt":true}"#, vec!["exclude"]),
            (QUERY, r#"{"query":"q","prompt":"p"}"#, vec!["unknown field \"prompt\""]),
        ] {
            let text = refusal(tool, json);
            for part in parts {
                assert!(text.contains(part), "{json}: {text}");
            }
        }
    }

    #[test]
    fn what_the_operator_does_not_allow_is_not_listed_and_refused_by_name() {
        let tools = ToolSet::new(Choices {
            sandboxes: vec![SandboxChoice::ReadOnly],
            default_sandbox: SandboxChoice::ReadOnly,
            policies: vec![ApprovalChoice::Untrusted, ApprovalChoice::OnRequest],
            default_policy: ApprovalChoice::OnRequest,
        });
        let start = &tools.list()[0].input_schema["properties"];
        assert_eq!(start["sandbox"]["enum"], serde_json::json!(["read-only"]));
        assert_eq!(start["sandbox"]["default"], "read-only");
        assert_eq!(start["approval_policy"]["enum"], serde_json::json!(["untrusted", "on-request"]));
        let refused = parse_with(&tools, OPENOXIDE, r#"{"prompt":"p","sandbox":"workspace-write"}"#);
        let Err(ToolCallError::BadArguments(text)) = refused else { panic!("{refused:?}") };
        assert!(text.contains("\"workspace-write\"") && text.contains("allowed: read-only"), "{text}");
        assert!(text.contains("operator"), "{text}");
        let ToolCall::Start(params) = parse_with(&tools, OPENOXIDE, r#"{"prompt":"p"}"#).unwrap() else { panic!() };
        assert_eq!(params.sandbox, None);
    }

    #[test]
    fn config_holds_the_callers_own_settings() {
        let json = r#"{"prompt":"p","config":{"tool_output_token_limit":500,"model":"m"}}"#;
        let ToolCall::Start(params) = parse(OPENOXIDE, json).unwrap() else { panic!("a start") };
        let config = params.config.unwrap();
        assert_eq!((config.tool_output_token_limit, config.model.as_deref()), (Some(500), Some("m")));
    }

    #[test]
    fn an_unknown_tool_lists_the_known_ones() {
        assert!(matches!(parse("codex", "{}"), Err(ToolCallError::UnknownTool(text)) if text.contains(REPLY)));
    }
}
