//! The tools: what there is, and what each does.

use std::time::Duration;

use openoxide_mcp_protocol::{Ask, AskKind, LogLevel, Tool, WireError, missing_capability, tool_error};
use openoxide_mcp_server::{List, Outcome};
use serde_json::{Map, Value, json};

use crate::content::{audio, embedded, image, result, said, text};
use crate::fixture::Context;
use crate::run::{AsTask, Run};
use crate::schemas;

/// Between two things that a tool says.
const BREATH: Duration = Duration::from_millis(50);
/// Longer than the transport waits for an answer before it opens a stream.
const LONG: Duration = Duration::from_millis(700);

/// Every tool.
const TOOLS: &str = "test_simple_text test_image_content test_audio_content test_embedded_resource test_error_handling \
    test_multiple_content_types test_tool_with_logging test_tool_with_progress test_reconnection test_sampling \
    test_elicitation test_elicitation_sep1034_defaults test_elicitation_sep1330_enums test_missing_capability \
    test_custom_header test_streaming_elicitation test_logging_tool test_trigger_tool_change test_trigger_prompt_change \
    test_input_required_result_elicitation test_input_required_result_sampling test_input_required_result_list_roots \
    test_input_required_result_request_state test_input_required_result_multiple_inputs \
    test_input_required_result_multi_round test_input_required_result_tampered_state \
    test_input_required_result_capabilities json_schema_2020_12_tool greet slow_compute failing_job protocol_error_job \
    confirm_delete multi_input test_tool_with_task";

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
    let listed = |name| {
        let description = format!("The fixture {name}");
        serde_json::from_value(json!({ "name": name, "description": description, "inputSchema": schema(name) }))
    };
    TOOLS.split_whitespace().map(listed).collect::<Result<_, _>>().expect("each is a tool")
}

/// Whether a call of a tool becomes a task; none where there is no such tool.
pub(crate) fn find(name: &str) -> Option<AsTask> {
    let as_task = match name {
        "slow_compute" => AsTask::Maybe,
        "failing_job" | "protocol_error_job" | "confirm_delete" | "multi_input" => AsTask::Always,
        "test_tool_with_task" => AsTask::AfterAsking,
        _ => AsTask::Never,
    };
    TOOLS.split_whitespace().any(|tool| tool == name).then_some(as_task)
}

/// Runs a tool.
pub(crate) async fn run(context: Context) -> Outcome {
    let (run, client) = (&context.run, context.call.client());
    Ok(match context.call.name() {
        "test_simple_text" => said("Plain words."),
        "test_image_content" => result(vec![image()]),
        "test_audio_content" => result(vec![audio()]),
        "test_embedded_resource" => result(vec![embedded("test://embedded-resource", "text/plain", "Words inside.")]),
        "test_multiple_content_types" => {
            let resource = embedded("test://mixed-content-resource", "application/json", r#"{"kind":"mixed"}"#);
            result(vec![text("Three kinds of content:"), image(), resource])
        }
        "test_tool_with_logging" | "test_logging_tool" => {
            for words in ["the tool started", "the tool works", "the tool is done"] {
                context.call.log(LogLevel::Info, &words).await;
                tokio::time::sleep(BREATH).await;
            }
            said("it has logged")
        }
        "test_tool_with_progress" => {
            for percent in [0, 50, 100] {
                context.call.phase(format!("{percent} of 100"));
                tokio::time::sleep(BREATH).await;
            }
            said("it has progressed")
        }
        "test_error_handling" => tool_error(context.call.era(), "This tool always fails."),
        "test_reconnection" => {
            tokio::time::sleep(LONG).await;
            said("the stream stayed open")
        }
        "test_sampling" => {
            let answers = run.ask([("sample", schemas::sampling(context.text("prompt"), 100))]).await?;
            said(&format!("LLM response: {}", spoken(&answers, "sample")))
        }
        "test_elicitation" => said(&fill(run, schemas::text_form(context.text("message"), "response")).await?),
        "test_elicitation_sep1034_defaults" => said(&fill(run, schemas::with_defaults()).await?),
        "test_elicitation_sep1330_enums" => said(&fill(run, schemas::with_choices()).await?),
        "test_missing_capability" if client.can(AskKind::Sampling) => said("the client can sample"),
        "test_missing_capability" => {
            let needed = AskKind::Sampling.capability();
            return Err(missing_capability("this tool needs a client that can sample", needed));
        }
        "test_custom_header" => said(context.text("region")),
        "test_trigger_tool_change" => said(context.fixture.change(List::Tools)),
        "test_trigger_prompt_change" => said(context.fixture.change(List::Prompts)),
        "test_input_required_result_sampling" => {
            let ask = schemas::sampling("What is the capital of France?", 100);
            said(&spoken(&run.ask([("capital_question", ask)]).await?, "capital_question"))
        }
        "test_input_required_result_list_roots" => {
            let answers = run.ask([("client_roots", schemas::roots())]).await?;
            said(&format!("roots: {}", answers["client_roots"]["roots"]))
        }
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            run.ask([("confirm", schemas::yes_form("Please confirm", "ok"))]).await?;
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
            context.call.phase("asking");
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
        "failing_job" => tool_error(context.call.era(), "the job has failed"),
        "protocol_error_job" => return Err(WireError::internal("on purpose")),
        "confirm_delete" => {
            let question = format!("Delete {}?", context.text("filename"));
            let answers = run.ask([("confirm", schemas::yes_form(&question, "confirm"))]).await?;
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

/// Has a form filled, and says what became of it.
async fn fill(run: &Run, form: Ask) -> Result<String, WireError> {
    let form = &run.ask([("form", form)]).await?["form"];
    Ok(format!("User response: action={}, content={}", form["action"].as_str().unwrap_or("none"), form["content"]))
}
