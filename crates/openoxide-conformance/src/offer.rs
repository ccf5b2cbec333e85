//! What the server says it has: its capabilities and its tools.

use openoxide_mcp_protocol::tasks::TASKS_EXTENSION;
use openoxide_mcp_protocol::{Era, Tool, discover_result, initialize_result};
use serde_json::{Value, json};

use crate::schemas;

/// Tools without arguments, and what each is for.
const PLAIN: &[(&str, &str)] = &[
    ("test_simple_text", "Answers with text"),
    ("test_image_content", "Answers with an image"),
    ("test_audio_content", "Answers with a sound"),
    ("test_embedded_resource", "Answers with a resource"),
    ("test_multiple_content_types", "Answers with text, an image and a resource"),
    ("test_tool_with_logging", "Logs three messages while it runs"),
    ("test_tool_with_progress", "Tells its progress three times"),
    ("test_error_handling", "Fails"),
    ("test_reconnection", "Takes long enough for a stream to be opened"),
    ("test_elicitation_sep1034_defaults", "Asks with a form that has defaults"),
    ("test_elicitation_sep1330_enums", "Asks with a form that has choices"),
    ("test_missing_capability", "Needs a client that can sample"),
    ("test_streaming_elicitation", "Asks on the stream of its answer"),
    ("test_logging_tool", "Logs a message"),
    ("test_trigger_tool_change", "Tells listeners that the tools have changed"),
    ("test_trigger_prompt_change", "Tells listeners that the prompts have changed"),
    ("test_input_required_result_elicitation", "Wants a form filled"),
    ("test_input_required_result_sampling", "Wants a model asked"),
    ("test_input_required_result_list_roots", "Wants to know the roots"),
    ("test_input_required_result_request_state", "Wants its state back"),
    ("test_input_required_result_multiple_inputs", "Wants three things at once"),
    ("test_input_required_result_multi_round", "Wants one thing after the other"),
    ("test_input_required_result_tampered_state", "Wants its state back untouched"),
    ("test_input_required_result_capabilities", "Wants what its client can do"),
    ("failing_job", "A task whose tool fails"),
    ("protocol_error_job", "A task that ends with an error of the protocol"),
    ("multi_input", "A task that asks two things at once"),
    ("test_tool_with_task", "Asks first and is a task then"),
];

/// Every tool.
pub(crate) fn tools() -> Vec<Tool> {
    let string = json!({ "type": "string" });
    let with_arguments = [
        ("test_sampling", "Has the client ask a model", json!({ "prompt": string })),
        ("test_elicitation", "Asks the user", json!({ "message": string })),
        (
            "test_custom_header",
            "Has an argument that the headers repeat",
            json!({ "region": { "type": "string", "x-mcp-header": "Region" } }),
        ),
        ("greet", "Greets", json!({ "name": string })),
        ("slow_compute", "A task that sleeps", json!({ "seconds": { "type": "number" }, "label": string })),
        ("confirm_delete", "A task that asks once", json!({ "filename": string })),
    ];
    let plain = PLAIN.iter().map(|(name, description)| (*name, *description, json!({})));
    let listed = plain.chain(with_arguments).map(|(name, description, properties)| {
        json!({ "name": name, "description": description, "inputSchema": { "type": "object", "properties": properties } })
    });
    let rich = json!({
        "name": "json_schema_2020_12_tool", "description": "Has a schema worth keeping", "inputSchema": schemas::rich_input(),
    });
    listed.chain([rich]).map(|tool| serde_json::from_value(tool).expect("each is a tool")).collect()
}

fn capabilities(era: Era) -> Value {
    let mut capabilities = json!({
        "tools": { "listChanged": true },
        "prompts": { "listChanged": true },
        "resources": { "subscribe": true, "listChanged": false },
        "logging": {},
        "completions": {},
    });
    if era == Era::Modern {
        capabilities["extensions"] = json!({ TASKS_EXTENSION: {} });
    }
    capabilities
}

/// The answer to `initialize`: the product's, with what is offered here.
pub(crate) fn initialized(version: &'static str) -> Value {
    adapted(serde_json::to_value(initialize_result(version)), Era::Legacy)
}

/// The answer to `server/discover`.
pub(crate) fn discovered() -> Value {
    adapted(serde_json::to_value(discover_result()), Era::Modern)
}

fn adapted(result: serde_json::Result<Value>, era: Era) -> Value {
    let mut result = result.expect("wire types serialize");
    result["capabilities"] = capabilities(era);
    result["instructions"] = json!("For conformance tests alone.");
    result
}
