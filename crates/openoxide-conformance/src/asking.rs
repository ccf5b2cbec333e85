//! Requests of the server to a legacy client, and the tools that send them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use openoxide_mcp_protocol::{Era, Outcome, RequestId, WireError, request, supports_form_elicitation, tool_error};
use openoxide_rpc::Outgoing;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::call::Call;
use crate::{content, schemas};

/// The requests of one connection that wait for their answers.
#[derive(Default)]
pub(crate) struct Questions(Mutex<HashMap<RequestId, oneshot::Sender<Outcome>>>);

impl Questions {
    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, oneshot::Sender<Outcome>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the answer to a request; one to none is ignored.
    pub(crate) fn answered(&self, id: &RequestId, outcome: Outcome) {
        if let Some(waiting) = self.lock().remove(id) {
            // Nobody waits where the call was cancelled.
            drop(waiting.send(outcome));
        }
    }

    /// Sends a request and waits for its result.
    async fn ask(&self, out: &Outgoing, method: &str, params: &Value) -> Result<Value, String> {
        let id = RequestId::String(uuid::Uuid::new_v4().to_string().into());
        let (answered, answer) = oneshot::channel();
        self.lock().insert(id.clone(), answered);
        out.push(request(&id, method, params));
        match answer.await {
            Ok(Outcome::Result(result)) => serde_json::from_str(result.get()).map_err(|error| error.to_string()),
            Ok(Outcome::Error(error)) => Err(error.get().to_owned()),
            Err(_) => Err("the connection has ended".to_owned()),
        }
    }
}

/// Runs a tool that asks.
pub(crate) async fn run(call: &Call) -> Result<Value, WireError> {
    if call.era == Era::Modern {
        let message = "this tool sends requests of its own, which the modern era does not have";
        return Ok(tool_error(call.era, message));
    }
    let is_sampling = call.name == "test_sampling";
    let can = match is_sampling {
        true => call.capabilities.sampling.is_some(),
        false => supports_form_elicitation(&call.capabilities),
    };
    if !can {
        return Ok(tool_error(call.era, "the client does not declare what this tool needs"));
    }
    let (method, params) = match is_sampling {
        true => ("sampling/createMessage", schemas::sampling(call.text("prompt"), 100)),
        false => ("elicitation/create", form(call)),
    };
    let words = match call.questions.ask(&call.out, method, &params).await {
        Err(error) => return Ok(tool_error(call.era, &format!("the client answered with an error: {error}"))),
        Ok(result) if is_sampling => {
            format!("LLM response: {}", result["content"]["text"].as_str().unwrap_or("no text"))
        }
        Ok(result) => {
            let action = result["action"].as_str().unwrap_or("none");
            format!("{}: action={action}, content={}", label(&call.name), result["content"])
        }
    };
    Ok(content::said(&words))
}

fn label(tool: &str) -> &'static str {
    if tool == "test_elicitation" { "User response" } else { "Elicitation completed" }
}

fn form(call: &Call) -> Value {
    match call.name.as_str() {
        "test_elicitation_sep1034_defaults" => schemas::form("Please check the form", schemas::with_defaults()),
        "test_elicitation_sep1330_enums" => schemas::form("Please choose", schemas::with_choices()),
        _ => {
            let properties = json!({ "response": { "type": "string", "description": "What the user says" } });
            schemas::required_form(call.text("message"), "response", &properties["response"])
        }
    }
}
