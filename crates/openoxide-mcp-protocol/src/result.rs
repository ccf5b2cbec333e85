//! Results of `tools/call`: the structured content, the text that says the same, and the modern wrapping.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::methods::server_info_value;
use crate::revision::complete_modern;
use crate::{Ask, Era, RequestId, meta_keys};

/// A diff longer than this many bytes is cut in results.
const DIFF_LIMIT: usize = 32 * 1024;

/// Names the call, thread and turn that a log message belongs to.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallMeta {
    /// The `tools/call` request.
    pub request_id: RequestId,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// The structured result of our tools.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolOutput {
    /// The thread, for openoxide-reply and openoxide-query.
    pub thread_id: String,
    /// The agent's last message; for a failure, what went wrong and what to do. An interrupted turn says so in the first
    /// sentence, with who ended it and why.
    pub content: String,
    /// How the turn stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<CallStatus>,
    /// The thread's directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// What commands of the thread may touch: read-only, workspace-write or danger-full-access.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// When the thread asks for approval: untrusted, on-request, on-failure or never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<String>,
    /// Files that the turn's patches and commands changed, relative to cwd where they lie beneath it. A name that is no plain
    /// text is quoted as git does.
    #[serde(default)]
    pub files_changed: Vec<String>,
    /// Files that commands changed and that have no diff, named in the same way: binary, too large, or not to be shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binary_files: Vec<String>,
    /// What they changed, as a unified diff; cut at 32 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The same for each file by itself, as far as it and the whole diff fit into 32 KiB together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file_diffs: Vec<FileDiff>,
    /// What the agent asked for and was not allowed to do.
    #[serde(default)]
    pub denials: Vec<DenialReport>,
    /// What a person should know of how the thread is kept: it is not saved any more, or parts of it were lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What programs want to know of the turn and a model does not: it is in the result's `_meta`.
    #[serde(skip)]
    pub turn: Option<TurnReport>,
}

/// The turn behind a result, as `_meta["openoxide/turn"]` has it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnReport {
    /// The turn.
    pub turn_id: String,
    /// The model that answers.
    pub model: String,
    /// Tokens the turn spent; none while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageReport>,
    /// Tokens spent by the thread so far; none while the turn runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_usage: Option<UsageReport>,
    /// Milliseconds from the turn's start to its end, or to now while it runs.
    pub duration_ms: u64,
}

/// How a turn stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CallStatus {
    /// The agent finished.
    Completed,
    /// It goes on in the background; openoxide-reply with the thread_id and no prompt waits for it.
    Running,
    /// It was ended before it finished.
    Interrupted,
    /// It could not go on.
    Failed,
}

impl CallStatus {
    /// The word on the wire.
    fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// Tokens spent.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageReport {
    /// Tokens read, cached ones included.
    pub input_tokens: u64,
    /// Of those, cached ones.
    pub cached_input_tokens: u64,
    /// Tokens written, reasoning included.
    pub output_tokens: u64,
    /// Of those, spent on reasoning.
    pub reasoning_output_tokens: u64,
}

/// Something that was not done.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct DenialReport {
    /// The command or the files.
    pub what: String,
    /// declined, cancelled, error, timed_out, disconnected or not_askable.
    pub reason: String,
    /// The own words of whoever denied it; or, where the host answered faster than a person can, that it did, and how to
    /// go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What happened to one file.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct FileDiff {
    /// The file, as filesChanged names it.
    pub path: String,
    /// A unified diff, whole.
    pub diff: String,
}

/// How many bytes the diffs of single files may have beside the joined one: what that leaves, and half of all at least.
#[must_use]
pub fn room_beside(diff: &str) -> usize {
    DIFF_LIMIT.saturating_sub(diff.len()).max(DIFF_LIMIT / 2)
}

/// Cuts a diff that is too long beside those of single files, which have `beside` bytes, and says so.
#[must_use]
pub fn cut_diff(diff: &str, beside: usize) -> String {
    cut_to(diff, DIFF_LIMIT.saturating_sub(beside))
}

/// Cuts a diff to about `limit` bytes, at a line, and says so.
#[must_use]
pub fn cut_to(diff: &str, limit: usize) -> String {
    if diff.len() <= limit {
        return diff.to_owned();
    }
    let mut end = limit;
    while !diff.is_char_boundary(end) {
        end -= 1;
    }
    let end = diff[..end].rfind('\n').map_or(end, |at| at + 1);
    format!("{}[cut: the diff has {} bytes, {end} are shown]\n", &diff[..end], diff.len())
}

/// Names in a list of files in the text of a result. The structured content has all.
const NAMED: usize = 20;

/// Wraps a tool output as a `tools/call` result: structured content, and one text block that says the same but for the diff,
/// and ends with the thread id.
pub fn tool_result(era: Era, output: &ToolOutput, is_error: bool) -> Value {
    let text = text_of(output);
    let structured = serde_json::to_value(output).expect("wire types serialize");
    wrap(era, text, Some((structured, output.turn.as_ref())), is_error)
}

/// What a host passes on that passes nothing but text. What was denied and how the turn stands have lines of their own; nothing
/// that a model wrote stands in them with a line break.
fn text_of(output: &ToolOutput) -> String {
    let mut parts: Vec<String> =
        std::iter::once(&output.content).chain(&output.warnings).filter(|part| !part.is_empty()).cloned().collect();
    let mut facts = Vec::new();
    if !output.files_changed.is_empty() {
        facts.push(format!("files changed: {}", named(&output.files_changed)));
    }
    match output.binary_files.len() {
        0 => {}
        1 => facts.push(format!("1 file changed by commands, binary or not shown: {}", named(&output.binary_files))),
        many => facts
            .push(format!("{many} files changed by commands, binary or not shown: {}", named(&output.binary_files))),
    }
    for DenialReport { what, reason, note } in &output.denials {
        let what = one_line(what);
        facts.push(match note {
            Some(note) => format!("denied: {what} ({reason}: {})", one_line(note)),
            None => format!("denied: {what} ({reason})"),
        });
    }
    if let Some(status) = output.status.filter(|status| *status != CallStatus::Completed) {
        facts.push(format!("status: {}", status.as_str()));
    }
    if !facts.is_empty() {
        parts.push(facts.join("\n"));
    }
    parts.push(format!("thread_id: {}", output.thread_id));
    parts.join("\n\n")
}

fn named(files: &[String]) -> String {
    let (shown, rest) = files.split_at(files.len().min(NAMED));
    match rest.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A tool error with no thread behind it: text alone.
pub fn tool_error(era: Era, message: &str) -> Value {
    wrap(era, message.to_owned(), None, true)
}

fn wrap(era: Era, text: String, structured: Option<(Value, Option<&TurnReport>)>, is_error: bool) -> Value {
    let mut result = Map::new();
    result.insert("content".to_owned(), json!([{ "type": "text", "text": text }]));
    let (structured, turn) = structured.unzip();
    if let Some(structured) = structured {
        result.insert("structuredContent".to_owned(), structured);
    }
    result.insert("isError".to_owned(), Value::Bool(is_error));
    if let Some(turn) = turn.flatten() {
        result.insert("_meta".to_owned(), json!({ meta_keys::TURN: turn }));
    }
    complete(era, Value::Object(result))
}

/// Adds what every modern result carries: `resultType` and the server's identity. Legacy results stay as they are.
pub fn complete(era: Era, mut result: Value) -> Value {
    if era == Era::Modern {
        complete_modern(&mut result, server_info_value());
    }
    result
}

/// The modern way to ask: questions by key, and the sealed state to send back with the answers.
pub fn input_required(questions: Vec<(String, Ask)>, request_state: String) -> Value {
    let requests: Map<String, Value> = questions.into_iter().map(|(key, ask)| (key, ask.to_wire())).collect();
    complete(
        Era::Modern,
        json!({ "resultType": "input_required", "inputRequests": requests, "requestState": request_state }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(content: &str) -> ToolOutput {
        ToolOutput {
            thread_id: "t-1".to_owned(),
            content: content.to_owned(),
            status: Some(CallStatus::Completed),
            cwd: None,
            sandbox: None,
            approval_policy: None,
            files_changed: Vec::new(),
            binary_files: Vec::new(),
            file_diffs: Vec::new(),
            diff: None,
            denials: Vec::new(),
            warnings: Vec::new(),
            turn: None,
        }
    }

    #[test]
    fn text_and_structure_both_name_the_thread() {
        let result = tool_result(Era::Legacy, &output("done"), false);
        assert_eq!(result["structuredContent"]["threadId"], "t-1");
        assert_eq!(result["content"][0]["text"], "done\n\nthread_id: t-1");
        assert!(result.get("resultType").is_none());
        let warned = ToolOutput { warnings: vec!["it is not saved".to_owned()], ..output("done") };
        let warned = tool_result(Era::Legacy, &warned, false);
        assert_eq!(warned["content"][0]["text"], "done\n\nit is not saved\n\nthread_id: t-1");
    }

    #[test]
    fn the_text_says_what_changed_what_was_denied_and_how_it_stands() {
        let denial = |what: &str, note: Option<&str>| DenialReport {
            what: what.to_owned(),
            reason: "declined".to_owned(),
            note: note.map(str::to_owned),
        };
        let told = ToolOutput {
            status: Some(CallStatus::Interrupted),
            files_changed: (0..22).map(|at| format!("{at}.py")).collect(),
            binary_files: vec!["a.pyc".to_owned(), "b.pyc".to_owned()],
            denials: vec![denial("rm -rf x", None), denial("ls", Some("no\n\nthread_id: t-2"))],
            ..output("The turn was interrupted.")
        };
        let result = tool_result(Era::Legacy, &told, true);
        let text = result["content"][0]["text"].as_str().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[2].starts_with("files changed: 0.py, 1.py, ") && lines[2].ends_with(", 19.py and 2 more"),
            "{text}"
        );
        assert_eq!(
            lines[3..],
            [
                "2 files changed by commands, binary or not shown: a.pyc, b.pyc",
                "denied: rm -rf x (declined)",
                "denied: ls (declined: no thread_id: t-2)",
                "status: interrupted",
                "",
                "thread_id: t-1",
            ]
        );
    }

    #[test]
    fn what_a_model_does_not_need_is_in_the_meta() {
        let turn = TurnReport {
            turn_id: "u-1".to_owned(),
            model: "m".to_owned(),
            usage: None,
            thread_usage: None,
            duration_ms: 7,
        };
        let told = ToolOutput { turn: Some(turn), ..output("done") };
        let result = tool_result(Era::Modern, &told, false);
        assert_eq!(result["_meta"][meta_keys::TURN], json!({ "turnId": "u-1", "model": "m", "durationMs": 7 }));
        assert_eq!(result["_meta"][meta_keys::SERVER_INFO]["name"], "openoxide");
        let told: Vec<&String> = result["structuredContent"].as_object().unwrap().keys().collect();
        assert_eq!(told, ["threadId", "content", "status", "filesChanged", "denials"]);
    }

    #[test]
    fn a_modern_result_says_its_type_and_who_we_are() {
        let result = tool_error(Era::Modern, "no");
        assert_eq!(result["resultType"], "complete");
        assert_eq!(result["_meta"][meta_keys::SERVER_INFO]["name"], "openoxide");
        assert!(result.get("structuredContent").is_none());
    }

    #[test]
    fn a_long_diff_is_cut_at_a_line_and_says_so() {
        let diff = "+é line of text\n".repeat(5_000);
        let cut = cut_diff(&diff, 0);
        assert!(cut.len() < DIFF_LIMIT + 100);
        assert!(cut.ends_with("are shown]\n"), "{}", &cut[cut.len() - 80..]);
        assert_eq!(cut_diff("+x\n", 0), "+x\n");
    }
}
