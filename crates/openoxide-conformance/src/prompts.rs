//! Prompts: plain, with arguments, with a resource, with an image, and one that asks first.

use openoxide_mcp_protocol::{Era, WireError};
use serde_json::{Value, json};

use crate::call::Call;
use crate::{content, input};

/// Every prompt.
pub(crate) fn list() -> Value {
    let required = |name: &str| json!({ "name": name, "description": "An argument", "required": true });
    json!([
        { "name": "test_simple_prompt", "description": "Plain" },
        {
            "name": "test_prompt_with_arguments", "description": "Repeats its arguments",
            "arguments": [required("arg1"), required("arg2")],
        },
        {
            "name": "test_prompt_with_embedded_resource", "description": "Holds a resource",
            "arguments": [required("resourceUri")],
        },
        { "name": "test_prompt_with_image", "description": "Holds an image" },
        { "name": "test_input_required_result_prompt", "description": "Asks first" },
    ])
}

/// Answers `prompts/get`.
pub(crate) fn get(call: &Call) -> Result<Value, WireError> {
    let said = |content: Value| json!({ "role": "user", "content": content });
    let messages = match call.name.as_str() {
        "test_simple_prompt" => vec![content::text("Say something.")],
        "test_prompt_with_arguments" => {
            let (one, two) = (call.text("arg1"), call.text("arg2"));
            vec![content::text(&format!("Compare {one} with {two}."))]
        }
        "test_prompt_with_embedded_resource" => vec![
            content::embedded(call.text("resourceUri"), "text/plain", "Words in a resource."),
            content::text("Sum this up."),
        ],
        "test_prompt_with_image" => vec![content::image(), content::text("Describe this.")],
        "test_input_required_result_prompt" if call.era == Era::Modern => {
            match input::field(call, "user_context", "context") {
                Some(context) => vec![content::text(&format!("Mind this: {context}"))],
                None => return input::ask_context(call),
            }
        }
        other => return Err(WireError::invalid_params(format!("unknown prompt {other:?}"))),
    };
    Ok(json!({ "messages": messages.into_iter().map(said).collect::<Vec<_>>() }))
}
