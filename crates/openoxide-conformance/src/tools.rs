//! The tools: what there is, and what each does.

use std::time::Duration;

use openoxide_mcp_protocol::{AskKind, Tool, WireError, missing_capability};
use openoxide_mcp_server::{List, Outcome};
use serde_json::{Map, Value, json};

use crate::content::{audio, embedded, failed, image, result, said, text};
use crate::fixture::Context;
use crate::run::AsTask::{self, AfterAsking, Always, Maybe, Never};
use crate::schemas;

/// Between two things that a tool says.
const BREATH: Duration = Duration::from_millis(50);
/// Longer than the transport waits for an answer before it opens a stream.
const LONG: Duration = Duration::from_millis(700);

/// Every tool, and whether a call of it becomes a task.
const TOOLS: &[(&str, AsTask)] = &[
    ("test_simple_text", Never),
    ("test_image_content", Never),
    ("test_audio_content", Never),
    ("test_embedded_resource", Never),
    ("test_multiple_content_types", Never),
    ("test_tool_with_logging", Never),
    ("test_tool_with_progress", Never),
    ("test_error_handling", Never),
    ("test_reconnection", Never),
    ("test_sampling", Never),
    ("test_elicitation", Never),
    ("test_elicitation_sep1034_defaults", Never),
    ("test_elicitation_sep1330_enums", Never),
    ("test_missing_capability", Never),
    ("test_custom_header", Never),
    ("test_streaming_elicitation", Never),
    ("test_logging_tool", Never),
    ("test_trigger_tool_change", Never),
    ("test_trigger_prompt_change", Never),
    ("test_input_required_result_elicitation", Never),
    ("test_input_required_result_sampling", Never),
    ("test_input_required_result_list_roots", Never),
    ("test_input_required_result_request_state", Never),
    ("test_input_required_result_multiple_inputs", Never),
    ("test_input_required_result_multi_round", Never),
    ("test_input_required_result_tampered_state", Never),
    ("test_input_required_result_capabilities", Never),
    ("json_schema_2020_12_tool", Never),
    ("greet", Never),
    ("slow_compute", Maybe),
    ("failing_job", Always),
    ("protocol_error_job", Always),
    ("confirm_delete", Always),
    ("multi_input", Always),
    ("test_tool_with_task", AfterAsking),
];

fn schema(tool: &str) -> Value {
    let string = json!({ "type": "string" });
    let properties = match tool {
        "json_schema_2020_12_tool" => return schemas::rich_input(),
        "test_sampling" => json!({ "prompt": string }),
        "test_elicitation" => json!({ "message": string }),
        "test_custom_header" => json!({ "region": { "type": "string", "x-mcp-header": "Region" } }),
        "greet" => json!({ "name": string }),
        "slow_compute" => json!({ "seconds": { "type": "number" }, "label": string }),
        "confirm_delete" => json!({ "filename": string }),
        _ => json!({}),
    };
    json!({ "type": "object", "properties": properties })
}

/// All as they are listed.
pub(crate) fn listed() -> Vec<Tool> {
    let listed = |(name, _): &(&str, AsTask)| {
        let description = format!("The fixture {name}");
        serde_json::from_value(json!({ "name": name, "description": description, "inputSchema": schema(name) }))
    };
    TOOLS.iter().map(listed).collect::<Result<_, _>>().expect("each is a tool")
}

/// Whether a call of a tool becomes a task; none where there is no such tool.
pub(crate) fn find(name: &str) -> Option<AsTask> {
    TOOLS.iter().find(|tool| tool.0 == name).map(|tool| tool.1)
}

/// Runs a tool.
pub(crate) async fn run(context: Context) -> Outcome {
    let (run, client) = (&context.run, context.call.client());
    Ok(match context.call.name() {
        "test_simple_text" => said("Plain words."),
        "test_image_content" => result(vec![image()]),
        "test_audio_content" => result(vec![audio()]),
        "test_embedded_resource" => {
            result(vec![embedded("test://embedded-resource", "text/plain", "Words in a resource.")])
        }
        "test_multiple_content_types" => {
            let resource = embedded("test://mixed-content-resource", "application/json", r#"{"kind":"mixed"}"#);
            result(vec![text("Three kinds of content:"), image(), resource])
        }
        "test_tool_with_logging" | "test_logging_tool" => {
            for words in ["the tool started", "the tool works", "the tool is done"] {
                run.log(words);
                tokio::time::sleep(BREATH).await;
            }
            said("it has logged")
        }
        "test_tool_with_progress" => {
            for percent in [0, 50, 100] {
                run.progress(format!("{percent} of 100"));
                tokio::time::sleep(BREATH).await;
            }
            said("it has progressed")
        }
        "test_error_handling" => failed("This tool always fails."),
        "test_reconnection" => {
            tokio::time::sleep(LONG).await;
            said("the stream stayed open")
        }
        "test_sampling" => {
            let answers = run.ask([("sample", schemas::sampling(context.text("prompt"), 100))]).await?;
            said(&format!("LLM response: {}", spoken(&answers, "sample")))
        }
        "test_elicitation" => {
            let schema = json!({ "type": "string", "description": "What the user says" });
            let form = schemas::required_form(context.text("message"), "response", &schema);
            said(&format!("User response: {}", filled(&run.ask([("form", form)]).await?)))
        }
        "test_elicitation_sep1034_defaults" => {
            let form = schemas::form("Please check the form", schemas::with_defaults());
            said(&format!("Elicitation completed: {}", filled(&run.ask([("form", form)]).await?)))
        }
        "test_elicitation_sep1330_enums" => {
            let form = schemas::form("Please choose", schemas::with_choices());
            said(&format!("Elicitation completed: {}", filled(&run.ask([("form", form)]).await?)))
        }
        "test_missing_capability" if client.can(AskKind::Sampling) => said("the client can sample"),
        "test_missing_capability" => {
            let needed = AskKind::Sampling.capability();
            return Err(missing_capability("this tool needs a client that can sample", needed));
        }
        "test_custom_header" => said(context.text("region")),
        "test_trigger_tool_change" => {
            context.fixture.change(List::Tools);
            said("told")
        }
        "test_trigger_prompt_change" => {
            context.fixture.change(List::Prompts);
            said("told")
        }
        "test_input_required_result_sampling" => {
            let ask = schemas::sampling("What is the capital of France?", 100);
            said(&spoken(&run.ask([("capital_question", ask)]).await?, "capital_question"))
        }
        "test_input_required_result_list_roots" => {
            let answers = run.ask([("client_roots", schemas::roots())]).await?;
            said(&format!("roots: {}", answers["client_roots"]["roots"]))
        }
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            let form = schemas::required_form("Please confirm", "ok", &json!({ "type": "boolean" }));
            run.ask([("confirm", form)]).await?;
            said("state-ok")
        }
        "test_input_required_result_multiple_inputs" => {
            let name = schemas::text_form("What is your name?", "name");
            let greeting = schemas::sampling("Generate a greeting", 50);
            run.ask([("user_name", name), ("greeting", greeting), ("client_roots", schemas::roots())]).await?;
            said("all three have come")
        }
        "test_input_required_result_multi_round" => {
            let name = run.ask([("step1", schemas::text_form("Step 1: What is your name?", "name"))]).await?;
            let form = schemas::text_form("Step 2: What is your favorite color?", "color");
            let color = run.ask([("step2", form)]).await?;
            said(&format!("{} likes {}", field(&name, "step1", "name"), field(&color, "step2", "color")))
        }
        "test_input_required_result_capabilities" => {
            if client.can(AskKind::Form) {
                run.ask([("elicit_input", schemas::text_form("Elicitation input", "value"))]).await?;
            }
            if client.can(AskKind::Sampling) {
                run.ask([("sample_input", schemas::sampling("Sample request", 100))]).await?;
            }
            said("capabilities-ok")
        }
        "test_input_required_result_elicitation" | "test_streaming_elicitation" | "test_tool_with_task" => {
            run.progress("asking");
            let answers = run.ask([("user_name", schemas::text_form("What is your name?", "name"))]).await?;
            said(&format!("Hello, {}!", field(&answers, "user_name", "name")))
        }
        "json_schema_2020_12_tool" => said(&context.arguments.to_string()),
        "greet" => said(&format!("Hello, {}!", context.text("name"))),
        "slow_compute" => {
            let seconds = context.arguments["seconds"].as_f64().unwrap_or_default();
            let time = Duration::try_from_secs_f64(seconds);
            tokio::time::sleep(time.map_err(|error| WireError::invalid_params(error.to_string()))?).await;
            said(&format!("it took {seconds} s"))
        }
        "failing_job" => failed("the job has failed"),
        "protocol_error_job" => return Err(WireError::internal("on purpose")),
        "confirm_delete" => {
            let question = format!("Delete {}?", context.text("filename"));
            let form = schemas::required_form(&question, "confirm", &json!({ "type": "boolean" }));
            let answers = run.ask([("confirm", form)]).await?;
            said(if answers["confirm"]["content"]["confirm"] == true { "deleted" } else { "kept" })
        }
        "multi_input" => {
            let (name, color) = (schemas::text_form("Your name?", "name"), schemas::text_form("Your colour?", "color"));
            run.ask([("name", name), ("color", color)]).await?;
            said("both have come")
        }
        other => return Err(WireError::internal(format!("the tool {other:?} is listed and does nothing"))),
    })
}

/// A field of a form that was accepted; empty where it was not.
pub(crate) fn field(answers: &Map<String, Value>, key: &str, field: &str) -> String {
    let answer = answers.get(key).filter(|answer| answer["action"] == "accept");
    answer.and_then(|answer| answer["content"][field].as_str()).unwrap_or_default().to_owned()
}

/// What the client's model said.
fn spoken(answers: &Map<String, Value>, key: &str) -> String {
    answers.get(key).and_then(|answer| answer["content"]["text"].as_str()).unwrap_or("no text").to_owned()
}

/// What became of a form.
fn filled(answers: &Map<String, Value>) -> String {
    let form = &answers["form"];
    format!("action={}, content={}", form["action"].as_str().unwrap_or("none"), form["content"])
}
