//! What follows where a provider refuses reasoning because it belongs to another beginning of the conversation: the same request
//! once more, without any. History says what is left out from then on ([`crate::ModelEvent::Unbound`]).

use serde_json::Value;

use crate::{ModelError, WireApi};

/// Whether a request was refused for the reasoning in it. Sources: Claude docs, "Fix thinking blocks bound to a different
/// conversation" (the error's text); OpenAI API, error code `invalid_encrypted_content`.
pub(super) fn is_refused(error: &ModelError) -> bool {
    let ModelError::Status { status: 400, code, message, .. } = error else { return false };
    let names_a_block = message.contains("`thinking`") && message.contains("signature");
    code.as_deref() == Some("invalid_encrypted_content")
        || message.contains("bound to a different conversation")
        || names_a_block
}

/// The body of a request without reasoning; none where there is none in it.
pub(super) fn without_reasoning(api: WireApi, body: &[u8]) -> Option<Vec<u8>> {
    let mut body: Value = serde_json::from_slice(body).ok()?;
    let is_changed = match api {
        WireApi::Messages => drop_thinking(body.get_mut("messages")?.as_array_mut()?),
        WireApi::Responses => drop_items(body.get_mut("input")?.as_array_mut()?),
        // Nobody checks it there.
        WireApi::Chat => false,
    };
    if is_changed { serde_json::to_vec(&body).ok() } else { None }
}

fn drop_thinking(messages: &mut Vec<Value>) -> bool {
    let mut is_changed = false;
    for message in messages.iter_mut().filter(|message| message["role"] == "assistant") {
        let Some(content) = message["content"].as_array_mut() else { continue };
        let before = content.len();
        content.retain(|block| !matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking")));
        is_changed |= content.len() < before;
    }
    // A message of thinking alone is none any more; two of the user's in a row are read as one.
    messages.retain(|message| message["content"].as_array().is_none_or(|content| !content.is_empty()));
    is_changed
}

fn drop_items(input: &mut Vec<Value>) -> bool {
    let before = input.len();
    input.retain(|item| item["type"] != "reasoning");
    // An id asks for the reasoning that stood before it.
    for item in input.iter_mut().filter_map(Value::as_object_mut) {
        item.shift_remove("id");
    }
    input.len() < before
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reasoning_is_left_out_and_nothing_else() {
        let without = |api, body: Value| {
            without_reasoning(api, body.to_string().as_bytes()).map(|b| serde_json::from_slice::<Value>(&b).unwrap())
        };
        let messages = json!({"thinking": {"type": "adaptive"}, "messages": [
            {"role": "user", "content": [{"type": "text", "text": "u"}]},
            {"role": "assistant", "content": [{"type": "thinking", "signature": "s"}, {"type": "text", "text": "a"}]},
            {"role": "user", "content": [{"type": "text", "text": "v"}]},
            {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "d"}]},
        ]});
        let left = without(WireApi::Messages, messages).unwrap();
        assert_eq!(left["thinking"], json!({"type": "adaptive"}));
        assert_eq!(left["messages"].as_array().unwrap().len(), 3);
        assert_eq!(left["messages"][1]["content"], json!([{"type": "text", "text": "a"}]));
        assert_eq!(without(WireApi::Messages, left), None);
        let input = json!({"input": [
            {"type": "reasoning", "id": "rs"}, {"type": "message", "id": "msg", "phase": "commentary"},
        ]});
        let left = without(WireApi::Responses, input).unwrap();
        assert_eq!(left, json!({"input": [{"type": "message", "phase": "commentary"}]}));
    }
}
