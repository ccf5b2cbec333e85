//! The tools.

use std::time::Duration;

use openoxide_mcp_protocol::tasks::tasks_not_declared;
use openoxide_mcp_protocol::{LogLevel, WireError, tool_error};
use serde_json::{Value, json};

use crate::call::Call;
use crate::content::{audio, embedded, image, result, said, text};
use crate::listeners::List;
use crate::tasks::Task;
use crate::{asking, input};

/// Between two things that a tool says.
const BREATH: Duration = Duration::from_millis(50);
/// Longer than the door waits for an answer before it opens a stream.
const LONG: Duration = Duration::from_millis(700);

/// Runs a tool.
pub(crate) async fn run(call: &Call) -> Result<Value, WireError> {
    match call.name.as_str() {
        "test_simple_text" => Ok(said("Plain words.")),
        "test_image_content" => Ok(result(vec![image()])),
        "test_audio_content" => Ok(result(vec![audio()])),
        "test_embedded_resource" => {
            let resource = embedded("test://embedded-resource", "text/plain", "Words in a resource.");
            Ok(result(vec![resource]))
        }
        "test_multiple_content_types" => {
            let json = json!({ "kind": "mixed" }).to_string();
            let resource = embedded("test://mixed-content-resource", "application/json", &json);
            Ok(result(vec![text("Three kinds of content:"), image(), resource]))
        }
        "test_tool_with_logging" | "test_logging_tool" => Ok(log(call).await),
        "test_tool_with_progress" => Ok(progress(call).await),
        "test_error_handling" => Ok(tool_error(call.era, "This tool always fails.")),
        "test_reconnection" => {
            tokio::time::sleep(LONG).await;
            Ok(said("the stream stayed open"))
        }
        "test_missing_capability" => {
            input::require(call, "sampling/createMessage").map(|()| said("the client can sample"))
        }
        "test_custom_header" => Ok(said(call.text("region"))),
        "json_schema_2020_12_tool" => Ok(said(&call.arguments.to_string())),
        "test_trigger_tool_change" => Ok(tell(call, List::Tools)),
        "test_trigger_prompt_change" => Ok(tell(call, List::Prompts)),
        "test_sampling"
        | "test_elicitation"
        | "test_elicitation_sep1034_defaults"
        | "test_elicitation_sep1330_enums" => asking::run(call).await,
        "greet" => Ok(said(&format!("Hello, {}!", call.text("name")))),
        "slow_compute" => slow(call).await,
        "failing_job" => task(call, |_| async { Ok(failed("the job has failed")) }),
        "protocol_error_job" => {
            task(call, |_| async { Err(WireError::new(openoxide_mcp_protocol::code::INTERNAL_ERROR, "on purpose")) })
        }
        "confirm_delete" => confirm(call),
        "multi_input" => task(call, |task| async move {
            task.ask(&[("Your name?", "name"), ("Your colour?", "color")]).await;
            Ok(said("both have come"))
        }),
        "test_tool_with_task" => after_a_question(call),
        name if name == "test_streaming_elicitation" || name.starts_with("test_input_required_result_") => {
            input::run(call)
        }
        other => Err(WireError::invalid_params(format!("unknown tool {other:?}"))),
    }
}

fn failed(message: &str) -> Value {
    tool_error(openoxide_mcp_protocol::Era::Modern, message)
}

async fn log(call: &Call) -> Value {
    for (at, words) in ["started", "works", "is done"].into_iter().enumerate() {
        if at > 0 {
            tokio::time::sleep(BREATH).await;
        }
        call.log(LogLevel::Info, &format!("the tool {words}"));
    }
    said("it has logged")
}

async fn progress(call: &Call) -> Value {
    for percent in [0, 50, 100] {
        call.progress(percent, &format!("{percent} of 100"));
        tokio::time::sleep(BREATH).await;
    }
    said("it has progressed")
}

fn tell(call: &Call, list: List) -> Value {
    call.fixture.listeners.tell(list);
    said("told")
}

/// A task that was announced. Clients that do not take tasks are refused.
fn task<F>(call: &Call, work: impl FnOnce(Task) -> F) -> Result<Value, WireError>
where
    F: Future<Output = Result<Value, WireError>> + Send + 'static,
{
    if !call.takes_tasks {
        return Err(tasks_not_declared());
    }
    Ok(call.fixture.tasks.begin(work))
}

/// A task for those who take tasks, and the result for the others.
async fn slow(call: &Call) -> Result<Value, WireError> {
    let seconds = call.arguments.get("seconds").and_then(Value::as_f64).unwrap_or_default();
    let time = Duration::try_from_secs_f64(seconds)
        .map_err(|error| WireError::invalid_params(format!("seconds is {seconds}: {error}")))?;
    let work = async move {
        tokio::time::sleep(time).await;
        Ok(said(&format!("it took {seconds} s")))
    };
    if call.takes_tasks { Ok(call.fixture.tasks.begin(|_| work)) } else { work.await }
}

fn confirm(call: &Call) -> Result<Value, WireError> {
    let question = format!("Delete {}?", call.text("filename"));
    task(call, move |task| async move {
        let answers = task.ask(&[(&question, "confirm")]).await;
        let is_yes = answers.values().any(|answer| answer["content"]["confirm"] == true);
        Ok(said(if is_yes { "deleted" } else { "kept" }))
    })
}

fn after_a_question(call: &Call) -> Result<Value, WireError> {
    match (call.parked()?, input::field(call, "user_name", "name")) {
        (Some(_), Some(name)) => task(call, move |_| async move { Ok(said(&format!("Hello, {name}!"))) }),
        _ => input::ask_name(call),
    }
}
