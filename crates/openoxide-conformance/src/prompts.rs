//! The prompts: plain, with arguments, with a resource, with an image, and one that asks first.

use openoxide_mcp_protocol::WireError;
use openoxide_mcp_server::Outcome;
use serde_json::{Value, json};

use crate::content::{embedded, image, text};
use crate::fixture::Context;
use crate::run::AsTask;
use crate::{schemas, tools};

/// Every prompt with its arguments.
const PROMPTS: &[(&str, &[&str])] = &[
    ("test_simple_prompt", &[]),
    ("test_prompt_with_arguments", &["arg1", "arg2"]),
    ("test_prompt_with_embedded_resource", &["resourceUri"]),
    ("test_prompt_with_image", &[]),
    ("test_input_required_result_prompt", &[]),
];

/// All as they are listed.
pub(crate) fn listed() -> Vec<Value> {
    let argument = |name: &&str| json!({ "name": name, "required": true });
    let listed = |(name, arguments): &(&str, &[&str])| json!({ "name": name, "description": name, "arguments": arguments.iter().map(argument).collect::<Vec<_>>() });
    PROMPTS.iter().map(listed).collect()
}

/// That a prompt is never a task; none where there is no such prompt.
pub(crate) fn find(name: &str) -> Option<AsTask> {
    PROMPTS.iter().any(|prompt| prompt.0 == name).then_some(AsTask::Never)
}

/// Runs a prompt.
pub(crate) async fn run(context: Context) -> Outcome {
    let content = match context.call.name() {
        "test_simple_prompt" => vec![text("Say something.")],
        "test_prompt_with_arguments" => {
            vec![text(&format!("Compare {} with {}.", context.text("arg1"), context.text("arg2")))]
        }
        "test_prompt_with_embedded_resource" => {
            let resource = embedded(context.text("resourceUri"), "text/plain", "Words in a resource.");
            vec![resource, text("Sum this up.")]
        }
        "test_prompt_with_image" => vec![image(), text("Describe this.")],
        "test_input_required_result_prompt" => {
            let form = schemas::text_form("What context should the prompt use?", "context");
            let answers = context.run.ask([("user_context", form)]).await?;
            vec![text(&format!("Mind this: {}", tools::field(&answers, "user_context", "context")))]
        }
        other => return Err(WireError::internal(format!("the prompt {other:?} is listed and says nothing"))),
    };
    let messages: Vec<Value> =
        content.into_iter().map(|content| json!({ "role": "user", "content": content })).collect();
    Ok(json!({ "messages": messages }))
}
