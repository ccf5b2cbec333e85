//! Results as Codex gave them: the text is the content alone, and the structure holds two fields.

use openoxide_core::CoreError;
use openoxide_mcp_protocol::{Era, complete};
use serde_json::{Value, json};

use crate::convert::result::CallResult;

/// The result of a call. `asked` is the thread that the call names: an error that concerns no thread is told on that one.
pub(crate) fn result(era: Era, result: &CallResult, asked: Option<&str>) -> Value {
    let (thread, content) = match (result.thread_id(), asked) {
        (Some(thread), _) => (Some(thread), result.content()),
        (None, Some(asked)) => (Some(asked.into()), refusal(result, asked).into()),
        (None, None) => (None, result.content()),
    };
    let mut answer = json!({ "content": [{ "type": "text", "text": content }] });
    if result.is_error() {
        answer["isError"] = json!(true);
    }
    if let Some(thread) = thread {
        answer["structuredContent"] = json!({ "threadId": thread, "content": content });
    }
    complete(era, answer)
}

/// Why nothing was done on the thread that was asked for.
fn refusal(result: &CallResult, asked: &str) -> String {
    match result {
        CallResult::Refused(CoreError::ThreadNotFound { .. }) => format!("Session not found for thread_id: {asked}"),
        CallResult::BadThreadId(message) => format!("Failed to parse thread_id: {message}"),
        other => other.content().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01a1fc7a-8d1f-75f7-89b7-18c906dd0c5b";

    #[test]
    fn a_result_has_the_two_fields_and_an_error_says_so() {
        let failed = CallResult::interrupted(ID.to_owned(), "it was interrupted");
        let told = json!({
            "content": [{ "type": "text", "text": "it was interrupted" }],
            "isError": true,
            "structuredContent": { "threadId": ID, "content": "it was interrupted" },
        });
        assert_eq!(result(Era::Legacy, &failed, None), told);
        assert_eq!(result(Era::Legacy, &failed, Some("another")), told);
        let refused = CallResult::Invalid("no".to_owned());
        let told = json!({ "content": [{ "type": "text", "text": "no" }], "isError": true });
        assert_eq!(result(Era::Legacy, &refused, None), told);
        assert_eq!(result(Era::Modern, &refused, None)["resultType"], "complete");
    }

    #[test]
    fn what_concerns_no_thread_is_told_on_the_one_that_was_asked_for() {
        let unknown = CallResult::Refused(CoreError::ThreadNotFound { id: ID.parse().unwrap() });
        let told = result(Era::Legacy, &unknown, Some(ID));
        assert_eq!(told["structuredContent"]["content"], format!("Session not found for thread_id: {ID}"));
        assert_eq!((&told["structuredContent"]["threadId"], &told["isError"]), (&json!(ID), &json!(true)));
        let no_id = CallResult::BadThreadId("thread_id is \"x\"".to_owned());
        let told = result(Era::Legacy, &no_id, Some("x"));
        assert_eq!(told["content"][0]["text"], "Failed to parse thread_id: thread_id is \"x\"");
    }
}
