//! What of a history is bound to the beginning of the conversation in which it was made. A provider seals it, reads it again only
//! behind the very same beginning, and refuses the request otherwise.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{Carried, HistoryItem};

/// Members of a provider's item that are sealed: a signature of Anthropic's, `encrypted_content` of OpenAI's, `data` of what is
/// redacted or encrypted.
const SEALED: [&str; 3] = ["signature", "encrypted_content", "data"];

/// A history without what is bound to a beginning that is no more: sealed reasoning, and the ids of items that stand with it.
/// Plain text of reasoning stays, since some providers want it and none checks where it comes from.
pub fn unbound(history: &[Arc<HistoryItem>]) -> Vec<Arc<HistoryItem>> {
    history.iter().filter_map(without_seal).collect()
}

/// `None` where nothing is left of an item.
fn without_seal(item: &Arc<HistoryItem>) -> Option<Arc<HistoryItem>> {
    let mut changed = HistoryItem::clone(item);
    match &mut changed {
        HistoryItem::Reasoning { raw: Value::Object(raw), .. } => {
            if is_sealed(raw) {
                return None;
            }
            let has_sealed =
                |details: &Value| details.as_array().into_iter().flatten().filter_map(Value::as_object).any(is_sealed);
            if raw.get("details").is_some_and(has_sealed) {
                raw.shift_remove("details");
                raw.get("text")?;
            }
        }
        HistoryItem::Message { carried, .. } => forget_id(carried, ""),
        HistoryItem::FunctionCall { call_id, carried, .. } | HistoryItem::CustomToolCall { call_id, carried, .. } => {
            forget_id(carried, call_id);
        }
        HistoryItem::Reasoning { .. }
        | HistoryItem::Note { .. }
        | HistoryItem::Image { .. }
        | HistoryItem::ToolOutput { .. } => {}
    }
    // What did not change stays shared.
    Some(if changed == **item { Arc::clone(item) } else { Arc::new(changed) })
}

/// Forgets the id of an item, unless it is the call's own, which its output names.
fn forget_id(carried: &mut Carried, call_id: &str) {
    if let Some(Value::Object(carried)) = carried.as_deref_mut()
        && carried.get("id").and_then(Value::as_str) != Some(call_id)
    {
        carried.shift_remove("id");
    }
}

fn is_sealed(raw: &Map<String, Value>) -> bool {
    SEALED.iter().any(|name| raw.get(*name).and_then(Value::as_str).is_some_and(|seal| !seal.is_empty()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Role;

    #[test]
    fn what_is_sealed_goes_and_what_can_be_read_stays() {
        let reasoning = |raw: Value| Arc::new(HistoryItem::Reasoning { summary: "s".into(), raw });
        let message = |carried: Value| {
            let carried = Some(Box::new(carried));
            Arc::new(HistoryItem::Message { role: Role::Assistant, text: "t".into(), carried })
        };
        let call = |carried: Value| {
            let (call_id, carried) = ("c".to_owned(), Some(Box::new(carried)));
            Arc::new(HistoryItem::FunctionCall { call_id, name: "f".into(), arguments: "{}".into(), carried })
        };
        let history = [
            reasoning(json!({"type": "thinking", "thinking": "", "signature": "s"})),
            reasoning(json!({"type": "thinking", "thinking": "plain", "signature": ""})),
            reasoning(json!({"type": "redacted_thinking", "data": "d"})),
            reasoning(json!({"type": "reasoning", "id": "r", "encrypted_content": "e"})),
            reasoning(
                json!({"type": "chat_reasoning", "field": "reasoning_content", "text": "hm", "details": [{"data": "d"}]}),
            ),
            reasoning(json!({"type": "chat_reasoning", "details": [{"signature": "s"}]})),
            message(json!({"id": "m", "phase": "commentary"})),
            call(json!({"id": "c", "caller": 1})),
        ];
        let left = unbound(&history);
        assert_eq!(
            left,
            [
                Arc::clone(&history[1]),
                reasoning(json!({"type": "chat_reasoning", "field": "reasoning_content", "text": "hm"})),
                message(json!({"phase": "commentary"})),
                call(json!({"id": "c", "caller": 1})),
            ]
        );
        assert_eq!(unbound(&left), left);
    }
}
