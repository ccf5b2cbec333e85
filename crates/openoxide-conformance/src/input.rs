//! Calls that are sent back to their client with questions (MCP 2026-07-28 multi round-trip requests). Only what the
//! client declares is asked for.

use openoxide_mcp_protocol::{Era, WireError, supports_form_elicitation, tool_error};
use serde_json::{Map, Value, json};

use crate::call::{Call, Parked};
use crate::{content, schemas};

/// A question by its key: the method and its parameters.
type Question<'a> = (&'a str, &'static str, Value);

/// Runs a tool that asks.
pub(crate) fn run(call: &Call) -> Result<Value, WireError> {
    if call.era == Era::Legacy {
        return Ok(tool_error(call.era, "this tool asks in its result, which the legacy era does not have"));
    }
    match call.name.trim_start_matches("test_input_required_result_") {
        "elicitation" => match field(call, "user_name", "name") {
            Some(name) => Ok(content::said(&format!("Hello, {name}!"))),
            None => ask(call, &[elicit("user_name", "What is your name?", "name")], None),
        },
        "sampling" => match answer(call, "capital_question") {
            Some(answer) => Ok(content::said(answer["content"]["text"].as_str().unwrap_or("no text"))),
            None => ask(call, &[sample("capital_question", "What is the capital of France?")], None),
        },
        "list_roots" => match answer(call, "client_roots") {
            Some(roots) => Ok(content::said(&format!("roots: {}", roots["roots"]))),
            None => ask(call, &[roots("client_roots")], None),
        },
        "request_state" | "tampered_state" => match (call.parked()?, answer(call, "confirm")) {
            (Some(_), Some(_)) => Ok(content::said("state-ok")),
            _ => {
                let schema = json!({ "type": "boolean" });
                let params = schemas::required_form("Please confirm", "ok", &schema);
                ask(call, &[("confirm", "elicitation/create", params)], Some(Parked::new(1, None)))
            }
        },
        "multiple_inputs" => {
            let answers = ["user_name", "greeting", "client_roots"].map(|key| answer(call, key));
            match (call.parked()?, answers.iter().all(Option::is_some)) {
                (Some(_), true) => Ok(content::said("all three have come")),
                _ => ask(
                    call,
                    &[
                        elicit("user_name", "What is your name?", "name"),
                        sample("greeting", "Generate a greeting"),
                        roots("client_roots"),
                    ],
                    Some(Parked::new(1, None)),
                ),
            }
        }
        "multi_round" => multi_round(call),
        "capabilities" => capabilities(call),
        // test_streaming_elicitation
        _ => match field(call, "user_name", "name") {
            Some(name) => Ok(content::said(&name)),
            None => {
                call.progress(1, "asking");
                ask(call, &[elicit("user_name", "What is your name?", "name")], None)
            }
        },
    }
}

fn multi_round(call: &Call) -> Result<Value, WireError> {
    let parked = call.parked()?;
    let round = parked.as_ref().map_or(0, |parked| parked.round);
    match (round, field(call, "step1", "name"), field(call, "step2", "color")) {
        (1, Some(name), _) => {
            let question = elicit("step2", "Step 2: What is your favorite color?", "color");
            ask(call, &[question], Some(Parked::new(2, Some(name))))
        }
        (2, _, Some(color)) => {
            let name = parked.and_then(|parked| parked.name).unwrap_or_default();
            Ok(content::said(&format!("{name} likes {color}")))
        }
        _ => ask(call, &[elicit("step1", "Step 1: What is your name?", "name")], Some(Parked::new(1, None))),
    }
}

/// Asks for whatever of two things the client can do.
fn capabilities(call: &Call) -> Result<Value, WireError> {
    if !call.input_responses.is_empty() {
        return Ok(content::said("capabilities-ok"));
    }
    let questions = [elicit("elicit_input", "Elicitation input", "value"), sample("sample_input", "Sample request")];
    let possible: Vec<_> = questions.into_iter().filter(|(_, method, _)| lacks(call, method).is_none()).collect();
    match possible.is_empty() {
        true => Ok(content::said("the client can do neither")),
        false => ask(call, &possible, Some(Parked::new(1, None))),
    }
}

/// Asks for a prompt's context.
pub(crate) fn ask_context(call: &Call) -> Result<Value, WireError> {
    ask(call, &[elicit("user_context", "What context should the prompt use?", "context")], None)
}

/// Asks for a name before a task begins.
pub(crate) fn ask_name(call: &Call) -> Result<Value, WireError> {
    ask(call, &[elicit("user_name", "What is your name?", "name")], Some(Parked::new(1, None)))
}

/// The answer to a question, if it is one.
fn answer<'a>(call: &'a Call, key: &str) -> Option<&'a Value> {
    call.input_responses.get(key).filter(|answer| answer.is_object())
}

/// A field of a form that was accepted.
pub(crate) fn field(call: &Call, key: &str, field: &str) -> Option<String> {
    let answer = answer(call, key).filter(|answer| answer["action"] == "accept")?;
    Some(answer["content"][field].as_str()?.to_owned())
}

fn elicit<'a>(key: &'a str, message: &str, field: &str) -> Question<'a> {
    (key, "elicitation/create", schemas::required_form(message, field, &json!({ "type": "string" })))
}

fn sample<'a>(key: &'a str, prompt: &str) -> Question<'a> {
    (key, "sampling/createMessage", schemas::sampling(prompt, 100))
}

fn roots(key: &str) -> Question<'_> {
    (key, "roots/list", json!({}))
}

/// The capability that the client would have to declare for a method, where it does not.
fn lacks(call: &Call, method: &str) -> Option<Value> {
    let capabilities = &call.capabilities;
    match method {
        "elicitation/create" => (!supports_form_elicitation(capabilities)).then(|| json!({ "elicitation": {} })),
        "sampling/createMessage" => capabilities.sampling.is_none().then(|| json!({ "sampling": {} })),
        _ => capabilities.roots.is_none().then(|| json!({ "roots": {} })),
    }
}

/// Refuses a call whose client cannot do what it needs.
pub(crate) fn require(call: &Call, method: &str) -> Result<(), WireError> {
    match lacks(call, method) {
        None => Ok(()),
        Some(needed) => {
            let message = format!("{} needs a client that declares {needed}", call.name);
            Err(openoxide_mcp_protocol::missing_capability(message, needed))
        }
    }
}

fn ask(call: &Call, questions: &[Question<'_>], parked: Option<Parked>) -> Result<Value, WireError> {
    for (_, method, _) in questions {
        require(call, method)?;
    }
    let requests: Map<String, Value> = questions
        .iter()
        .map(|(key, method, params)| ((*key).to_owned(), json!({ "method": method, "params": params })))
        .collect();
    let mut result = json!({ "resultType": "input_required", "inputRequests": requests });
    if let Some(parked) = parked {
        result["requestState"] = json!(call.seal(&parked));
    }
    Ok(result)
}
